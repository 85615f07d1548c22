#include "core/policy/policy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

static const char *const kinds[POLICY_UNIT_KIND_MAX] = {[POLICY_UNIT_IDC] = "idc",
	[POLICY_UNIT_ECS] = "ecs",
	[POLICY_UNIT_ECI] = "eci",
	[POLICY_UNIT_ACS] = "acs",
	[POLICY_UNIT_ELASTIC] = "elastic"};

/* The last value has the spelling of the API's types; the documents write it with a capital T. */
static const struct {
	const char *text;
	enum policy_advance advance;
} advances[] = {{"LackResourceOrExceedMax", ADVANCE_LACK_OR_MAX}, {"ExceedMax", ADVANCE_MAX},
	{"TimeoutOrExceedMax", ADVANCE_TIMEOUT_OR_MAX}, {"Timeout", ADVANCE_TIMEOUT},
	{"LackResourceAndNoTerminating", ADVANCE_LACK_NO_TERMINATING},
	{"LackResourceAndNoterminating", ADVANCE_LACK_NO_TERMINATING}};

struct resource_policy *resource_policy_new(void)
{
	struct resource_policy *policy = calloc(1, sizeof(*policy));

	if (!policy)
		return NULL;
	policy->ignores_terminating = true;
	policy->timeout_ns = POLICY_TIMEOUT_DEFAULT_S * NS_PER_S;
	return policy;
}

void label_pairs_release(struct label_pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++) {
		free(pairs->list[i].key);
		free(pairs->list[i].value);
	}
	free(pairs->list);
	*pairs = (struct label_pairs){0};
}

void amounts_release(struct amounts *amounts)
{
	for (size_t i = 0; i < amounts->n; i++)
		free(amounts->list[i].resource);
	free(amounts->list);
	*amounts = (struct amounts){0};
}

void resource_policy_free(struct resource_policy *policy)
{
	if (!policy)
		return;
	for (size_t i = 0; i < policy->n_units; i++) {
		label_pairs_release(&policy->units[i].node_selector);
		amounts_release(&policy->units[i].max_resources);
		label_pairs_release(&policy->units[i].pod_labels);
		label_pairs_release(&policy->units[i].pod_annotations);
	}
	for (size_t i = 0; i < policy->n_keys; i++)
		free(policy->keys[i]);
	selector_release(&policy->selector);
	free(policy->uid);
	free(policy->namespace_);
	free(policy->name);
	free(policy);
}

int label_pairs_add(struct label_pairs *pairs, const char *key, const char *value)
{
	struct label_pair *grown, added = {.key = NULL};

	if (pairs->n == POLICY_PAIRS_MAX)
		return -E2BIG;
	grown = reallocarray(pairs->list, pairs->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	pairs->list = grown;
	added.key = strdup(key);
	added.value = strdup(value);
	if (!added.key || !added.value) {
		free(added.key);
		free(added.value);
		return -ENOMEM;
	}
	grown[pairs->n++] = added;
	return 0;
}

int amounts_add(struct amounts *amounts, const char *resource, int64_t milli)
{
	struct amount *grown;
	char *copy;

	if (amounts->n == POLICY_PAIRS_MAX)
		return -E2BIG;
	grown = reallocarray(amounts->list, amounts->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	amounts->list = grown;
	copy = strdup(resource);
	if (!copy)
		return -ENOMEM;
	grown[amounts->n++] = (struct amount){.resource = copy, .milli = milli};
	return 0;
}

bool label_pairs_hold(const struct label_pairs *pairs, const char *labels)
{
	for (size_t i = 0; i < pairs->n; i++)
		if (!labels_have(labels, pairs->list[i].key, pairs->list[i].value))
			return false;
	return true;
}

int64_t amounts_get(const struct amounts *amounts, const char *resource)
{
	for (size_t i = 0; i < amounts->n; i++)
		if (strcmp(amounts->list[i].resource, resource) == 0)
			return amounts->list[i].milli;
	return 0;
}

const char *policy_unit_kind_text(enum policy_unit_kind kind)
{
	return kinds[kind];
}

int policy_unit_kind_parse(const char *text, enum policy_unit_kind *ret_kind)
{
	for (int kind = 0; kind < POLICY_UNIT_KIND_MAX; kind++)
		if (strcmp(text, kinds[kind]) == 0) {
			*ret_kind = (enum policy_unit_kind)kind;
			return 0;
		}
	return -EINVAL;
}

bool policy_unit_kind_is_virtual(enum policy_unit_kind kind)
{
	return kind == POLICY_UNIT_ECI || kind == POLICY_UNIT_ACS;
}

bool policy_has_virtual_unit(const struct resource_policy *policy)
{
	for (size_t i = 0; i < policy->n_units; i++)
		if (policy_unit_kind_is_virtual(policy->units[i].kind))
			return true;
	return false;
}

int policy_advance_parse(const char *text, enum policy_advance *ret_advance)
{
	for (size_t i = 0; i < ARRAY_SIZE(advances); i++)
		if (strcmp(text, advances[i].text) == 0) {
			*ret_advance = advances[i].advance;
			return 0;
		}
	return -EINVAL;
}

bool policy_unit_has_node(const struct policy_unit *unit, const char *node_labels, bool is_virtual)
{
	return policy_unit_kind_is_virtual(unit->kind) == is_virtual &&
	       label_pairs_hold(&unit->node_selector, node_labels);
}

uint64_t policy_units_of_node(const struct resource_policy *policy, const char *node_labels, bool is_virtual)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < policy->n_units; i++)
		bits |= (uint64_t)policy_unit_has_node(&policy->units[i], node_labels, is_virtual) << i;
	return bits;
}

