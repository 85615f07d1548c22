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
	GANG_PLANNED,  /* holds its place; kube-scheduler has not asked for it since */
	GANG_ANSWERED, /* filter named its node */
	GANG_AT_BIND,  /* at the barrier */
	GANG_SENT,     /* its Binding is on its way, or in doubt */
	GANG_PLACED,   /* the API server has it bound */
	GANG_DONE,     /* it succeeded before its gang had started, and is there still */
};

/* Why filter names no node for a member. */
enum gang_reason {
	GANG_NOTHING,	 /* filter named a node, or kube-scheduler has not asked */
	GANG_NOT_READ,	 /* the PodGroups are not read yet */
	GANG_NO_MIN,	 /* nothing says how many members are needed */
	GANG_BAD_GROUP,	 /* the PodGroup has no valid number */
	GANG_TOO_FEW,	 /* other pods have to come first */
	GANG_NO_ROOM,	 /* no room for as many as are needed */
	GANG_NOT_YET,	 /* its next turn comes by itself */
	GANG_NOT_NEEDED, /* the other members have room; this one has none beside them */
};

/* A set of nodes, shared by members that kube-scheduler offered the same nodes. With thousands of nodes each
 * set takes half a megabyte, and every call may bring another set. So only few are kept. */
#define GANG_NODE_SETS_MAX 32
struct gang_nodes {
	struct list item;   /* in gangs->node_sets; the set that was used longest ago is the first */
	unsigned users;	    /* members */
	struct table names; /* values are not read */
};

struct gang_member {
	struct list item; /* in gang->members, or in gang->past.done */
	struct gang *gang;
	/* The facts are here because the ledger has no record of pods without a GPU, or of pods that only
	 * kube-scheduler has shown. gang and gang_min are the values that count, which may differ from the
	 * labels. */
	struct pod_facts facts;
	enum gang_stage stage;
	enum gang_reason told; /* what filter said last; users see it until filter says something else */
	int64_t asked_ns;      /* when kube-scheduler asked this process for it last; 0: never */
	bool listed;	       /* the watch has shown it; an unlisted one is forgotten soon after asked_ns */
	struct gang_nodes *nodes; /* nodes that kube-scheduler offered then; NULL: unknown */
	int64_t nodes_valid_ns;	  /* how long after asked_ns `nodes` is believed */
	bool recalled;		  /* GANG_DONE: it was never seen as a member, only among the finished pods */
	bool missed;		  /* the others waited at bind for it in vain; shown by `ration why` */
	bool labels_if_refused;	  /* its labels were shown while its Binding was on its way */
	int64_t kept_ns;	  /* since when the GPUs that are kept for it have not become free */
	int64_t ordered_ns; /* when its eviction, or the removal of its mark, was last ordered; the order is
			       repeated */
};

/* The fields of scheduler-plugins' PodGroup that matter here. */
struct gang_group {
	uint32_t min;	    /* 0: the PodGroup has no valid number, so its gang waits */
	int64_t timeout_ns; /* 0: not set */
};

/* A gang whose plans are given up is tried more and more rarely. */
struct gang_backoff {
	uint32_t failures; /* plans given up; reset when the gang starts */
	int64_t not_before_ns;
};

/* The last plan found no room for enough members. The next plan waits until something changes. */
struct gang_no_room {
	uint64_t generation; /* the ledger's at that time */
	int64_t until_ns;    /* from then on kube-scheduler may offer other nodes; 0: something has changed
				already */
};

/* Two kinds of members need no others: those that are left of a gang that has run, and those whose mates have
 * succeeded early. */
struct gang_past {
	struct table owners; /* controllers (uid) of the members that were placed when the gang started */
	struct list done;  /* members in the stage GANG_DONE; they count for members of the same controller */
	int64_t short_ns;  /* since when it has too few members, or none; 0: it has enough, or a member has no
			      controller */
	int64_t recall_ns; /* when GANG_RECALL is due; INT64_MAX: it was answered */
};

struct gang {
	char *key;	     /* namespace/name */
	struct list members; /* struct gang_member, in all stages but GANG_DONE */
	bool has_group;
	struct gang_group group;
	struct gang_past past;

	/* For placing all members or none. */
	bool started;	 /* enough were placed, and at least one has existed since: new members are scheduled
			    individually */
	int64_t plan_ns; /* when its plan was made, or a member last came for its place; 0: it has no plan */

	/* For the order: the oldest gang comes first, but a gang that would be tried in vain lets others
	 * pass. */
	struct gang_backoff backoff;
	struct gang_no_room no_room;
	uint64_t round;		    /* the gangs->round in which gangs_look() planned it last */
	uint64_t hopeless_capacity; /* ledger->capacity when the gang would not have fitted in an empty
				       cluster; 0: unknown */

