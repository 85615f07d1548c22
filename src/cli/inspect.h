/* inspect.h - how much of which GPU is promised to which pod, as kubectl-inspect-cgpu shows it. Pure, except
 * for inspect_fetch(): nodes and pods in, sums out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "model/facts.h"

struct claims;
struct error;
struct kubectl;
struct strbuf;
struct warnings;

struct inspect_gpu {
	int column;		  /* in the table: the GPU's index */
	char uuid[GPU_UUID_SIZE]; /* "" if the node publishes no inventory */
	char model[64];
	bool healthy;
	char *reason; /* why it is not healthy, NULL if unknown */
	uint64_t mib; /* 0 if the node publishes no inventory */
	uint32_t total;
	uint64_t allocated;
	uint64_t claimed; /* bytes that are allocated to ResourceClaims; they are part of `allocated` */
	struct link links[NODE_GPUS_MAX]; /* by position; for topology nodes */
};

/* A share of a GPU that a pod has by a ResourceClaim. */
struct inspect_claim {
	char *name;
	char *request;
	int column; /* -1: the node does not have the device */
	uint64_t memory;
	uint32_t cores;
};

/* A pod; or a ResourceClaim to which a GPU is allocated while no pod uses it. */
struct inspect_pod {
	char *namespace_;
	char *name;
	char *uid;		       /* of a pod with claims; else NULL */
	uint32_t units[NODE_GPUS_MAX]; /* by column */
	uint32_t pending;	       /* bound to this node, but on no known GPU */
	uint32_t core;		       /* percent of one GPU's computing power; 0: not asked for */
	bool orphan;		       /* the pod was deleted by force, and its containers still run */
	bool shares_claim;	       /* other pods use the same claim, and have the same units */
	bool is_claim;
	struct inspect_claim *claims;
	size_t n_claims;
};

/* A pod that asks for GPUs and is not bound. */
struct inspect_waiting {
	char *namespace_;
	char *name;
	uint32_t units; /* whole GPUs if `whole` */
	uint32_t gpus;	/* how many GPUs of one node, each with an equal part of the units */
	uint32_t core;
	bool whole;
	char *claims;	 /* it waits for ResourceClaims: "a, b"; else NULL */
	uint64_t memory; /* what the claims ask for on each GPU, in bytes; 0: whole GPUs */
};

struct inspect_node {
	char *name;
	char *address; /* "unknown" if the node has no InternalIP */
	enum gpu_mode mode;
	bool changing;	    /* its mode or unit will change when its last GPU pod has ended */
	bool unschedulable; /* no new pod is bound to it (`kubectl cordon`) */
	bool mixing;	    /* core_mem: pods with and without a percentage may be there at once */
	uint32_t unit_mib;
	struct inspect_gpu *gpus; /* by column */
	size_t n_gpus;
	size_t n_columns; /* highest column + 1 */
	struct held held; /* pods whose containers outlive them, from the node's agent */
	struct inspect_pod *pods;
	size_t n_pods;
	uint64_t total;
	uint64_t allocated; /* including pending units */
	uint64_t pending;
};

struct inspect {
	bool topology;		     /* shows nodes that give whole GPUs, instead of those that share them */
	bool everything;	     /* shows nodes of both kinds, and pods that wait */
	struct inspect_node **nodes; /* by name after inspect_finish() */
	size_t n_nodes;
	struct inspect_waiting
		*waiting; /* by namespace and name after inspect_finish(); only with `everything` */
	size_t n_waiting;
	struct table by_name; /* the node's name, not made printable -> struct inspect_node */
	struct table listed;  /* uids of the pods that were added to nodes with a non-empty `held` */
};

/* What a node reports besides its facts; 0 if it does not. */
struct node_capacity {
	int64_t gpu_mem; /* allocatable, in units */
	int64_t gpu_count;
	bool unschedulable;
};

/* Where the annotations of other tools place a pod: units by GPU index. */
struct older_placement {
	uint32_t units[NODE_GPUS_MAX];
};

void inspect_init(struct inspect *inspect);
void inspect_release(struct inspect *inspect); /* accepts NULL */
#define _cleanup_inspect_ _cleanup_(inspect_release)

/* inspect_add_node() - nodes that share no GPU memory (or, with topology, give no whole GPUs) are left out,
 * and so is a second node with the same name. The GPUs are those of the inventory. Without one, gpu-mem
 * counts as spread equally over gpu-count GPUs. Texts are copied, with '?' for everything that could disturb
 * a terminal. */
