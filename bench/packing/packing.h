/* packing.h - how full a cluster gets: a list of pods arrives in random order, and each policy places them on
 * the same nodes. One GPU is 1,000 milli. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/placement/node-order.h"
#include "core/registry/registry.h"

#define GPU_MILLI 1000
#define PACKING_GPUS_MAX 16
#define PACKING_MODELS_MAX 32
#define PACKING_NAME_SIZE 40
#define PACKING_UID_SIZE 32

/* What a pod asks for; pods that ask for the same are of one kind. */
struct packing_pod {
	uint32_t cpu_milli, memory_mib;
	uint32_t gpus;	    /* 0: none */
	uint32_t gpu_milli; /* of each */
	uint32_t models;    /* those that it can use, one bit each; 0: all */
	uint32_t kind;
};

struct packing_node {
	char name[PACKING_NAME_SIZE];
	uint32_t cpu_milli, memory_mib; /* allocatable */
	uint32_t gpus;
	uint32_t model;
	uint32_t cpu_left, memory_left;
	uint32_t gpu_left[PACKING_GPUS_MAX];
	uint32_t left;	  /* on all GPUs */
	uint32_t version; /* grows with each change */
};

struct packing_trace {
	struct packing_node *nodes; /* empty */
	size_t n_nodes;
	struct packing_pod *pods;
	size_t n_pods;
	struct packing_pod *kinds;
	uint32_t *counts; /* pods of each kind */
	size_t n_kinds;
	char models[PACKING_MODELS_MAX][PACKING_NAME_SIZE];
	size_t n_models;
	uint64_t gpu_milli; /* of the cluster */
};

/* ---- trace.c, generate.c ---- */

/* packing_read() - node and pod lists as CSV. The head line names the columns, in any order and among others:
 * cpu_milli, memory_mib, gpu and model; cpu_milli, memory_mib, num_gpu, gpu_milli and gpu_spec (models with
 * "|" between them). Ends the program, with file, line and reason, where a file is not one. */
void packing_read(struct packing_trace *trace, const char *nodes, const char *pods);

/* packing_generate() - a cluster of n_nodes nodes, and pods that ask for about all its GPUs, by the published
 * shares of node types and kinds of pods. */
void packing_generate(struct packing_trace *trace, size_t n_nodes, uint64_t seed);

/* packing_add_node(), packing_add_pod() - for those two. packing_finish() - after the last one. */
void packing_add_node(struct packing_trace *trace, const struct packing_node *node);
void packing_add_pod(struct packing_trace *trace, struct packing_pod pod);
uint32_t packing_model(struct packing_trace *trace, const char *name);
void packing_finish(struct packing_trace *trace);
void packing_release(struct packing_trace *trace);

/* packing_arrivals() - all pods of the list in random order, then pods drawn from the list, until they ask
 * for `percent` of the cluster's GPUs. malloc'ed. */
struct packing_pod *packing_arrivals(
	const struct packing_trace *trace, uint64_t seed, unsigned percent, size_t *ret_n);

/* packing_random() - splitmix64: the same numbers on each machine. */
uint64_t packing_random(uint64_t *state);

/* ---- cluster.c ---- */

struct packing_cluster {
	const struct packing_trace *trace;
	struct packing_node *nodes;
	uint64_t random;
	/* GPU milli asked for by all pods that arrived, and by those of them that name models: a part for
	 * each of these models, by its GPUs. */
	double asked, asked_of[PACKING_MODELS_MAX];
	double gpus_of[PACKING_MODELS_MAX];
	/* By a number N: GPU milli asked for by the pods for N whole GPUs, and GPUs of the nodes that have N.
	 */
	double asked_together[PACKING_GPUS_MAX + 1], gpus_on[PACKING_GPUS_MAX + 1];
};

void packing_empty(struct packing_cluster *cluster, const struct packing_trace *trace, uint64_t seed);
void packing_note_arrival(struct packing_cluster *cluster, const struct packing_pod *pod);
/* packing_host_fits() - what kube-scheduler knows: CPU, memory and the model. packing_fits() - GPUs, too. */
bool packing_host_fits(const struct packing_node *node, const struct packing_pod *pod);
bool packing_fits(const struct packing_node *node, const struct packing_pod *pod);

/* packing_place() - gpu: which one, of a pod that takes one GPU or a part; others take the first ones that
 * have room. packing_remove() - the reverse of packing_place(); gpus: what it returned. */
uint32_t packing_place(struct packing_node *node, const struct packing_pod *pod, int gpu);
void packing_remove(struct packing_node *node, const struct packing_pod *pod, uint32_t gpus);

