#include "plan/change.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/core.h"
#include "core/events.h"
#include "core/policies.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/resource-policy.h"
#include "plan/moves.h"

void plan_change_release(struct plan_change *change)
{
	for (size_t i = 0; change->before && i < change->again.n; i++)
		plan_outcome_release(&change->before[i]);
	free(change->before);
	free(change->nodes);
	plan_moves_release(&change->waiting);
	plan_moves_release(&change->again);
	*change = (struct plan_change){0};
}

/* ---- pods that are created again ---- */

/* How the new pods differ from the old ones. */
struct edit {
	const char *unit; /* the stamp; NULL: the old one */
	bool tolerates;	  /* ration gives it the toleration for virtual nodes */
};

static int stamp_unit(struct json_object *pod, const char *unit)
{
	struct json_object *metadata = json_member(pod, "metadata"),
			   *annotations = json_member(metadata, "annotations");

	if (!annotations)
		annotations = json_set_object(metadata, "annotations");
	return json_set_text(annotations, ANNOTATION_UNIT, unit);
}

static int tolerate(struct json_object *pod)
{
	struct json_object *spec = json_member(pod, "spec"), *list = json_member(spec, "tolerations"), *item;

	if (!list)
		list = json_set_array(spec, "tolerations");
	item = json_append_object(list);
	if (json_set_text(item, "key", TAINT_VIRTUAL_NODE) < 0 ||
		json_set_text(item, "operator", "Exists") < 0)
		return -ENOMEM;
	return json_set_text(item, "effect", "NoSchedule");
}

static struct json_object *next_pod(struct json_object *pod, const struct edit *edit)
{
	_cleanup_json_ struct json_object *next = plan_replacement(pod);

	if (!next || (edit->unit && stamp_unit(next, edit->unit) < 0) ||
		(edit->tolerates && tolerate(next) < 0))
		return NULL;
	return TAKE_PTR(next);
}

static int end_pod(struct plan_world *world, const struct plan_move *move, struct error *err)
{
	_cleanup_quantities_ struct quantities requests = {0};
	int r = quantities_of_pod(move->pod, &requests);

	if (r == 0)
		r = plan_end_pod(world, move->pod);
	if (r == 0 && world->kube)
		kube_nodes_remove(world->kube, move->from, &requests);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	return r < 0 ? error_set(err, -r, "cannot count without pod %.63s/%.253s: %s", move->namespace_,
			       move->name,
			       r == -E2BIG ? "it asks for too many kinds of resources" : strerror(-r))
		     : 0;
}

/* Remembers where the pods are now. */
static int note_places(const struct plan_world *world, struct plan_change *change)
{
	change->before = calloc(change->again.n + 1, sizeof(*change->before));
	for (size_t i = 0; change->before && i < change->again.n; i++) {
		const struct plan_move *move = &change->again.list[i];
		const struct ledger_pod *held = ledger_pod(
			&world->core->ledger, json_member_string(json_member(move->pod, "metadata"), "uid"));

		change->before[i].placed = true;
		change->before[i].node = strdup(move->from);
		if (!change->before[i].node ||
			(held && placement_copy(&held->placement, &change->before[i].placement) < 0))
			return -ENOMEM;
	}
	return change->before ? 0 : -ENOMEM;
}

static int end_all(struct plan_world *world, struct plan_change *change, struct error *err)
{
	int r;

	if (change->again.n)
		qsort(change->again.list, change->again.n, sizeof(*change->again.list), plan_compare_names);
	r = note_places(world, change) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
	for (size_t i = 0; r == 0 && i < change->again.n; i++)
		r = end_pod(world, &change->again.list[i], err);
	return r;
}

static int create_again(
	struct plan_world *world, struct plan_change *change, const struct edit *edit, struct error *err)
{
	struct plan_moves *moves = &change->again;
	struct plan_trial trial;
	int r = plan_trial_begin(&trial, world, moves, err);

