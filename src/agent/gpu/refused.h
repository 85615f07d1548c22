/* refused.h - allocations that a container's limit refused: an Event on its pod says what it asked for, what
 * it has and what uses it. One in a minute for each container, ten for all of the node. */
#pragma once

struct events;
struct looks;
struct node_registry;
struct refused;

/* refused_new() - all that it is given must outlive it. */
int refused_new(const struct node_registry *node, const struct events *events, struct looks *looks,
	struct refused **ret_refused);
void refused_free(struct refused *refused); /* accepts NULL */

/* refused_tick() - each second. */
void refused_tick(struct refused *refused);
