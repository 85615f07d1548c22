/* metrics-gpus.h - a line of the agent's page for each GPU of each container that has a grant. */
#pragma once

#include <stddef.h>

struct inventory;
struct metric_label;
struct metrics;
struct watched_part;
struct watched_set;

/* metrics_each_gpu() - calls add with the labels of each GPU, and with what the caller wants added. */
void metrics_each_gpu(struct metrics *page, struct watched_set *set, const struct inventory *inventory,
	int what,
	void (*add)(struct metrics *page, const struct metric_label *labels, size_t n,
		const struct watched_part *held, int what));