	for (size_t i = 0; r == 0 && i < moves->n; i++) {
		_cleanup_json_ struct json_object *next = next_pod(moves->list[i].pod, edit);

		r = next ? plan_trial_create(&trial, i, next, i + 1, err)
			 : error_set(err, ENOMEM, "out of memory");
	}
	for (size_t i = 0; r == 0 && i < moves->n; i++)
		r = plan_trial_try(&trial, i, err);
	return plan_trial_end(&trial, r, err);
}

/* The running pod in the ledger; NULL if it does not run or asks for no GPU. The Pod object decides, because
 * the plan may have bound a waiting pod in the world. */
static const struct ledger_pod *runs_with_gpu(const struct plan_world *world, struct json_object *pod)
{
	const char *uid = json_member_string(json_member(pod, "metadata"), "uid"),
		   *node = json_member_string(json_member(pod, "spec"), "nodeName");
	const struct ledger_pod *held = uid && node ? ledger_pod(&world->core->ledger, uid) : NULL;

	return held && held->occupancy == OCCUPANCY_BOUND && !plan_has_ended(pod) ? held : NULL;
}

/* ---- the unit ---- */

static int compare_nodes(const void *a, const void *b)
{
	return strcmp(((const struct plan_unit_change *)a)->node, ((const struct plan_unit_change *)b)->node);
}

static int note_nodes(const struct plan_world *world, uint32_t unit_mib, struct plan_change *change)
{
	const struct table *nodes = &world->core->ledger.nodes;
	const struct node_ledger *node;

	change->nodes = calloc(nodes->count + 1, sizeof(*change->nodes));
	if (!change->nodes)
		return -ENOMEM;
	table_for_each (nodes, cursor, node) {
		struct plan_unit_change *one = &change->nodes[change->n_nodes];

		if (!node->facts.n_gpus || node->facts.mode == GPU_MODE_TOPOLOGY ||
			node->facts.mode == GPU_MODE_NONE || node->facts.mode == GPU_MODE_DRA)
			continue;
		*one = (struct plan_unit_change){.node = node->facts.name,
			.from_mib = node->facts.unit_mib,
			.fate = plan_unit_fate(node, unit_mib)};
		list_for_each (item, &node->pods)
			one->pods++;
		change->n_nodes++;
	}
	qsort(change->nodes, change->n_nodes, sizeof(*change->nodes), compare_nodes);
	return 0;
}

/* Changes the nodes of this fate: they have the new unit, or take no new pods. */
static int change_nodes(struct plan_world *world, const struct plan_change *change, enum plan_unit_fate at,
	uint32_t unit_mib, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < change->n_nodes; i++)
		if (change->nodes[i].fate == at)
			r = plan_set_unit(world, table_get(&world->core->ledger.nodes, change->nodes[i].node),
				unit_mib);
	if (r == -E2BIG)
		return error_set(err, E2BIG, "a node has too many kinds of resources");
	return r < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

static int close_nodes(struct plan_world *world, const struct plan_change *change, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < change->n_nodes; i++)
		if (change->nodes[i].fate == PLAN_UNIT_LATER)
			r = plan_close_node(
				world, table_get(&world->core->ledger.nodes, change->nodes[i].node));
	return r < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

static bool keeps_its_unit(const struct plan_change *change, const char *node)
{
	const struct plan_unit_change key = {.node = node},
				      *found = bsearch(&key, change->nodes, change->n_nodes,
					      sizeof(*change->nodes), compare_nodes);

	return found && found->fate == PLAN_UNIT_LATER;
}

int plan_change_unit(struct plan_world *world, struct json_object *const *pods, size_t n, uint32_t unit_mib,
	struct plan_change *change, struct error *err)
{
	char unit[16];
	const struct edit edit = {.unit = unit};
	int r = note_nodes(world, unit_mib, change) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;

