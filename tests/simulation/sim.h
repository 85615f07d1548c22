/* simulation/ - the whole of ration in one process and one seed: models of API server, kube-scheduler,
 * kubelet and container runtime around what ships: src/core, and the agent's decisions (matching, served,
 * pods, ids).
 *
 * main.c options   cases.c histories with a name   plan.c histories from a seed   shrink.c make them small
 * gang-plan.c gangs from a seed   gpus-plan.c nodes that give whole GPUs, and pods that ask for them
 * sim.c events and inputs   apiserver.c objects, watches, Bindings   kube-scheduler.c queue, filter, bind
 * ration.c ration-scheduler: the requests around src/core   agent.c ration-agent   kubelet.c pods and
 * containers   devices.c its device manager sizes.c other sizes for pods that run   terms.c changes of unit
 * and mode   gang-controller.c the scheduler's part for pods that are placed all or none   gang-checks.c what
 * must hold for these   evictions.c pods that are evicted for more important ones   gpus-checks.c which whole
 * GPUs it has to be   fitting.c whether there is room invariants.c what must hold after every step and in the
 * end
 *
 * Pods are numbers (bits of a uint64_t), so are nodes, GPUs and device ids: those of units first, those of
 * whole GPUs from FIRST_GPU_ID on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/served.h"
#include "node/turn.h"
#include "node/inventory.h"
#include "node/terms.h"
#include "node/pods.h"
#include <stdio.h>

#include "base/strbuf.h"
#include "base/clock.h"
#include "core/bind.h"
#include "core/core.h"
#include "core/events.h"
#include "core/evicting.h"
#include "core/filter.h"
#include "core/policies.h"
#include "core/resizing.h"
#include "plan.h"
#include "queue.h"
#include "random.h"

#define PODS_MAX 64
#define LOG_MAX 3000
#define BINDINGS_MAX 320
#define PATCHES_MAX 64
#define SIZES_MAX 5
#define GROUP_CHANGES_MAX 16
#define OPS_MAX 256
#define MS NS_PER_MS
#define UNIT_MIB 1024
#define FIRST_GPU_ID 32
/* Longer than any patience of the product that matters: 30 s for orphans, and what comes after. */
#define AFTERMATH_NS (60 * NS_PER_S)
/* Gangs have more: a part is placed, and evicted after its time, the rest backs off for 32 s. */
#define GANG_AFTERMATH_NS (150 * NS_PER_S)
#define GANG_TIMEOUT_NS (15 * NS_PER_S)
#define GANG_KEEP_AFTER_NS (20 * NS_PER_S)

