/* policy-book.h - the ResourcePolicies of one namespace, its pods, and how many of them are in which unit.
 * Pure.
 *
 * A pod belongs to the oldest policy that selects it (then the first by name), and to the first unit of it
 * that its node belongs to and whose podLabels and podAnnotations it has. Before it is bound it is in the
 * unit that filter gave it, by its claim.
 */
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
	uint64_t generation;  /* grows with every change that matters */
	uint64_t n_policies;  /* that there ever were: resource_policy.serial */
};

/* What was found out about a node once is not read from its labels again at each question: a node has a new
 * struct policy_node when they change. */
#define POLICY_SEEN_MAX 8
struct policy_seen {
	uint64_t serial; /* of the policy; 0: nothing */
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

/* The annotation by which the end of one pod of a ReplicaSet is preferred to that of another. */
enum policy_cost { POLICY_COST_NONE, POLICY_COST_OURS, POLICY_COST_USERS };

/* What the API server says about a pod. */
struct policy_pod_facts {
	char *uid, *namespace_, *name;
	char *node; /* "" if not bound */
	char *labels;
	char *annotations; /* likewise as text, only those of policy_book.annotation_keys */
	struct amounts requests;
	int64_t scheduled; /* seconds since 1970 when it was bound; 0: not known */
	uint64_t verdict;  /* changes whenever kube-scheduler says anew that the pod is unschedulable; 0: it
			      does not */
	bool finished, terminating;
	int32_t priority;
	bool nominated;
	bool of_replica_set;
	bool ours;	/* schedulerName is that of our scheduler */
	bool tolerates; /* virtual nodes */
	bool has_tolerations;
	char version[32]; /* resourceVersion, "" if it is none */
	enum policy_cost cost;
	int32_t cost_value; /* of ours */
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
	const struct resource_policy *policy; /* NULL: none selects it */
	struct policy_group *group;	      /* NULL: it lacks one of matchLabelKeys */
	int unit;			      /* it is in; -1 */
	bool counts;			      /* for the limits of this unit */
	/* What filter has promised it. */
	struct {
		int unit;	 /* that filter gave it, until it is bound; -1 */
		uint64_t serial; /* of the policy that gave it */
		bool for_gang;	 /* it was claimed when another pod of its gang asked */
		int given;	 /* that of its last claim: where nodes belong to several units */
		int64_t began_ns, ends_ns;
	} claim;
	struct policy_wait wait;
	uint64_t wait_serial; /* of the policy that it has waited with */
	uint64_t preempt;     /* bits of units in which others may be preempted for it, by the last answer */
	uint64_t round;	      /* policy_book.round when a LIST or WATCH showed it last; 0: none did yet */

