/* top-table.h - two samples as a table for users, or as JSON for programs: what was used between them. Pure.
 */
#pragma once

#include <stdbool.h>

struct json_object;
struct strbuf;
struct top_sample;

/* top_table() - one line for each GPU, then one for each holder of a part of it. runs: holders are runs of
 * this machine, else containers of a cluster's nodes. Both samples must be sorted. If `before` is empty, it
 * is unknown what was used. Printable ASCII only. 0 or a negative errno. */
int top_table(const struct top_sample *before, const struct top_sample *now, bool runs, struct strbuf *out);

/* top_json() - the same as JSON; NULL when out of memory. The caller puts it. */
struct json_object *top_json(const struct top_sample *before, const struct top_sample *now, bool runs);
