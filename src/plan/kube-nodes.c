#include "plan/kube-nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "kube/json.h"

#define CONTROLLER_KEY_SIZE 640

static void kube_node_free(struct kube_node *node)
{
	if (!node)
		return;
	free(node->name);
	json_object_put(node->labels);
	json_object_put(node->taints);
	quantities_release(&node->allocatable);
	quantities_release(&node->requested);
	free(node);
}

static void kube_node_free_ptr(struct kube_node **node)
{
	kube_node_free(*node);
}

void kube_nodes_init(struct kube_nodes *nodes)
{
	*nodes = (struct kube_nodes){0};
	table_init(&nodes->by_name);
	table_init(&nodes->pods_seen);
	table_init(&nodes->controllers);
}

void kube_nodes_release(struct kube_nodes *nodes)
{
	struct kube_node *node;
	char *uid;

	table_for_each (&nodes->by_name, cursor, node)
		kube_node_free(node);
	table_for_each (&nodes->controllers, cursor, uid)
		free(uid);
	table_release(&nodes->by_name);
	table_release(&nodes->pods_seen);
	table_release(&nodes->controllers);
}

int kube_nodes_see_node(struct kube_nodes *nodes, struct json_object *object)
{
	_cleanup_(kube_node_free_ptr) struct kube_node *node = calloc(1, sizeof(*node));
	struct json_object *metadata = json_member(object, "metadata"), *spec = json_member(object, "spec");
	const char *name = json_member_string(metadata, "name");
	struct kube_node *before;
	int r;

	if (!node)
		return -ENOMEM;
	if (!name)
		return -EINVAL;
	node->name = strdup(name);
	node->labels = json_object_get(json_member(metadata, "labels"));
	node->taints = json_object_get(json_member(spec, "taints"));
	node->unschedulable = json_object_get_boolean(json_member(spec, "unschedulable"));
	r = quantities_read(&node->allocatable, json_member(json_member(object, "status"), "allocatable"));
	if (r < 0 || !node->name)
		return r < 0 ? r : -ENOMEM;
	node->pods_max = quantities_get(&node->allocatable, "pods") / 1000;
	before = kube_nodes_find(nodes, name);
	if (table_set(&nodes->by_name, name, node) < 0)
		return -ENOMEM;
	kube_node_free(before);
	TAKE_PTR(node);
	return 0;
}

struct kube_node *kube_nodes_find(const struct kube_nodes *nodes, const char *name)
{
	return table_get(&nodes->by_name, name);
}

/* Only a ReplicaSet that a Deployment made has the name of its Deployment and a hash. */
static size_t without_hash(const char *kind, const char *name)
{
	const char *dash = strrchr(name, '-');

	return strcmp(kind, "ReplicaSet") == 0 && dash ? (size_t)(dash - name) : 0;
}

static int note_controller(struct kube_nodes *nodes, const char *namespace_, const char *kind,
	const char *name, size_t len, const char *uid)
{
	char key[CONTROLLER_KEY_SIZE], *copy, *before;
	int n = snprintf(key, sizeof(key), "%s/%s/%.*s", namespace_, kind, (int)len, name);

	if (n < 0 || (size_t)n >= sizeof(key))
		return 0;
	copy = strdup(uid);
	before = table_get(&nodes->controllers, key);
	if (!copy || table_set(&nodes->controllers, key, copy) < 0) {
		free(copy);
		return -ENOMEM;
	}
	free(before);
	return 0;
}

static int see_controller(struct kube_nodes *nodes, struct json_object *metadata)
{
	struct json_object *owners = json_member(metadata, "ownerReferences");
	size_t n = json_count(owners);
	const char *namespace_ = json_member_string(metadata, "namespace");

	for (size_t i = 0; i < n && namespace_; i++) {
		struct json_object *owner = json_item(owners, i);
		const char *kind = json_member_string(owner, "kind"),
			   *name = json_member_string(owner, "name"), *uid = json_member_string(owner, "uid");
		size_t hash;

		if (!json_object_get_boolean(json_member(owner, "controller")) || !kind || !name || !uid)
			continue;
		hash = without_hash(kind, name);
		if (note_controller(nodes, namespace_, kind, name, strlen(name), uid) < 0 ||
			(hash && note_controller(nodes, namespace_, "Deployment", name, hash, uid) < 0))
			return -ENOMEM;
	}
	return 0;
}

int kube_nodes_see_pod(struct kube_nodes *nodes, struct json_object *pod)
{
	_cleanup_quantities_ struct quantities requests = {0};
	struct json_object *metadata = json_member(pod, "metadata");
	const char *uid = json_member_string(metadata, "uid"),
		   *node = json_member_string(json_member(pod, "spec"), "nodeName"),
		   *phase = json_member_string(json_member(pod, "status"), "phase");
	int r;

	if (!uid)
		return -EINVAL;
	if (see_controller(nodes, metadata) < 0)
		return -ENOMEM;
	if (!node || !*node || table_get(&nodes->pods_seen, uid) ||
		(phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0)))
		return 0;
	r = quantities_of_pod(pod, &requests);
	if (r == 0)
		r = kube_nodes_place(nodes, node, &requests);
	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : table_set(&nodes->pods_seen, uid, nodes);
}

int kube_nodes_place(struct kube_nodes *nodes, const char *name, const struct quantities *requests)
{
	struct kube_node *node = kube_nodes_find(nodes, name);
	int r = node ? quantities_add(&node->requested, requests, 1) : -ENOENT;

	if (r == 0)
		node->pods++;
	return r;
}

int kube_nodes_remove(struct kube_nodes *nodes, const char *name, const struct quantities *requests)
{
	struct kube_node *node = kube_nodes_find(nodes, name);
	int r = node ? quantities_add(&node->requested, requests, -1) : -ENOENT;

	if (r == 0)
		node->pods--;
	return r;
}

const char *kube_nodes_controller(
	const struct kube_nodes *nodes, const char *namespace_, const char *kind, const char *name)
{
	char key[CONTROLLER_KEY_SIZE];
	int n = snprintf(key, sizeof(key), "%s/%s/%s", namespace_, kind, name);

	return n < 0 || (size_t)n >= sizeof(key) ? NULL : table_get(&nodes->controllers, key);
}
