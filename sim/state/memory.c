#include "sim/state/memory.h"

#include <errno.h>
#include <string.h>

/* The lock's last holder died: nothing to repair, each step it could have been in is right for its survivors.
 */
static struct sim_lock *lock_card(const struct sim_processes *processes, unsigned card)
{
	struct sim_lock *lock = &processes->table->locks[card];

	sim_lock(lock);
	return lock;
}

int sim_memory_take(const struct sim_processes *processes, struct sim_process *slot, unsigned card,
	uint64_t bytes, uint64_t capacity)
{
	struct sim_lock *lock = lock_card(processes, card);
	uint64_t used = sim_processes_used(processes, card);
	int r = -ENOMEM;

	if (used <= capacity && bytes <= capacity - used) {
		atomic_fetch_add(&slot->bytes[card], bytes);
		r = 0;
	}
	sim_unlock(lock);
	return r;
}

void sim_memory_give(
	const struct sim_processes *processes, struct sim_process *slot, unsigned card, uint64_t bytes)
{
	struct sim_lock *lock = lock_card(processes, card);

	atomic_fetch_sub(&slot->bytes[card], bytes);
	sim_unlock(lock);
}

static bool has_living_holder(const struct sim_processes *processes, const struct sim_shared_memory *shared)
{
	pid_t pid;

	for (size_t i = 0; i < sim_process_slots(processes->table); i++)
		if ((atomic_load(&shared->holders[i / 64]) >> i % 64 & 1) &&
			sim_process_alive(processes, &processes->table->slots[i], &pid))
			return true;
	return false;
}

/* Entries change hands between cards under the first card's lock only: the claim is by compare and swap. */
static struct sim_shared_memory *take_entry(const struct sim_processes *processes, unsigned card, uint64_t id)
{
	for (size_t i = 0; i < SIM_MAX_SHARED; i++) {
		struct sim_shared_memory *shared = &processes->table->shared[i];
		uint64_t old = atomic_load(&shared->id);

		if (old != 0 && (atomic_load(&shared->card) != card || has_living_holder(processes, shared)))
			continue;
		if (atomic_compare_exchange_strong(&shared->id, &old, id)) {
			sim_raise(&processes->table->shared_count, i + 1);
			return shared;
		}
	}
	return NULL;
}

int sim_memory_share(const struct sim_processes *processes, struct sim_process *slot, unsigned card,
	uint64_t bytes, uint64_t *ret_id)
{
	uint64_t id = atomic_fetch_add(&processes->table->next_id, 1) + 1;
	size_t index = (size_t)(slot - processes->table->slots);
	struct sim_lock *lock = lock_card(processes, card);
	struct sim_shared_memory *shared = take_entry(processes, card, id);

	if (shared) {
		/* Until our bit is there the entry weighs nothing, and from then on our own share says so. */
		atomic_store(&shared->card, card);
		atomic_store(&shared->bytes, bytes);
		for (size_t i = 0; i < SIM_MAX_PROCESSES / 64; i++)
			atomic_store(&shared->holders[i], 0);
		atomic_fetch_add(&slot->shared[card], bytes);
		atomic_fetch_or(&shared->holders[index / 64], UINT64_C(1) << index % 64);
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
	uint64_t *ret_bytes, unsigned *ret_card)
{
	struct sim_shared_memory *shared = find_entry(processes, id);
	size_t index = (size_t)(slot - processes->table->slots);
	unsigned card = shared ? atomic_load(&shared->card) : 0;
	struct sim_lock *lock;
	int r = -ENOENT;

	if (!shared || card >= SIM_MAX_CARDS)
		return -ENOENT;
	lock = lock_card(processes, card);
	if (atomic_load(&shared->id) == id && has_living_holder(processes, shared)) {
		uint64_t bytes = atomic_load(&shared->bytes);

		atomic_fetch_add(&slot->shared[card], bytes);
		atomic_fetch_add(&slot->bytes[card], bytes);
		atomic_fetch_or(&shared->holders[index / 64], UINT64_C(1) << index % 64);
		*ret_bytes = bytes;
		*ret_card = card;
		r = 0;
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
	unsigned card;
	uint64_t bytes;

	if (!shared)
		return false;
	card = atomic_load(&shared->card) % SIM_MAX_CARDS;
	lock = lock_card(processes, card);
	bytes = atomic_load(&shared->bytes);
	atomic_fetch_and(&shared->holders[index / 64], ~(UINT64_C(1) << index % 64));
	atomic_fetch_sub(&slot->bytes[card], bytes);
	atomic_fetch_sub(&slot->shared[card], bytes);
	if (!has_living_holder(processes, shared)) {
		atomic_store(&shared->id, 0);
		last = true;
	}
	sim_unlock(lock);
	return last;
}

bool sim_memory_known(const struct sim_processes *processes, uint64_t id)
{
	struct sim_shared_memory *shared = find_entry(processes, id);

	return shared && has_living_holder(processes, shared);
}
