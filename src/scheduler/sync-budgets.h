/* sync-budgets.h - copies the API server's PodDisruptionBudgets, by LIST + WATCH, into core.budgets. No part
 * waits for them: without them the eviction API still refuses what it must. */
#pragma once

struct budget_sync;
struct scheduler;

int budget_sync_start(struct scheduler *scheduler, struct budget_sync **ret_sync);
void budget_sync_stop(struct budget_sync *sync); /* accepts NULL */
