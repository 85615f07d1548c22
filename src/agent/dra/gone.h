/* gone.h - the end of claims: the agent removes a claim's files from the node when the container runtime
 * reports that no container of the claim runs. The agent asks about claims that the kubelet has unprepared,
 * and about claims that the API server no longer has or has allocated otherwise: the kubelet may have
 * forgotten to unprepare them. It looks for these among the claims of an earlier agent, and among those that
 * no pod has used for a minute. */
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
