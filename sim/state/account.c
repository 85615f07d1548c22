#include "sim/state/account.h"

#include "base/clock.h"
#include "sim/state/engine.h"

size_t sim_accounts(const struct sim_work *work)
{
	uint32_t count = atomic_load(&work->account_count);

	return count < SIM_MAX_ACCOUNTS ? count : SIM_MAX_ACCOUNTS;
}

static bool is_of(const struct sim_account *account, const struct sim_process *slot, unsigned gpu)
{
	return atomic_load(&account->taken) && account->gpu == gpu &&
	       account->pid == atomic_load(&slot->pid) && account->pid_namespace == slot->pid_namespace &&
	       account->start_ticks == slot->start_ticks;
}

struct sim_process *sim_account_slot(
	const struct sim_processes *processes, const struct sim_account *account, pid_t *ret_pid)
{
	struct sim_process *slot = &processes->table->slots[account->slot % SIM_MAX_PROCESSES];

	return is_of(account, slot, account->gpu) && sim_process_alive(processes, slot, ret_pid) ? slot
												 : NULL;
}

/* Returns a free row, or the row of the process that ended longest ago. */
static uint32_t row_for_another(struct sim_work *work, const struct sim_processes *processes)
{
	size_t count = sim_accounts(work), oldest = SIM_MAX_ACCOUNTS;
	pid_t pid;

	if (count < SIM_MAX_ACCOUNTS)
		return (uint32_t)count;
	for (size_t i = 0; i < SIM_MAX_ACCOUNTS; i++)
		if ((oldest == SIM_MAX_ACCOUNTS || atomic_load(&work->accounts[i].last_used) <
							   atomic_load(&work->accounts[oldest].last_used)) &&
			!sim_account_slot(processes, &work->accounts[i], &pid))
			oldest = i;
	return (uint32_t)oldest;
}

uint32_t sim_account_take(struct sim_work *work, const struct sim_processes *processes,
	const struct sim_process *slot, unsigned gpu)
{
	struct sim_account *account;
	uint32_t row;

	for (uint32_t i = 0; i < sim_accounts(work); i++)
		if (is_of(&work->accounts[i], slot, gpu))
			return i;
	row = row_for_another(work, processes);
	if (row == SIM_MAX_ACCOUNTS)
		return row;
	account = &work->accounts[row];
	atomic_store(&account->taken, 0);
	for (size_t e = 0; e < SIM_ENGINES; e++)
		atomic_store(&account->done[e], 0);
	for (size_t i = 0; i < SIM_SAMPLES; i++)
		atomic_store(&account->samples[i], 0);
	atomic_store(&account->launched, 0);
	account->taken_at = monotonic_ns();
	atomic_store(&account->last_used, account->taken_at);
	account->gpu = gpu;
	account->slot = (uint32_t)(slot - processes->table->slots);
	account->pid = atomic_load(&slot->pid);
	account->pid_namespace = slot->pid_namespace;
	account->start_ticks = slot->start_ticks;
	atomic_store(&account->taken, 1);
	sim_raise(&work->account_count, row + 1);
	return row;
}

/* Only the holder of the GPU's lock writes these, so no atomic addition is needed. */
static void add(_Atomic uint64_t *sum, uint64_t more)
{
	atomic_store_explicit(
		sum, atomic_load_explicit(sum, memory_order_relaxed) + more, memory_order_relaxed);
}

static void add_sample(struct sim_account *account, int64_t period, int64_t run)
{
	_Atomic uint64_t *sample = &account->samples[(uint64_t)period % SIM_SAMPLES];
	uint64_t fresh = (uint64_t)period << 32;

	if (atomic_load_explicit(sample, memory_order_relaxed) >> 32 != (uint32_t)period)
		atomic_store_explicit(sample, fresh, memory_order_relaxed);
	add(sample, (uint64_t)run);
}

void sim_account_add(struct sim_account *account, enum sim_engine engine, int64_t at, int64_t run)
{
	add(&account->done[engine], (uint64_t)run);
	atomic_store_explicit(&account->last_used, at + run, memory_order_relaxed);
	while (engine == SIM_SM && run > 0) {
		int64_t period = at / SIM_SAMPLE_NS, part = (period + 1) * SIM_SAMPLE_NS - at;

		part = part < run ? part : run;
		add_sample(account, period, part);
		at += part;
		run -= part;
	}
}

unsigned sim_account_permille(const struct sim_account *account, int64_t since, int64_t now, int64_t *ret_at)
{
	int64_t last = now / SIM_SAMPLE_NS - 1, first;
	uint64_t sum = 0;

	/* The first complete period after `since`, but no more periods than are kept. */
	since = since > account->taken_at ? since : account->taken_at;
	first = since / SIM_SAMPLE_NS;
	if (since > last * SIM_SAMPLE_NS || last < 0)
		return 0;
	if (first * SIM_SAMPLE_NS < since)
		first++;
	if (last - first >= SIM_SAMPLES - 1)
		first = last - (SIM_SAMPLES - 2);
	for (int64_t period = first; period <= last; period++) {
		uint64_t sample = atomic_load(&account->samples[(uint64_t)period % SIM_SAMPLES]);

		if (sample >> 32 != (uint32_t)period || (uint32_t)sample == 0)
			continue;
		sum += (uint32_t)sample;
		*ret_at = (period + 1) * SIM_SAMPLE_NS;
	}
	sum = sum * 1000 / (uint64_t)((last - first + 1) * SIM_SAMPLE_NS);
	return sum < 1000 ? (unsigned)sum : 1000;
}

void sim_work_look(struct sim_work *work, const struct sim_processes *processes, unsigned gpu)
{
	struct sim_relay *lock = &work->gpus[gpu % SIM_MAX_GPUS].lock;
	uint32_t turn;

	if (!sim_relay_try(lock, &turn))
		return;
	gpu_catch_up(work, processes, gpu % SIM_MAX_GPUS, monotonic_ns());
	sim_relay_unlock(lock, turn);
}
