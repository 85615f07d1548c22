#include "core/registry/owners.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

void owners_init(struct owners *owners)
{
	table_init(&owners->by_uid);
}

static void nodes_free(struct table *nodes)
{
	table_release(nodes);
	free(nodes);
}

void owners_release(struct owners *owners)
{
	void *nodes;

	table_for_each (&owners->by_uid, cursor, nodes)
		nodes_free(nodes);
	table_release(&owners->by_uid);
}

static struct table *nodes_add(struct owners *owners, const char *owner)
{
	struct table *nodes = malloc(sizeof(*nodes));

	if (!nodes)
		return NULL;
	table_init(nodes);
	if (table_set(&owners->by_uid, owner, nodes) < 0) {
		nodes_free(nodes);
		return NULL;
	}
	return nodes;
}

static void nodes_drop_if_empty(struct owners *owners, const char *owner, struct table *nodes)
{
	if (nodes->count)
		return;
	table_remove(&owners->by_uid, owner);
	nodes_free(nodes);
}

int owners_add(struct owners *owners, const char *owner, const char *node)
{
	struct table *nodes;

	if (!*owner)
		return 0;
	nodes = table_get(&owners->by_uid, owner);
	if (!nodes)
		nodes = nodes_add(owners, owner);
	if (!nodes)
		return -ENOMEM;
	if (table_set(nodes, node, (void *)(uintptr_t)(owners_count(nodes, node) + 1)) < 0) {
		nodes_drop_if_empty(owners, owner, nodes);
		return -ENOMEM;
	}
	return 0;
}

void owners_remove(struct owners *owners, const char *owner, const char *node)
{
	struct table *nodes = *owner ? table_get(&owners->by_uid, owner) : NULL;
	size_t count = owners_count(nodes, node);

	if (count > 1)
		table_set(nodes, node,
			(void *)(uintptr_t)(count - 1)); /* the entry exists, so this cannot fail */
	else if (count == 1)
		table_remove(nodes, node);
	if (nodes)
		nodes_drop_if_empty(owners, owner, nodes);
}

const struct table *owners_nodes(const struct owners *owners, const char *owner)
{
	return *owner ? table_get(&owners->by_uid, owner) : NULL;
}

size_t owners_count(const struct table *nodes, const char *node)
{
	return nodes ? (size_t)(uintptr_t)table_get(nodes, node) : 0;
}