	/* For the time-outs: no gang starves, and none stays partly placed. */
	int64_t waiting_ns; /* since when enough members wait; 0: they do not */
	int64_t partly_ns;  /* since when some members are placed, but too few; 0: not so */
};

/* A decision, told when it is made to a listener that keeps a record. Valid during the call. */
enum gang_event_kind {
	GANG_EVENT_PLAN,     /* where its members could go; their holds change after this event */
	GANG_EVENT_GIVEN_UP, /* its plan was dropped; the members' stages change after this event */
	GANG_EVENT_KEPT,     /* GPUs were kept for the one member in slots */
};

struct gang_slot;

struct gang_event {
	enum gang_event_kind kind;
	const struct gang *gang;
	bool asked; /* kube-scheduler waits for the answer */
	const struct gang_slot *slots;
	size_t n_slots, needed, placed; /* for a plan; 0 placed: no room */
	const char *text;		/* why the plan was given up */
};

struct gang_rules {
	int64_t keep_after_ns; /* a gang that has waited for this time has GPUs kept for it */
	int64_t timeout_ns; /* how long a gang may be partly placed, unless its PodGroup has another time-out
			     */
};

struct gangs {
	struct gang_rules rules;
	struct requeue_list *requeues; /* waiting members are reported to it */
	struct table by_key;	       /* struct gang */
	struct table by_uid;	       /* struct gang_member */
	bool groups_known;	       /* see gangs_set_groups_known() */
	bool following;		       /* see gangs_set_following() */
	struct list orders;
	struct list node_sets;
	size_t n_node_sets;
	int64_t looked_ns; /* when gangs_look() was called last */
	uint64_t round;	   /* of plans by gangs_look(): each gang is planned once in a round, which may take
			      several calls */
	struct gang *kept; /* the one gang for which GPUs are kept, or NULL */
	int64_t fit_check_ns; /* when the last gang was found never to fit: the check takes long */
	void (*listener)(void *userdata, const struct gang_event *event); /* NULL: no listener */
	void *listener_data;
};

enum gang_order_kind {
	GANG_GO, /* for all members of this gang at bind: reserve all, then send all; or none of them */
	GANG_TURN_AWAY, /* refuse this pod's call of bind */
	GANG_EVICT,	/* the pod is placed, and its gang has not started in time */
	GANG_UNMARK,	/* the pod is placed with the mark, and its gang has started */
	GANG_RECALL,	/* the gang has too few members: call gangs_has_run() for its finished pods */
};

struct gang_order {
	struct list item; /* for the gangs' own use */
	enum gang_order_kind kind;
	char *uid; /* the pod's; GANG_GO: of any member */
};

/* gangs_init() - requeues must outlive gangs. */
void gangs_init(struct gangs *gangs, const struct gang_rules *rules, struct requeue_list *requeues);
void gangs_release(struct gangs *gangs);

/* gangs_next_order() - returns the oldest order, which the caller frees by gang_order_free(); NULL: no
 * order is left. After each call below that says so, the caller takes orders until no order is left. */
struct gang_order *gangs_next_order(struct gangs *gangs);
void gang_order_free(struct gang_order *order); /* accepts NULL */

/* gangs_see_pod() - the watch (listed) or a call of kube-scheduler shows the pod like this. A pod's gang is
 * the one that it had when it was bound (facts->gang_bound). Without that record, it is the gang under which
 * the watch has shown the pod before, or the one whose label a LIST shows. A pod that has no gang, is being
 * deleted or has finished is not taken in, or leaves; then the place that was planned for it is given back. A
 * pod that leaves successfully before the gang has started counts as placed if its controller creates no pod
 * in its place. Returns -ENOMEM, with the pod left out. gangs_forget_pod() - the pod has ended.
 * gangs_delete_pod() - the pod is gone from the API server. Unknown uids are ignored. Orders may follow all
 * three. */
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

/* gangs_set_group() / gangs_remove_group() - the PodGroup with this namespace/name; its min takes precedence
 * over the pods' own. */
int gangs_set_group(struct gangs *gangs, const char *key, const struct gang_group *group);
void gangs_remove_group(struct gangs *gangs, const char *key);

/* gangs_set_groups_known() - whether all PodGroups have been read; true at first. Before that, it is unknown
 * how many pods of a gang must be placed. gangs_set_following() - whether the watch of pods is open, so that
 * what it has shown is of one moment; true at first. */
void gangs_set_groups_known(struct gangs *gangs, bool known);
void gangs_set_following(struct gangs *gangs, bool following);

/* gangs_filter() - kube-scheduler asks for the pod, which may go to these nodes.
 *
 * GANG_NONE: the pod has no gang (any more), or its gang has started; it takes the normal path. GANG_NODE:
 * *ret_node is its node, and its GPU is held. GANG_WAIT: there is no node, for the constant reason in
 * *ret_text. Orders may follow. */
