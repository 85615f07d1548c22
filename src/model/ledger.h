/* ledger.h - the scheduler's book: per node and GPU what is used by whom.
 *
 * Fed by what the API server shows (nodes, pods) in any order, any number of times, and by our own
 * reservations. A pod occupies from its reservation until a terminal phase or its deletion. Numbers are
 * running sums, O(1) per event; ledger_check() recounts them from the pods.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/table.h"
#include "model/ledger-event.h"
#include "model/held.h"
#include "model/links.h"
#include "model/owners.h"
#include "model/placement.h"
#include "model/request.h"

#define NODE_GPUS_MAX 64

enum gpu_mode {
	GPU_MODE_NONE,
	GPU_MODE_SHARE,
	GPU_MODE_CGPU,
	GPU_MODE_CORE_MEM,
	GPU_MODE_TOPOLOGY,
	GPU_MODE_MAX
};
enum gpu_policy { GPU_POLICY_BINPACK, GPU_POLICY_SPREAD };

/* gpu_mode_parse() - a value of ack.node.gpu.schedule; "default" and "" are GPU_MODE_NONE; -EINVAL otherwise.
 */
int gpu_mode_parse(const char *text, enum gpu_mode *ret_mode);
const char *gpu_mode_text(enum gpu_mode mode);

/* gpu_mode_is_isolated() - a container of such a node is held to its grant; on a share node it sees the whole
 * GPU. gpu_mode_is_served() - this version has agents for it. */
bool gpu_mode_is_isolated(enum gpu_mode mode);
bool gpu_mode_is_served(enum gpu_mode mode);

/* gpu_mode_units() - what a GPU of so many MiB counts on a node of this mode: units of memory, or 1 where
 * GPUs are given as a whole. */
uint32_t gpu_mode_units(enum gpu_mode mode, uint64_t mib, uint32_t unit_mib);

/* gpu_instances_max() - how many containers may be on one GPU at once (contract 5): on isolated nodes what
 * is configured, or, where that is 0, 20, and 16 with a unit under 1 GiB. 0: no limit. */
#define INSTANCES_MAX 20
#define INSTANCES_MAX_SMALL_UNIT 16
uint32_t gpu_instances_max(enum gpu_mode mode, uint32_t unit_mib, uint32_t configured);

/* gpu_policy_text() - "binpack" or "spread", a value of ack.node.gpu.placement. */
const char *gpu_policy_text(enum gpu_policy policy);

/* gpu_policy_parse() - the reverse; -EINVAL for any other text. */
int gpu_policy_parse(const char *text, enum gpu_policy *ret_policy);

#define GPU_REASON_SIZE 160

/* What the API server says about a node. */
struct gpu_facts {
	char uuid[GPU_UUID_SIZE];
	int index; /* nvidia-smi's; a label for people */
	uint64_t mib;
	bool healthy;
	char model[64];
	char reason[GPU_REASON_SIZE]; /* why it is not healthy, for people; "" if nobody says, or it is */
	/* To the other GPUs of the node, by their positions; only a topology node says them. */
	struct link links[NODE_GPUS_MAX];
	uint32_t nvlink_gbps; /* of one of its NVLinks in one direction; 0: not known, NVLINK_GBPS */
};

struct node_facts {
	char *name;
	char *uid;
	char *address;	    /* first InternalIP, or NULL */
	enum gpu_mode mode; /* in force (ration.dev/mode), never the label */
	enum gpu_policy policy;
	uint32_t unit_mib;
	struct gpu_facts gpus[NODE_GPUS_MAX]; /* by index */
	size_t n_gpus;			      /* 0: not reported by an agent */
	uint32_t instances_max;		      /* containers on one GPU at once; 0: no limit */
	bool mixing;   /* core_mem: pods with and without a percentage may be there at once */
	bool serving;  /* false: its agent wants no new pod; true after init */
	bool changing; /* mode and unit are those of the pods that are there; others come after them */
	struct held held;
	bool held_unreadable; /* what it says of orphans: nothing new may come */
};

