/* plan.h - one history before it happens: the cluster, the pods that people and controllers create, and what
 * goes wrong. Drawn from a seed, or written by hand (cases.c); what is left of it after shrinking is the bug
 * report. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/placement/links.h"
#include "model/request.h"

#define NODES_MAX 3
#define GPUS_MAX 8
#define SHARED_GPUS_MAX 3 /* of a node that gives memory of its GPUs */
#define GPU_UNITS_MAX 10
#define PAIRS_MAX 2
#define CONTAINERS_MAX 4
#define INPUTS_MAX 96
#define GANGS_MAX 5
#define WATCHERS_MAX (PAIRS_MAX * 3 + NODES_MAX * 2)

/* How a pod ends, `lifetime_ms` after it was created (or after its start, when it ends by itself). */
enum pod_end { END_NEVER, END_ITSELF, END_DELETED, END_FORCED, END_MAX };
enum pod_fate { FATE_NONE, FATE_EVICTED, FATE_OUT_OF_CPU, FATE_MAX }; /* rejected before or after Allocate */

struct shape {
	uint8_t n_containers;
	uint8_t kinds[CONTAINERS_MAX]; /* enum container_kind; init containers and sidecars first */
	uint8_t units[CONTAINERS_MAX]; /* 0: the container asks for no GPU; of `whole` GPUs, how many */
	uint8_t core[CONTAINERS_MAX];  /* percent of computing power beside them; 0: none */
	uint8_t end, fate;
	uint8_t crashes; /* its first main container crashes so many times */
	uint8_t remakes; /* a StatefulSet: a pod that is gone comes again with its name and a new uid */
	int8_t by_hand;	 /* node that the user wrote into spec.nodeName, or -1 */
	uint8_t owner;
	uint8_t gpus;	  /* label gpu-count, and `units` is for all of them together; 0 is 1 */
	uint8_t gang;	  /* 1 to n_gangs; 0: of none */
	bool whole;	  /* it asks for whole GPUs */
	uint8_t job;	  /* of whole GPUs: whose pods want GPUs near each other's; 0: of none */
	uint8_t job_pods; /* so many, it says */
	int8_t priority;
	uint16_t prebind_ms; /* volumes: the time between filter and bind */
	uint16_t grace_ms;   /* containers take so long to end when told to */
	uint32_t lifetime_ms;
};

enum input_kind {
	INPUT_POD,
	INPUT_KILL_KUBE_SCHEDULER, /* a: pair, ms: until it is back */
	INPUT_KILL_RATION,	   /* a: pair, ms */
	INPUT_KILL_PAIR,	   /* a: pair, ms */
	INPUT_KILL_AGENT,	   /* a: node, ms */
	INPUT_KILL_KUBELET,	   /* a: node, ms */
	INPUT_REBOOT,		   /* a: node, ms */
	INPUT_LOSE_CHECKPOINT,	   /* a: node; with a kubelet restart, ms */
	INPUT_API_OUTAGE,	   /* ms */
	INPUT_CUT_WATCH,	   /* a: watcher, ms */
	INPUT_STALL_WATCH,	   /* a: watcher, ms: events come, but later */
	INPUT_DUPLICATE,	   /* a: watcher, ms: events come twice */
	INPUT_BINDING,		   /* a: enum binding_fault, of the next Binding */
	INPUT_GPU,		   /* a: node, b: GPU: sick, well again after ms */
	INPUT_SLOW_AGENT,	   /* a: node, ms: its answers take long */
	INPUT_RESIZE,		   /* a: node: each of its pods is resized in place */
	INPUT_SET,		   /* a: which pod, b: units per GPU of its last container */
	INPUT_UNIT,		   /* a: node: its gpu-mem is to count in the other unit */
	INPUT_MODE,		   /* a: node: it is to give whole GPUs, or no longer */
	INPUT_CUT_NODE,		   /* a: node: it does not reach the API server, ms; it stays Ready */
	INPUT_HELD,		   /* a: node: a person changes ration.dev/held; b: enum held_change */
	INPUT_NODE_ANEW,	   /* a: node: its Node object is deleted, another one comes after ms */
	INPUT_LABEL,		   /* a: which pod, b: the gang that its label names from now on; 0: none */
	INPUT_GROUP, /* a: gang with a PodGroup, b: its minMember from now on, or enum group_word */
	INPUT_MAX
};

