/* levels.h - a ResourcePolicy: groups of nodes (its units, here levels) that are filled in their order. What
 * one says, and which level a pod may use now. Pure; who is counted where: level-book.h.
 *
 * Meaning of every field: docs/internals/contract.md, "Levels of nodes".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/selector.h"

#define LEVELS_MAX 32
#define LEVEL_KEYS_MAX 8
#define LEVEL_RESOURCES_MAX 8
#define LEVEL_PAIRS_MAX 32 /* labels of one nodeSelector, podLabels, podAnnotations */
#define LEVEL_TIMEOUT_DEFAULT_S (15 * 60)

/* What a level's nodes are. eci and acs are a cloud's virtual nodes (label type=virtual-kubelet), the others
 * are all that is no virtual node. */
enum level_kind { LEVEL_IDC, LEVEL_ECS, LEVEL_ECI, LEVEL_ACS, LEVEL_ELASTIC, LEVEL_KIND_MAX };

/* When a pod that finds no place in a level goes on to the next one. */
enum level_advance {
	ADVANCE_LACK_OR_MAX,	     /* LackResourceOrExceedMax: at once */
	ADVANCE_MAX,		     /* ExceedMax: when the level is at its limit, or has none */
	ADVANCE_TIMEOUT_OR_MAX,	     /* TimeoutOrExceedMax: at its limit, or when the time is over */
	ADVANCE_LACK_NO_TERMINATING, /* LackResourceAndNoTerminating: at once, unless a pod of the level
					terminates */
	ADVANCE_TIMEOUT,	     /* Timeout: as TimeoutOrExceedMax, in levels without a limit too */
	ADVANCE_MAX_VALUE,
};

struct amount {
	char *resource;
	int64_t milli;
};

struct amounts {
	struct amount *list;
	size_t n;
};

struct label_pair {
	char *key, *value;
};

struct label_pairs {
	struct label_pair *list;
	size_t n;
};

struct level {
	enum level_kind kind;
	struct label_pairs node_selector;
	bool has_max;
	uint32_t max; /* pods */
	struct amounts max_resources;
	struct label_pairs pod_labels,
		pod_annotations; /* written to its pods; only pods that have them count */
	bool awaits_scaling;	 /* its nodes may still be on their way: see advance */
};

struct level_policy {
	uint64_t serial; /* no other one has it, nor had it before a change; level_book_set_policy() */
	char *uid, *namespace_, *name;
	int64_t created; /* seconds since 1970 */
	int64_t generation;
	struct selector selector;
	struct level levels[LEVELS_MAX];
	size_t n_levels;
	bool preempts_each; /* preemptPolicy BeforeNextUnit */
	bool ignores_previous, ignores_terminating;
	char *keys[LEVEL_KEYS_MAX]; /* matchLabelKeys */
	size_t n_keys;
	enum level_advance advance;
	int64_t timeout_ns;
};

/* level_policy_new() - with the defaults of the API. NULL: out of memory. Everything in it is freed with it.
 */
struct level_policy *level_policy_new(void);
void level_policy_free(struct level_policy *policy); /* accepts NULL */

/* level_pairs_add(), level_amounts_add() - copied. -ENOMEM, -E2BIG: more than the maximum. */
int level_pairs_add(struct label_pairs *pairs, const char *key, const char *value);
int level_amounts_add(struct amounts *amounts, const char *resource, int64_t milli);
void level_pairs_release(struct label_pairs *pairs);
void level_amounts_release(struct amounts *amounts);

/* level_pairs_hold() - the labels have them all. level_amount() - 0 if it is not there. */
bool level_pairs_hold(const struct label_pairs *pairs, const char *labels);
int64_t level_amount(const struct amounts *amounts, const char *resource);

const char *level_kind_text(enum level_kind kind);		   /* "idc" ... */
int level_kind_parse(const char *text, enum level_kind *ret_kind); /* -EINVAL */
bool level_kind_is_virtual(enum level_kind kind);
int level_advance_parse(const char *text, enum level_advance *ret_advance); /* -EINVAL */

/* level_has_node() - the node belongs to this level. levels_of_node() - bits of all that it belongs to. */
bool level_has_node(const struct level *level, const char *node_labels, bool is_virtual);
uint64_t levels_of_node(const struct level_policy *policy, const char *node_labels, bool is_virtual);

/* level_is_limited() - it has max or maxResources. */
bool level_is_limited(const struct level *level);

/* What is in a level, of one group of pods. */
struct level_use {
	uint32_t pods;			     /* that count for max */
	uint32_t terminating;		     /* whether or not they count */
	__int128 milli[LEVEL_RESOURCES_MAX]; /* of those that count, by the order of max_resources */
};

/* Why a level is not used. */
enum level_pass { LEVEL_FITS, LEVEL_AT_MAX, LEVEL_AT_MAX_RESOURCES, LEVEL_NO_ROOM, LEVEL_PASS_MAX };

enum level_verdict {
	LEVEL_USE,
	LEVEL_WAIT, /* for this level; until_ns says how long, INT64_MAX if for something to happen */
	LEVEL_NONE, /* no level is left */
};

/* What a waiting pod has behind it. All 0 in the beginning and after a change of the policy. */
struct level_wait {
	int64_t since_ns[LEVELS_MAX]; /* it has found no room in this level since; 0: it has not asked
				       */
	uint64_t preempted;	      /* bits of levels in which preemption was tried for it */
};

struct level_question {
	const struct level_policy *policy;
	const struct level_use *use; /* n_levels of them */
	const struct amounts *requests;
	uint64_t room;	   /* bits of levels of which a node can take the pod, as far as others are
			      concerned */
	bool nominated;	   /* others are on their way out for it */
	int64_t now_ns;	   /* monotonic, never 0 */
	uint32_t together; /* so many like it are to be placed at once; 0: it is alone */
};

struct level_answer {
	enum level_verdict verdict;
	size_t level;			 /* the one to use or to wait for; the last one with LEVEL_NONE */
	enum level_pass why[LEVELS_MAX]; /* of the levels before, and of this one unless it is used */
	int64_t until_ns;
	bool for_terminating; /* what it waits for is the end of a terminating pod */
	uint32_t together;    /* as in the question */
	uint64_t preempt;     /* bits of levels in which others may be preempted for it now */
};

/* level_decide() - wait is read and written. */
void level_decide(
	const struct level_question *question, struct level_wait *wait, struct level_answer *ret_answer);

/* levels_open() - bits of the levels that are not at their limit for it. */
uint64_t levels_open(const struct level_question *question);

/* level_answer_text() - for people and for the pod's condition: the same words for the same answer. */
#define LEVEL_TEXT_SIZE 512
const char *level_answer_text(
	const struct level_policy *policy, const struct level_answer *answer, char buf[LEVEL_TEXT_SIZE]);