/* What the API server says about a pod. */
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
	bool running;  /* a container may run: its status, or the devices were given before there was one */
	bool never_preempts;	 /* preemptionPolicy: Never */
	bool mirror;		 /* a static pod of its node: nobody can evict it */
	int64_t started;	 /* status.startTime in seconds since 1970, 0 if not started */
	char *nominated_node;	 /* status.nominatedNodeName, NULL if none */
	size_t annotations_size; /* bytes of all its annotations, keys and values together */
	bool annotations_full;	 /* they leave no room for those of a Binding: it cannot be bound */
	char *resize;	   /* another size that somebody asks for (ration.dev/resize), NULL if nobody does */
	char *gang;	   /* the name of its pod group, NULL mostly */
	uint32_t gang_min; /* how many pods of it must be placed at least, by its label; 0: it has none */
	bool gang_forming; /* it was bound before its gang had come about */
	bool gang_bound; /* gang and gang_min are those that it was bound with, whatever its labels say now */
	int64_t created; /* creationTimestamp in seconds since 1970, 0 if not read: of pods of a gang */
	char *labels;	 /* of a pod that asks for a GPU: "key=value\n" for each; NULL if none */
	struct request request;
	bool has_placement; /* the annotation is there, well-formed and matches the request */
	struct placement placement;
};

void node_facts_init(struct node_facts *facts);
void node_facts_release(struct node_facts *facts);
#define _cleanup_node_facts_ _cleanup_(node_facts_release)
void pod_facts_init(struct pod_facts *facts);
void pod_facts_release(struct pod_facts *facts);
#define _cleanup_pod_facts_ _cleanup_(pod_facts_release)
int pod_facts_copy(const struct pod_facts *from, struct pod_facts *ret_facts);

struct gpu_ledger {
	char uuid[GPU_UUID_SIZE];
	int index;
	uint32_t mib; /* for people: the sums are in units */
	uint32_t units_total;
	uint32_t units_used; /* may exceed the total if the API server shows it so (a GPU shrank, or was
				renamed) */
	uint32_t core_used;  /* percent; likewise */
	uint32_t instances;
	uint32_t instances_max; /* 0: no limit */
	bool healthy;
	char *reason; /* why not, as in struct gpu_facts; NULL: mostly nobody has to say */
};

/* Over all GPUs of a node, so that most questions are answered without a look at them: with thousands of
 * nodes, reaching for every GPU is most of a filter call. */
struct gpu_sums {
	uint32_t largest;	 /* units_total of the largest GPU */
	uint32_t most_free;	 /* units free on the healthy GPU with most */
	uint32_t most_instances; /* containers on the healthy GPU with most, where they are limited */
	uint64_t free;		 /* units free on the healthy GPUs */
	uint64_t free_ill;	 /* units free on the others */
	uint64_t core_free;	 /* percent free on the healthy GPUs */
	uint64_t core_free_ill;	 /* percent free on the others */
};

struct node_ledger {
	/* As in struct node_facts, but for the GPUs: with thousands of nodes their details would be most of
	 * the memory, and the ledger needs nothing of them but what is in gpus. */
	struct {
		char *name;
		char *uid; /* NULL while only pods name the node */
		char *address;
		enum gpu_mode mode;
		enum gpu_policy policy;
		uint32_t unit_mib;
		size_t n_gpus;
		uint32_t instances_max;
		bool mixing;
		bool serving;
		bool changing;
		bool held_unreadable;
		struct held held;
	} facts;
	bool agent_lost;	 /* its agent's Lease is not renewed any more */
	int64_t heard_ns;	 /* when its agent renewed its Lease last; 0: it has none */
	uint32_t unplaced_units; /* of pods bound past the scheduler or with a placement that names no GPU
				    here */
	uint32_t unplaced_core;	 /* likewise, percent */
	/* Device ids that the kubelet gives its pods beyond the units that they occupy, since it counts by
	 * their specs: of those that were made smaller, less those that grew. */
	int64_t surplus_ids;
	size_t with_core, without_core; /* pods that ask for a percentage, and for memory only */
	struct gpu_sums sums;
	struct list pods;	 /* ledger_pod.item */
	struct list nominations; /* nomination.item */
	uint64_t recounts;	 /* repairs of a sum that would have gone below zero; a bug if not 0 */
	struct gpu_ledger *gpus; /* facts.n_gpus of them */
	struct links *links;	 /* between them; NULL where nothing is known, or GPUs are shared */
};

enum occupancy {
	OCCUPANCY_WAITING,   /* known, not bound, nothing held */
	OCCUPANCY_TENTATIVE, /* promised by a filter answer, ends by itself */
	OCCUPANCY_RESERVED,  /* a Binding is on its way */
	OCCUPANCY_BOUND,     /* the API server shows it bound */
	OCCUPANCY_ORPHAN,    /* gone from the API server, but its containers may still use the GPU */
	OCCUPANCY_MAX,
};

