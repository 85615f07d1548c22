/* top-table.h - two samples as what a person, or a program, reads: what was used between them. Pure. */
#pragma once

#include <stdbool.h>

struct json_object;
struct strbuf;
struct top_sample;

/* top_table() - a line for each GPU, then one for each that has a part of it; runs: of this machine, else of
 * a cluster's nodes. Both samples are sorted; in before may be nothing, then nothing is known of what was
 * used. Printable ASCII only. 0 or a negative errno. */
int top_table(const struct top_sample *before, const struct top_sample *now, bool runs, struct strbuf *out);

/* top_json() - the same; NULL if there is no memory. The caller puts it. */
struct json_object *top_json(const struct top_sample *before, const struct top_sample *now, bool runs);