enum binding_fault {
	BINDING_LATE,	       /* applied seconds after it was sent */
	BINDING_ANSWER_LOST,   /* applied, no answer */
	BINDING_ERROR_APPLIED, /* applied, 500 */
	BINDING_ERROR,	       /* not applied, 500 */
	BINDING_THROTTLED,     /* not applied, 429 */
	BINDING_FAULT_MAX
};

/* Those before HELD_DRAWN_MAX are drawn. A lie can only be borne: the named case shows by whom. */
enum held_change { HELD_REMOVED, HELD_EMPTIED, HELD_UNREADABLE, HELD_DRAWN_MAX, HELD_LIE = HELD_DRAWN_MAX };

enum group_word { GROUP_DELETED = 0, GROUP_MALFORMED = 255 };

struct input {
	int64_t at_ms;
	uint8_t kind;
	uint8_t a, b;
	uint32_t ms;
	struct shape shape;
};

/* Pods that are placed all or none. */
struct plan_gang {
	uint8_t min;
	bool group;	   /* a PodGroup says so, not the pods' labels */
	uint8_t timeout_s; /* of the PodGroup; 0: not said */
};

struct plan {
	uint64_t seed; /* of the delays */
	uint8_t n_nodes, n_pairs;
	uint8_t n_gpus[NODES_MAX];
	uint8_t gpu_units[NODES_MAX][GPUS_MAX];
	bool spread[NODES_MAX];
	uint8_t instances_max[NODES_MAX]; /* containers on a GPU at once; 0: a share node */
	bool core_mem[NODES_MAX];	  /* isolated, and with computing power */
	bool mixing[NODES_MAX];		  /* pods with and without a percentage may be there at once */
	bool topology[NODES_MAX];	  /* it gives whole GPUs */
	struct link links[NODES_MAX][GPUS_MAX][GPUS_MAX];
	uint16_t slow_watch[16]; /* ms that each event of this watcher may take at most, instead of 30 */
	bool changes;		 /* of units or modes */
	bool whole_gpus;	 /* somewhere, at some time */
	bool priorities;	 /* pods are evicted for others of higher priority */
	uint8_t n_gangs;
	struct plan_gang gangs[GANGS_MAX + 1];
	uint16_t n_inputs;
	struct input inputs[INPUTS_MAX];
};

/* DRAW_LEADERS: two pairs, whose leader changes often while watches lag. DRAW_GANGS: gangs beside the pods,
 * on a cluster that holds a part of them (gang-plan.c). DRAW_GPUS: nodes that give whole GPUs, and pods
 * that ask for them (gpus-plan.c). DRAW_PRIORITIES: pods of different priority. */
enum { DRAW_LEADERS = 1, DRAW_GANGS = 2, DRAW_GPUS = 4, DRAW_PRIORITIES = 8 };
void plan_draw(struct plan *plan, uint64_t seed, unsigned int what);
void plan_draw_gangs(struct plan *plan, int64_t span_ms);
void plan_draw_gpus(struct plan *plan, int64_t span_ms);
void plan_print_gpus(const struct plan *plan, int node, FILE *out);
void plan_print(const struct plan *plan, FILE *out);
struct input *plan_add(struct plan *plan, int64_t at_ms, enum input_kind kind);
/* One pod of one container with `units` that never ends by itself. */
struct input *plan_add_pod(struct plan *plan, int64_t at_ms, uint8_t units);

extern const char *const input_names[INPUT_MAX];
