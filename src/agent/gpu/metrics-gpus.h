/* metrics-gpus.h - adds a sample to /metrics for each GPU of each container that has a grant. */
#pragma once

#include <stddef.h>

struct inventory;
struct metric_label;
struct metrics;
struct watched_part;
struct watched_set;

/* metrics_each_gpu() - calls add() for each such GPU, with its n labels and the caller's `what`.
 * labels[n] is one more, the owner of its pod, for the families that have it. */
void metrics_each_gpu(struct metrics *page, struct watched_set *set, const struct inventory *inventory,
	int what,
	void (*add)(struct metrics *page, const struct metric_label *labels, size_t n,
		const struct watched_part *held, int what));