	snprintf(unit, sizeof(unit), "%u", unit_mib);
	if (r == 0)
		r = change_nodes(world, change, PLAN_UNIT_NOW, unit_mib, err);
	if (r == 0)
		r = close_nodes(world, change, err);
	if (r == 0)
		r = plan_waiting(world, pods, n, &change->waiting, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct ledger_pod *held = runs_with_gpu(world, pods[i]);

		if (held && keeps_its_unit(change, held->node) && !plan_add_move(&change->again, pods[i]))
			r = error_set(err, ENOMEM, "out of memory");
	}
	if (r == 0)
		r = end_all(world, change, err);
	if (r == 0)
		r = change_nodes(world, change, PLAN_UNIT_LATER, unit_mib, err);
	return r < 0 ? r : create_again(world, change, &edit, err);
}

/* ---- a ResourcePolicy ---- */

/* A policy that is replaced keeps its uid and its age; a new one is the youngest. */
static int identify(const struct policy_space *space, struct resource_policy *policy)
{
	policy->created = INT64_MAX;
	list_for_each (item, &space->book.policies) {
		const struct resource_policy *old = list_entry(item, struct policy_entry, item)->policy;

		if (strcmp(old->name, policy->name) != 0)
			continue;
		policy->created = old->created;
		free(policy->uid);
		policy->uid = strdup(old->uid);
		return policy->uid ? 0 : -ENOMEM;
	}
	return 0;
}

/* Reads the pods of the namespace again, because the policy may name annotations that the core has not kept.
 */
static int read_namespace(
	struct plan_world *world, struct policy_space *space, struct json_object *const *pods, size_t n)
{
	core_policy_pods_list_begins(world->core, space);
	for (size_t i = 0; i < n; i++) {
		_cleanup_policy_pod_facts_ struct policy_pod_facts facts = {0};
		const char *namespace_ = json_member_string(json_member(pods[i], "metadata"), "namespace");
		int r;

		if (!namespace_ || strcmp(namespace_, space->name) != 0)
			continue;
		r = policy_pod_facts_from_json(pods[i], &space->book.annotation_keys, &facts);
		if (r == -ENOMEM)
			return r;
		if (r == 0)
			core_see_policy_pod(world->core, space, &facts, world->now_ns);
	}
	core_policy_pods_are_listed(world->core, space, true, world->now_ns);
	return 0;
}

static bool is_of(const struct policy_space *space, struct json_object *pod, const char *policy)
{
	const char *uid = json_member_string(json_member(pod, "metadata"), "uid");
	const struct policy_pod *known = uid ? policy_book_pod(&space->book, uid) : NULL;

	return known && known->policy && strcmp(known->policy->uid, policy) == 0;
}

int plan_change_policy(struct plan_world *world, struct json_object *const *pods, size_t n,
	struct resource_policy *policy, struct plan_change *change, struct error *err)
{
	struct policy_space *space = core_add_policy_space(world->core, policy->namespace_);
	const struct edit edit = {.tolerates = policy_has_virtual_unit(policy)};
	_cleanup_free_ bool *before = calloc(n + 1, sizeof(*before));
	_cleanup_free_ char *uid = NULL;
	int r;

	if (!space || !before || identify(space, policy) < 0 || !(uid = strdup(policy->uid))) {
		resource_policy_free(policy);
		return error_set(err, ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < n; i++)
		before[i] = is_of(space, pods[i], uid);
	core_set_policies_known(world->core, true);
	if (core_see_policy(world->core, space, policy) < 0 || read_namespace(world, space, pods, n) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = plan_waiting(world, pods, n, &change->waiting, err);
	if (r < 0)
		return r;
	/* Those that the policy selects now, or has selected before. */
	for (size_t i = 0; i < n; i++)
		if (runs_with_gpu(world, pods[i]) && (before[i] || is_of(space, pods[i], uid)) &&
			!plan_add_move(&change->again, pods[i]))
			return error_set(err, ENOMEM, "out of memory");
	r = end_all(world, change, err);
	return r < 0 ? r : create_again(world, change, &edit, err);
}
