/* refused.h - posts an Event on a pod when the limit of one of its containers has refused an allocation. The
 * Event says how much was asked for, how much the limit is and which processes use it. At most one in a
 * minute for each container, and ten for the node. */
#pragma once

struct events;
struct looks;
struct node_registry;
struct refused;

/* refused_new() - its arguments must outlive it. */
int refused_new(const struct node_registry *node, const struct events *events, struct looks *looks,
	struct refused **ret_refused);
void refused_free(struct refused *refused); /* accepts NULL */

/* refused_tick() - call it each second. */
void refused_tick(struct refused *refused);
