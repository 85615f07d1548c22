/* inspect-text.h - the forms in which the result is shown. Each adds to `out` and returns 0 or -ENOMEM,
 * -EMSGSIZE. */
#pragma once

#include <stdbool.h>

struct inspect;
struct strbuf;

/* What the tables write behind the name of a pod whose containers outlive it. No name of a pod has
 * parentheses, and it is one word, for scripts that split lines at blanks. */
#define ORPHAN_MARK "(orphan)"

/* One line per node, then the sum. `wide` adds mode, unit, GPU models and health. */
int inspect_summary(const struct inspect *inspect, bool wide, struct strbuf *out);

/* One table of pods per node, then the sum (-d). */
int inspect_details(const struct inspect *inspect, struct strbuf *out);

/* Of topology nodes: how the GPUs are connected, as nvidia-smi topo -m shows it, and who has which. */
int inspect_topology(const struct inspect *inspect, struct strbuf *out);

/* One JSON document with everything. */
int inspect_json(const struct inspect *inspect, struct strbuf *out);