/* packing_kube_choose() - where kube-scheduler puts a pod that asks for no GPU: NodeResourcesFit
 * (LeastAllocated) and NodeResourcesBalancedAllocation with equal weights, its defaults (1.36), and the
 * extender's scores for each node. -1: nowhere. */
int packing_kube_choose(
	const struct packing_cluster *cluster, const struct packing_pod *pod, const int *scores);

/* packing_fullest_gpu(), packing_emptiest_gpu() - of those that have room for the pod; the first of equal
 * ones; -1: none. */
int packing_fullest_gpu(const struct packing_node *node, const struct packing_pod *pod);
int packing_emptiest_gpu(const struct packing_node *node, const struct packing_pod *pod);

/* ---- policies.c, fgd.c ---- */

struct fgd_population;
struct packing_core;
struct packing_state;

struct packing_policy {
	const char *name;
	/* The pod on this node, where it fits: more is better. *ret_gpu: the GPU of the node. NULL: any node.
	 */
	double (*score)(const struct packing_state *state, const struct packing_node *node,
		const struct packing_pod *pod, int *ret_gpu);
	bool lasting; /* the score stays while the node does */
	/* The decision of src/core on nodes with this label, with kube-scheduler for pods without a GPU. */
	bool core;
	enum gpu_policy label;
	enum node_order order;
};

/* A replay, pod by pod. */
struct packing_state {
	struct packing_cluster cluster;
	const struct packing_policy *policy;
	uint32_t largest_cpu, largest_gpus; /* that a node of the cluster has */
	struct host_sum mean;		    /* behind one GPU, in the whole cluster */
	struct gpu_mean mean_now;	    /* what is left counts, too */
	uint32_t taken;			    /* of all GPUs, in thousandths */
	const struct fgd_population *fgd;
	struct packing_core *core;
	/* By kind of pod and node: the score, of which version of the node, and the GPU. */
	float *scores;
	uint32_t *versions;
	int8_t *gpus;
};

extern const struct packing_policy packing_policies[];
extern const size_t packing_n_policies;

void packing_begin(struct packing_state *state, const struct packing_trace *trace,
	const struct packing_policy *policy, const struct fgd_population *fgd, uint64_t seed);
void packing_end(struct packing_state *state);

/* packing_choose() - the node for the pod, and its GPU; -1: none has room. The first of equally good ones. */
int packing_choose(struct packing_state *state, const struct packing_pod *pod, int *ret_gpu,
	char ret_uid[PACKING_UID_SIZE]);

/* ---- core.c ---- */

struct packing_core *packing_core_begin(
	const struct packing_trace *trace, enum gpu_policy label, enum node_order order);
void packing_core_end(struct packing_core *core);

/* packing_core_choose() - the pod is placed in the core; the caller follows in the cluster. ret_uid: the
 * pod's, for packing_core_remove(). */
int packing_core_choose(struct packing_core *core, const struct packing_cluster *cluster,
	const struct packing_pod *pod, char ret_uid[PACKING_UID_SIZE], int *ret_gpu);
void packing_core_remove(struct packing_core *core, const char *uid);
struct core *packing_core_of(struct packing_core *core);

/* FGD, by "Beware of Fragmentation" (USENIX ATC 2023): the pods of the list are the workload whose expected
 * fragmentation grows least. */
struct fgd_population *fgd_learn(const struct packing_trace *trace);
void fgd_free(struct fgd_population *population);
double fgd_score(const struct packing_state *state, const struct packing_node *node,
	const struct packing_pod *pod, int *ret_gpu);
/* fgd_stranded() - the expected fragmentation of a node, in GPU milli. */
double fgd_stranded(const struct fgd_population *population, const struct packing_node *node);

/* ---- churn.c, moves.c ---- */

struct packing_running {
	double ends;
	struct packing_pod pod;
	int node;
	uint32_t gpus;
	char uid[PACKING_UID_SIZE];
};

/* packing_churn() - pods of the list arrive at random times, run for a random time and go; those that find no
 * room are lost. Prints a line for each hour of virtual time. moves: then a line for packing_moves() with a
 * policy that is the scheduler's own code; 0: none. */
void packing_churn(const struct packing_trace *trace, const struct packing_policy *policy,
	const struct fgd_population *fgd, uint64_t seed, unsigned hours, size_t moves);

/* packing_moves() - prints how many whole GPUs a plan of at most `max` moves makes free. No pod waits, and
 * all pods may be moved. The core is as after the moves. */
void packing_moves(struct packing_state *state, const struct packing_running *running, size_t n, size_t max,
	uint64_t seed);
