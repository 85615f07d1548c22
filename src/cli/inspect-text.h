/* inspect-text.h - the forms in which the result is shown. Each adds to `out` and returns 0 or -ENOMEM,
 * -EMSGSIZE. */
#pragma once

#include <stdbool.h>

struct inspect;
struct strbuf;

/* One line per node, then the sum. `wide` adds mode, unit and card models. */
int inspect_summary(const struct inspect *inspect, bool wide, struct strbuf *out);

/* One table of pods per node, then the sum (-d). */
int inspect_details(const struct inspect *inspect, struct strbuf *out);

/* One JSON document with everything. */
int inspect_json(const struct inspect *inspect, struct strbuf *out);
