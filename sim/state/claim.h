/* claim.h - one process at a time adds to what it holds of a card, and every other process can finish that
 * for it: nobody waits for a process that is stopped or killed in the middle.
 *
 * A card's claim is a version and, in its lowest bits, the number of the slot whose change is under way, plus
 * one; 0: none. Before a process claims, it writes into its slot which word its bytes are and become. Whoever
 * finds the claim taken makes that change (which can be made once only, as no word comes twice) and puts the
 * next version. So a sum that was computed after the version was read and before it is claimed is still
 * right, except for memory that was given back meanwhile.
 */
#pragma once

#include "sim/state/processes.h"

/* sim_claim_read() - the version to claim; finishes what is under way. */
uint64_t sim_claim_read(struct sim_process_table *table, unsigned card);
/* sim_claim_add() - the slot's bytes grow, if the claim is still of this version. For the owner of the slot.
 */
bool sim_claim_add(struct sim_process_table *table, unsigned card, uint64_t version, struct sim_process *slot,
	uint64_t bytes);
/* sim_claim_drop() - what the slot's dead owner has under way. */
void sim_claim_drop(struct sim_process_table *table, unsigned card, const struct sim_process *slot);
