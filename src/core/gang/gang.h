/* gang.h - pods that are placed all or none. Pure: the time is an argument, and what must happen outside
 * comes out as orders. When kube-scheduler is to try members again is decided by core/requeue.h. Which file
 * does what: README.md.
 *
 * A gang is the pods of one namespace with the same group name; `min` of them are needed. Until min of them
 * are placed, the members are planned together (gang-plan.h). Each planned member holds its GPUs in the
 * ledger, filter names that node and no other, and no Binding is sent before min members wait at bind. If a
 * member does not reach bind in time, the plan is dropped, and the gang is tried again later.
 *
 * Once min members are placed, the gang has started: further pods are scheduled individually, until no member
 * is left. If the same controllers then create fewer than min pods, these pods are scheduled individually,
 * too. The last task of a Job, for example, would otherwise wait forever for tasks that have finished. A
 * process that has not seen the gang start asks the API server for its finished pods.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/table.h"
#include "core/registry/ledger.h"
#include "core/requeue.h"

/* If not all members wait at bind within this time after the first one, the plan is dropped. kube-scheduler
 * waits 10 s for an answer; the Bindings themselves take 3 s at most. */
#define GANG_BARRIER_NS (4 * INT64_C(1000000000))
/* The plan of a gang to which nothing happens for this time is dropped. It is longer than any back-off of
 * kube-scheduler (10 s by default). */
#define GANG_IDLE_NS (15 * INT64_C(1000000000))

/* A controller makes all of its pods within this time. */
#define GANG_ALL_MADE_NS (10 * INT64_C(1000000000))

enum gang_stage {
	GANG_WAITING,  /* nothing is planned for it */
	GANG_PLANNED,  /* holds its place, kube-scheduler has not asked for it since */
	GANG_ANSWERED, /* filter named its node */
	GANG_AT_BIND,  /* at the barrier */
	GANG_SENT,     /* its Binding is on its way, or in doubt */
	GANG_PLACED,   /* the API server has it bound */
	GANG_DONE,     /* it succeeded before its gang had started, and is there still */
};

/* Why filter names no node for a member. */
enum gang_reason {
	GANG_NOTHING,	 /* filter named a node, or nobody has asked */
	GANG_NOT_READ,	 /* the PodGroups are not known yet */
	GANG_NO_MIN,	 /* nothing says how many members are needed */
	GANG_BAD_GROUP,	 /* the PodGroup says no number */
	GANG_TOO_FEW,	 /* others have to come */
	GANG_NO_ROOM,	 /* for as many as are needed */
	GANG_NOT_YET,	 /* its next turn comes by itself */
	GANG_NOT_NEEDED, /* the others have room, and it has none beside them */
};

/* A set of nodes, shared by members that kube-scheduler offered the same ones. With thousands of nodes each
 * set takes half a megabyte, and every question may bring another one: few are kept. */
#define GANG_NODE_SETS_MAX 32
struct gang_nodes {
	struct list item;   /* in gangs->node_sets; the set that was used longest ago is the first */
	unsigned users;	    /* members */
	struct table names; /* values are not read */
};

struct gang_member {
	struct list item; /* in gang->members, or in gang->past.done */
	struct gang *gang;
	/* The ledger has no record of pods without a GPU and of pods that only kube-scheduler has shown; and
	 * gang and gang_min are those that count, whatever the labels say. */
	struct pod_facts facts;
	enum gang_stage stage;
	enum gang_reason told; /* what filter said last: people see it until filter says something else */
	int64_t asked_ns; /* when kube-scheduler asked for it last, so that it is our scheduler's; 0: never */
	bool listed;	  /* the watch has shown it; an unlisted one is forgotten soon after asked_ns */
	struct gang_nodes *nodes; /* those that kube-scheduler offered then; NULL: unknown */
	int64_t nodes_valid_ns;	  /* how long after asked_ns that is believed */
	bool recalled;	 /* GANG_DONE: it was never seen as a member, only among those that have finished */
	bool missed;	 /* the others waited at bind for it in vain, as `ration why` tells */
	int64_t kept_ns; /* since when GPUs are kept for it that do not become free */
	int64_t ordered_ns; /* when its eviction, or the end of its mark, was ordered last: it is repeated */
};