bool policy_unit_is_limited(const struct policy_unit *unit)
{
	return unit->has_max || unit->max_resources.n;
}

/* POLICY_UNIT_NO_ROOM only means that the unit is not at its limit. */
static enum policy_unit_pass limit_reached(const struct policy_question *question, size_t at)
{
	const struct policy_unit *unit = &question->policy->units[at];
	const struct policy_unit_usage *use = &question->use[at];
	uint32_t pods = question->together ? question->together : 1;

	if (unit->has_max && (uint64_t)use->pods + pods > unit->max)
		return POLICY_UNIT_AT_MAX;
	for (size_t i = 0; i < unit->max_resources.n; i++) {
		const struct amount *max = &unit->max_resources.list[i];
		__int128 wanted = (__int128)amounts_get(question->requests, max->resource) * pods;

		if (wanted > 0 && wanted > max->milli - use->milli[i])
			return POLICY_UNIT_AT_MAX_RESOURCES;
	}
	return POLICY_UNIT_NO_ROOM;
}

uint64_t policy_open_units(const struct policy_question *question)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < question->policy->n_units; i++)
		bits |= (uint64_t)(limit_reached(question, i) == POLICY_UNIT_NO_ROOM) << i;
	return bits;
}

/* Until when a pod stays with a unit that is not at its limit and has no room; 0: it does not stay. */
static int64_t stays_until(const struct policy_question *question, size_t at, int64_t since_ns)
{
	const struct resource_policy *policy = question->policy;
	const struct policy_unit *unit = &policy->units[at];

	switch (policy->advance) {
	case ADVANCE_MAX:
		return policy_unit_is_limited(unit) ? INT64_MAX : 0;
	case ADVANCE_TIMEOUT_OR_MAX:
		if (!policy_unit_is_limited(unit) && !unit->awaits_scaling)
			return 0;
		return since_ns + policy->timeout_ns;
	case ADVANCE_TIMEOUT:
		return since_ns + policy->timeout_ns;
	default:
		return 0;
	}
}

/* The pod tries preemption in this unit before the next one. kube-scheduler's next call shows whether it
 * worked. */
static bool waits_for_preemption(const struct policy_question *question, size_t at, struct policy_wait *wait,
	struct policy_answer *answer)
{
	uint64_t bit = UINT64_C(1) << at;

	if (!question->policy->preempts_each)
		return false;
	answer->preempt |= bit;
	if (wait->preempted & bit)
		return question->nominated;
	wait->preempted |= bit;
	return true;
}

/* Whether the pod waits for this unit, in which it has no place, instead of going to the next one. */
static bool waits(const struct policy_question *question, size_t at, struct policy_wait *wait,
	struct policy_answer *answer)
{
	bool last = at + 1 == question->policy->n_units;

	answer->for_terminating = question->policy->advance == ADVANCE_LACK_NO_TERMINATING &&
				  question->use[at].terminating > 0;
	answer->until_ns = INT64_MAX;
	if (answer->why[at] != POLICY_UNIT_NO_ROOM) {
		wait->since_ns[at] = 0;
		return !last && answer->for_terminating;
	}
	if (!wait->since_ns[at])
		wait->since_ns[at] = question->now_ns;
	if (last)
		return false;
	if (waits_for_preemption(question, at, wait, answer) || answer->for_terminating)
		return true;
	answer->until_ns = stays_until(question, at, wait->since_ns[at]);
	return answer->until_ns > question->now_ns;
}

