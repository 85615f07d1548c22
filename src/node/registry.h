/* registry.h - what the agent knows of its node: the GPUs, the pods, which container has which device ids,
 * and under which mode and unit pods are served. The agent's folders put in what they have seen and read what
 * they need. Pure: no I/O, no clock. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "node/ids.h"
#include "node/inventory.h"
#include "node/pods.h"
#include "node/served.h"
#include "node/terms.h"
#include "node/turn.h"

/* What stands in the way of sharing this node's GPUs: sentences for people, each written by the part that
 * finds it out; "" where all is well. */
struct node_problems {
	char mode[512];		/* why what the labels ask for is not served */
	char isolation[512];	/* why the mode in force, which is isolated, cannot be served */
	char unregistered[512]; /* why the kubelet does not have the devices that the mode in force offers */
	char other_plugin[800]; /* another device plugin offers the same GPUs */
	char device_loss[800];	/* containers will lose their GPUs when systemd loads its units anew */
	char unknown_functions[512]; /* functions of the driver that no limit holds, of an isolated mode */
};

struct node_registry {
	const char *name; /* of the Node object; the caller's */
	char uid[64];	  /* of the Node object; "" before it was seen */

	struct inventory inventory;
	struct node_pods pods;
	bool pods_listed; /* the API server has shown all pods of the node, once at least */
	struct served served;
	struct table spent; /* ids that the kubelet we are registered at holds for pods that are over */
	struct turn turn;   /* whose turn it is at that kubelet */

	struct terms asked;	 /* by the node's labels and the cluster's unit */
	enum gpu_mode in_force;	 /* what is advertised to the kubelet; its unit is the inventory's */
	int64_t closed_since_ns; /* struct terms_change */
	bool open;		 /* the scheduler may place pods here */
	bool settled;		 /* the labels were seen, and with them the pods that may hold the old mode */
	bool serves;		 /* node_registry_decide() */

	struct node_problems problems;
	bool watched; /* the kubelet has our devices of every resource that is offered */
	bool leaving; /* the planned exit has begun */

	bool saved; /* the state file says what is here */
};

void node_registry_init(struct node_registry *node, const char *name);
void node_registry_release(struct node_registry *node);

/* node_registry_in_force() - what pods are served under. */
struct terms node_registry_in_force(const struct node_registry *node);

/* node_pod_holds() - the pod has, or will have, devices: it asks for a GPU and is not over. */
bool node_pod_holds(const struct pod_facts *pod);

/* node_registry_count_holders() - the pods of which that is so. node_registry_holder() - one of them, or
 * NULL.
 */
size_t node_registry_count_holders(const struct node_registry *node);
const struct pod_facts *node_registry_holder(const struct node_registry *node);

/* node_registry_decide() - sets `serves`: the mode in force has device plugins, and the node can do what the
 * mode promises; or cannot any more, but pods hold units. n_orphans: pods that the API server has forgotten
 * while their containers may run. */
void node_registry_decide(struct node_registry *node, size_t n_orphans);

/* node_registry_offers() - the mode in force has this resource, and the node serves. */
bool node_registry_offers(const struct node_registry *node, enum ids_of of);