	/* For the answers to kube-scheduler (src/scheduler/policies.c). */
	bool asked;	       /* about it, since we started */
	bool fresh;	       /* preempt is the answer of this attempt of kube-scheduler's */
	bool busy;	       /* something is being written to it, or was and is not shown yet */
	int64_t not_before_ns; /* the next write to it */
	int64_t forget_ns;     /* when it is forgotten if no LIST or WATCH shows it */
	char text[POLICY_TEXT_SIZE];
};

/* Whose end was told last. Kubernetes never gives a uid twice. */
#define POLICY_GONE_MAX 256
#define POLICY_UID_SIZE 40

struct policy_book {
	struct policy_nodes *nodes;
	struct requeue_list *requeues; /* learns of pods that wait for no unit any more */
	uint64_t nodes_generation;     /* that the counts are of */
	struct list policies;	       /* struct policy_entry, in the order of who comes first */
	struct table pods;	       /* uid -> struct policy_pod */
	struct table annotation_keys;
	uint64_t round; /* counts LISTs */
	bool stale;	/* to be counted anew before anything is asked */
	uint64_t freed; /* grows whenever there may be more room in a unit than before */
	char gone[POLICY_GONE_MAX][POLICY_UID_SIZE];
	size_t next_gone;
};

struct policy_entry {
	struct list item;
	struct resource_policy *policy;
	struct table groups; /* text -> struct policy_group */
};

/* policy_book_init() - nodes and requeues must live longer. */
void policy_book_init(struct policy_book *book, struct policy_nodes *nodes, struct requeue_list *requeues);
void policy_book_release(struct policy_book *book);

/* policy_book_set_policy() - takes it over in any case; replaces that of the same uid, and what pods have
 * waited for begins anew. -ENOMEM: it is lost. policy_book_remove_policy() - unknown ones are ignored. */
int policy_book_set_policy(struct policy_book *book, struct resource_policy *policy);
void policy_book_remove_policy(struct policy_book *book, const char *uid);
const struct resource_policy *policy_book_policy(const struct policy_book *book, const char *uid);

/* policy_book_begin_list() - from now on pods are listed that the watch does not show by itself.
 * policy_book_end_list() - removes pods that were shown before and by neither since then. A pod that was only
 * asked about may be newer than the list. policy_book_is_shown() - this one has been, by either, since then.
 */
void policy_book_begin_list(struct policy_book *book);
void policy_book_end_list(struct policy_book *book);
bool policy_book_is_shown(const struct policy_book *book, const char *uid);

/* policy_book_set_pod() - takes the facts over in any case and leaves them empty. Finished pods are removed.
 * listed: the watch shows it, else a question of kube-scheduler's. Returns the pod, NULL if it is finished or
 * there is no memory for it, or if the question is about one whose end the watch has told: kube-scheduler may
 * be behind. policy_book_delete_pod() - the watch tells its end. policy_book_is_gone() - it did lately. */
struct policy_pod *policy_book_set_pod(struct policy_book *book, struct policy_pod_facts *facts, bool listed);
void policy_book_delete_pod(struct policy_book *book, const char *uid);
bool policy_book_is_gone(const struct policy_book *book, const char *uid);
struct policy_pod *policy_book_pod(const struct policy_book *book, const char *uid);

/* policy_book_ask() - which unit the pod may use now; together, room: as in struct policy_question. The pod
 * has a policy and a group. Its own claim does not count. With POLICY_USE_UNIT the caller claims, otherwise
 * the pod waits. policy_book_open() - bits of the units that are not at their limit for it. */
void policy_book_ask(struct policy_book *book, struct policy_pod *pod, uint32_t together, uint64_t room,
	int64_t now_ns, struct policy_answer *ret_answer);
uint64_t policy_book_open(struct policy_book *book, struct policy_pod *pod, uint32_t together);

/* policy_book_claim() - until it is bound, asked about again, or its time is over. policy_book_expire() -
 * what ended by time, pods that nobody shows too. shown_ns: of whom kube-scheduler had asked by then the
 * watch has shown if they are there; 0: that is not known. */
void policy_book_claim(struct policy_book *book, struct policy_pod *pod, size_t unit, int64_t now_ns);
void policy_book_drop_claim(struct policy_book *book, struct policy_pod *pod);
void policy_book_expire(struct policy_book *book, int64_t now_ns, int64_t shown_ns);

/* policy_book_settle() - counts anew what a change of nodes or policies left behind; policy_book_ask() and
 * policy_book_sum() begin with it. */
void policy_book_settle(struct policy_book *book);

/* policy_book_sum() - pods of each unit of this policy, over all groups; ret_use has POLICY_UNITS_MAX
 * entries. */
void policy_book_sum(struct policy_book *book, const char *policy_uid, struct policy_unit_usage *ret_use);

/* policy_book_units_of() - bits of the units that a node belongs to, by name. */
uint64_t policy_book_units_of(
	const struct policy_book *book, const struct resource_policy *policy, const char *node);

/* policy_pod_owes_marks() - it lacks some of the podLabels and podAnnotations of this unit, or has some of
 * another unit that this one does not have. */
bool policy_pod_owes_marks(const struct policy_pod *pod, size_t unit);