struct nomination;
struct ledger_resize;

struct ledger_pod {
	struct list item; /* in node->pods while it occupies something there */
	struct list hold; /* in ledger->holds while it ends at expires_ns */
	struct pod_facts facts;
	enum occupancy occupancy;
	char *node; /* where it occupies, NULL while waiting */
	bool has_placement;
	struct placement placement; /* what it occupies there; none: unplaced */
	int64_t expires_ns; /* tentative; orphans, 0 while their node lists them, ORPHAN_UNTIMED (orphan.h) */
	struct ledger_resize *resize;  /* another size on its way (resize.h); NULL if none is */
	struct nomination *nomination; /* the GPU that others are evicted from for it; NULL if none */
	bool listed;		       /* the watch has shown it; if not, it is forgotten with its hold */
};

struct ledger {
	struct table nodes;	 /* name -> struct node_ledger (also for nodes named by pods only) */
	struct table pods;	 /* uid -> struct ledger_pod; only pods that ask for a GPU */
	struct list holds;	 /* ledger_pod.hold: all that ends by itself */
	struct list nominations; /* nomination.all */
	struct owners owners;	 /* of the pods that occupy something */
	uint64_t generation; /* grows whenever something was freed or added: what was rejected before may fit
				now */
	uint64_t capacity;   /* grows whenever a node may hold more than before, whoever is there */
	int32_t lowest_priority;     /* that any pod ever had */
	ledger_listener_fn listener; /* told of every change before it happens; NULL: nobody */
	void *listener_data;
};

void ledger_init(struct ledger *ledger);
void ledger_release(struct ledger *ledger);

/* ledger_set_node() - the node exists and looks like this. Its pods are recounted if anything that matters
 * changed; holds on one that changes its mode end. Needs name and uid. Pods may name a node before it is
 * known, and after it is gone. ledger_remove_node() - it is gone; ignored if uid is another (the node was
 * re-created meanwhile).
 */
int ledger_set_node(struct ledger *ledger, const struct node_facts *facts);
void ledger_remove_node(struct ledger *ledger, const char *name, const char *uid);

/* ledger_set_pod() - the API server shows the pod like this (ADDED, MODIFIED or listed). Any order, any
 * repetition. A pod once seen bound is never unbound by an older event; a bound pod's placement does not
 * change any more but by a resize, to a later one of the same GPUs (resize.h); one whose end was seen never
 * comes back, its entry stays until it is removed. Where the API server shows a reserved pod bound otherwise
 * than we reserved (somebody else was faster), the API server is right. Pods that ask for no GPU are not
 * kept. -ENOMEM: nothing changed. */
int ledger_set_pod(struct ledger *ledger, const struct pod_facts *facts);

/* ledger_set_unlisted() - what is known of the pod comes from a single answer: the watch has not shown it,
 * and will not tell its end if it ends in a gap of the watch. Whoever sees a new LIST asks for such pods. */
void ledger_set_unlisted(struct ledger *ledger, const char *uid);

/* ledger_set_agent_lost() - whether the Lease of the node's agent has run out. A node that is not known is
 * ignored: tell again after ledger_set_node(). */
void ledger_set_agent_lost(struct ledger *ledger, const char *node, bool lost);

/* ledger_hear_agent() - the node's agent has renewed its Lease at heard_ns (monotonic); 0: it has no Lease
 * any more. A node that is not known is ignored, and so is an older time. Orphans end by time only while
 * their node's agent is heard: what it could not say does not mean that their containers ended. */
void ledger_hear_agent(struct ledger *ledger, const char *node, int64_t heard_ns);

/* ledger_remove_pod() - the pod has ended. Unknown uids are ignored. Afterwards nothing is known of the uid:
 * an older event must not follow (the watch delivers the events of one object in order). */
void ledger_remove_pod(struct ledger *ledger, const char *uid);

/* ledger_delete_pod() - DELETED, which says nothing about the containers: after a force delete they run on
 * (the kubelet kills them later, kubelet_pods.go HandlePodCleanups; 1.36.3). A bound pod last shown running,
 * or listed by its node, stays as an orphan until its node's `held` says that it ended, at most until
 * expires_ns if its agent is heard (ORPHAN_NS anew after each silence); while `held` lists it, without limit.
 * Everything else is removed. */
