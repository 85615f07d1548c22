/* metrics-cards.h - a line of the agent's page for each card of each container that has a grant. */
#pragma once

#include <stddef.h>

struct agent;
struct metric_label;
struct metrics;
struct watched_card;

/* metrics_each_card() - calls add with the labels of each card, and with what the caller wants added. */
void metrics_each_card(struct metrics *page, const struct agent *agent, int what,
	void (*add)(struct metrics *page, const struct metric_label *labels, size_t n,
		const struct watched_card *held, int what));
