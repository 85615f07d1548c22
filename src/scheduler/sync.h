/* sync.h - copies the API server's nodes and pods, by LIST + WATCH, into the ledger. */
#pragma once

struct metrics;
struct scheduler;
struct sync;

int sync_start(struct scheduler *scheduler, struct sync **ret_sync);
void sync_stop(struct sync *sync); /* accepts NULL */

/* sync_pods_version() - the resourceVersion up to which the ledger has all changes of pods; "" while they are
 * listed. */
const char *sync_pods_version(const struct sync *sync);

/* sync_tick() - call it every few seconds: does what is due by time. */
void sync_tick(struct sync *sync);

/* sync_metrics() - the metrics of the watches. */
void sync_metrics(const struct sync *sync, struct metrics *metrics);
