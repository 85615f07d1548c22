/* account.h - how busy each process kept each engine of a GPU: in total, and in samples like NVML's. */
#pragma once

#include "sim/state/work.h"

/* sim_account_take() - the index of this process's account for this GPU, a new one if it has none yet;
 * SIM_MAX_ACCOUNTS if all are taken. The caller holds the lock under which lines are taken. */
uint32_t sim_account_take(struct sim_work *work, const struct sim_processes *processes,
	const struct sim_process *slot, unsigned gpu);

/* sim_account_add() - adds `run` ns from `at` on. Under the GPU's lock. */
void sim_account_add(struct sim_account *account, enum sim_engine engine, int64_t at, int64_t run);

/* sim_account_permille() - the part of the complete sample periods between `since` and `now`
 * (CLOCK_MONOTONIC, ns) that was spent in kernels, rounded down. *ret_at is the end of the last of them with
 * any kernel, else unchanged. It covers at most the last SIM_SAMPLES periods, since the account was taken. */
unsigned sim_account_permille(const struct sim_account *account, int64_t since, int64_t now, int64_t *ret_at);

/* sim_account_slot() - the living process of this row, or NULL. */
struct sim_process *sim_account_slot(
	const struct sim_processes *processes, const struct sim_account *account, pid_t *ret_pid);

/* sim_accounts() - the number of rows to read, bounded. */
size_t sim_accounts(const struct sim_work *work);

/* sim_work_look() - lets the GPU catch up. If the lock cannot be taken within 200 ms, the numbers stay those
 * of the last call. */
void sim_work_look(struct sim_work *work, const struct sim_processes *processes, unsigned gpu);
