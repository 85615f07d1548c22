/* gone.h - the end of claims: what lies on the node for a claim goes when none of its containers runs, by the
 * word of the container runtime. That is asked about claims that the kubelet has unprepared, and about claims
 * that an earlier agent has prepared and that are gone or have another allocation by the API server: the
 * kubelet may have forgotten to unprepare them. */
#pragma once

#include "agent/dra/deps.h"

struct gone;
struct preparer;

/* gone_new() - both must outlive it. */
int gone_new(const struct dra_deps *deps, struct preparer *preparer, struct gone **ret_gone);
void gone_free(struct gone *gone); /* accepts NULL */

/* gone_look() - call it each second, gone_look_at_released() when a claim may have been unprepared; both only
 * when the pods of the node are known. */
void gone_look(struct gone *gone);
void gone_look_at_released(struct gone *gone);
