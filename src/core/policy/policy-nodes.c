/* policy-nodes.c - the nodes, with the labels by which ResourcePolicies select them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/policy/policy-book.h"

#define LABEL_TYPE "type"
#define TYPE_VIRTUAL "virtual-kubelet"

void policy_nodes_init(struct policy_nodes *nodes)
{
	table_init(&nodes->by_name);
	nodes->generation = 1;
}

static void node_free(struct policy_node *node)
{
	if (node)
		free(node->labels);
	free(node);
}

void policy_nodes_release(struct policy_nodes *nodes)
{
	struct policy_node *node;

	table_for_each (&nodes->by_name, cursor, node)
		node_free(node);
	table_release(&nodes->by_name);
}

static struct policy_node *node_new(const char *name, const char *labels)
{
	struct policy_node *node = calloc(1, sizeof(*node) + strlen(name) + 1);

	if (!node)
		return NULL;
	strcpy(node->name, name);
	node->is_virtual = labels_have(labels, LABEL_TYPE, TYPE_VIRTUAL);
	node->labels = labels ? strdup(labels) : NULL;
	if (labels && !node->labels) {
		free(node);
		return NULL;
	}
	return node;
}

/* Most events of a node change only its status. */
int policy_nodes_set(struct policy_nodes *nodes, const char *name, const char *labels)
{
	struct policy_node *old = table_get(&nodes->by_name, name), *node;

	if (old && strcmp(old->labels ? old->labels : "", labels ? labels : "") == 0)
		return 0;
	node = node_new(name, labels);
	if (!node || table_set(&nodes->by_name, name, node) < 0) {
		node_free(node);
		return -ENOMEM;
	}
	node_free(old);
	nodes->generation++;
	return 0;
}

void policy_nodes_remove(struct policy_nodes *nodes, const char *name)
{
	struct policy_node *node = table_remove(&nodes->by_name, name);

	if (node)
		nodes->generation++;
	node_free(node);
}