int inspect_add_node(
	struct inspect *inspect, const struct node_facts *facts, const struct node_capacity *capacity);

/* inspect_add_pod() - call it after all nodes are added. Pods that are not bound to a listed node (with
 * `everything`: to a node), have finished or ask for nothing are left out. A pod's GPUs are those of
 * facts->placement, else those of `older` (may be NULL). Without either, the pod is pending. A part on a GPU
 * that the node does not have is pending, too. */
int inspect_add_pod(
	struct inspect *inspect, const struct pod_facts *facts, const struct older_placement *older);

/* inspect_add_claims() - adds the pods that use ResourceClaims, and claims that no pod uses. Call it after
 * all nodes and pods are added, before inspect_finish(). `claims` is finished. */
int inspect_add_claims(struct inspect *inspect, const struct claims *claims);

/* inspect_add_waiting() - a pod that is not bound; the struct's texts are copied, with '?' as above. -ENOMEM.
 */
int inspect_add_waiting(struct inspect *inspect, const struct inspect_waiting *waiting);

/* inspect_finish() - adds the orphans: pods that their node's agent lists as held and that were not passed to
 * inspect_add_pod(). Then sorts nodes by name, and their pods by GPU, namespace and name. */
int inspect_finish(struct inspect *inspect);

/* inspect_gpu_in_column() - NULL if the node has no GPU in this column. */
const struct inspect_gpu *inspect_gpu_in_column(const struct inspect_node *node, int column);

size_t inspect_columns(const struct inspect *inspect);
bool inspect_has_pending(const struct inspect *inspect);
void inspect_totals(const struct inspect *inspect, uint64_t *ret_allocated, uint64_t *ret_total);

/* percent_of() - truncated; 0 of 0 is 0. */
uint64_t percent_of(uint64_t part, uint64_t whole);

/* inspect_unit_text() - "GiB", "128MiB", or "units" if nodes differ. Returns buf. */
const char *inspect_unit_text(const struct inspect *inspect, char *buf, size_t size);

/* unit_text() - of one unit: "GiB" or "128MiB". Returns buf. */
const char *unit_text(uint32_t unit_mib, char *buf, size_t size);

/* inspect_fetch() - fetches everything, in pages, through kubectl; node NULL for all nodes. inspect must be
 * empty. warnings: NULL, or for malformed objects. */
int inspect_fetch(struct inspect *inspect, const struct kubectl *kubectl, const char *node,
	struct warnings *warnings, struct error *err);

/* ---- the output formats: each function adds to `out` and returns 0, -ENOMEM or -EMSGSIZE ---- */

/* The mark after the name of a pod that was deleted while its containers still run. Names of pods have no
 * parentheses. The mark is one word, for scripts that split lines at blanks. */
#define ORPHAN_MARK "(orphan)"

/* The marks of a pod that shares its ResourceClaim with other pods, and of a claim that no pod uses. */
#define SHARED_MARK "(shared)"
#define CLAIM_MARK "(claim)"

/* One line per node, then the sum. `wide` adds mode, unit, GPU models and health. */
int inspect_summary(const struct inspect *inspect, bool wide, struct strbuf *out);

/* One table of pods per node, then the sum (-d). */
int inspect_details(const struct inspect *inspect, struct strbuf *out);

/* For topology nodes: how the GPUs are connected, as nvidia-smi topo -m shows it, and which pod has which. */
int inspect_topology(const struct inspect *inspect, struct strbuf *out);

/* One JSON document with everything. */
int inspect_json(const struct inspect *inspect, struct strbuf *out);

/* ---- what the files inspect*.c share ---- */

/* inspect_gpu_by_uuid() - NULL if the node has no such GPU. */
struct inspect_gpu *inspect_gpu_by_uuid(struct inspect_node *node, const char *uuid);

/* inspect_pod_new() - *ret_pod is valid until the next call. -ENOMEM. */
int inspect_pod_new(
	struct inspect_node *node, const char *namespace_, const char *name, struct inspect_pod **ret_pod);

/* inspect_fetch_waiting() - adds the pods that wait for GPUs of ration by ResourceClaims. A pod whose claim
 * does not exist yet is left out, because its request is not known yet. */
int inspect_fetch_waiting(
	struct inspect *inspect, const struct kubectl *kubectl, struct warnings *warnings, struct error *err);