enum gang_answer { GANG_NONE, GANG_NODE, GANG_WAIT };
enum gang_answer gangs_filter(struct gangs *gangs, struct ledger *ledger, const struct pod_facts *pod,
	const char *const *names, size_t n, int64_t now_ns, const char **ret_node, const char **ret_text);

/* A caller that lets a gang go only to some of the nodes calls these before gangs_filter(), and passes it
 * those nodes.
 *
 * gangs_seek() - kube-scheduler asks for the pod. True: the pod and other members of its gang, *ret_needed
 * together, still need their places; *ret_mate: uid of a member that has its place, or NULL. gangs_fit_on() -
 * whether this number would find room on these nodes (names; values are not read), even if kube-scheduler
 * would not let some members go there. gangs_for_waiting() - calls with the uid of each member with a GPU
 * that has no place, including the asking one; kube-scheduler binds pods without a GPU by itself.
 * gangs_has_none() - nothing is planned for the pod because its gang waits, so what other parts keep for the
 * pod is kept in vain. */
bool gangs_seek(struct gangs *gangs, struct ledger *ledger, const struct pod_facts *pod, int64_t now_ns,
	size_t *ret_needed, const char **ret_mate);
bool gangs_fit_on(const struct gangs *gangs, struct ledger *ledger, const char *uid,
	const struct table *nodes, size_t needed);
void gangs_for_waiting(const struct gangs *gangs, const char *uid,
	void (*call)(void *userdata, const char *uid), void *userdata);
bool gangs_has_none(const struct gangs *gangs, const char *uid);

/* gangs_bind() - kube-scheduler wants to bind the pod to this node. True: the call waits until an order says
 * GANG_GO or GANG_TURN_AWAY, which may follow at once. While it waits, the pod holds its GPU on this node. */
bool gangs_bind(
	struct gangs *gangs, struct ledger *ledger, const char *uid, const char *node, int64_t now_ns);

/* After GANG_GO: gangs_sent() - the pod's Binding is sent and its GPU is reserved in the ledger. From then
 * on, the ledger tells the result. gangs_give_up() - the plan of this pod's gang cannot be carried out; why:
 * a text for users. Orders may follow. */
void gangs_sent(struct gangs *gangs, const char *uid);
void gangs_give_up(
	struct gangs *gangs, struct ledger *ledger, const char *uid, const char *why, int64_t now_ns);

/* gangs_are_mates() - both pods are of the same gang. gangs_facts() - what is known of a member; NULL if the
 * pod is not a member. */
bool gangs_are_mates(const struct gangs *gangs, const char *uid, const char *other);
const struct pod_facts *gangs_facts(const struct gangs *gangs, const char *uid);

/* gangs_look() - handles time-outs, and plans waiting gangs for which there is room now. Call it after
 * changes of the ledger or the gangs, and at the time that it returned. Orders may follow. leads: this
 * process makes the plans; otherwise it only keeps the members up to date. Returns when to call again at the
 * latest, relative to now; INT64_MAX: when something changes. */
int64_t gangs_look(struct gangs *gangs, struct ledger *ledger, int64_t now_ns, bool leads);

/* gangs_is_forming() - the pod's Binding must carry the mark that its gang has not started yet. That holds
 * even if the gang has started, as far as this process knows: the others may be gone by the time the Binding
 * arrives, and the watch tells that in order. It does not hold for pods that are left over of a gang that has
 * run. */
bool gangs_is_forming(const struct gangs *gangs, const char *uid);

/* gangs_rules_out() - the pod's gang has not started, so decisions for single pods (preemption, evictions,
 * requeues) do not apply to it. */
bool gangs_rules_out(const struct gangs *gangs, const struct pod_facts *pod);

/* gangs_holds() - what the pod holds belongs to its gang's plan, and kube-scheduler has not asked for the pod
 * since. A verdict that users see now is older than the plan. */
bool gangs_holds(const struct gangs *gangs, const char *uid);

/* gangs_find() - the state of this pod's gang, for users; false if the pod has no gang. Valid until the next
 * change. */
struct gang_view {
	const char *key;
	uint32_t min; /* 0: not set anywhere */
	bool mins_differ;
	size_t n_members, n_placed, n_planned,
		n_at_bind; /* n_planned: hold a place or have their Binding sent */
	int n_room; /* if there is no room for min members: how many are placed or would find room; else -1 */
	bool started, keeping;
	uint32_t failures;
	int64_t not_before_ns, waiting_ns;
	const char *text;    /* what it waits for, as filter says it; NULL: it does not wait */
	const char *missing; /* the pod that its last plan waited for in vain, or NULL */
};
bool gangs_find(const struct gangs *gangs, struct ledger *ledger, const char *uid, int64_t now_ns,
	struct gang_view *ret_view);
