/* claim.h - one process at a time changes what it holds of a GPU. Any other process can finish that change,
 * so no process waits for one that is stopped or killed in the middle of it.
 *
 * A GPU's claim is a version number and, in its lowest bits, the number of the slot that is being changed,
 * plus one (0: none). Before a process claims, it writes the old and the new value of its slot's word into
 * the slot. A process that finds the claim taken makes that change and writes the next version. The change is
 * made only once, because no value of the word is used twice.
 *
 * A sum that a process computed between reading the version and claiming it is still right, except for memory
 * that was given back meanwhile.
 */
#pragma once

#include "sim/state/processes.h"

/* sim_claim_read() - finishes a change that is under way, and returns the version to claim. */
uint64_t sim_claim_read(struct sim_process_table *table, unsigned gpu);
/* sim_claim_add() - adds to the slot's bytes, if the claim still has this version. For the owner of the slot.
 */
bool sim_claim_add(struct sim_process_table *table, unsigned gpu, uint64_t version, struct sim_process *slot,
	uint64_t bytes);
/* sim_claim_drop() - drops the change of the slot's dead owner that is under way. */
void sim_claim_drop(struct sim_process_table *table, unsigned gpu, const struct sim_process *slot);
