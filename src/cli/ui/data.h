/* data.h - the cluster as the page draws it, in one JSON document. */
#pragma once

struct error;
struct kubectl;
struct strbuf;

#define UI_DATA_MAX (256u << 20)

/* ui_data_read() - {"version", "warnings": [sentence], "cluster": what `ration inspect -o json` prints, of
 * nodes of all modes, "waiting": [{"namespace", "name", "units", "gpus", "core", "whole"}]}. */
int ui_data_read(const struct kubectl *kubectl, struct strbuf *out, struct error *err);
