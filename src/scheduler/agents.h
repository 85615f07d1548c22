/* agents.h - the Leases of the nodes' agents: whose is not renewed any more serves nothing.
 *
 * One watch of all Leases with the agents' label. A Lease is stale when we have seen no change of its
 * renewTime for leaseDurationSeconds, by our own monotonic clock: clocks of machines are never compared. Time
 * during which our own watch was down does not count. A node without a Lease has an agent that writes none:
 * it serves.
 */
#pragma once

#include <stdbool.h>

struct agents;
struct kube_watch;
struct scheduler;

int agents_start(struct scheduler *scheduler, struct agents **ret_agents);
void agents_stop(struct agents *agents); /* accepts NULL */

/* agents_tell() - tells the ledger what is known of this node's agent: of a node that it learns of later. */
void agents_tell(const struct agents *agents, const char *node);

/* agents_tick() - tells the ledger whose Lease ran out; to be called every few seconds. */
void agents_tick(struct agents *agents);

const struct kube_watch *agents_watch(const struct agents *agents);
