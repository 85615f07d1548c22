/* state-policy.c - a ResourcePolicy, the facts of a pod for it, and a PodDisruptionBudget, in an archive. */
#include "core/log/state-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/archive.h"

/* An item that is only a text, read into malloc'ed memory. */
static void archive_item_string(struct archive *archive, size_t i, char **value)
{
	const char *text = archive_item_text(archive, i, *value);

	if (!archive_reads(archive) || !text)
		return;
	*value = strdup(text);
	if (!*value)
		archive_fail(archive, ENOMEM, "out of memory");
}

static void archive_pairs(struct archive *archive, const char *key, struct label_pairs *pairs)
{
	struct archive_place place;
	size_t n = archive_list(archive, key, pairs->n, POLICY_PAIRS_MAX, &place);

	pairs->n = archive_room(archive, n, sizeof(*pairs->list), (void **)&pairs->list);
	for (size_t i = 0; i < pairs->n; i++) {
		archive_item(archive, i);
		archive_need_text(archive, "key", &pairs->list[i].key);
		archive_need_text(archive, "value", &pairs->list[i].value);
		archive_item_end(archive);
	}
	archive_list_end(archive, &place);
}

static void archive_amounts(struct archive *archive, const char *key, struct amounts *amounts, size_t max)
{
	struct archive_place place;
	size_t n = archive_list(archive, key, amounts->n, max, &place);

	amounts->n = archive_room(archive, n, sizeof(*amounts->list), (void **)&amounts->list);
	for (size_t i = 0; i < amounts->n; i++) {
		archive_item(archive, i);
		archive_need_text(archive, "resource", &amounts->list[i].resource);
		archive_int64(archive, "milli", &amounts->list[i].milli, INT64_MIN, INT64_MAX);
		archive_item_end(archive);
	}
	archive_list_end(archive, &place);
}

static void archive_requirement(struct archive *archive, struct selector_requirement *requirement)
{
	struct archive_place place;
	size_t n;

	archive_need_text(archive, "key", &requirement->key);
	archive_enum(archive, "operator", &requirement->operator, SELECTOR_DOES_NOT_EXIST + 1);
	n = archive_list(archive, "values", requirement->n_values, SIZE_MAX, &place);
	requirement->n_values = archive_room(
		archive, n, sizeof(*requirement->values), (void **)&requirement->values);
	for (size_t i = 0; i < requirement->n_values; i++)
		archive_item_string(archive, i, &requirement->values[i]);
	archive_list_end(archive, &place);
}

static void archive_selector(struct archive *archive, struct selector *selector)
{
	struct archive_place place;
	size_t n;

	archive_bool(archive, "selectsNothing", &selector->selects_nothing);
	n = archive_list(archive, "requirements", selector->n_requirements, SIZE_MAX, &place);
	selector->n_requirements = archive_room(
		archive, n, sizeof(*selector->requirements), (void **)&selector->requirements);
	for (size_t i = 0; i < selector->n_requirements; i++) {
		archive_item(archive, i);
		archive_requirement(archive, &selector->requirements[i]);
		archive_item_end(archive);
	}
	archive_list_end(archive, &place);
}

void state_archive_budget(struct archive *archive, struct budget *budget)
{
	struct archive_place place;

	archive_need_text(archive, "uid", &budget->uid);
	archive_need_text(archive, "namespace", &budget->namespace_);
	archive_need_text(archive, "name", &budget->name);
	archive_int64(archive, "allowed", &budget->allowed, INT64_MIN, INT64_MAX);
	if (archive_enter(archive, "selector", true, &place)) {
		archive_selector(archive, &budget->selector);
		archive_leave(archive, &place);
	}
}

static void archive_rules(struct archive *archive, struct resource_policy *policy)
{
	struct archive_place place;

	archive_bool(archive, "preemptsEach", &policy->preempts_each);
	archive_bool(archive, "ignoresPrevious", &policy->ignores_previous);
	archive_bool(archive, "ignoresTerminating", &policy->ignores_terminating);
	archive_enum(archive, "advance", &policy->advance, ADVANCE_MAX_VALUE);
	archive_int64(archive, "timeout", &policy->timeout_ns, 0, STATE_TIME_MAX);
	policy->n_keys = archive_list(archive, "keys", policy->n_keys, POLICY_KEYS_MAX, &place);
	for (size_t i = 0; i < policy->n_keys; i++)
		archive_item_string(archive, i, &policy->keys[i]);
	archive_list_end(archive, &place);
}