/* scheduler-plugins' PodGroup, as far as it matters. */
struct gang_group {
	uint32_t min;	    /* 0: it says no number that counts, so that its gang waits */
	int64_t timeout_ns; /* 0: not said */
};

/* A gang whose plans are given up is tried more and more rarely. */
struct gang_backoff {
	uint32_t failures; /* plans given up; the start of the gang ends the count */
	int64_t not_before_ns;
};

/* The last plan found no room for enough members: the next one waits until something changes. */
struct gang_no_room {
	uint64_t generation; /* of the ledger at that time */
	int64_t until_ns;    /* then kube-scheduler may offer other nodes; 0: something has changed already */
};

/* Members that are left of a gang that has run, and those whose mates have succeeded early, need no others.
 */
struct gang_past {
	struct table owners; /* controllers (uid) of the members that were placed when the gang had started */
	struct list done;    /* members in the stage GANG_DONE; they count for those of their controller */
	int64_t short_ns; /* since when it has too few members, or none; 0: enough, or a controller is missing
			   */
	int64_t recall_ns; /* when GANG_RECALL is due; INT64_MAX: it is answered */
};

struct gang {
	char *key;	     /* namespace/name */
	struct list members; /* struct gang_member; all stages but GANG_DONE */
	bool has_group;
	struct gang_group group;
	struct gang_past past;

	/* All or nothing. */
	bool started;	 /* enough were placed, and since then there was always one: others go one by one */
	int64_t plan_ns; /* when its plan was made, or a member came for its place last; 0: no plan holds */

	/* The oldest first, but what would be tried in vain lets others pass. */
	struct gang_backoff backoff;
	struct gang_no_room no_room;
	uint64_t round;		    /* gangs->round in which a look has planned it last */
	uint64_t hopeless_capacity; /* of the ledger when the gang would not have fitted even if nobody else
				       were there; 0: not known */

	/* No gang starves, and none stays in parts. */
	int64_t waiting_ns; /* since when enough members wait; 0: they do not */
	int64_t partly_ns;  /* since when some members are placed, and too few; 0: not so */
};

/* What is decided, told as it is decided to those who keep a record. Valid during the call. */
enum gang_event_kind {
	GANG_EVENT_PLAN,     /* where its members could go; what they are to hold changes after this */
	GANG_EVENT_GIVEN_UP, /* its plan, before the members' stages change */
	GANG_EVENT_KEPT,     /* GPUs, for the one member in slots */
};

struct gang_slot;

struct gang_event {
	enum gang_event_kind kind;
	const struct gang *gang;
	bool asked; /* kube-scheduler waits for the answer */
	const struct gang_slot *slots;
	size_t n_slots, needed, placed; /* of a plan; 0 placed: no room */
	const char *text;		/* given up: why */
};

struct gang_rules {
	int64_t keep_after_ns; /* a gang that has waited so long has GPUs kept for it */
	int64_t timeout_ns;    /* so long a gang may be partly placed, unless its PodGroup says else */
};

struct gangs {
	struct gang_rules rules;
	struct requeue_list *requeues; /* members that wait are reported to it */
	struct table by_key;	       /* struct gang */
	struct table by_uid;	       /* struct gang_member */
	bool groups_known;	       /* gangs_set_groups_known() */
	bool following;		       /* gangs_set_following() */
	struct list orders;
	struct list node_sets;
	size_t n_node_sets;
	int64_t looked_ns;    /* when gangs_look() was called last */
	uint64_t round;	      /* of plans by looks: each gang has one in it, however many looks it takes */
	struct gang *kept;    /* the one gang that GPUs are kept for; NULL: for none */
	int64_t fit_check_ns; /* when the last gang was found never to fit: such checks take long */
	void (*listener)(void *userdata, const struct gang_event *event); /* NULL: nobody listens */
	void *listener_data;
};

