/* gang-pack.h - finds room for the members of a gang where the order of single pods finds too little. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gang_slot;
struct ledger;
struct ledger_pod;
struct node_ledger;
struct placement;

/* Placements are tried in the ledger's own sums, so the same functions decide as for a single pod. */
struct gang_work {
	struct ledger *ledger;
	struct gang_slot *slots;   /* the caller's */
	struct ledger_pod *placed; /* by slot: the entry in node->pods; its facts are borrowed */
	size_t *order;		   /* slots, the hardest to place first */
	size_t n;
	struct node_ledger **nodes; /* that may serve a member, by name */
	size_t n_nodes;
	int32_t lowest_priority; /* of the slots' pods */
	size_t looks;		 /* nodes that the search may still read */
};

/* gang_work_fits() - the slot's pod has room on the node and may go there. */
bool gang_work_fits(const struct gang_work *work, size_t slot, const struct node_ledger *node);

/* gang_work_place() - takes what the placement says from the node's sums, and takes the placement over.
 * gang_work_unplace() gives it back; nothing happens if the slot has no place. */
void gang_work_place(
	struct gang_work *work, size_t slot, struct node_ledger *node, struct placement *placement);
void gang_work_unplace(struct gang_work *work, size_t slot);

/* gang_work_count_alike() - how many slots of work->order, from `first` on, have the same request and the
 * same nodes. At least 1. */
size_t gang_work_count_alike(const struct gang_work *work, size_t first);

/* gang_pack_each() - gives up all places and places the members of work->order from `first` on, each where it
 * leaves least. wide: each on the emptiest GPUs of the first node with room, where most members that need
 * several GPUs find room. Returns how many are placed, or -ENOMEM. */
int gang_pack_each(struct gang_work *work, size_t first, bool wide);

/* gang_pack_search() - gives up all places and searches for a way to place `needed` of the members from
 * `first` on. Returns 1; 0 if it finds none, and then none is placed; or -ENOMEM. It may give up before it
 * has tried all ways. */
int gang_pack_search(struct gang_work *work, size_t first, size_t needed);
