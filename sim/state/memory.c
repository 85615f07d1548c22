#include "sim/state/memory.h"

#include <errno.h>
#include <string.h>

#include "sim/state/claim.h"

#define TRIES_MAX 1000000

/* If the lock's last holder died, nothing needs repair: after each of its steps the data is right for the
 * other processes. */
static struct sim_lock *lock_gpu(const struct sim_processes *processes, unsigned gpu)
{
	struct sim_lock *lock = &processes->table->locks[gpu];

	sim_lock(lock);
	return lock;
}

int sim_memory_take(const struct sim_processes *processes, struct sim_process *slot, unsigned gpu,
	uint64_t bytes, uint64_t capacity)
{
	/* Each failed try means that another process got memory meanwhile. Only invalid data in the file
	 * takes that many. */
	for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
		uint64_t version = sim_claim_read(processes->table, gpu);
		uint64_t used = sim_processes_used(processes, gpu);

		if (used > capacity || bytes > capacity - used ||
			(bytes + sim_process_bytes(slot, gpu)) >> SIM_BYTES_BITS != 0)
			return -ENOMEM;
		if (sim_claim_add(processes->table, gpu, version, slot, bytes))
			return 0;
	}
	return -ENOMEM;
}

/* While the owner has no claim, no other process changes the word. */
void sim_memory_give(
	const struct sim_processes *processes, struct sim_process *slot, unsigned gpu, uint64_t bytes)
{
	atomic_store(&slot->bytes[gpu],
		sim_bytes_word(atomic_load(&slot->bytes[gpu]), sim_process_bytes(slot, gpu) - bytes));
}

/* An entry can pass to another GPU only under the first GPU's lock, because the claim is made by compare and
 * swap. */
static struct sim_shared_memory *take_entry(const struct sim_processes *processes, unsigned gpu, uint64_t id)
{
	for (size_t i = 0; i < SIM_MAX_SHARED; i++) {
		struct sim_shared_memory *shared = &processes->table->shared[i];
		uint64_t old = atomic_load(&shared->id);

		if (old != 0 && (atomic_load(&shared->gpu) != gpu ||
					sim_shared_held(processes, shared, SIM_MAX_PROCESSES)))
			continue;
		if (atomic_compare_exchange_strong(&shared->id, &old, id)) {
			sim_raise(&processes->table->shared_count, i + 1);
			return shared;
		}
	}
	return NULL;
}

static void set_bit(struct sim_shared_memory *shared, size_t index)
{
	atomic_fetch_or(&shared->holders[index / 64], UINT64_C(1) << index % 64);
}

static void clear_bit(struct sim_shared_memory *shared, size_t index)
{
	atomic_fetch_and(&shared->holders[index / 64], ~(UINT64_C(1) << index % 64));
}

int sim_memory_share(const struct sim_processes *processes, struct sim_process *slot, unsigned gpu,
	uint64_t bytes, uint64_t *ret_id)
{
	uint64_t id = atomic_fetch_add(&processes->table->next_id, 1) + 1;
	size_t index = (size_t)(slot - processes->table->slots);
	struct sim_lock *lock = lock_gpu(processes, gpu);
	struct sim_shared_memory *shared = take_entry(processes, gpu, id);

	if (shared) {
		/* Until our bit is set the entry does not count. Then it counts twice for a moment, but never
		 * less than once, because other processes must not take it for free memory. */
		atomic_store(&shared->gpu, gpu);
		atomic_store(&shared->bytes, bytes);
		for (size_t i = 0; i < SIM_MAX_PROCESSES / 64; i++)
			atomic_store(&shared->holders[i], 0);
		set_bit(shared, index);
		sim_memory_give(processes, slot, gpu, bytes);
		*ret_id = id;
	}
	sim_unlock(lock);
	return shared ? 0 : -ENOSPC;
}

static struct sim_shared_memory *find_entry(const struct sim_processes *processes, uint64_t id)
{
	for (size_t i = 0; id != 0 && i < sim_shared_slots(processes->table); i++)
		if (atomic_load(&processes->table->shared[i].id) == id)
			return &processes->table->shared[i];
	return NULL;
}

int sim_memory_join(const struct sim_processes *processes, struct sim_process *slot, uint64_t id,
	uint64_t *ret_bytes, unsigned *ret_gpu)
{
	struct sim_shared_memory *shared = find_entry(processes, id);
	size_t index = (size_t)(slot - processes->table->slots);
	unsigned gpu = shared ? atomic_load(&shared->gpu) : 0;
	struct sim_lock *lock;
	int r = -ENOENT;

	if (!shared || gpu >= SIM_MAX_GPUS)
		return -ENOENT;
	lock = lock_gpu(processes, gpu);
	/* If another process holds it after we do, it has never been free in between. */
	if (atomic_load(&shared->id) == id) {
		set_bit(shared, index);
		r = sim_shared_held(processes, shared, index) ? 0 : -ENOENT;
		if (r < 0)
			clear_bit(shared, index);
	}
	if (r == 0) {
		*ret_bytes = atomic_load(&shared->bytes);
		*ret_gpu = gpu;
	}
	sim_unlock(lock);
	return r;
}

bool sim_memory_leave(const struct sim_processes *processes, struct sim_process *slot, uint64_t id)
{
	struct sim_shared_memory *shared = find_entry(processes, id);
	size_t index = (size_t)(slot - processes->table->slots);
	struct sim_lock *lock;
	bool last = false;
	unsigned gpu;

	if (!shared)
		return false;
	gpu = atomic_load(&shared->gpu) % SIM_MAX_GPUS;
	lock = lock_gpu(processes, gpu);
	clear_bit(shared, index);
	if (!sim_shared_held(processes, shared, SIM_MAX_PROCESSES)) {
		atomic_store(&shared->id, 0);
		last = true;
	}
	sim_unlock(lock);
	return last;
}

bool sim_memory_known(const struct sim_processes *processes, uint64_t id)
{
	struct sim_shared_memory *shared = find_entry(processes, id);

	return shared && sim_shared_held(processes, shared, SIM_MAX_PROCESSES);
}
