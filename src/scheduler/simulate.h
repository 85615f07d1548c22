/* simulate.h - the verb simulate/filter: which nodes could hold a pod, for programs that simulate scheduling,
 * such as autoscalers. It takes whole Node objects, including nodes that do not exist, and changes nothing.
 */
#pragma once

#include <stddef.h>

struct scheduler;

/* simulate_filter() - body: ExtenderArgs with Nodes, as kube-scheduler sends them to an extender with
 * nodeCacheCapable: false. Returns an ExtenderFilterResult with Nodes and NodeNames, or one whose Error says
 * why there is no answer. It holds, records and evicts nothing, and ignores gangs and ResourcePolicies.
 * malloc'ed; NULL when out of memory. */
char *simulate_filter(struct scheduler *scheduler, const char *body, size_t len);