#define ORPHAN_NS (INT64_C(30) * 1000 * 1000 * 1000)
void ledger_delete_pod(struct ledger *ledger, const char *uid, int64_t expires_ns);

/* ledger_hold() - tentative reservation of this placement on this node until expires_ns (monotonic); replaces
 * an earlier hold of the pod. -EBUSY if the pod is reserved or bound already, -ENOENT for an unknown node,
 * -ENOSPC if the placement does not fit (any more), -EINVAL if it is not one of this request; on failure an
 * earlier hold stays. Pods not known yet are added, and forgotten with the hold if the API server has not
 * shown them by then. -EBUSY also for a pod that has finished. */
int ledger_hold(struct ledger *ledger, const struct pod_facts *facts, const char *node,
	const struct placement *placement, int64_t expires_ns);

/* ledger_drop_hold() - ends a tentative hold, nothing else.
 *
 * ledger_expire() - ends all holds, nominations and orphans whose time is over; returns how many. */
void ledger_drop_hold(struct ledger *ledger, const char *uid);
size_t ledger_expire(struct ledger *ledger, int64_t now_ns);

/* ledger_reserve() - the Binding is about to be sent: like ledger_hold(), but stays until ledger_confirm()
 * (the API server accepted it), ledger_release_reservation() (it did not) or what the watch shows. Confirming
 * or releasing twice, or after the watch has already told the end, changes nothing. Release only what the API
 * server has surely refused: after a time-out the Binding may still have landed. */
int ledger_reserve(struct ledger *ledger, const struct pod_facts *facts, const char *node,
	const struct placement *placement);
void ledger_confirm(struct ledger *ledger, const char *uid);
void ledger_release_reservation(struct ledger *ledger, const char *uid);

/* ledger_restore_pod() - put a pod back as it was in another ledger, without asking whether there is room: a
 * recorded ledger is restored as it was, right or wrong. The image's lists are not read. A pod that is there
 * already is replaced. */
int ledger_restore_pod(struct ledger *ledger, const struct ledger_pod *image);

/* ledger_nominate() - others are evicted from these GPUs for the pod (nomination.h): while it waits they
 * count as its own for pods of its priority and below, whether or not they are free yet. Ends with the pod's
 * binding, end or removal, and at expires_ns (monotonic; NOMINATION_LASTS: not by time); a new one replaces
 * it. It survives holds and refused Bindings. -EBUSY for a pod that is reserved, bound or finished, -ENOENT
 * for an unknown node, -EINVAL if the placement is not one of this request, -ENOMEM; on failure an earlier
 * one stays.
 *
 * ledger_nomination_set_end() - changes when it ends. ledger_drop_nomination() - ends it now. */
#define NOMINATION_LASTS INT64_MAX
int ledger_nominate(struct ledger *ledger, const struct pod_facts *facts, const char *node,
	const struct placement *placement, int64_t expires_ns);
void ledger_nomination_set_end(struct ledger *ledger, const char *uid, int64_t expires_ns);
void ledger_drop_nomination(struct ledger *ledger, const char *uid);

/* ledger_node() - NULL if unknown; a node that only pods name has no uid and no GPUs. Both answers are valid
 * until the ledger changes. */
const struct node_ledger *ledger_node(const struct ledger *ledger, const char *name);
const struct ledger_pod *ledger_pod(const struct ledger *ledger, const char *uid);

/* ledger_choose() - placement_choose() as if the pod's own hold were not there, and as if nominated pods of
 * its priority or above were there already. The GPU that the pod itself is nominated for comes first. Same
 * returns; REJECT_NO_GPU_NODE for an unknown node. */
int ledger_choose(struct ledger *ledger, const char *node, const struct pod_facts *pod,
	struct placement *ret_placement);

/* ledger_survey() - what ledger_choose() would answer for each of these nodes, without the placements; with
 * thousands of nodes each is looked up once. ret_verdicts has n entries; valid until the ledger changes. */
struct node_verdict {
	const struct node_ledger *node; /* NULL: unknown */
	enum reject_reason reject_reason;
};
void ledger_survey(struct ledger *ledger, const char *const *names, size_t n, const struct pod_facts *pod,
	struct node_verdict *ret_verdicts);

/* ledger_check() - recount every node from its pods. Returns the number of sums that differ (0 is right) and,
 * where ret_over is given, the number of GPUs used over their total. */
size_t ledger_check(const struct ledger *ledger, size_t *ret_over);