enum gang_order_kind {
	GANG_GO,	/* all of this gang that stand at bind: reserve all, then send all; or none of them */
	GANG_TURN_AWAY, /* this pod's call of bind is to be refused */
	GANG_EVICT,	/* it is placed, and its gang has not started in time */
	GANG_UNMARK,	/* it is placed with the mark, and its gang has started */
	GANG_RECALL,	/* too few are there: gangs_has_run() for those of its gang who have finished */
};

struct gang_order {
	struct list item; /* the gangs' own */
	enum gang_order_kind kind;
	char *uid; /* of the pod; GANG_GO: any member's */
};

/* gangs_init() - requeues must live longer. */
void gangs_init(struct gangs *gangs, const struct gang_rules *rules, struct requeue_list *requeues);
void gangs_release(struct gangs *gangs);

/* gangs_next_order() - the oldest one, which the caller frees by gang_order_free(); NULL: none. To be asked
 * until there is none after each call below that says so. */
struct gang_order *gangs_next_order(struct gangs *gangs);
void gang_order_free(struct gang_order *order); /* accepts NULL */

/* gangs_see_pod() - the watch (listed), or a question of kube-scheduler, shows the pod like this. A pod's
 * gang is the one that it had when it was bound (facts->gang_bound); without a record of that, the one under
 * which the watch has shown it before, or whose label a LIST shows. Pods that are of no gang, are being
 * deleted or have finished are left out, or leave: then the place that was planned for the pod is given back.
 * A pod that leaves successfully before the gang has started counts as placed, where its controller makes
 * nobody in its place. Returns -ENOMEM, with the pod left out. gangs_forget_pod() - it has ended.
 * gangs_delete_pod() - it is gone from the API server. Unknown uids are ignored. Orders may follow all three.
 */
int gangs_see_pod(struct gangs *gangs, struct ledger *ledger, const struct pod_facts *facts, bool listed,
	int64_t now_ns);
void gangs_forget_pod(struct gangs *gangs, const char *uid);
void gangs_delete_pod(struct gangs *gangs, const char *uid);

/* gangs_has_run() - a pod that has finished, as a LIST shows it. If it belongs to a known gang and
 * was placed after the gang had started, the gang remembers the pod's controller. After a restart, the
 * waiting pods alone would not show that the gang has started. -ENOMEM. gangs_recalled() - all such pods of
 * this pod's gang were shown.
 */
int gangs_has_run(struct gangs *gangs, const struct pod_facts *finished);
void gangs_recalled(struct gangs *gangs, const char *uid);

/* gangs_set_group() / gangs_remove_group() - the PodGroup of this namespace/name; its min comes before the
 * pods' own. */
int gangs_set_group(struct gangs *gangs, const char *key, const struct gang_group *group);
void gangs_remove_group(struct gangs *gangs, const char *key);

/* gangs_set_groups_known() - whether all PodGroups have been read; true at first. Before, nobody knows how
 * many pods of a gang have to be placed. gangs_set_following() - whether the watch of pods is open, so that
 * what it has shown is of one moment; true at first. */
void gangs_set_groups_known(struct gangs *gangs, bool known);
void gangs_set_following(struct gangs *gangs, bool following);

/* gangs_filter() - kube-scheduler asks for the pod, which may go to these nodes.
 *
 * GANG_NONE: it is of no gang (any more), or of one that has started: to be treated like any pod.
 * GANG_NODE: its node; its GPU is held. GANG_WAIT: none, for the constant reason in *ret_text. Orders may
 * follow. */
enum gang_answer { GANG_NONE, GANG_NODE, GANG_WAIT };
enum gang_answer gangs_filter(struct gangs *gangs, struct ledger *ledger, const struct pod_facts *pod,
	const char *const *names, size_t n, int64_t now_ns, const char **ret_node, const char **ret_text);

