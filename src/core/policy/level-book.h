/* level-book.h - the ResourcePolicies of one namespace, its pods, and how many of them are in which level.
 * Pure.
 *
 * A pod belongs to the oldest policy that selects it (then the first by name), and to the first level of it
 * that its node belongs to and whose podLabels and podAnnotations it has. Before it is bound it is in the
 * level that filter gave it, by its claim.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/table.h"
#include "core/policy/levels.h"

/* The nodes of the cluster, shared by all books. */
struct level_nodes {
	struct table by_name; /* struct level_node */
	uint64_t generation;  /* grows with every change that matters */
	uint64_t n_policies;  /* that there ever were: level_policy.serial */
};

/* What was found out about a node once is not read from its labels again at each question: a node has a new
 * struct level_node when they change. */
#define LEVEL_SEEN_MAX 8
struct level_seen {
	uint64_t serial; /* of the policy; 0: nothing */
	uint64_t levels; /* levels_of_node() */
};

struct level_node {
	char *labels; /* NULL if it has none */
	bool is_virtual;
	struct level_seen seen[LEVEL_SEEN_MAX]; /* by serial */
	char name[];
};

void level_nodes_init(struct level_nodes *nodes);
void level_nodes_release(struct level_nodes *nodes);

/* level_nodes_set() - labels (borrowed) as in selector.h. -ENOMEM: nothing changed. */
int level_nodes_set(struct level_nodes *nodes, const char *name, const char *labels);
void level_nodes_remove(struct level_nodes *nodes, const char *name);

/* The annotation by which the end of one pod of a ReplicaSet is preferred to that of another. */
enum level_cost { LEVEL_COST_NONE, LEVEL_COST_OURS, LEVEL_COST_USERS };

/* What the API server says about a pod. */
struct level_pod_facts {
	char *uid, *namespace_, *name;
	char *node; /* "" if not bound */
	char *labels;
	char *annotations; /* likewise as text, only those of level_book.annotation_keys */
	struct amounts requests;
	int64_t scheduled; /* seconds since 1970 when it was bound; 0: not known */
	uint64_t verdict;  /* changes whenever kube-scheduler says anew that the pod is unschedulable; 0: it
			      does not */
	bool finished, terminating;
	bool nominated;
	bool of_replica_set;
	bool ours;	/* schedulerName is that of our scheduler */
	bool tolerates; /* virtual nodes */
	bool has_tolerations;
	char version[32]; /* resourceVersion, "" if it is none */
	enum level_cost cost;
	int32_t cost_value; /* of ours */
};

void level_pod_facts_release(struct level_pod_facts *facts);
#define _cleanup_level_pod_facts_ _cleanup_(level_pod_facts_release)

/* The pods of a policy with the same values of its matchLabelKeys. */
struct level_group {
	size_t members;
	struct level_use *use; /* n_levels of them */
	char key[];
};

struct level_pod {
	struct level_pod_facts facts;
	const struct level_policy *policy; /* NULL: none selects it */
	struct level_group *group;	   /* NULL: it lacks one of matchLabelKeys */
	int level;			   /* it is in; -1 */
	bool counts;			   /* for the limits of this level */
	int claim;			   /* the level that filter gave it, until it is bound; -1 */
	uint64_t claim_serial;		   /* of the policy that gave it */
	bool for_gang;			   /* it was claimed when another pod of its gang asked */
	int given;			   /* that of its last claim: where nodes belong to several levels */
	int64_t claim_began_ns, claim_ends_ns;
	struct level_wait wait;
	uint64_t wait_serial; /* of the policy that it has waited with */
	uint64_t preempt;     /* bits of levels in which others may be preempted for it, by the last answer */
	uint64_t round;	      /* level_book.round when a LIST or WATCH showed it last; 0: none did yet */

	/* For who answers kube-scheduler (src/scheduler/levels.c). */
	bool waits; /* filter found no level for it, since waits_since_ns */
	bool asked; /* about it, since we started */
	bool fresh; /* preempt is the answer of this attempt of kube-scheduler's */
	bool busy;  /* something is being written to it, or was and is not shown yet */
	int64_t waits_since_ns;
	int64_t wake_ns;       /* when it is to be asked about again; 0: never by time */
	int64_t not_before_ns; /* the next write to it */
	int64_t nudge_after_ns;
	uint32_t nudges;   /* since it was given a level */
	int64_t forget_ns; /* when it is forgotten if no LIST or WATCH shows it */
	uint64_t freed;	   /* of the book, when it was asked about or woken last */
	char text[LEVEL_TEXT_SIZE];
};

