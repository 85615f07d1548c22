/* gang-plan.h - where all members of a gang could go at once. Pure: the ledger is the same afterwards.
 *
 * First in the order in which pods are placed one by one (rank.h, choose.h), which keeps a gang close
 * together; where not enough members find room so, the largest first, each on the GPU that it fills best;
 * where that fails too, those on several GPUs on the emptiest, and then by a search for the fewest members
 * that are needed, of bounded length. So a plan that exists may be missed in a large cluster that is nearly
 * full; in a small one it is found.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/registry/ledger.h"

#define GANG_SLOTS_MAX 1024

/* One member to be placed. What it holds in the ledger counts as free. */
struct gang_slot {
	const struct pod_facts *pod;
	const struct table *nodes; /* names it may go to (values are not read); NULL: all */
	struct node_ledger *node;  /* the answer; NULL: not placed */
	struct placement placement;
};

/* gang_plan() - places at least `needed` of the n slots, and more where that is easy, or none. GPUs that are
 * kept for pods of the members' priority or above count as taken, but for what is kept for the members.
 * Returns how many are placed, 0 if not even `needed` find room, -E2BIG over GANG_SLOTS_MAX, -ENOMEM. What is
 * in the slots' placements before is not released.
 *
 * gang_plan_most() - as many as the same order finds room for, without a search: what can be kept for a gang
 * that waits. */
int gang_plan(struct ledger *ledger, struct gang_slot *slots, size_t n, size_t needed);
int gang_plan_most(struct ledger *ledger, struct gang_slot *slots, size_t n);

/* gang_fits_empty() - whether `needed` of them would find room if nobody else were there; then the slots say
 * who and where. */
bool gang_fits_empty(struct ledger *ledger, struct gang_slot *slots, size_t n, size_t needed);

/* gang_same_request() - whoever has room for the one has room for the other. gang_compare_size() - the harder
 * to place is the greater: on more GPUs, then with more units, then with more computing power. */
bool gang_same_request(const struct request *a, const struct request *b);
int gang_compare_size(const struct request *a, const struct request *b);

/* gang_slots_release() - the placements, not the array. */
void gang_slots_release(struct gang_slot *slots, size_t n);
