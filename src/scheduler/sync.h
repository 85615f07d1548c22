/* sync.h - the API server's nodes and pods, by LIST + WATCH, into the ledger. */
#pragma once

struct metrics;
struct scheduler;
struct sync;

int sync_start(struct scheduler *scheduler, struct sync **ret_sync);
void sync_stop(struct sync *sync); /* accepts NULL */

/* sync_pods_version() - the API server's resourceVersion of pods up to which the ledger has everything; ""
 * while they are listed. */
const char *sync_pods_version(const struct sync *sync);

/* sync_tick() - what goes by time; to be called every few seconds. */
void sync_tick(struct sync *sync);

/* sync_metrics() - how the watches fare. */
void sync_metrics(const struct sync *sync, struct metrics *metrics);
