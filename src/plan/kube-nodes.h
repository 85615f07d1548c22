/* kube-nodes.h - the nodes as kube-scheduler's own filters see them, and whether these filters accept a pod.
 * ration decides only among the nodes that are left. Pure.
 *
 * The filters are those of kube-scheduler 1.36 by default: NodeUnschedulable, TaintToleration, NodeAffinity
 * (with nodeSelector) and NodeResourcesFit. plan_unconsidered() (manifest.h) names what is not computed here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "plan/quantities.h"

struct json_object;

struct kube_node {
	char *name;
	struct json_object *labels, *taints;
	bool unschedulable; /* cordoned */
	struct quantities allocatable, requested;
	int64_t pods, pods_max;
};

struct kube_nodes {
	struct table by_name;	/* name -> struct kube_node */
	struct table pods_seen; /* uid of each pod that counts */
	/* "NAMESPACE/KIND/NAME" of a controller -> its uid (malloc'ed), by the pods that were seen. */
	struct table controllers;
};

void kube_nodes_init(struct kube_nodes *nodes);
void kube_nodes_release(struct kube_nodes *nodes);

/* kube_nodes_see_node() - a Node object. kube_nodes_see_pod() - a Pod object; it counts if it is bound, has
 * not ended and was not seen before. Call it after the nodes. -EINVAL: an object without a name, or without a
 * uid; -ENOMEM; -E2BIG: more resources than QUANTITIES_MAX. */
int kube_nodes_see_node(struct kube_nodes *nodes, struct json_object *node);
int kube_nodes_see_pod(struct kube_nodes *nodes, struct json_object *pod);

struct kube_node *kube_nodes_find(const struct kube_nodes *nodes, const char *name);

/* kube_nodes_place(), kube_nodes_remove() - adds or removes the requests of a pod on the node. -ENOMEM,
 * -E2BIG; -ENOENT: there is no such node. */
int kube_nodes_place(struct kube_nodes *nodes, const char *name, const struct quantities *requests);
int kube_nodes_remove(struct kube_nodes *nodes, const char *name, const struct quantities *requests);

/* kube_nodes_controller() - the uid of the controller of this kind and name, if a pod of it was seen; else
 * NULL. For a Deployment, that is its newest ReplicaSet with pods. */
const char *kube_nodes_controller(
	const struct kube_nodes *nodes, const char *namespace_, const char *kind, const char *name);

#define KUBE_REASON_SIZE 160

/* kube_node_admits() - applies the filters that depend on the manifest alone. kube_node_has_room() - compares
 * CPU, memory and all other resources. If a filter rejects the pod, ret_reason has the reason of the first
 * one, in kube-scheduler's words. *ret_resource: the resource of which there is too little, "pods" for the
 * number of pods, or NULL. */
bool kube_node_admits(const struct kube_node *node, struct json_object *pod, char *ret_reason);
bool kube_node_has_room(const struct kube_node *node, const struct quantities *requests, char *ret_reason,
	const char **ret_resource);
