/* gang-plan.h - where all members of a gang could go at once. Pure: the ledger is the same afterwards.
 *
 * The first try uses the order in which pods are placed one by one (rank.h, choose.h), which keeps a gang
 * close together. If not enough members find room, the largest are placed first, each on the GPU that it
 * fills best. If that fails too, members that need several GPUs go to the emptiest ones. The last try is a
 * search of bounded length for the fewest members that are needed. So the search may miss a plan in a large
 * cluster that is nearly full; in a small cluster it finds one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/registry/ledger.h"

#define GANG_SLOTS_MAX 1024

/* One member to place. What it holds in the ledger counts as free. */
struct gang_slot {
	const struct pod_facts *pod;
	const struct table *nodes; /* names of nodes that it may go to (values are not read); NULL: all */
	struct node_ledger *node;  /* the result; NULL: not placed */
	struct placement placement;
};

/* gang_plan() - places at least `needed` of the n slots, and more where that is easy, or none. GPUs that are
 * kept for pods of the members' priority or above count as taken, except those that are kept for the members.
 * Returns how many are placed, 0 if not even `needed` find room, -E2BIG over GANG_SLOTS_MAX, -ENOMEM.
 * Placements that the slots had before are not released.
 *
 * gang_plan_most() - places as many as the same order finds room for, without a search. The result can be
 * kept for a gang that waits. */
int gang_plan(struct ledger *ledger, struct gang_slot *slots, size_t n, size_t needed);
int gang_plan_most(struct ledger *ledger, struct gang_slot *slots, size_t n);

/* gang_fits_empty() - whether `needed` members would find room if the cluster had no other pods. If so, the
 * slots say which members, and where. */
bool gang_fits_empty(struct ledger *ledger, struct gang_slot *slots, size_t n, size_t needed);

/* gang_same_request() - each place with room for one request has room for the other. gang_compare_size() -
 * the request that is harder to place is the greater one: it needs more GPUs, then more units, then more
 * computing power. */
bool gang_same_request(const struct request *a, const struct request *b);
int gang_compare_size(const struct request *a, const struct request *b);

/* gang_slots_release() - releases the placements, not the array. */
void gang_slots_release(struct gang_slot *slots, size_t n);
