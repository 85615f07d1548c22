/* held.h - what a node's agent reports about containers whose pod is gone from the API server (force delete,
 * or PodGC after the node object was deleted). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/placement.h"

#define HELD_PODS_MAX 1024
#define HELD_AT_SIZE 48 /* RFC 3339 with microseconds */

struct held_pod {
	char *uid, *namespace_, *name;
	struct gpu_share *gpus;
	size_t n_gpus;	    /* at least 1 */
	uint32_t instances; /* GPU containers that may run at the same time, at least 1 */
};

struct held {
	char at[HELD_AT_SIZE]; /* when the agent wrote this; "" if it never did */
	struct held_pod *pods; /* pods with running containers */
	size_t n_pods;
	char **ended; /* uids of pods that were deleted lately and have no running container */
	size_t n_ended;
	bool names_ended; /* the agent reports ended pods in `ended`; an older agent reports them only by a
			     new `at` */
};

enum held_verdict { HELD_UNKNOWN, HELD_LIVES, HELD_ENDED };

void held_init(struct held *held);
void held_release(struct held *held); /* accepts NULL */
#define _cleanup_held_ _cleanup_(held_release)
int held_copy(const struct held *from, struct held *ret_held);
bool held_equal(const struct held *a, const struct held *b);

/* held_add_pod() - adds a pod with one live container, without GPUs yet; -E2BIG over HELD_PODS_MAX. *ret_pod
 * is valid until the next call. held_pod_add_gpu() - -EINVAL for an invalid name. held_add_ended() - adds one
 * uid. */
int held_add_pod(struct held *held, const char *uid, const char *namespace_, const char *name,
	struct held_pod **ret_pod);
int held_pod_add_gpu(struct held_pod *pod, const char *uuid, uint32_t units, uint32_t core);
int held_add_ended(struct held *held, const char *uid);

/* held_find() - the entry of a pod with running containers, or NULL. */
const struct held_pod *held_find(const struct held *held, const char *uid);

/* held_says() - the verdict about a pod that is gone from the API server. HELD_LIVES if the report contains
 * both. */
enum held_verdict held_says(const struct held *held, const char *uid);
