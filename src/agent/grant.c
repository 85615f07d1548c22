#include "agent/grant.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "kube/names.h"

static char *grant_add(struct grant *grant, const char *name)
{
	struct grant_variable *variable = &grant->variables[grant->n_variables++];

	variable->name = name;
	variable->value[0] = '\0';
	return variable->value;
}

static void grant_add_number(struct grant *grant, const char *name, unsigned int value)
{
	snprintf(grant_add(grant, name), GRANT_VALUE_SIZE, "%u", value);
}

/* Comma-separated over the cards. */
static void grant_add_uuids(struct grant *grant, const char *name)
{
	char *value = grant_add(grant, name);
	size_t len = 0;

	for (size_t i = 0; i < grant->n_cards; i++)
		len += (size_t)snprintf(value + len, GRANT_VALUE_SIZE - len, "%s%s", i ? "," : "",
			grant->cards[i]->facts.uuid);
}

static void grant_add_indices(struct grant *grant, const char *name)
{
	char *value = grant_add(grant, name);
	size_t len = 0;

	for (size_t i = 0; i < grant->n_cards; i++)
		len += (size_t)snprintf(value + len, GRANT_VALUE_SIZE - len, "%s%d", i ? "," : "",
			grant->cards[i]->facts.index);
}

static int grant_find_cards(const struct inventory *inventory, const struct pod_facts *pod,
	const struct container_placement *placed, struct grant *grant, struct error *err)
{
	for (size_t i = 0; i < placed->n_cards; i++) {
		const struct card *card = inventory_find(inventory, placed->cards[i].uuid);

		if (!card || grant->n_cards == GRANT_CARDS_MAX)
			return error_set(err, ENOENT,
				"pod %s/%s was placed on GPU %s, which is not on this node (any more): "
				"delete "
				"the pod, so that it is placed anew",
				pod->namespace_, pod->name, placed->cards[i].uuid);
		grant->cards[grant->n_cards++] = card;
	}
	if (!grant->n_cards)
		return error_set(err, ENOENT, "pod %s/%s: the placement gives container %s no GPU",
			pod->namespace_, pod->name, placed->name);
	return 0;
}

static unsigned int units_of_largest(const struct grant *grant)
{
	unsigned int units = 0;

	for (size_t i = 0; i < grant->n_cards; i++)
		if (grant->cards[i]->units > units)
			units = grant->cards[i]->units;
	return units;
}

const char *grant_value(const struct grant *grant, const char *name)
{
	for (size_t i = 0; i < grant->n_variables; i++)
		if (strcmp(grant->variables[i].name, name) == 0)
			return grant->variables[i].value;
	return "";
}

int grant_build(const struct inventory *inventory, const struct pod_facts *pod, const char *container,
	bool we_inject, struct grant *ret_grant, struct error *err)
{
	const struct container_placement *placed = pod->has_placement
							   ? placement_find(&pod->placement, container)
							   : NULL;
	int r;

	if (!placed)
		return error_set(err, ENOENT, "pod %s/%s: nobody placed container %s", pod->namespace_,
			pod->name, container);
	ret_grant->n_cards = ret_grant->n_variables = 0;
	r = grant_find_cards(inventory, pod, placed, ret_grant, err);
	if (r < 0)
		return r;
	grant_add_number(ret_grant, ENV_MEM_CONTAINER, placed->cards[0].units);
	grant_add_number(ret_grant, ENV_MEM_DEV, units_of_largest(ret_grant));
	grant_add_indices(ret_grant, ENV_MEM_IDX);
	grant_add_number(ret_grant, ENV_MEM_POD, pod->request.units);
	if (we_inject) {
		/* An NVIDIA runtime that acts on a UUID would mount its own driver over ours. */
		strcpy(grant_add(ret_grant, ENV_NVIDIA_VISIBLE), "void");
		grant_add_uuids(ret_grant, ENV_ALIYUN_VISIBLE);
	} else {
		grant_add_uuids(ret_grant, ENV_NVIDIA_VISIBLE);
	}
	return 0;
}
