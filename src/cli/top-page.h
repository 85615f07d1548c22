/* top-page.h - what a page of metrics (docs/internals/metrics.md) says about GPUs and their holders. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"

#define TOP_HOLDERS_MAX 100000 /* over all pages */

/* Values that a page may lack. */
struct top_memory {
	bool known;
	uint64_t bytes;
};
struct top_seconds {
	bool known;
	double s;
};

struct top_gpu {
	char *node, *uuid, *model;
	int index; /* -1: the GPU was removed */
	uint64_t memory_bytes;
	struct top_memory used;
};

/* One container, or run, on one GPU; or a ResourceClaim: then `pod` is the claim's name. */
struct top_holder {
	char *node, *namespace_, *pod, *container, *uuid;
	char *users; /* of a claim: its pods, "a, b"; "" if none is known; NULL if it is not a claim */
	int index;
	uint64_t limit_bytes;
	struct top_memory used;
	double share, rate; /* 0: its computing power is not controlled */
	struct top_seconds started, waited;
	struct top_seconds clock; /* of its node, when the page was made */
};

struct top_sample {
	int64_t at_ns; /* when the last page had arrived */
	struct top_gpu **gpus;
	size_t n_gpus;
	struct top_holder **holders;
	size_t n_holders;
	struct table by_key; /* of both arrays */
};

void top_sample_init(struct top_sample *sample);
void top_sample_release(struct top_sample *sample); /* accepts NULL */

/* top_sample_add() - adds what this page of this node ("" for runs) says. Lines that are not valid, and
 * families of no interest, are left out. -ENOMEM, -E2BIG. */
int top_sample_add(struct top_sample *sample, const char *node, const char *page);

/* top_sample_holder() - the same holder in another sample; NULL if it is not there. */
const struct top_holder *top_sample_holder(const struct top_sample *sample, const struct top_holder *holder);

/* top_sample_sort() - GPUs by node and index; holders by GPU, then namespace, pod, container. */
void top_sample_sort(struct top_sample *sample);
