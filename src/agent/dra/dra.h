/* dra.h - Dynamic Resource Allocation on this node: in the mode dra the agent publishes its GPUs as devices
 * of a ResourceSlice, and prepares the ResourceClaims that kube-scheduler has allocated on them. */
#pragma once

#include <stdbool.h>

struct dra;
struct events;
struct kube_client;
struct loop;
struct node_registry;
struct runtime;

#define DRA_SOCKET "dra.sock" /* in KUBELET/plugins/gpu.ration.dev */

/* What the folder needs from other parts. All of it must outlive the struct dra. */
struct dra_deps {
	struct loop *loop;
	struct kube_client *client;
	struct node_registry *node; /* its mode that is asked for, and problems, are written here */
	const struct events *events;
	struct runtime *runtime;
	const char *kubelet_dir; /* of the kubelet: "/var/lib/kubelet" */
	void (*changed)(void *userdata);
	void *userdata;
};

int dra_new(const struct dra_deps *deps, struct dra **ret_dra);
void dra_free(struct dra *dra); /* accepts NULL */

/* dra_follow_label() - what the node's label asks for becomes the mode that is asked for; but the mode dra
 * only when the API server can do what claims need. Until that is known, and where it cannot, the mode in
 * force stays; the node's problem `mode` and an Event say why. */
void dra_follow_label(struct dra *dra);

/* dra_offer() - offers the node's GPUs to claims, or withdraws them, and checks whether the kubelet knows the
 * driver; sets the node's `watched` and its problem `unregistered` while the mode is dra. ready: what the
 * node's GPUs are, and which are faulty, is known. Call it at least once a second. */
void dra_offer(struct dra *dra, bool ready);

/* dra_is_offered() - the API server shows GPUs of this node to kube-scheduler. */
bool dra_is_offered(const struct dra *dra);