void state_archive_policy(struct archive *archive, struct resource_policy *policy)
{
	struct archive_place place;

	if (archive_reads(archive)) { /* the default of a new policy is not zero, and zero is not written */
		policy->ignores_terminating = false;
		policy->timeout_ns = 0;
	}
	archive_uint64(archive, "serial", &policy->serial);
	archive_need_text(archive, "uid", &policy->uid);
	archive_need_text(archive, "namespace", &policy->namespace_);
	archive_need_text(archive, "name", &policy->name);
	archive_int64(archive, "created", &policy->created, INT64_MIN, INT64_MAX);
	archive_int64(archive, "generation", &policy->generation, INT64_MIN, INT64_MAX);
	archive_selector(archive, &policy->selector);
	archive_rules(archive, policy);
	policy->n_units = archive_list(archive, "units", policy->n_units, POLICY_UNITS_MAX, &place);
	for (size_t i = 0; i < policy->n_units; i++) {
		struct policy_unit *unit;

		archive_item(archive, i);
		unit = &policy->units[i];
		archive_enum(archive, "kind", &unit->kind, POLICY_UNIT_KIND_MAX);
		archive_pairs(archive, "nodeSelector", &unit->node_selector);
		archive_bool(archive, "hasMax", &unit->has_max);
		archive_uint32(archive, "max", &unit->max, UINT32_MAX);
		archive_amounts(archive, "maxResources", &unit->max_resources, POLICY_RESOURCES_MAX);
		archive_pairs(archive, "podLabels", &unit->pod_labels);
		archive_pairs(archive, "podAnnotations", &unit->pod_annotations);
		archive_bool(archive, "awaitsScaling", &unit->awaits_scaling);
		archive_item_end(archive);
	}
	archive_list_end(archive, &place);
}

/* ---- pods ---- */

static void archive_node_name(struct archive *archive, char **node)
{
	if (!archive_reads(archive) && !**node)
		return; /* "", which is the default when reading */
	archive_text(archive, "node", node);
	if (archive_reads(archive) && !*node && !(*node = strdup("")))
		archive_fail(archive, ENOMEM, "out of memory");
}

void state_archive_policy_pod_facts(struct archive *archive, struct policy_pod_facts *facts)
{
	int64_t verdict = (int64_t)facts->verdict; /* all 64 bits: the verdict is a hash */

	archive_need_text(archive, "uid", &facts->uid);
	archive_need_text(archive, "namespace", &facts->namespace_);
	archive_need_text(archive, "name", &facts->name);
	archive_node_name(archive, &facts->node);
	archive_text(archive, "labels", &facts->labels);
	archive_text(archive, "annotations", &facts->annotations);
	archive_amounts(archive, "requests", &facts->requests, POLICY_PAIRS_MAX);
	archive_int64(archive, "scheduled", &facts->scheduled, INT64_MIN, INT64_MAX);
	archive_int64(archive, "verdict", &verdict, INT64_MIN, INT64_MAX);
	facts->verdict = (uint64_t)verdict;
	archive_bool(archive, "finished", &facts->finished);
	archive_bool(archive, "terminating", &facts->terminating);
	archive_int(archive, "priority", &facts->priority, INT32_MIN, INT32_MAX);
	archive_bool(archive, "nominated", &facts->nominated);
	archive_bool(archive, "ofReplicaSet", &facts->of_replica_set);
	archive_bool(archive, "ours", &facts->ours);
	archive_bool(archive, "tolerates", &facts->tolerates);
	archive_bool(archive, "hasTolerations", &facts->has_tolerations);
	archive_chars(archive, "version", facts->version, sizeof(facts->version));
	archive_enum(archive, "cost", &facts->cost, POLICY_COST_USERS + 1);
	archive_int(archive, "costValue", &facts->cost_value, INT32_MIN, INT32_MAX);
}
