/* orphans.h - CDI files of pods that are no more. */
#pragma once

struct agent;
struct orphans;

/* orphans_new() - looks every 30 s; removes a file when the API server has no such pod and nothing of it
 * runs (leftovers.h), or a finished one that the kubelet does not list either. Nothing is removed before the
 * pods of the node are known. */
int orphans_new(struct agent *agent, struct orphans **ret_orphans);
void orphans_free(struct orphans *orphans); /* accepts NULL */
