/* policy-book.h - the ResourcePolicies of one namespace, its pods, and how many of them each unit has. Pure.
 *
 * A pod belongs to the oldest policy that selects it (then the first by name). Within the policy, it belongs
 * to the first unit that contains its node and whose podLabels and podAnnotations it has. Before it is bound,
 * it belongs to the unit that filter gave it, by its claim. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/table.h"
#include "core/policy/policy.h"
#include "core/requeue.h"

/* The nodes of the cluster, shared by all books. */
struct policy_nodes {
	struct table by_name; /* struct policy_node */
	uint64_t generation;  /* grows with every change that can affect a unit */
	uint64_t n_policies;  /* all policies ever; the last resource_policy.serial */
};

/* Remembers the units of a node, so that its labels are not read for each decision. If the labels change, the
 * node has a new struct policy_node. */
#define POLICY_SEEN_MAX 8
struct policy_seen {
	uint64_t serial; /* of the policy; 0: unused */
	uint64_t units;	 /* policy_units_of_node() */
};

struct policy_node {
	char *labels; /* NULL if it has none */
	bool is_virtual;
	struct policy_seen seen[POLICY_SEEN_MAX]; /* by serial */
	char name[];
};

void policy_nodes_init(struct policy_nodes *nodes);
void policy_nodes_release(struct policy_nodes *nodes);

/* policy_nodes_set() - labels (borrowed) as in selector.h. -ENOMEM: nothing changed. */
int policy_nodes_set(struct policy_nodes *nodes, const char *name, const char *labels);
void policy_nodes_remove(struct policy_nodes *nodes, const char *name);

/* The annotation that says which pod of a ReplicaSet should end first. */
enum policy_cost { POLICY_COST_NONE, POLICY_COST_OURS, POLICY_COST_USERS };

/* The API server's facts of a pod. */
struct policy_pod_facts {
	char *uid, *namespace_, *name;
	char *node; /* "" if not bound */
	char *labels;
	char *annotations; /* as text like the labels; only those of policy_book.annotation_keys */
	struct amounts requests;
	int64_t scheduled; /* when it was bound, in seconds since 1970; 0: unknown */
	uint64_t verdict;  /* changes whenever kube-scheduler says again that the pod is unschedulable; 0: it
			      does not say so */
	bool finished, terminating;
	int32_t priority;
	bool nominated;
	bool of_replica_set;
	bool ours;	/* its schedulerName is that of ration's scheduler */
	bool tolerates; /* it tolerates virtual nodes */
	bool has_tolerations;
	char version[32]; /* resourceVersion; "" if unknown */
	enum policy_cost cost;
	int32_t cost_value; /* for POLICY_COST_OURS */
};

void policy_pod_facts_release(struct policy_pod_facts *facts);
#define _cleanup_policy_pod_facts_ _cleanup_(policy_pod_facts_release)

/* The pods of a policy with the same values of its matchLabelKeys. */
struct policy_group {
	size_t members;
	struct policy_unit_usage *use; /* n_units of them */
	char key[];
};

struct policy_pod {
	struct policy_pod_facts facts;
	const struct resource_policy *policy; /* NULL: no policy selects it */
	struct policy_group *group;	      /* NULL: it lacks one of matchLabelKeys */
	int unit;			      /* the unit that it is in; -1 */
	bool counts;			      /* it counts for the limits of this unit */
	/* What filter has promised the pod. */
	struct {
		int unit;	 /* the unit that filter gave it, until it is bound; -1 */
		uint64_t serial; /* of the policy that gave it */
		bool for_gang;	 /* it was claimed when another pod of its gang asked */
		int given;	 /* the unit of its last claim, for nodes that belong to several units */
		int64_t began_ns, ends_ns;
	} claim;
	struct policy_wait wait;
	uint64_t wait_serial; /* the serial of the policy for which it has waited */
	uint64_t preempt;     /* bits of units in which pods may be preempted for it, by the last answer */
	uint64_t round;	      /* policy_book.round when a LIST or WATCH last showed it; 0: none has */

	/* For calls of kube-scheduler and for writes (src/scheduler/policies.c). */
	bool asked;	       /* kube-scheduler has asked about it since this process began */
	bool fresh;	       /* preempt belongs to this attempt of kube-scheduler */
	bool busy;	       /* a write to it is under way, or is not shown yet */
	int64_t not_before_ns; /* the next write to it is not before this time */
	int64_t forget_ns;     /* when it is forgotten if no LIST or WATCH shows it */
	char text[POLICY_TEXT_SIZE];
};

/* Pods whose end was told last. Kubernetes never gives a uid twice. */
#define POLICY_GONE_MAX 256
#define POLICY_UID_SIZE 40