static uint64_t policies_not_full(const struct policy_answer *answer, size_t n)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < n; i++)
		if (answer->why[i] == POLICY_UNIT_NO_ROOM)
			bits |= UINT64_C(1) << i;
	return bits;
}

void policy_decide(
	const struct policy_question *question, struct policy_wait *wait, struct policy_answer *ret_answer)
{
	const struct resource_policy *policy = question->policy;
	struct policy_answer answer = {
		.verdict = POLICY_NO_UNIT, .until_ns = INT64_MAX, .together = question->together};

	for (size_t i = 0; i < policy->n_units; i++) {
		answer.unit = i;
		answer.why[i] = limit_reached(question, i);
		if (answer.why[i] == POLICY_UNIT_NO_ROOM && question->room & (UINT64_C(1) << i)) {
			answer.why[i] = POLICY_UNIT_FITS;
			answer.verdict = POLICY_USE_UNIT;
			wait->since_ns[i] = 0;
			break;
		}
		if (waits(question, i, wait, &answer)) {
			answer.verdict = POLICY_WAIT;
			break;
		}
	}
	/* No other unit will be tried, so "after all units" applies as well. */
	if (answer.verdict == POLICY_NO_UNIT ||
		(answer.verdict == POLICY_WAIT && policy->advance == ADVANCE_MAX))
		answer.preempt |= policies_not_full(&answer, answer.unit + 1);
	*ret_answer = answer;
}

static void add(char *buf, size_t *len, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add(char *buf, size_t *len, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(buf + *len, POLICY_TEXT_SIZE - *len, format, args);
	va_end(args);
	if (n > 0)
		*len = *len + (size_t)n < POLICY_TEXT_SIZE ? *len + (size_t)n : POLICY_TEXT_SIZE - 1;
}

static void add_reason(char *buf, size_t *len, const struct resource_policy *policy, size_t at,
	const struct policy_answer *answer)
{
	const struct policy_unit *unit = &policy->units[at];
	enum policy_unit_pass why = answer->why[at];

	add(buf, len, "level %zu (%s) ", at + 1, policy_unit_kind_text(unit->kind));
	if (why == POLICY_UNIT_AT_MAX && answer->together > 1)
		add(buf, len, "would exceed its maximum of %" PRIu32 " pods", unit->max);
	else if (why == POLICY_UNIT_AT_MAX)
		add(buf, len, "has its maximum of %" PRIu32 " pods", unit->max);
	else if (why == POLICY_UNIT_AT_MAX_RESOURCES)
		add(buf, len, "would exceed its maxResources");
	else
		add(buf, len, "has no room");
	if (answer->together > 1)
		add(buf, len, " %s %" PRIu32 " pods together", why < POLICY_UNIT_NO_ROOM ? "with" : "for",
			answer->together);
}

/* Further reasons are only counted. */
#define REASONS_NAMED 4

const char *policy_answer_text(
	const struct resource_policy *policy, const struct policy_answer *answer, char buf[POLICY_TEXT_SIZE])
{
	size_t len = 0, n = answer->unit + (answer->verdict != POLICY_USE_UNIT);
	const char *kind = policy_unit_kind_text(policy->units[answer->unit].kind);

	add(buf, &len, "ResourcePolicy %.63s: ", policy->name);
	if (answer->verdict == POLICY_USE_UNIT)
		add(buf, &len, "level %zu (%s)", answer->unit + 1, kind);
	else if (answer->verdict == POLICY_WAIT && answer->for_terminating)
		add(buf, &len, "waits for the end of a terminating pod of level %zu (%s)", answer->unit + 1,
			kind);
	else if (answer->verdict == POLICY_WAIT)
		add(buf, &len, "waits for level %zu (%s)", answer->unit + 1, kind);
	else
		add(buf, &len, "no level is left");
	for (size_t i = 0; i < n && i < REASONS_NAMED; i++) {
		add(buf, &len, "%s", i ? ", " : ": ");
		add_reason(buf, &len, policy, i, answer);
	}
	if (n > REASONS_NAMED)
		add(buf, &len, ", and %zu more", n - REASONS_NAMED);
	return buf;
}
