/* facts.h - the facts of a node and of a pod from the API server, as plain structs. src/kube reads them from
 * JSON. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "model/held.h"
#include "model/host.h"
#include "model/link.h"
#include "model/placement.h"
#include "model/request.h"

#define NODE_GPUS_MAX 64
#define GPU_MIB_MAX UINT64_C(4194304) /* 4 TiB: more than any GPU has */

enum gpu_mode {
	GPU_MODE_NONE,
	GPU_MODE_SHARE,
	GPU_MODE_CGPU,
	GPU_MODE_CORE_MEM,
	GPU_MODE_TOPOLOGY,
	GPU_MODE_DRA, /* claims (Dynamic Resource Allocation); not of ACK */
	GPU_MODE_MAX
};
enum gpu_policy { GPU_POLICY_BINPACK, GPU_POLICY_SPREAD };

/* gpu_mode_parse() - a value of ack.node.gpu.schedule; "default" and "" are GPU_MODE_NONE; -EINVAL otherwise.
 */
int gpu_mode_parse(const char *text, enum gpu_mode *ret_mode);
const char *gpu_mode_text(enum gpu_mode mode);

/* gpu_mode_is_isolated() - the node enforces the limits of a container; on a share node the container sees
 * the whole GPU. gpu_mode_is_served() - this version has agents for the mode. */
bool gpu_mode_is_isolated(enum gpu_mode mode);
bool gpu_mode_is_served(enum gpu_mode mode);

/* gpu_mode_units() - the units of a GPU with this many MiB on a node of this mode: units of memory, or 1 if
 * GPUs are given as a whole. */
uint32_t gpu_mode_units(enum gpu_mode mode, uint64_t mib, uint32_t unit_mib);

/* gpu_instances_max() - how many containers may be on one GPU at once (contract 5). On isolated nodes it is
 * the configured number. If that is 0, it is 20, or 16 with a unit below 1 GiB. 0: no limit. */
#define INSTANCES_MAX 20
#define INSTANCES_MAX_SMALL_UNIT 16
uint32_t gpu_instances_max(enum gpu_mode mode, uint32_t unit_mib, uint32_t configured);

/* gpu_policy_text() - "binpack" or "spread", a value of ack.node.gpu.placement. */
const char *gpu_policy_text(enum gpu_policy policy);

/* gpu_policy_parse() - the reverse; -EINVAL for any other text. */
int gpu_policy_parse(const char *text, enum gpu_policy *ret_policy);

#define GPU_REASON_SIZE 160

/* The members of a node's annotation ration.dev/gpus about one GPU that the scheduler uses for decisions. The
 * ledger copies the whole struct. archive_gpu_facts() reads and writes the members, both for the annotation
 * and for the log. */
struct gpu_facts {
	char uuid[GPU_UUID_SIZE];
	int index; /* nvidia-smi's; a label for users */
	bool healthy;
	uint64_t mib;
};

/* The other members of the annotation about the GPU: texts for users, and the links of a topology node. */
struct gpu_details {
	char model[64];
	char reason[GPU_REASON_SIZE]; /* why it is not healthy; "" if it is, or if the reason is unknown */
	/* To the other GPUs of the node, by their positions; only a topology node reports them. */
	struct link links[NODE_GPUS_MAX];
	uint32_t nvlink_gbps; /* of one of its NVLinks in one direction; 0: unknown, NVLINK_GBPS */
};

struct node_facts {
	char *name;
	char *uid;
	char *address;	    /* first InternalIP, or NULL */
	enum gpu_mode mode; /* in force (ration.dev/mode), never the label */
	enum gpu_policy policy;
	uint32_t unit_mib;
	struct gpu_facts gpus[NODE_GPUS_MAX];	   /* by index */
	struct gpu_details details[NODE_GPUS_MAX]; /* details of the same GPUs */
	size_t n_gpus;				   /* 0: not reported by an agent */
	uint32_t instances_max;			   /* containers on one GPU at once; 0: no limit */
	struct host_amount host;		   /* allocatable */
	/* The model names of its GPUs, from its labels: "A10,NVIDIA-A10", sorted; NULL: it has no such label.
	 */
	char *models;
	bool mixing;   /* core_mem: pods with and without a percentage may be there at once */
	bool serving;  /* false: its agent accepts no new pods; true after init */
	bool changing; /* its mode or unit will change when its present pods have ended */
	struct held held;
	bool held_unreadable; /* its report of orphans is not readable: the node gets no new pod */
};

/* The facts of a pod from the API server. */
struct pod_facts {
	char *uid;
	char *namespace_;
	char *name;
	char *owner; /* uid of the controller, "" if none */
	char *node;  /* spec.nodeName, "" if not bound */
	int32_t priority;
	bool finished; /* phase Succeeded or Failed */
	bool succeeded;
	bool pending;  /* phase Pending */
	bool deleting; /* deletionTimestamp is set; it still occupies */
	bool assigned; /* the agent has given the devices */
	bool running;  /* a container may run: its status says so, or it has its devices and no status yet */
	bool never_preempts;	 /* preemptionPolicy: Never */
	bool mirror;		 /* a static pod of its node: it cannot be evicted */
	int64_t started;	 /* status.startTime in seconds since 1970, 0 if not started */
	char *nominated_node;	 /* status.nominatedNodeName, NULL if none */
	size_t annotations_size; /* bytes of all its annotations, keys and values together */
	bool annotations_full; /* no room is left for the annotations of a Binding, so the pod cannot be bound
				*/
	char *resize;	       /* the size that a user asks for (ration.dev/resize), NULL if none */
	char *gang;	       /* the name of its pod group, usually NULL */
	uint32_t gang_min; /* how many pods of the gang must be placed at least, by its label; 0: it has none
			    */
	bool gang_forming; /* it was bound before its gang had started */
	bool gang_bound;   /* gang and gang_min are those at its binding; its labels may have changed since */
	int64_t created;   /* creationTimestamp in seconds since 1970, for gang members; 0 if not read */
	char *labels;	   /* for a pod that asks for a GPU: "key=value
			    * " for each; NULL if none */
	char *models; /* the GPU models that its node selector or affinity allows, "A10,T4", sorted; NULL: it
			 names none */
	struct host_amount host; /* what it requests; also set for a pod that asks for no GPU */
	struct request request;
	bool has_placement; /* the annotation is there, well-formed and matches the request */
	struct placement placement;
};

void node_facts_init(struct node_facts *facts);
void node_facts_release(struct node_facts *facts);
#define _cleanup_node_facts_ _cleanup_(node_facts_release)
bool node_facts_has_gpu(const struct node_facts *facts, const char *uuid);
void pod_facts_init(struct pod_facts *facts);
void pod_facts_release(struct pod_facts *facts);
#define _cleanup_pod_facts_ _cleanup_(pod_facts_release)
int pod_facts_copy(const struct pod_facts *from, struct pod_facts *ret_facts);