#define BIT(i) (UINT64_C(1) << (i))
#define for_each_bit(i, bits)                                                                                \
	for (uint64_t i##_left = (bits), i##_once = 1; i##_once; i##_once = 0)                               \
		for (int i; i##_left && (i = __builtin_ctzll(i##_left), 1); i##_left &= i##_left - 1)

/* Rules that --break replaces by wrong ones: each must be caught. */
enum broken {
	BREAK_NOTHING,
	BREAK_OLDEST_OF_EQUAL_SIZE,
	BREAK_RELEASE_ON_TIMEOUT,
	BREAK_RELEASE_IN_DOUBT,
	BREAK_FREE_ON_DELETION_TIMESTAMP,
	BREAK_FREE_ON_DELETE,
	BREAK_IGNORE_HOLD,
	BREAK_NO_TOTAL_CHECK,
	BREAK_NEVER_ASK,
	BREAK_NO_ANSWER_CHECK,
	BREAK_OLDEST_UNCHECKED, /* both */
	BREAK_IDS_NAME_THE_GPU,
	BREAK_NO_REQUEUE,
	BREAK_FORGET_CHECKPOINT,
	BREAK_NO_LIST_AT_TAKEOVER,
	BREAK_TAKEOVER_BY_PAUSE,
	BREAK_RELEASE_SIZE_ON_TIMEOUT,
	BREAK_IGNORE_CORE,
	BREAK_IGNORE_MIXING,
	BREAK_IGNORE_HEALTH,
	BREAK_CHANGE_UNDER_PODS,
	BREAK_CHANGE_AT_ONCE,
	BREAK_GANG_IN_PARTS,
	BREAK_GANG_WITHOUT_MARK,
	BREAK_GANG_NO_EVICTION,
	BREAK_GANG_FORGET_TO_RELEASE,
	BREAK_GANG_NO_REQUEUE,
	BREAK_GANG_NO_KEEPING,
	BREAK_IGNORE_LINKS,
	BREAK_FORGET_GPUS,
	BREAK_IGNORE_JOB,
	BREAK_IGNORE_ORPHANS,
	BREAK_SILENCE_IS_AN_END,
	BREAK_SILENT_WATCH_IS_HEARD,
	BREAK_HELD_NOT_RESTORED,
	BREAK_GANG_LABELS_COUNT,
	BREAK_GANG_IGNORE_CHANGES,
	BREAK_EVICT_EQUALS,
	BREAK_EVICT_NOBODY,
	BREAK_TELL_A_SIZE_NOT_GIVEN,
	BREAK_MAX
};

enum phase { PHASE_PENDING, PHASE_RUNNING, PHASE_SUCCEEDED, PHASE_FAILED };

/* What the API server says about a pod at one moment. */
struct state {
	bool exists, deleting, assigned, placed;
	bool forming; /* ration.dev/gang */
	bool live;    /* a container is not terminated, by its status */
	int8_t node;
	uint8_t phase;
	uint8_t verdict, requeue;
	uint8_t gang;	   /* by its label; 0: none */
	uint8_t size;	   /* how often it got another one */
	uint8_t wanted;	   /* what somebody asks for: units per GPU of its last container; 0: nobody does */
	uint8_t nominated; /* status.nominatedNodeName: node + 1; 0: none */
	uint16_t version;  /* resourceVersion */
};

/* Why the kubelet rejected a pod. */
enum reason {
	REASON_EVICTED,	   /* drawn: a handler before Allocate */
	REASON_OUT_OF_CPU, /* drawn: the predicate handler, after Allocate */
	REASON_UNHEALTHY,  /* no healthy devices: the agent is away or not registered yet */
	REASON_SICK,	   /* ids of the pod are no longer healthy */
	REASON_CALL_LOST,  /* the agent died during a call */
	REASON_NO_IDS,	   /* the kubelet has not freed the ids of pods that went while it was away */
	REASON_OVER_TOTAL, /* the agent's last line of defence */
	REASON_API_AWAY,   /* the agent could not ask about a pod it does not know */
	REASON_NOT_CLEAR,  /* the agent cannot tell which pod is meant (lost checkpoint) */
	REASON_OTHER_MODE, /* the node has no such devices: whole GPUs, or units of them */
	REASON_MAX
};

enum container_state { C_NONE, C_STARTING, C_RUNNING, C_BACKOFF, C_DONE };

struct container {
	uint8_t state;
	uint8_t gpus;	/* bits, while it runs */
	uint8_t sees;	/* likewise, with those of its job's other pods */
	uint8_t grant;	/* the pod whose grant it has: another one of its name may have had the call */
	bool unchecked; /* the kubelet did not call PreStartContainer */
	uint8_t crashes;
	uint8_t tries;
};

struct pod {
	struct pod_facts facts;	    /* template: uid, name, request; node and placement are set per state */
	struct placement placement; /* by the Binding that was applied */
	struct shape shape;
	struct state state;
	struct random random;
	struct container containers[CONTAINERS_MAX];
	int64_t created_ns, bound_ns;
	struct {
		struct request request;
		struct placement placement;
	} sizes[SIZES_MAX];	     /* by state.size; 0: facts.request and placement */
	uint8_t limit_size;	     /* the one that its containers are held to */
	uint8_t told_size;	     /* the one that the agent tells when the pod is gone */
	uint8_t gpus;		     /* of the placement, bits */
	uint8_t own[CONTAINERS_MAX]; /* likewise, of each container */
	int8_t binder;		     /* pair */
	uint8_t name;
	uint8_t bound_gang; /* as its Binding recorded it */
	char uid_text[8], name_text[8], job_text[8];
	uint8_t shown; /* containers that the kubelet last told to run */
	bool unseen;   /* gone before the API server knew that it ran, or before its node could say so */
	bool prebound; /* its volumes are there: PreBind does not take long again */
	bool rejected; /* by the kubelet, whatever the API server knows yet */
	uint8_t reason;
};

/* What the API server says about a node: GPUs that are sick, and ration.dev/held. */
struct node_state {
	uint64_t lives, ended; /* pods that are gone from the API server */
	uint16_t at;	       /* when the agent wrote it; 0: never */
	uint8_t sick;
	bool other_unit, closed; /* ration.dev/unit, unit-pending */
	bool whole;		 /* ration.dev/mode */
	bool unreadable;	 /* ration.dev/held, after a person changed it */
	bool gone;		 /* there is no Node object */
	bool bare;		 /* the Node object is new: nothing of the agent is there yet */
};

struct change {
	int8_t pod; /* -1: a node */
	int8_t node;
	struct state state;
	struct node_state node_state;
};

struct watcher {
	int64_t last_ns; /* no later event arrives before this */
	int64_t stalled_until_ns, duplicate_until_ns;
	uint64_t known;
	uint32_t epoch;
	int16_t position; /* in the log: what has been sent */
	bool connected, stopped;
	struct random random;
	struct state list[PODS_MAX]; /* of a LIST on its way */
	struct node_state list_nodes[NODES_MAX];
	uint8_t n_list;
};

/* A Binding on its way to the API server and back. */
struct binding {
	struct placement placement;
	struct bind *bind; /* of the process that sent it */
	int8_t pair, pod, node;
	uint8_t gpus;
	uint32_t ration_epoch, term;
	uint8_t gang; /* what it records: ration.dev/bound-gang */
	int8_t fault; /* -1: none */
	bool answered;
	bool applied;
	bool forming;
	int16_t status;
};

/* The answer to a request for another size, on its way. */
struct size_patch {
	int8_t pair, pod;
	uint8_t units; /* per GPU; 0: refused */
	uint8_t sends;
	uint16_t version;
	uint32_t ration_epoch, term;
	struct resizing *resizing; /* of the process that sent it */
	bool answered;
};

enum place { PLACE_NONE, PLACE_ACTIVE, PLACE_BACKOFF, PLACE_UNSCHEDULABLE, PLACE_CYCLE, PLACE_BINDING };

struct kube_scheduler {
	bool alive, leads;
	uint32_t epoch;
	uint64_t known;
	struct state seen[PODS_MAX];
	uint8_t place[PODS_MAX];
	int8_t assumed[PODS_MAX];
	bool moved[PODS_MAX];	/* something happened that may help, while the pod was in its cycle */
	uint8_t told[PODS_MAX]; /* what its condition says: 0 nothing, 1 in-tree, 2 extender */
	uint32_t attempt[PODS_MAX];
	uint32_t order[PODS_MAX], next_order;
	int64_t parked_ns[PODS_MAX];
	bool error_backoff[PODS_MAX];
	int8_t cycle; /* the pod in its scheduling cycle, -1 */
};

#define ASKING_MAX 128

struct gpus_seen { /* what a pair's ledger says, by pod */
	int8_t node[PODS_MAX], kept_node[PODS_MAX];
	uint8_t gpus[PODS_MAX], kept[PODS_MAX];
	uint8_t occupancy[PODS_MAX];
	bool planned[PODS_MAX]; /* its gang may still move it */
};

/* A ration-scheduler process: the core that ships, and what surrounds it here. */
struct ration {
	bool alive, changed;
	int64_t look_ns; /* when the next look at requeues is due, 0 if none is */
	uint32_t epoch;
	struct sim *sim;
	int pair;
	struct core core;
	struct requeue_list no_requeues; /* never looked at: the gangs' list where that rule is broken */
	int8_t held[PODS_MAX];	 /* node that filter held and that nothing documented has taken away since */
	uint32_t caller;	 /* the process of kube-scheduler that asked last */
	uint8_t sick[NODES_MAX]; /* GPUs, as its watch has told */
	struct bind *asking[ASKING_MAX];       /* whose list of a node, or pod, is on its way */
	struct resizing *resizing[ASKING_MAX]; /* likewise */
	struct placement sending[PODS_MAX];    /* of Bindings that are written and not sent yet */
	bool forming[PODS_MAX];		       /* likewise: ration.dev/gang */
	struct gpus_seen before;	       /* the ledger before the reservation that is being made */
	uint64_t was_bound;	/* of pods whose end the watch has told: it had shown where they were */
	uint64_t waiting_binds; /* calls of kube-scheduler not answered yet */
	int64_t verify_at_ns;	/* pods that the watch has not shown are asked for then; 0: there are none */
	int64_t evictions_ns;	/* when EVENT_EVICTIONS comes; 0: none does */
	/* gang-controller.c */
	int64_t gang_look_ns; /* when EVENT_GANG_LOOK comes; 0: none does */
	uint16_t gang_look_serial;
	uint8_t sent_gang[PODS_MAX]; /* what the Binding records that was sent last */
	int16_t groups_listed;	     /* changes of PodGroups that the LIST has shown */
	int64_t groups_last_ns;	     /* no later one arrives before this */
	int16_t kept[PODS_MAX];	     /* what has been said of it */
	/* recording.c */
	struct strbuf recording;
	int64_t recording_after; /* so many times that orders are carried out */
};

/* What the API server says about a gang. */
struct gang_truth {
	uint32_t min;		 /* 0: nothing says it */
	uint32_t least;		 /* the lowest that somebody who lags may know */
	int64_t changed_ns;	 /* when min changed last; 0: never */
	int64_t grown_ns;	 /* when one more of them was bound last */
	bool unclear;		 /* min changed while some were bound: who saw what first decides */
	uint64_t bound, waiting; /* pods */
	uint64_t done;		 /* those that succeeded and are there still, made by a controller */
	uint64_t sure;		 /* of these: before the gang had started */
	bool mixed;		 /* some came by their label, or have no controller */
	int64_t short_ns;	 /* since when fewer than min are bound or wait; 0: not so, or none */
	int64_t was_short_ns;	 /* when that had lasted long enough last */
	bool whole;		 /* min were bound at once, and since then there was always one */
	bool has_run;		 /* it was whole once, and its pods have a controller */
	int64_t few_ns;		 /* since when some of these are there, and too few; 0: not so */
	int64_t left_over_ns;	 /* when it was so long enough last */
	int64_t partly_ns;	 /* since when some are bound and too few; 0: not so */
	int64_t ready_ns;	 /* since when enough are there and it is not whole; 0: not so */
	int64_t starved_ns;	 /* since when GPUs have to be kept for it; 0: not so */
	int64_t cleared_ns;	 /* since when nobody is left of who was bound then; 0: somebody is */
	uint64_t before;	 /* those */
};

/* One Allocate, GetPreferredAllocation or PreStartContainer. */
enum call_kind { CALL_PREFERRED, CALL_ALLOCATE };

struct call {
	bool busy;
	uint8_t kind, n_ids;
	uint64_t ids, available, must;
	uint32_t serial;
	/* the agent's side: */
	uint64_t listed, shows; /* pods of PodResources; those it shows with devices */
	uint64_t fresh, gone, ask, unanswered;
	uint8_t pending;
	bool api_away, asked_runtime;
	uint64_t runs_now[CONTAINERS_MAX]; /* by the container runtime: pods whose container runs */
};

struct agent {
	bool alive, synced, registered;
	uint32_t epoch;
	int64_t slow_until_ns;
	struct node_pods pods;
	struct served served;
	struct inventory inventory;
	uint64_t assigned;
	/* leftovers.c: pods that are gone while their containers may live */
	uint64_t leftovers, lives, ended;
	bool asks_runtime, held_changed;
	struct {
		uint64_t lives, ended;
		uint16_t at;
	} said; /* what this process wrote into ration.dev/held last */
	int64_t said_ns;
	struct turn turn;
};

struct devices { /* of one container, in the kubelet's record */
	uint64_t ids;
	int16_t cdi; /* the CDI device that Allocate answered, answers_cdi() */
	bool given;
};

struct op {
	uint8_t kind;
	int8_t pod;
	struct state state;
};

struct kubelet {
	bool alive, sources_ready;
	uint32_t epoch;
	uint64_t managed, admitted, terminating, terminated, finished, end_wanted;
	uint64_t running_at_start[CONTAINERS_MAX];
	struct devices devices[PODS_MAX][CONTAINERS_MAX], checkpoint[PODS_MAX][CONTAINERS_MAX];
	uint64_t has_devices, checkpoint_has; /* pods with a record */
	uint64_t healthy, all, allocated;
	bool endpoint;	/* registered with this kubelet process */
	bool restarted; /* ever */
	bool lost_checkpoint;
	struct op ops[OPS_MAX];
	uint16_t ops_head, ops_tail;
	/* the admission that the main loop is in */
	int8_t admitting;
	uint8_t container;
	uint64_t reuse, got;
	uint8_t needed;
	struct call call;
};

struct node {
	struct node_facts facts;
	struct agent agent;
	struct kubelet kubelet;
	struct random random;
	uint64_t grants; /* CDI files, by pod */
	struct {
		uint8_t gpus, sees;
		int16_t name; /* of the device in the pod's CDI file, answers_cdi(); -1: it is not there */
	} grant[PODS_MAX][CONTAINERS_MAX];
	struct node_state state;
	uint16_t held_writes;	    /* of ration.dev/held, by anybody: each says another time */
	uint64_t records;	    /* of the agent, on disk: pods that were given a GPU */
	struct terms_change change; /* the agent's; what is in force is on disk too */
	bool asked_other;	    /* the unit that the cluster asks for */
	bool asked_whole;	    /* likewise the mode */
	bool was_sick;
	int64_t cut_until_ns; /* it does not reach the API server */
	bool loose; /* a Binding of a dead scheduler was applied, or a user bound a pod: nobody who lives
		       could know */
	char name[5];
};

enum counter {
	COUNT_EVENTS,
	COUNT_PODS,
	COUNT_BINDINGS,
	COUNT_BIND_FAILED,
	COUNT_DOUBTS,
	COUNT_ALLOCATIONS,
	COUNT_PREFERRED,
	COUNT_ASKED,
	COUNT_STARTS,
	COUNT_IDS_OF_OTHER_GPUS,
	COUNT_RELISTS,
	COUNT_DUPLICATES,
	COUNT_REQUEUES,
	COUNT_OVERBOOKED,
	COUNT_ORPHANS,
	COUNT_NAMESAKES,
	COUNT_CORRECTED,
	COUNT_ANSWERED_TWICE,
	COUNT_UNSEEN,
	COUNT_HELD,
	COUNT_SEVERAL_GPUS,
	COUNT_RESIZED,
	COUNT_RESIZE_DEFERRED,
	COUNT_SIZES,
	COUNT_SIZES_REFUSED,
	COUNT_WITHOUT_RECORD,
	COUNT_REMADE,
	COUNT_FINISHED,
	COUNT_RUNNING_AT_END,
	COUNT_CHANGES,
	COUNT_GANGS,
	COUNT_GANGS_WHOLE,
	COUNT_GANGS_PARTLY,
	COUNT_GANG_EVICTIONS,
	COUNT_GANGS_KEPT,
	COUNT_GANGS_LEFT_OVER,
	COUNT_GANGS_RUNNING,
	COUNT_GANGS_WAITING,
	COUNT_WHOLE,
	COUNT_SETS,
	COUNT_JOB_SETS,
	COUNT_PLANNED_SETS,
	COUNT_PLANS_UNCLEAR,
	COUNT_SEES_OTHERS,
	COUNT_MODES,
	COUNT_WAITS,
	COUNT_HELD_RESTORED,
	COUNT_NOT_MADE,
	COUNT_LABELLED,
	COUNT_GROUP_CHANGES,
	COUNT_GANGS_UNCLEAR,
	COUNT_REPLAYS,
	COUNT_EVICTIONS,
	COUNT_EVICTIONS_REFUSED,
	COUNT_NOMINATED,
	COUNT_MADE_ROOM,
	COUNT_MAX
};

struct statistics {
	uint64_t histories;
	uint64_t counts[COUNT_MAX];
	uint64_t inputs[INPUT_MAX];
	uint64_t reasons[REASON_MAX];
};

enum event_kind {
	EVENT_INPUT,
	EVENT_INPUT_OVER,
	EVENT_POD_END,
	EVENT_WATCH,
	EVENT_LIST,
	EVENT_LISTED,
	EVENT_REQUEUE,
	EVENT_CYCLE,
	EVENT_BACKOFF_OVER,
	EVENT_FILTER,
	EVENT_FILTERED,
	EVENT_PREBIND,
	EVENT_BIND,
	EVENT_BIND_GET,
	EVENT_BIND_LIST,
	EVENT_BIND_LISTED,
	EVENT_BOUND,
	EVENT_BIND_TIMEOUT,
	EVENT_VERDICT,
	EVENT_LEAD,
	EVENT_LEFTOVERS,
	EVENT_BINDING,
	EVENT_BINDING_ANSWER,
	EVENT_BINDING_DEADLINE,
	EVENT_LOOK,
	EVENT_DOUBT_OVER,
	EVENT_TICK,
	EVENT_VERIFY,
	EVENT_RECHECKED,
	EVENT_KUBELET_OP,
	EVENT_KUBELET_CLEANUP,
	EVENT_CALL,
	EVENT_CALL_LISTED,
	EVENT_CALL_ASKED,
	EVENT_CALL_RUNTIME,
	EVENT_CALL_ANSWER,
	EVENT_START,
	EVENT_STARTED,
	EVENT_EXIT,
	EVENT_RETRY,
	EVENT_STOPPED,
	EVENT_STATUS,
	EVENT_REGISTER,
	EVENT_ASSIGN,
	EVENT_ORPHANS,
	EVENT_STRAYS,
	EVENT_TURN,
	EVENT_RUNTIME,
	EVENT_HELD,
	EVENT_SIZES,
	EVENT_REPORT,
	EVENT_TERMS,
	EVENT_TERMS_WRITTEN,
	EVENT_REMAKE,
	EVENT_SET_BEGIN,
	EVENT_SET_LISTED,
	EVENT_SET_PATCH,
	EVENT_SET_ANSWER,
	EVENT_GANG_LOOK,
	EVENT_GANG_GROUPS,
	EVENT_GANG_EVICT,
	EVENT_GANG_UNMARK,
	EVENT_GANG_RECALL,
	EVENT_GANG_GROUP,
	EVENT_EVICTIONS,
	EVENT_EVICTION,
	EVENT_EVICTION_ANSWER,
	EVENT_NOMINATION_ENDS,
	EVENT_MAX
};

struct sim {
	struct queue queue;
	/* sim_run() clears all that follows. */
	const struct plan *plan;
	enum broken broken;
	bool trace;
	int64_t now_ns, end_ns;
	struct random random;

	struct pod pods[PODS_MAX];
	uint8_t n_pods;
	uint64_t name_taken; /* pods that exist, by number */
	struct change log[LOG_MAX];
	uint16_t n_log;
	struct watcher watchers[WATCHERS_MAX];
	int64_t api_away_until_ns;
	int64_t disturbed_until_ns; /* somebody is away, or late */
	int64_t unsettled_until_ns; /* likewise, or a Binding is in doubt: times of gangs count from here */
	int8_t next_fault;
	struct binding bindings[BINDINGS_MAX];
	uint16_t n_bindings;
	struct size_patch patches[PATCHES_MAX];
	uint16_t n_patches;
	struct gang_truth gangs[GANGS_MAX + 1];
	struct {
		uint8_t gang, min;
	} group_log[GROUP_CHANGES_MAX];
	uint8_t n_group_log;
	bool group_is_gone[GANGS_MAX + 1];
	struct links_score scores[NODES_MAX][1 << GPUS_MAX]; /* of every set of GPUs: gpus-checks.c */

	struct kube_scheduler kube_schedulers[PAIRS_MAX];
	struct ration rations[PAIRS_MAX];
	struct node nodes[NODES_MAX];
	uint8_t n_nodes, n_pairs;
	uint32_t term; /* grows with each change of the leader */
	bool truth_changed;
	bool from_list; /* what is delivered now comes from a LIST, without the last state of what is gone */

	struct statistics *statistics;
	const char *truncated; /* which limit of the simulation was reached, so that the history counts for
				  nothing */
	char violation[300];   /* "" as long as all is well */
	const char *violated;  /* which invariant: what shrinking must keep */
};

/* sim.c */
int sim_run(struct sim *sim, const struct plan *plan, enum broken broken, bool trace,
	struct statistics *statistics); /* 0: no violation */
void sim_after(struct sim *sim, int64_t delay_ns, enum event_kind kind, uint32_t epoch, int a, int b, int c);
/* sim_goes_on() - something happens after for_ns. The end is when nothing has happened for long. */
void sim_goes_on(struct sim *sim, int64_t for_ns);
int64_t sim_delay(struct random *random, int64_t usual_us, int64_t most_us);
void sim_violate(struct sim *sim, const char *invariant, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* recording.c: recording_follow() - between two events, with all orders carried out. recording_end() -
 * replays what was recorded. */
extern bool sim_replays;
extern FILE *sim_recordings; /* NULL, or where all recordings are written */
void recording_begin(struct sim *sim, int pair);
void recording_follow(struct sim *sim, int pair);
void recording_end(struct sim *sim, int pair);
int recordings_play(FILE *file); /* replays what was written there; 0: all comes out as recorded */

extern uint64_t *sim_digest; /* of the steps, instead of printing them; NULL: they are printed */
void sim_say(const struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define say(sim, ...)                                                                                        \
	do {                                                                                                 \
		if ((sim)->trace)                                                                            \
			sim_say(sim, __VA_ARGS__);                                                           \
	} while (0)
#define count(sim, what) ((sim)->statistics->counts[what]++)

/* apiserver.c */
enum { W_KUBE_SCHEDULER, W_RATION_PODS, W_RATION_NODES };
static inline int pair_watcher(int pair, int which)
{
	return pair * 3 + which;
}
static inline int agent_watcher(int node)
{
	return PAIRS_MAX * 3 + node * 2;
}
static inline int kubelet_watcher(int node)
{
	return PAIRS_MAX * 3 + node * 2 + 1;
}
int api_create_pod(struct sim *sim, const struct shape *shape, int name);
void api_set(struct sim *sim, int pod, const struct state *state);
void api_set_node(struct sim *sim, int node);
void api_delete(struct sim *sim, int pod, bool force);
bool api_is_away(const struct sim *sim);
bool api_is_away_from(const struct sim *sim, int node);
bool api_pod_lives(const struct pod *pod); /* a container of it runs */
/* Bits of a node's GPUs that the placement names; 0 if it names one of another node. */
uint8_t api_gpus(const struct sim *sim, int node, const struct placement *placement);
uint8_t api_gpus_of(const struct sim *sim, int node, const struct placement *placement, int container);
struct pod_facts api_facts(const struct sim *sim, int pod, const struct state *state); /* borrowed */
struct state api_state_at(const struct sim *sim, int pod, int position);	       /* of the log */
int api_pod_by_name(const struct sim *sim, int name);				       /* -1 */
void api_label(struct sim *sim, const struct input *input);
/* The gang that counts: the one of its Binding, before that the one of its label. */
static inline int api_gang(const struct pod *pod, const struct state *state)
{
	return state->placed ? pod->bound_gang : state->gang;
}
static inline int pod_gang(const struct sim *sim, int pod)
{
	return api_gang(&sim->pods[pod], &sim->pods[pod].state);
}
void watch_cut(struct sim *sim, int watcher, int64_t for_ns);
void watch_stop(struct sim *sim, int watcher); /* its process is dead */
void api_on_event(struct sim *sim, const struct event *event);

/* kube-scheduler.c */
void ks_start(struct sim *sim, int pair);
void ks_kill(struct sim *sim, int pair);
void ks_see(struct sim *sim, int pair, int pod, const struct state *state, bool deleted);
void ks_node_changed(struct sim *sim); /* it may have room for others now */
void ks_on_event(struct sim *sim, const struct event *event);

/* ration.c */
#define FILTER_WAITS 0x100f /* no node fits, and the one that the pod is nominated for may soon */
void ration_start(struct sim *sim, int pair);
void ration_kill(struct sim *sim, int pair);
void ration_see_pod(struct sim *sim, int pair, int pod, const struct state *state, bool deleted);
void ration_see_node(struct sim *sim, int pair, int node, const struct node_state *state);
void ration_synced(struct sim *sim, int pair, bool nodes);
void ration_on_event(struct sim *sim, const struct event *event);
void ration_read_node(struct sim *sim, int pair, int node, int position); /* a LIST of its pods */

/* ration_core() - before each event that is told to it. ration_carry_out() - after it: what it has ordered.
 */
struct core *ration_core(struct sim *sim, int pair);
void ration_carry_out(struct sim *sim, int pair);

/* gang-controller.c */
void controller_start(struct sim *sim, int pair);
void controller_carry_out(struct sim *sim, int pair);
/* Either enough of the pod's gang have their GPUs now, or no Binding leaves. */
void controller_check_sent(struct sim *sim, int pair, int pod);
void controller_on_event(struct sim *sim, const struct event *event);
void controller_change_group(struct sim *sim, const struct input *input);
int controller_gang_of(const struct sim *sim, int pair, int pod); /* as this pair knows it, or sent it */

/* gang-checks.c */
void gang_checks_after_step(struct sim *sim, bool changed);
void gang_checks_at_end(struct sim *sim);
/* gang_need() - how many have to be bound at once. */
uint32_t gang_need(const struct sim *sim, const struct gang_truth *gang);
/* gang_need_at_least() - likewise by what somebody who lags may know. */
uint32_t gang_need_at_least(const struct sim *sim, const struct gang_truth *gang);
/* gang_group_changes() - its min is another one from now on. */
void gang_group_changes(struct sim *sim, int g, uint32_t min);
bool gang_is_open(const struct sim *sim, int pod); /* it is of none, or of one that has started */

/* agent.c */
void agent_start_process(struct sim *sim, int node);
void agent_kill(struct sim *sim, int node);
void agent_free(struct node *node);
void agent_see(struct sim *sim, int node, int pod, const struct state *state, bool deleted);
void agent_synced(struct sim *sim, int node);
void agent_see_kubelet(struct sim *sim, int node);		      /* kubelet.sock was made anew */
void agent_list_devices(struct sim *sim, int node);		      /* health of a GPU has changed */
void agent_node_changed(struct sim *sim, int node, int64_t delay_ns); /* its Node object: by others */
/* Pods that are gone, by what the agent knows, while their containers may run: leftovers_list(). */
uint64_t agent_orphans(const struct sim *sim, int node);
const struct request *orphan_request(const struct sim *sim, int node, int pod); /* as the agent knows it */
bool agent_prestart(struct sim *sim, int node, uint64_t ids);
size_t id_texts(uint64_t ids, char **ret_texts); /* at most 64 */
void agent_on_event(struct sim *sim, const struct event *event);

/* kubelet.c, devices.c */
void kubelet_start(struct sim *sim, int node);
void kubelet_kill(struct sim *sim, int node);
void kubelet_see(struct sim *sim, int node, int pod, const struct state *state, bool deleted, bool added);
void kubelet_listed(struct sim *sim, int node, const struct state *states, int n);
void kubelet_reject(struct sim *sim, int node, int pod, enum reason reason);
void kubelet_admitted(struct sim *sim, int node, int pod);
void kubelet_devices_gone(struct sim *sim, int node);
void kubelet_resize(struct sim *sim, int node);
void kubelet_register(struct sim *sim, int node, uint64_t all, uint64_t healthy);
uint64_t kubelet_active(const struct sim *sim, int node);
void kubelet_list(struct sim *sim, int node, uint64_t *ret_listed, uint64_t *ret_shows);
void kubelet_on_event(struct sim *sim, const struct event *event);
void kubelet_sync(struct sim *sim, int node, int pod);
void devices_admit(struct sim *sim, int node, int pod);
void devices_answered(struct sim *sim, int node, bool ok, uint64_t ids, int cdi, enum reason reason);
void devices_update(struct sim *sim, int node);
uint64_t devices_in_record(const struct kubelet *kubelet);
static inline int cdi_of(int pod, int container)
{
	return pod * CONTAINERS_MAX + container;
}

/* answers.c */
static inline bool answers_are_checked(const struct sim *sim)
{
	return sim->broken != BREAK_NO_ANSWER_CHECK && sim->broken != BREAK_OLDEST_UNCHECKED;
}

#define CDI_NAMES (PODS_MAX * CONTAINERS_MAX)
int answers_cdi(const char *name); /* cdi_of(), plus CDI_NAMES for each later name of the same container */
void answers_load(struct sim *sim, int node, struct served *served); /* the kubelet's checkpoint */
void answers_name_files(struct sim *sim, int node, int pod);	     /* its CDI file is written */
void answers_settle(struct sim *sim, int node);
bool answers_check(struct sim *sim, int node, char *const *ids, size_t n_ids); /* false: it must not start */
int answers_owner(
	const struct sim *sim, int node, int cdi); /* whose devices the name has, cdi_of(); -1: none */

/* terms.c */
bool terms_whole(const struct sim *sim, int node); /* it gives whole GPUs now */
uint32_t terms_gpu_units(const struct sim *sim, int node, int gpu);
void terms_input(struct sim *sim, const struct input *input);
void terms_start(struct sim *sim, int node); /* its agent */
void terms_bound(struct sim *sim, int pod, int node);
void terms_set(const struct sim *sim, int node, struct node_facts *facts, bool whole, bool other);
void terms_on_event(struct sim *sim, const struct event *event);

/* evictions.c */
void evictions_start(struct ration *ration);
void evictions_carry_out(struct sim *sim, int pair);
void evictions_check_at_end(struct sim *sim);
void evictions_on_event(struct sim *sim, const struct event *event);

/* sizes.c */
void size_input(struct sim *sim, const struct input *input);
void size_carry_out(struct sim *sim, int pair);
struct resize_ops size_ops(struct ration *ration);
/* The agent: limits follow what it knows. */
void size_follow(struct sim *sim, int node);
void size_follow_pod(struct sim *sim, int node, const struct node_pod *known);
void size_on_event(struct sim *sim, const struct event *event);
const struct request *size_request(const struct pod *pod, int size);
const struct placement *size_placement(const struct pod *pod, int size);
void size_release(struct pod *pod);

/* fitting.c: the truth about GPUs, and whether there is room; none of it is the product's code */
struct nomination;
struct truth {
	uint32_t used[NODES_MAX][GPUS_MAX];
	uint32_t instances[NODES_MAX][GPUS_MAX];
	uint32_t core[NODES_MAX][GPUS_MAX];
	uint32_t unplaced[NODES_MAX], unplaced_core[NODES_MAX], all_core[NODES_MAX];
	bool with_core[NODES_MAX], without_core[NODES_MAX];
	uint32_t all[NODES_MAX];
	int64_t surplus_ids[NODES_MAX]; /* what the kubelet counts beyond that */
};
bool fitting_occupies(const struct pod *pod);
void fitting_recount(const struct sim *sim, struct truth *ret);
bool fitting_fits(const struct sim *sim, const struct truth *truth, int node, const struct request *request);
/* Some `needed` of these pods, all at once; -1: the search was not finished. */
int fitting_all(const struct sim *sim, const struct truth *truth, uint64_t pods, size_t needed);
/* What is kept for others than this pod is as good as used: by the book of the pair that leads. */
void fitting_lay_kept(const struct sim *sim, int pod, struct truth *truth);
bool fitting_is_kept_from(const struct sim *sim, const struct nomination *kept, int pod);

/* gpus-checks.c: of whole GPUs, which ones it has to be; searched among all sets, with the links of the
 * plan */
void gpus_start(struct sim *sim);
void gpus_look(const struct sim *sim, int pair, struct gpus_seen *ret);
/* The pod got these GPUs of the node, when the ledger was as `before` says. */
void gpus_check(struct sim *sim, int pair, const struct gpus_seen *before, int pod, int node, uint8_t gpus);
/* The answer of filter: the first of these nodes, the others do as well. */
void gpus_check_rank(struct sim *sim, int pair, int pod, const int *nodes, size_t n);
/* A gang may have been planned since. */
void gpus_check_plans(struct sim *sim, int pair, const struct gpus_seen *before);
void gpus_check_visible(struct sim *sim, int pair, int pod, int node, const struct placement *placement);

/* invariants.c */
void invariants_after_step(struct sim *sim);
void invariants_at_end(struct sim *sim);
void invariant_container_started(struct sim *sim, int node, int pod, int container);
void invariant_rejected(struct sim *sim, int node, int pod, enum reason reason);

extern const char *const reason_names[REASON_MAX];
extern const char *const broken_names[BREAK_MAX];
extern const char *sim_invariant; /* no other one is looked at; NULL: all are */
extern const char *const counter_names[COUNT_MAX];
