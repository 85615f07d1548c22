/* gang-work.h - the workspace on which gang-plan.c and gang-pack.c try placements: members are placed in the
 * ledger's own sums while one looks, so that what fits is asked of the same functions as for a single pod. */
#pragma once

#include "core/gang/gang-plan.h"
#include "core/registry/nomination.h"

struct gang_work {
	struct ledger *ledger;
	struct gang_slot *slots;   /* of the caller */
	struct ledger_pod *placed; /* by slot: what lies in node->pods; its facts are borrowed */
	size_t *order;		   /* slots, the hardest to place first */
	size_t n;
	struct node_ledger **nodes; /* that may serve anybody, by name */
	size_t n_nodes;
};

/* gang_work_place() - takes the placement, also if it fails (-ENOMEM). gang_work_unplace() - the slot is as
 * before gang_work_place(). */
void gang_work_place(
	struct gang_work *work, size_t slot, struct node_ledger *node, struct placement *placement);
void gang_work_unplace(struct gang_work *work, size_t slot);

/* gang_work_fits() - the node, as it is now, has room for the member and is one of its nodes. */
bool gang_work_fits(const struct gang_work *work, size_t slot, const struct node_ledger *node);

/* gang_work_count_alike() - of the slots in work->order from `first` on, how many ask for the same and may go
 * to the same nodes. */
size_t gang_work_count_alike(const struct gang_work *work, size_t first);

/* gang_pack_best() - the hardest first, each on the GPU that it fills best; of the slots in work->order from
 * `first` on. Returns how many are placed, or -ENOMEM. gang_pack_wide() - the same on the emptiest GPUs of
 * the first node that has room: of several GPUs each, most find room so. gang_pack_search() - `needed` of
 * them, or none: 1, 0 or -ENOMEM. */
int gang_pack_best(struct gang_work *work, size_t first);
int gang_pack_wide(struct gang_work *work, size_t first);
int gang_pack_search(struct gang_work *work, size_t first, size_t needed);