struct policy_book {
	struct policy_nodes *nodes;
	struct requeue_list *requeues; /* told when a pod no longer waits for a unit */
	uint64_t nodes_generation;     /* nodes->generation for which the counts are right */
	struct list policies;	       /* struct policy_entry, the first in precedence first */
	struct table pods;	       /* uid -> struct policy_pod */
	struct table annotation_keys;
	uint64_t round; /* number of LISTs */
	bool stale;	/* the counts must be made again before the next decision */
	uint64_t freed; /* grows whenever there may be more room in a unit than before */
	char gone[POLICY_GONE_MAX][POLICY_UID_SIZE];
	size_t next_gone;
};

struct policy_entry {
	struct list item;
	struct resource_policy *policy;
	struct table groups; /* text -> struct policy_group */
};

/* policy_book_init() - nodes and requeues must outlive the book. */
void policy_book_init(struct policy_book *book, struct policy_nodes *nodes, struct requeue_list *requeues);
void policy_book_release(struct policy_book *book);

/* policy_book_set_policy() - takes the policy over in any case; replaces the one with the same uid, and its
 * pods wait from the beginning. -ENOMEM: the policy is lost. policy_book_remove_policy() - unknown policies
 * are ignored. */
int policy_book_set_policy(struct policy_book *book, struct resource_policy *policy);
void policy_book_remove_policy(struct policy_book *book, const char *uid);
const struct resource_policy *policy_book_policy(const struct policy_book *book, const char *uid);

/* policy_book_begin_list() - a LIST begins of pods that the watch does not show by itself.
 * policy_book_end_list() - removes pods that were shown before, but not by the LIST or the watch since it
 * began. A pod that only a call of kube-scheduler showed may be newer than the list. policy_book_is_shown() -
 * the LIST or the watch has shown this pod since then. */
void policy_book_begin_list(struct policy_book *book);
void policy_book_end_list(struct policy_book *book);
bool policy_book_is_shown(const struct policy_book *book, const char *uid);

/* policy_book_set_pod() - takes the facts over in any case and leaves them empty. Finished pods are removed.
 * listed: the watch shows the pod; otherwise a call of kube-scheduler does. Returns the pod. Returns NULL if
 * the pod is finished, if memory runs out, or if kube-scheduler asks about a pod whose end the watch has
 * told, because kube-scheduler may be behind. policy_book_delete_pod() - the watch tells the pod's end.
 * policy_book_is_gone() - the watch has recently told the pod's end. */
struct policy_pod *policy_book_set_pod(struct policy_book *book, struct policy_pod_facts *facts, bool listed);
void policy_book_delete_pod(struct policy_book *book, const char *uid);
bool policy_book_is_gone(const struct policy_book *book, const char *uid);
struct policy_pod *policy_book_pod(const struct policy_book *book, const char *uid);

/* policy_book_ask() - decides which unit the pod may use now. The pod must have a policy and a group.
 * together, room: as in struct policy_question. The pod's own claim does not count. After POLICY_USE_UNIT the
 * caller claims the unit; otherwise the pod waits. policy_book_open() - bits of the units that are not at
 * their limit for the pod. */
void policy_book_ask(struct policy_book *book, struct policy_pod *pod, uint32_t together, uint64_t room,
	int64_t now_ns, struct policy_answer *ret_answer);
uint64_t policy_book_open(struct policy_book *book, struct policy_pod *pod, uint32_t together);

/* policy_book_claim() - holds until the pod is bound, asked about again, or its time is over.
 * policy_book_expire() - ends claims by time, and forgets pods that no LIST or watch shows. shown_ns: the
 * watch has shown each existing pod that kube-scheduler had asked about by then; 0: unknown. */
void policy_book_claim(struct policy_book *book, struct policy_pod *pod, size_t unit, int64_t now_ns);
void policy_book_drop_claim(struct policy_book *book, struct policy_pod *pod);
void policy_book_expire(struct policy_book *book, int64_t now_ns, int64_t shown_ns);

/* policy_book_settle() - counts anew what a change of nodes or policies has made stale; policy_book_ask() and
 * policy_book_sum() call it first. */
void policy_book_settle(struct policy_book *book);

/* policy_book_sum() - the pods of each unit of this policy, over all groups; ret_use has POLICY_UNITS_MAX
 * entries. */
void policy_book_sum(struct policy_book *book, const char *policy_uid, struct policy_unit_usage *ret_use);

/* policy_book_units_of() - bits of the units that a node belongs to, by name. */
uint64_t policy_book_units_of(
	const struct policy_book *book, const struct resource_policy *policy, const char *node);

/* policy_pod_owes_marks() - the pod lacks some of the podLabels and podAnnotations of this unit, or has some
 * of another unit that this unit does not have. */
bool policy_pod_owes_marks(const struct policy_pod *pod, size_t unit);
