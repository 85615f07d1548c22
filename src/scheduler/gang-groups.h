/* gang-groups.h - scheduler-plugins' PodGroups, where the cluster has them. */
#pragma once

#include <stdint.h>

struct gang_groups;
struct scheduler;

/* gang_groups_new() - asks now and then whether the API server has the kind, and watches it from then on. */
int gang_groups_new(struct scheduler *scheduler, struct gang_groups **ret_groups);
/* gang_groups_stop() - the watch ends, before the client does. Accepts NULL. */
void gang_groups_stop(struct gang_groups *groups);
void gang_groups_free(struct gang_groups *groups); /* accepts NULL */

/* gang_groups_tick() - to be called every second. */
void gang_groups_tick(struct gang_groups *groups, int64_t now_ns);
