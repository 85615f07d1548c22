/* grant.h - what one container gets: its cards and the variables of the contract (section 3). Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/inventory.h"

struct error;
struct pod_facts;

#define GRANT_CARDS_MAX NODE_GPUS_MAX
#define GRANT_VARIABLES_MAX 8
#define GRANT_VALUE_SIZE (GRANT_CARDS_MAX * GPU_UUID_SIZE)

struct grant_variable {
	const char *name;
	char value[GRANT_VALUE_SIZE];
};

struct grant {
	const struct card *cards[GRANT_CARDS_MAX];
	size_t n_cards;
	struct grant_variable variables[GRANT_VARIABLES_MAX];
	size_t n_variables;
};

/* grant_value() - of a variable, "" if it is not there. */
const char *grant_value(const struct grant *grant, const char *name);

/* grant_build() - from the pod's placement. we_inject: our own CDI file brings the driver into the container;
 * otherwise NVIDIA's runtime does, guided by NVIDIA_VISIBLE_DEVICES. On several cards the container's units
 * are those on each, and the card's units those of the largest: their quotient is then within the container's
 * share of any of them. -ENOENT with a sentence if the placement does not name the container, or names a card
 * that is not here. */
int grant_build(const struct inventory *inventory, const struct pod_facts *pod, const char *container,
	bool we_inject, struct grant *ret_grant, struct error *err);