/* Whose end was told last. Kubernetes never gives a uid twice. */
#define LEVEL_GONE_MAX 256
#define LEVEL_UID_SIZE 40

struct level_book {
	struct level_nodes *nodes;
	uint64_t nodes_generation; /* that the counts are of */
	struct list policies;	   /* struct level_entry, in the order of who comes first */
	struct table pods;	   /* uid -> struct level_pod */
	struct table annotation_keys;
	uint64_t round; /* counts LISTs */
	bool stale;	/* to be counted anew before anything is asked */
	uint64_t freed; /* grows whenever there may be more room in a level than before */
	char gone[LEVEL_GONE_MAX][LEVEL_UID_SIZE];
	size_t next_gone;
};

struct level_entry {
	struct list item;
	struct level_policy *policy;
	struct table groups; /* text -> struct level_group */
};

void level_book_init(struct level_book *book, struct level_nodes *nodes);
void level_book_release(struct level_book *book);

/* level_book_set_policy() - takes it over in any case; replaces that of the same uid, and what pods have
 * waited for begins anew. -ENOMEM: it is lost. level_book_remove_policy() - unknown ones are ignored. */
int level_book_set_policy(struct level_book *book, struct level_policy *policy);
void level_book_remove_policy(struct level_book *book, const char *uid);
const struct level_policy *level_book_policy(const struct level_book *book, const char *uid);

/* level_book_begin_list() - from now on pods are listed that the watch does not show by itself.
 * level_book_is_shown() - this one has been, by either, since then. */
void level_book_begin_list(struct level_book *book);
bool level_book_is_shown(const struct level_book *book, const char *uid);

/* level_book_set_pod() - takes the facts over in any case and leaves them empty. Finished pods are removed.
 * listed: the watch shows it, else a question of kube-scheduler's. Returns the pod, NULL if it is finished or
 * there is no memory for it, or if the question is about one whose end the watch has told: kube-scheduler may
 * be behind. level_book_delete_pod() - the watch tells its end. level_book_is_gone() - it did lately. */
struct level_pod *level_book_set_pod(struct level_book *book, struct level_pod_facts *facts, bool listed);
void level_book_delete_pod(struct level_book *book, const char *uid);
bool level_book_is_gone(const struct level_book *book, const char *uid);
struct level_pod *level_book_pod(const struct level_book *book, const char *uid);

/* level_book_ask() - which level the pod may use now; together, room: as in struct level_question. The pod
 * has a policy and a group. Its own claim does not count. With LEVEL_USE the caller claims, otherwise the pod
 * waits. level_book_open() - bits of the levels that are not at their limit for it. */
void level_book_ask(struct level_book *book, struct level_pod *pod, uint32_t together, uint64_t room,
	int64_t now_ns, struct level_answer *ret_answer);
uint64_t level_book_open(struct level_book *book, struct level_pod *pod, uint32_t together);

/* level_book_claim() - until it is bound, asked about again, or its time is over. level_book_expire() - what
 * ended by time, pods that nobody shows too. shown_ns: of whom kube-scheduler had asked by then the watch has
 * shown if they are there; 0: that is not known. */
void level_book_claim(struct level_book *book, struct level_pod *pod, size_t level, int64_t now_ns);
void level_book_drop_claim(struct level_book *book, struct level_pod *pod);
void level_book_expire(struct level_book *book, int64_t now_ns, int64_t shown_ns);

/* level_book_settle() - counts anew what a change of nodes or policies left behind; level_book_ask() and
 * level_book_sum() begin with it. */
void level_book_settle(struct level_book *book);

/* level_book_sum() - pods of each level of this policy, over all groups; ret_use has LEVELS_MAX entries. */
void level_book_sum(struct level_book *book, const char *policy_uid, struct level_use *ret_use);

/* level_book_levels_of() - bits of the levels that a node belongs to, by name. */
uint64_t level_book_levels_of(
	const struct level_book *book, const struct level_policy *policy, const char *node);

/* level_pod_has_marks() - the podLabels and podAnnotations of this level. level_pod_owes_marks() - it lacks
 * some, or has some of another level that this one does not have. */
bool level_pod_has_marks(const struct level_pod *pod, size_t level);
bool level_pod_owes_marks(const struct level_pod *pod, size_t level);
