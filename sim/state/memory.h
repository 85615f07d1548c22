/* memory.h - take and give back memory of a GPU: the sum over all processes of the machine never exceeds it.
 *
 * There is no stored sum that a killed process could leave wrong: what counts is what living processes hold
 * (sim_processes_used()). Taking and giving back waits for no other process (claim.h); what makes, joins and
 * leaves memory of several processes has a lock of the GPU. All functions are for the owner of `slot`, one
 * at a time.
 */
#pragma once

#include "sim/state/processes.h"

/* sim_memory_take() - -ENOMEM if the GPU, of which `capacity` bytes are there for processes, would be over
 * it. */
int sim_memory_take(const struct sim_processes *processes, struct sim_process *slot, unsigned gpu,
	uint64_t bytes, uint64_t capacity);
void sim_memory_give(
	const struct sim_processes *processes, struct sim_process *slot, unsigned gpu, uint64_t bytes);

/* sim_memory_share() - make what the process holds alone something that others can hold, too. -ENOSPC. */
int sim_memory_share(const struct sim_processes *processes, struct sim_process *slot, unsigned gpu,
	uint64_t bytes, uint64_t *ret_id);

/* sim_memory_join() - this process holds the shared memory, too. *ret_bytes, *ret_gpu: its size and GPU.
 * -ENOENT: no living process holds it any more.
 */
int sim_memory_join(const struct sim_processes *processes, struct sim_process *slot, uint64_t id,
	uint64_t *ret_bytes, unsigned *ret_gpu);

/* sim_memory_leave() - the last holder's leaving frees it: then true. */
bool sim_memory_leave(const struct sim_processes *processes, struct sim_process *slot, uint64_t id);

/* sim_memory_known() - somebody living holds it. */
bool sim_memory_known(const struct sim_processes *processes, uint64_t id);
