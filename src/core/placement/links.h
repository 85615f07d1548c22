/* links.h - how the GPUs of one node are connected, and which of them serve a pod best together.
 *
 * The score of a set of GPUs, the larger the better:
 *   1. the bandwidth of the slowest link of its best ring: collective operations pass their data around a
 * ring through all GPUs (NCCL), which is as fast as its slowest link; for two GPUs it is the bandwidth of
 * their link;
 *   2. the sum of the bandwidths of all its pairs. Between sets with the same score, the score of the GPUs
 * that are left over decides, then the lowest positions. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/link.h"

/* The links of one node, by the positions of its GPUs. */
struct links {
	size_t n;
	uint32_t nvlink_gbps; /* of one NVLink */
	struct link at[];     /* n x n, symmetric */
};

#define LINKS_GPUS_MAX 64 /* a set of GPUs is a bit each of 64 */

/* links_new() - all links are unknown; free() it. NULL: out of memory. links_set() - sets both directions.
 * links_between() - in GB/s, 0 from a GPU to itself. */
struct links *links_new(size_t n, uint32_t nvlink_gbps);
void links_set(struct links *links, size_t a, size_t b, struct link link);
uint32_t links_between(const struct links *links, size_t a, size_t b);

struct links_score {
	uint32_t ring, sum; /* GB/s; both 0 for a single GPU */
};

/* links_compare() - < 0 if a is worse, > 0 if it is better. */
int links_compare(struct links_score a, struct links_score b);

/* Up to this many GPUs, all sets are compared. With more (no known machine has them), sets grow GPU by GPU,
 * by the sum alone. */
#define LINKS_EXACT_MAX 16

/* links_score() - the score of these GPUs. For more than LINKS_EXACT_MAX GPUs the ring is not computed: 0. */
struct links_score links_score(const struct links *links, uint64_t set);

/* The request: choose `gpus` of the `free` GPUs for a pod. The pod may be one of `pods` pods of a job that
 * are still to come to this node, with the same number of GPUs each. They are planned together. First, all
 * GPUs of the job must have the best score, including `near`, which its other pods have already. Then these
 * GPUs are divided so that the worst part has the best ring, and then so that the parts together have the
 * largest sum. The pod gets the best part. */
struct links_ask {
	uint64_t free;
	uint64_t near; /* none of them is free */
	size_t gpus, pods;
};

/* links_plan_job() - *ret_part: the pod's GPUs; *ret_all: the GPUs of all pods of the job that are still to
 * come, including this one. links NULL: the lowest positions. -ENOSPC: fewer than `gpus` are free. If there
 * are enough for some but not for all pods, as many pods as fit are planned. -EINVAL: gpus is 0; -ENOMEM. */
int links_plan_job(
	const struct links *links, const struct links_ask *ask, uint64_t *ret_part, uint64_t *ret_all);

/* Remembers what was computed for one kind of pod: most of a thousand nodes are alike, with the same GPUs
 * free. It serves one request and is dropped afterwards. links_memo_plan_score() - links_score() of all GPUs
 * in `near` (free ones too) together with those that links_plan_job() plans for the pod. If nothing can be
 * planned, the score of `near` alone. memo may be NULL. links_memo_computed() - how often a score had to be
 * computed. */
struct links_memo;
struct links_memo *links_memo_new(void); /* NULL: out of memory */
void links_memo_free(struct links_memo *memo);
struct links_score links_memo_plan_score(
	struct links_memo *memo, const struct links *links, const struct links_ask *ask);
size_t links_memo_computed(const struct links_memo *memo);
