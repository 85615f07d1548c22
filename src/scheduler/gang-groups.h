/* gang-groups.h - follows scheduler-plugins' PodGroups, if the cluster has them. */
#pragma once

#include <stdint.h>

struct gang_groups;
struct scheduler;

/* gang_groups_new() - asks repeatedly whether the API server has the kind, and then watches it. */
int gang_groups_new(struct scheduler *scheduler, struct gang_groups **ret_groups);
/* gang_groups_stop() - ends the watch; call it before the client is freed. Accepts NULL. */
void gang_groups_stop(struct gang_groups *groups);
void gang_groups_free(struct gang_groups *groups); /* accepts NULL */

/* gang_groups_tick() - call it every second. */
void gang_groups_tick(struct gang_groups *groups, int64_t now_ns);
