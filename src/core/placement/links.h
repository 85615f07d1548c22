/* links.h - how the GPUs of one node are connected, and which of them serve a pod best together.
 *
 * The score of a set of GPUs, the larger the better:
 *   1. the bandwidth of the slowest link of its best ring: collective operations pass their data around a
 * ring through all GPUs (NCCL), which is as fast as its slowest link; of two GPUs it is their link's;
 *   2. the sum of the bandwidths of all its pairs.
 * Between sets of one score decides the score of what is left over, then the lowest positions. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/link.h"

/* Those of one node, by the positions of its GPUs. */
struct links {
	size_t n;
	uint32_t nvlink_gbps; /* of one NVLink */
	struct link at[];     /* n x n, symmetric */
};

#define LINKS_GPUS_MAX 64 /* a set of GPUs is a bit each of 64 */

/* links_new() - all unknown; free() it. NULL: out of memory. links_set() - both directions. links_between() -
 * GB/s, 0 to itself. */
struct links *links_new(size_t n, uint32_t nvlink_gbps);
void links_set(struct links *links, size_t a, size_t b, struct link link);
uint32_t links_between(const struct links *links, size_t a, size_t b);

struct links_score {
	uint32_t ring, sum; /* GB/s; both 0 for a single GPU */
};

/* links_compare() - < 0 if a is worse, > 0 if it is better. */
int links_compare(struct links_score a, struct links_score b);

/* Up to so many GPUs in question all sets are compared; of more (no machine known has them), sets are grown
 * GPU by GPU, by the sum alone. */
#define LINKS_EXACT_MAX 16

/* links_score() - of these GPUs. The ring of more than LINKS_EXACT_MAX is not looked for: 0. */
struct links_score links_score(const struct links *links, uint64_t set);

/* What is to be found: `gpus` of the `free` ones for a pod. Where it is one of `pods` pods of a job that are
 * still to come to this node, with as many GPUs each, they are planned together: first all GPUs of the job,
 * `near` included, which its other pods have already, are to have the best score; then these are divided so
 * that the worst part has the best ring, then the parts together the largest sum. The pod gets the best part.
 */
struct links_ask {
	uint64_t free;
	uint64_t near; /* none of them free */
	size_t gpus, pods;
};

/* links_plan_job() - the pod's part, and all that is planned for the job's pods that are still to come (the
 * part included). links NULL: the lowest positions. -ENOSPC: fewer than `gpus` are free (of fewer than for
 * all pods, as many pods as fit are planned), -EINVAL: gpus is 0; -ENOMEM. */
int links_plan_job(
	const struct links *links, const struct links_ask *ask, uint64_t *ret_part, uint64_t *ret_all);

/* What was computed for one kind of pod: of a thousand nodes most are alike, with the same GPUs free. For
 * one request after the other; when it is over the numbers are dropped. links_memo_plan_score() -
 * links_score() of what links_plan_job() plans for the pod and of all GPUs in `near`, free ones too; only
 * the latter where nothing can be planned. memo may be NULL. links_memo_computed() - how often that was work.
 */
struct links_memo;
struct links_memo *links_memo_new(void); /* NULL: out of memory */
void links_memo_free(struct links_memo *memo);
struct links_score links_memo_plan_score(
	struct links_memo *memo, const struct links *links, const struct links_ask *ask);
size_t links_memo_computed(const struct links_memo *memo);
