/* place.h - where the scheduler's core would place one pod. kube-scheduler's filters (kube-nodes.h) choose
 * the nodes, and core_filter() chooses among these, as in a call of kube-scheduler. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/placement.h"
#include "plan/kube-nodes.h"
#include "plan/manifest.h"

struct core;

/* The cluster in which a plan happens. The caller has made the core from a history (core/log/state.h). */
struct plan_world {
	struct core *core;
	struct kube_nodes *kube; /* NULL: no Node and Pod objects are known, so kube-scheduler's filters
				    accept each pod */
	int64_t now_ns;		 /* the moment of the core's state */
};

/* Why one node does not take the pod. */
struct plan_reason {
	char *node;
	bool by_kube; /* kube-scheduler's own filters reject the node */
	char text[KUBE_REASON_SIZE];
	char resource[80]; /* the resource of which there is too little; "": the reason is another one */
};

struct plan_outcome {
	bool placed;
	/* If it is placed. */
	char *node;
	struct placement placement;
	bool held; /* the pod is not bound before others of its gang have places, too (plan_try()) */
	/* If not: the reason of each node with GPUs, sorted by name, and what holds for all nodes. */
	char *text; /* NULL, or the sentence of the pod's ResourcePolicy or gang */
	struct plan_reason *reasons;
	size_t n_reasons;
	size_t n_without_gpus; /* nodes */
};
void plan_outcome_release(struct plan_outcome *outcome);
#define _cleanup_plan_outcome_ _cleanup_(plan_outcome_release)

/* plan_place() - kube-scheduler tries the pod now. If it fits, it is bound in the world, or held there for
 * its gang. Otherwise the world is as before. No other pod is evicted for it. -ENOMEM; -EIO with a sentence:
 * no GPU could be held. */
struct error;
int plan_place(
	struct plan_world *world, struct plan_pod *pod, struct plan_outcome *ret_outcome, struct error *err);

/* plan_show_bound() - tells the core that the API server shows the pod bound to this node, where its GPU is
 * held. -ENOMEM. */
int plan_show_bound(struct plan_world *world, struct plan_pod *pod, const char *node);

/* plan_gpu_index() - the index that the node shows for this GPU; -1: it has none. */
int plan_gpu_index(const struct plan_world *world, const char *node, const char *uuid);

/* plan_same_place() - the same node and the same GPUs. */
bool plan_same_place(const struct plan_outcome *a, const struct plan_outcome *b);

/* plan_could_evict() - whether pods of lower priority occupy GPUs, and this pod may preempt them. */
bool plan_could_evict(const struct plan_world *world, const struct pod_facts *pod);

/* A resource of which a pod found too little, and on how many nodes. */
struct plan_shortage {
	const char *resource;
	size_t nodes;
};
#define PLAN_SHORTAGES_MAX 8

/* plan_shortages() - the resources of which the pod finds too little, first the one that is short on most
 * nodes. Returns how many were written. */
size_t plan_shortages(
	const struct plan_outcome *outcome, struct plan_shortage ret_shortages[PLAN_SHORTAGES_MAX]);

/* ---- gangs.c: pods that may belong to gangs. As in the scheduler, the pods of a gang are bound when enough
 * of them have places; until then their GPUs are held. ---- */

/* The pods whose GPUs are held. */
struct plan_gangs {
	struct plan_gang_pod {
		struct plan_pod pod;
		struct plan_outcome *outcome; /* the caller's */
	} * list;
	size_t n;
};

/* plan_expect() - the pod has been created and waits. Call it for all pods that exist before the first of
 * them is tried: a gang counts its pods, and what waiting pods ask for decides which nodes are spared. The
 * back-off of its gang is over. -ENOMEM. */
int plan_expect(struct plan_world *world, struct plan_pod *pod);

/* plan_try() - like plan_place(), also for pods of gangs. If the pod's GPU is only held, *pod is taken over,
 * and *ret_outcome must stay valid until plan_gangs_end(), which may still change it. */
int plan_try(struct plan_world *world, struct plan_gangs *gangs, struct plan_pod *pod,
	struct plan_outcome *ret_outcome, struct error *err);

/* plan_gangs_end() - call it when all pods were tried: the held pods whose gang lacks others wait. Frees
 * gangs in any case. -ENOMEM. */
int plan_gangs_end(struct plan_world *world, struct plan_gangs *gangs);
