/* data.h - the document that the page draws: a cluster, or the programs of this machine. */
#pragma once

#include <stddef.h>

struct error;
struct inspect;
struct inspect_waiting;
struct kubectl;
struct strbuf;
struct top_sample;

#define UI_DATA_MAX (256u << 20)

/* ui_data_read() - {"version", "warnings": [sentence], "cluster": what `ration inspect -o json` prints, of
 * nodes of all modes, "stranded": of ui_stranded_json(), "waiting": [{"namespace", "name", "units", "gpus",
 * "core", "whole"}]}; for a pod that waits for ResourceClaims "memoryBytes" (of each GPU) and "claims"
 * instead of the units. */
int ui_data_read(const struct kubectl *kubectl, struct strbuf *out, struct error *err);

/* ui_data_add() - the same from a cluster that was read. notes: the warnings, as items of an array. more:
 * called for each waiting pod, adds members of its object; NULL: nothing. */
struct ui_more {
	void (*add)(void *userdata, const struct inspect_waiting *waiting, struct strbuf *out);
	void *userdata;
};
int ui_data_add(const struct inspect *inspect, const struct strbuf *notes, const struct ui_more *more,
	struct strbuf *out, struct error *err);

/* ---- runs.c: the programs that `ration run` has started on this machine ---- */

/* ui_runs_node() - the name of this machine on the page. Returns buf. */
const char *ui_runs_node(char *buf, size_t size);

/* ui_runs_sample() - one measurement, by ration-run. */
int ui_runs_sample(struct top_sample *sample, struct error *err);

/* ui_runs_read() - a document like that of ui_data_read(), with one node of mode "runs" and units of 1 MiB;
 * its pods are the programs, with the member "pid". */
int ui_runs_read(struct strbuf *out, struct error *err);
