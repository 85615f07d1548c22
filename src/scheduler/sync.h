/* sync.h - the API server's nodes and pods, by LIST + WATCH, into the ledger. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct metrics;
struct pod_facts;
struct scheduler;
struct sync;

int sync_start(struct scheduler *scheduler, struct sync **ret_sync);
void sync_stop(struct sync *sync); /* accepts NULL */

/* sync_is_following() - a watch of pods is open: what happened to a pod is known, or will be in a moment. */
bool sync_is_following(const struct sync *sync);

/* sync_heard_ns() - until when, by the monotonic clock, what happened to pods is known; 0: none is followed.
 */
int64_t sync_heard_ns(const struct sync *sync);

/* sync_pods_version() - the API server's resourceVersion of pods up to which the ledger has everything; ""
 * while they are listed. */
const char *sync_pods_version(const struct sync *sync);

/* sync_has_forgotten() - the watch has told the end of this pod within the last seconds: an answer to a
 * request sent earlier must not bring it back. Accepts NULL. */
bool sync_has_forgotten(const struct sync *sync, const char *uid);

/* sync_tick() - what goes by time; to be called every few seconds. */
void sync_tick(struct sync *sync);

/* sync_metrics() - how the watches fare. */
void sync_metrics(const struct sync *sync, struct metrics *metrics);

/* sync_pod_is_gone() - the API server has the pod no more, and nobody has seen its last state: its containers
 * may live on for a while. */
void sync_pod_is_gone(struct sync *sync, const char *uid);

/* sync_pod_has_finished() - the API server says that the pod succeeded or failed; an answer to a request sent
 * earlier must not bring it back. */
void sync_pod_has_finished(struct sync *sync, const struct pod_facts *facts);
