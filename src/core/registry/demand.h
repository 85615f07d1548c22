/* demand.h - how much of each GPU model is asked for by pods that can use only some models, and how many GPUs
 * by pods that need most GPUs of a node. Running sums over the nodes and pods of the ledger: equal nodes and
 * pods have equal sums, in whatever order they were seen.
 *
 * A change of a node is compared with each distinct list of models, and users can create many lists. While
 * pods name more than DEMAND_CHOICES_MAX distinct lists, no model is scarce. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "model/facts.h"
#include "model/request.h"

#define DEMAND_CHOICES_MAX 128

/* What pods ask for. A pod with a percentage asks for memory, too. */
struct gpu_want {
	uint64_t mib;	/* of GPU memory */
	uint64_t core;	/* percent of a GPU */
	uint64_t whole; /* GPUs */
};

struct gpu_supply {
	uint64_t gpus, mib;
};

/* GPUs that nodes have under the same names. */
struct gpu_model {
	const char *names; /* as in struct node_facts; the key in demand.models */
	size_t n_nodes;
	struct gpu_supply supply;
	uint64_t asked; /* the sum of gpu_choice.asked over the choices that this model belongs to */
};

/* Pods that name the same models. */
struct gpu_choice {
	const char *names; /* as in struct pod_facts; the key in demand.choices */
	size_t n_pods;
	struct gpu_want want;
	/* Both are 0 while demand.choices has more than DEMAND_CHOICES_MAX entries. */
	struct gpu_supply supply; /* of all models that these pods can use */
	uint64_t asked;		  /* the part of the supply that they ask for, in millionths */
};

struct demand {
	struct table models;  /* names -> struct gpu_model */
	struct table choices; /* names -> struct gpu_choice */
	struct gpu_want want; /* of all pods, whether they name models or not */
	struct gpu_supply supply;
	struct gpu_want together[REQUEST_GPUS_MAX + 1]; /* [n]: of the pods that take n GPUs at once */
	struct gpu_supply on_nodes[NODE_GPUS_MAX + 1];	/* [n]: of the nodes that have n */
};

/* What one pod adds to the sums; in struct ledger_pod. */
struct pod_demand {
	struct gpu_choice *choice; /* NULL: the pod names no model */
	uint32_t mib;
	uint16_t core, whole;
	uint16_t gpus; /* the number of GPUs that it is divided over */
};

void demand_init(struct demand *demand);
void demand_release(struct demand *demand);

/* demand_name() - from now on the pod can use the models that `names` says, NULL for all. Its amounts stay.
 * -ENOMEM: nothing changed. demand_set() - the pod asks for what these facts say: nothing if it has finished.
 * demand_remove() - the pod is gone. */
int demand_name(struct demand *demand, struct pod_demand *pod, const char *names);
void demand_set(struct demand *demand, struct pod_demand *pod, const struct pod_facts *facts);
void demand_remove(struct demand *demand, struct pod_demand *pod);

/* demand_enter() - a node has these GPUs under these names (NULL: its model is unknown, *ret_model is NULL).
 * -ENOMEM: nothing changed. demand_leave() - it has them no more. */
int demand_enter(
	struct demand *demand, const char *names, struct gpu_supply supply, struct gpu_model **ret_model);
void demand_leave(struct demand *demand, struct gpu_model *model, struct gpu_supply supply);

/* demand_scarcity() - in thousandths, at most SCARCITY_MAX. Of all GPUs that pods ask for, the part that is
 * asked for by pods which can use only this model, divided by the model's part of all GPUs. A choice of
 * several models counts for each of them in proportion to its GPUs. Pods that ask for more than all GPUs that
 * they can use count as if they asked for all of these. own: the pod that is placed, whose request does not
 * count; NULL if the demand does not have it. */
#define SCARCITY_MAX 2000
uint32_t demand_scarcity(
	const struct demand *demand, const struct pod_demand *own, const struct gpu_model *model);

/* demand_node_scarcity() - how scarce nodes with this number of GPUs are while all of these are free, in
 * thousandths. Of all GPUs that pods ask for, the part that is asked for by pods which take more than half of
 * the GPUs of such a node at once, divided by the part of all GPUs that these nodes have. At most 1000: such
 * pods alone would fill the nodes. own: as above. */
#define NODE_SCARCITY_MAX 1000
uint32_t demand_node_scarcity(const struct demand *demand, const struct pod_demand *own, size_t gpus);

/* demand_equal() - all sums are the same. */
bool demand_equal(const struct demand *a, const struct demand *b);
