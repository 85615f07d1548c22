/* policy.h - a ResourcePolicy: groups of nodes (its units) that are filled in their order. This file decides
 * which unit a pod may use now. Pure. Which pod counts in which unit: policy-book.h.
 *
 * Meaning of every field: docs/internals/contract.md, "Levels of nodes". */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/selector.h"

#define POLICY_UNITS_MAX 32
#define POLICY_KEYS_MAX 8
#define POLICY_RESOURCES_MAX 8
#define POLICY_PAIRS_MAX 32 /* pairs of one nodeSelector, podLabels or podAnnotations */
#define POLICY_TIMEOUT_DEFAULT_S (15 * 60)

/* The kind of a unit's nodes. eci and acs are virtual nodes of a cloud (label type=virtual-kubelet); the
 * other kinds are all other nodes. */
enum policy_unit_kind {
	POLICY_UNIT_IDC,
	POLICY_UNIT_ECS,
	POLICY_UNIT_ECI,
	POLICY_UNIT_ACS,
	POLICY_UNIT_ELASTIC,
	POLICY_UNIT_KIND_MAX
};

/* When a pod that finds no place in a unit goes on to the next one. */
enum policy_advance {
	ADVANCE_LACK_OR_MAX,	/* LackResourceOrExceedMax: at once */
	ADVANCE_MAX,		/* ExceedMax: when the unit is at its limit, or has no limit */
	ADVANCE_TIMEOUT_OR_MAX, /* TimeoutOrExceedMax: when the unit is at its limit, or the time is over */
	ADVANCE_LACK_NO_TERMINATING, /* LackResourceAndNoTerminating: at once, unless a pod of the unit
					terminates */
	ADVANCE_TIMEOUT,	     /* Timeout: as TimeoutOrExceedMax, in units without a limit too */
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

struct policy_unit {
	enum policy_unit_kind kind;
	struct label_pairs node_selector;
	bool has_max;
	uint32_t max; /* limit of pods */
	struct amounts max_resources;
	struct label_pairs pod_labels,
		pod_annotations; /* written to its pods; only pods that have them count */
	bool awaits_scaling;	 /* its nodes may still be scaling up: see advance */
};

struct resource_policy {
	uint64_t serial; /* unique for all time, new with each change; policy_book_set_policy() */
	char *uid, *namespace_, *name;
	int64_t created; /* seconds since 1970 */
	int64_t generation;
	struct selector selector;
	struct policy_unit units[POLICY_UNITS_MAX];
	size_t n_units;
	bool preempts_each; /* preemptPolicy BeforeNextUnit */
	bool ignores_previous, ignores_terminating;
	char *keys[POLICY_KEYS_MAX]; /* matchLabelKeys */
	size_t n_keys;
	enum policy_advance advance;
	int64_t timeout_ns;
};

/* resource_policy_new() - a policy with the defaults of the API. NULL: out of memory. resource_policy_free()
 * also frees everything in it. */
struct resource_policy *resource_policy_new(void);
void resource_policy_free(struct resource_policy *policy); /* accepts NULL */

/* label_pairs_add(), amounts_add() - copy their arguments. -ENOMEM, -E2BIG: more than the maximum. */
int label_pairs_add(struct label_pairs *pairs, const char *key, const char *value);
int amounts_add(struct amounts *amounts, const char *resource, int64_t milli);
void label_pairs_release(struct label_pairs *pairs);
void amounts_release(struct amounts *amounts);

/* label_pairs_hold() - the labels have all of the pairs. amounts_get() - 0 if there is no such amount. */
bool label_pairs_hold(const struct label_pairs *pairs, const char *labels);
int64_t amounts_get(const struct amounts *amounts, const char *resource);

const char *policy_unit_kind_text(enum policy_unit_kind kind);		       /* "idc" ... */
int policy_unit_kind_parse(const char *text, enum policy_unit_kind *ret_kind); /* -EINVAL */
bool policy_unit_kind_is_virtual(enum policy_unit_kind kind);
bool policy_has_virtual_unit(const struct resource_policy *policy);
int policy_advance_parse(const char *text, enum policy_advance *ret_advance); /* -EINVAL */

/* policy_unit_has_node() - the node belongs to this unit. policy_units_of_node() - bits of all units that it
 * belongs to. */
bool policy_unit_has_node(const struct policy_unit *unit, const char *node_labels, bool is_virtual);
uint64_t policy_units_of_node(const struct resource_policy *policy, const char *node_labels, bool is_virtual);

/* policy_unit_is_limited() - it has max or maxResources. */
bool policy_unit_is_limited(const struct policy_unit *unit);

/* What one group of pods uses in a unit. */
struct policy_unit_usage {
	uint32_t pods;			      /* pods that count for max */
	uint32_t terminating;		      /* whether or not they count */
	__int128 milli[POLICY_RESOURCES_MAX]; /* of the pods that count, in the order of max_resources */
};

/* Why a unit is not used. */
enum policy_unit_pass {
	POLICY_UNIT_FITS,
	POLICY_UNIT_AT_MAX,
	POLICY_UNIT_AT_MAX_RESOURCES,
	POLICY_UNIT_NO_ROOM,
	POLICY_UNIT_PASS_MAX
};

enum policy_verdict {
	POLICY_USE_UNIT,
	POLICY_WAIT,	/* wait for this unit until until_ns; INT64_MAX: until something happens */
	POLICY_NO_UNIT, /* no unit is left */
};

/* What a waiting pod has tried. All 0 at first and after a change of the policy. */
struct policy_wait {
	int64_t since_ns[POLICY_UNITS_MAX]; /* since when it has found no room in this unit; 0: it has not
					       asked */
	uint64_t preempted;		    /* bits of units in which preemption was tried for it */
};

struct policy_question {
	const struct resource_policy *policy;
	const struct policy_unit_usage *use; /* n_units of them */
	const struct amounts *requests;
	uint64_t room;	   /* bits of units with a node that can take the pod, by all other checks */
	bool nominated;	   /* other pods are being evicted for it */
	int64_t now_ns;	   /* monotonic, never 0 */
	uint32_t together; /* how many pods like it must be placed at once; 0: only this one */
};

struct policy_answer {
	enum policy_verdict verdict;
	size_t unit; /* the unit to use or to wait for; with POLICY_NO_UNIT the last one */
	enum policy_unit_pass
		why[POLICY_UNITS_MAX]; /* for the units before, and for this one unless it is used */
	int64_t until_ns;
	bool for_terminating; /* the pod waits for the end of a terminating pod */
	uint32_t together;    /* as in the question */
	uint64_t preempt;     /* bits of units in which pods may be preempted for it now */
};

/* policy_decide() - wait is read and written. */
void policy_decide(
	const struct policy_question *question, struct policy_wait *wait, struct policy_answer *ret_answer);

/* policy_open_units() - bits of the units that are not at their limit for the pod. */
uint64_t policy_open_units(const struct policy_question *question);

/* policy_answer_text() - for users and for the pod's condition: the same text for the same answer. */
#define POLICY_TEXT_SIZE 512
const char *policy_answer_text(
	const struct resource_policy *policy, const struct policy_answer *answer, char buf[POLICY_TEXT_SIZE]);
