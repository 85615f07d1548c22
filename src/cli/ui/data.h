/* data.h - the document that the page draws the cluster from. */
#pragma once

struct error;
struct inspect;
struct inspect_waiting;
struct kubectl;
struct strbuf;

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
