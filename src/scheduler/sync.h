/* sync.h - the API server's nodes and pods, by LIST + WATCH, into the ledger. */
#pragma once

#include <stdbool.h>

struct metrics;
struct scheduler;
struct sync;

int sync_start(struct scheduler *scheduler, struct sync **ret_sync);
void sync_stop(struct sync *sync); /* accepts NULL */

/* sync_is_following() - a watch of pods is open: what happened to a pod is known, or will be in a moment. */
bool sync_is_following(const struct sync *sync);

/* sync_metrics() - how the watches fare. */
void sync_metrics(const struct sync *sync, struct metrics *metrics);