/* Who lets a gang go to some of the nodes only asks before gangs_filter(), and shows it those.
 *
 * gangs_seek() - kube-scheduler asks for the pod. True: it and so many others of its gang, *ret_needed
 * together, are still to be given their places; *ret_mate: uid of one that has been, or NULL. gangs_fit_on()
 * - whether so many would find room on these nodes (names; values are not read), wherever else kube-scheduler
 * may not let some of them go. gangs_for_waiting() - calls with the uid of each member with a GPU that has
 * no place, the asking one's too: others kube-scheduler binds by itself. gangs_has_none() - nothing is
 * planned for the pod, since its gang waits: what others keep for it is kept in vain. */
bool gangs_seek(struct gangs *gangs, struct ledger *ledger, const struct pod_facts *pod, int64_t now_ns,
	size_t *ret_needed, const char **ret_mate);
bool gangs_fit_on(const struct gangs *gangs, struct ledger *ledger, const char *uid,
	const struct table *nodes, size_t needed);
void gangs_for_waiting(const struct gangs *gangs, const char *uid,
	void (*call)(void *userdata, const char *uid), void *userdata);
bool gangs_has_none(const struct gangs *gangs, const char *uid);

/* gangs_bind() - kube-scheduler wants to bind the pod to this node. True: the call waits until an order says
 * GANG_GO or GANG_TURN_AWAY, which may follow at once. */
bool gangs_bind(struct gangs *gangs, const struct ledger *ledger, const char *uid, int64_t now_ns);

/* After GANG_GO: gangs_sent() - the pod's Binding leaves, its GPU is reserved in the ledger, which tells the
 * rest. gangs_give_up() - the plan of this pod's gang cannot be carried out; why: for people. Orders may
 * follow. */
void gangs_sent(struct gangs *gangs, const char *uid);
void gangs_give_up(
	struct gangs *gangs, struct ledger *ledger, const char *uid, const char *why, int64_t now_ns);

/* gangs_are_mates() - both pods are of the same gang. gangs_facts() - what is known of a member; NULL if it
 * is none. */
bool gangs_are_mates(const struct gangs *gangs, const char *uid, const char *other);
const struct pod_facts *gangs_facts(const struct gangs *gangs, const char *uid);

/* gangs_look() - what goes by time, and whether there is room now for a gang that waits; after changes of the
 * ledger or the gangs, and when it said. Orders may follow. leads: plans are ours to make; otherwise only the
 * members are kept. Returns when to call again at the latest, relative to now; INT64_MAX: when something
 * changes. */
int64_t gangs_look(struct gangs *gangs, struct ledger *ledger, int64_t now_ns, bool leads);

/* gangs_is_forming() - the pod's Binding is to carry the mark that its gang has not started yet. Also when
 * it has, for all we know: the others may be gone by the time it lands, which the watch tells in order. Not
 * of who is left over. */
bool gangs_is_forming(const struct gangs *gangs, const char *uid);

/* gangs_rules_out() - the pod is of a gang that has not started: whatever is decided for single pods
 * (preemption, evictions, waking) is not for it. */
bool gangs_rules_out(const struct gangs *gangs, const struct pod_facts *pod);

/* gangs_holds() - what the pod holds belongs to its gang's plan, which kube-scheduler has not asked for yet:
 * a verdict that is shown now is older than the plan. */
bool gangs_holds(const struct gangs *gangs, const char *uid);

/* gangs_find() - how the gang of this pod stands, for people; false if it is of none. Valid until the next
 * change. */
struct gang_view {
	const char *key;
	uint32_t min; /* 0: nobody says */
	bool mins_differ;
	size_t n_members, n_placed, n_planned, n_at_bind; /* n_planned: hold a place or have it sent */
	int n_room; /* no room for min of them: so many are placed or would find room; else -1 */
	bool started, keeping;
	uint32_t failures;
	int64_t not_before_ns, waiting_ns;
	const char *text;    /* what it waits for, as filter says it; NULL: nothing */
	const char *missing; /* the pod that its last plan waited for in vain, or NULL */
};
bool gangs_find(const struct gangs *gangs, struct ledger *ledger, const char *uid, int64_t now_ns,
	struct gang_view *ret_view);
