/* runs.h - the programs that `ration run` has started on this machine, as the page draws them. */
#pragma once

#include <stddef.h>

struct error;
struct strbuf;
struct top_sample;

/* ui_runs_node() - the name of this machine on the page. Returns buf. */
const char *ui_runs_node(char *buf, size_t size);

/* ui_runs_sample() - one measurement, by ration-run. */
int ui_runs_sample(struct top_sample *sample, struct error *err);

/* ui_runs_read() - a document like that of ui_data_read(), with one node of mode "runs" and units of 1 MiB;
 * its pods are the programs, with the member "pid". */
int ui_runs_read(struct strbuf *out, struct error *err);
