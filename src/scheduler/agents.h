/* agents.h - the Leases of the nodes' agents. A node whose agent no longer renews its Lease does not serve.
 *
 * One watch follows all Leases with the agents' label. A Lease is stale if the watch has shown no change of
 * its renewTime for leaseDurationSeconds. The time is measured by this machine's monotonic clock, so clocks
 * of machines are never compared. Time during which the watch was down does not count. A node without a Lease
 * has an agent that writes none, and it serves. */
#pragma once

#include <stdbool.h>

struct agents;
struct kube_watch;
struct scheduler;

int agents_start(struct scheduler *scheduler, struct agents **ret_agents);
void agents_stop(struct agents *agents); /* accepts NULL */

/* agents_tell() - tells the ledger what is known of the agent of a node that the ledger has just learned of.
 */
void agents_tell(const struct agents *agents, const char *node);

/* agents_tick() - tells the ledger which Leases ran out; call it every few seconds. */
void agents_tick(struct agents *agents);

const struct kube_watch *agents_watch(const struct agents *agents);
