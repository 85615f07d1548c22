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

/* Problems that prevent sharing this node's GPUs, as sentences for users. The part that detects a problem
 * writes it; "" means that all is well. */
struct node_problems {
	char mode[512];		/* why the mode that the labels ask for is not served */
	char isolation[512];	/* why the mode in force, which is isolated, cannot be served */
	char unregistered[512]; /* why the kubelet does not have the devices that the mode in force offers */
	char other_plugin[800]; /* another device plugin offers the same GPUs */
	char device_loss[800];	/* containers will lose their GPUs when systemd reloads its units */
	char unknown_functions[512]; /* functions of the driver without a limit, in an isolated mode */
};

struct node_registry {
	const char *name; /* of the Node object; the caller's */
	char uid[64];	  /* of the Node object; "" before it was seen */

	struct inventory inventory;
	struct node_pods pods;
	bool pods_listed;    /* the API server has shown all pods of the node at least once */
	struct table claims; /* the ResourceClaims that are prepared: uid -> struct node_claim (claims.h) */
	struct served served;
	struct table spent; /* ids that the present kubelet still holds for ended pods */
	struct turn turn;   /* which pods had their turn at that kubelet */

	enum gpu_policy placement; /* by the node's label */
	enum gpu_mode labelled;	   /* what the node's labels ask for */
	struct terms asked;	   /* the same and the cluster's unit, as far as the cluster can do it */
	enum gpu_mode in_force;	   /* what is advertised to the kubelet; its unit is the inventory's */
	int64_t closed_since_ns;   /* see struct terms_change */
	bool open;		   /* the scheduler may place pods here */
	bool settled; /* the labels were seen, and with them the pods that may hold the old mode */
	bool serves;  /* set by node_registry_decide() */

	struct node_problems problems;
	bool watched; /* the kubelet has the agent's devices of each offered resource */
	bool leaving; /* the planned end of the agent has begun */

	bool saved; /* the state file contains all of this */
};

void node_registry_init(struct node_registry *node, const char *name);
void node_registry_release(struct node_registry *node);

/* node_registry_in_force() - the mode and unit under which pods are served. */
struct terms node_registry_in_force(const struct node_registry *node);

/* node_pod_holds() - the pod has, or will get, devices: it asks for a GPU and has not ended. */
bool node_pod_holds(const struct pod_facts *pod);

/* node_registry_count_holders() - the number of such pods, of claims that are prepared, and in the mode dra
 * of pods whose claims may be about to be. node_registry_holder() - one of the pods with devices, or NULL. */
size_t node_registry_count_holders(const struct node_registry *node);
const struct pod_facts *node_registry_holder(const struct node_registry *node);

/* node_registry_decide() - sets `serves`. It is true if the mode in force has device plugins and the node can
 * do what the mode promises, or if it no longer can but pods hold units. n_orphans: pods that are gone from
 * the API server while their containers may run. */
void node_registry_decide(struct node_registry *node, size_t n_orphans);

/* node_registry_offers() - the mode in force has this resource, and the node serves it. */
bool node_registry_offers(const struct node_registry *node, enum ids_of of);
