/* memory.h - takes and gives back memory of a GPU. The sum over all processes of the machine never exceeds
 * the GPU's memory.
 *
 * There is no stored sum that a killed process could leave wrong: the memory held by living processes is
 * counted (sim_processes_used()). Taking and giving back waits for no other process (claim.h). Creating,
 * joining and leaving memory of several processes uses a lock of the GPU. All functions are for the owner of
 * `slot`, one call at a time.
 */
#pragma once

#include "sim/state/processes.h"

/* sim_memory_take() - -ENOMEM if the sum would exceed `capacity`, the bytes of the GPU that are available to
 * processes. */
int sim_memory_take(const struct sim_processes *processes, struct sim_process *slot, unsigned gpu,
	uint64_t bytes, uint64_t capacity);
void sim_memory_give(
	const struct sim_processes *processes, struct sim_process *slot, unsigned gpu, uint64_t bytes);

/* sim_memory_share() - turns memory that the process holds alone into memory that others can hold, too.
 * -ENOSPC. */
int sim_memory_share(const struct sim_processes *processes, struct sim_process *slot, unsigned gpu,
	uint64_t bytes, uint64_t *ret_id);

/* sim_memory_join() - this process also holds the shared memory. *ret_bytes, *ret_gpu: its size and GPU.
 * -ENOENT: no living process holds it any more. */
int sim_memory_join(const struct sim_processes *processes, struct sim_process *slot, uint64_t id,
	uint64_t *ret_bytes, unsigned *ret_gpu);

/* sim_memory_leave() - true if this was the last holder, which frees the memory. */
bool sim_memory_leave(const struct sim_processes *processes, struct sim_process *slot, uint64_t id);

/* sim_memory_known() - whether a living process holds it. */
bool sim_memory_known(const struct sim_processes *processes, uint64_t id);
