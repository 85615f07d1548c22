#include "plan/moves.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/core.h"
#include "core/events.h"
#include "core/policies.h"
#include "core/registry/node-ledger.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/node-template.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "plan/eviction.h"

void plan_moves_release(struct plan_moves *moves)
{
	for (size_t i = 0; i < moves->n; i++)
		plan_outcome_release(&moves->list[i].outcome);
	free(moves->list);
	*moves = (struct plan_moves){0};
}

bool plan_has_ended(struct json_object *pod)
{
	const char *phase = json_text_of(json_member(pod, "status"), "phase");

	return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

struct plan_move *plan_add_move(struct plan_moves *moves, struct json_object *pod)
{
	struct json_object *metadata = json_member(pod, "metadata"), *spec = json_member(pod, "spec");
	struct plan_move *move;
	int64_t priority = 0;

	if (array_room(&moves->list, moves->n, sizeof(*move)) < 0)
		return NULL;
	move = &moves->list[moves->n++];
	json_whole(json_member(spec, "priority"), INT32_MIN, INT32_MAX, &priority);
	*move = (struct plan_move){.pod = pod,
		.namespace_ = json_text_of(metadata, "namespace"),
		.name = json_text_of(metadata, "name"),
		.from = json_text_of(spec, "nodeName"),
		.priority = (int32_t)priority,
		.created = json_text_of(metadata, "creationTimestamp")};
	return move;
}

/* ---- the pods are tried ---- */

int plan_trial_begin(
	struct plan_trial *trial, struct plan_world *world, struct plan_moves *moves, struct error *err)
{
	*trial = (struct plan_trial){
		.world = world, .moves = moves, .pods = calloc(moves->n + 1, sizeof(*trial->pods))};
	return trial->pods ? 0 : error_set(err, ENOMEM, "out of memory");
}

int plan_trial_create(
	struct plan_trial *trial, size_t i, struct json_object *object, size_t number, struct error *err)
{
	struct plan_move *move = &trial->moves->list[i];
	struct plan_pod *pod = &trial->pods[i];
	int r = plan_pod_read(object, number, pod, err);

	if (r == 0 && request_is_empty(&pod->facts.request))
		move->fate = PLAN_NO_GPU;
	else if (r == 0)
		return plan_expect(trial->world, pod) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
	plan_pod_release(pod);
	if (r != -EINVAL)
		return r;
	move->fate = PLAN_WAITS; /* its request is not valid, which is its reason */
	move->outcome.text = strdup(err->text);
	return move->outcome.text ? 0 : error_set(err, ENOMEM, "out of memory");
}

int plan_trial_try(struct plan_trial *trial, size_t i, struct error *err)
{
	struct plan_pod *pod = &trial->pods[i];

	if (!pod->object)
		return 0;
	trial->moves->list[i].fate = PLAN_RUNS;
	return plan_try(trial->world, &trial->gangs, pod, &trial->moves->list[i].outcome, err);
}

int plan_trial_end(struct plan_trial *trial, int r, struct error *err)
{
	struct plan_moves *moves = trial->moves;

	if (plan_gangs_end(trial->world, &trial->gangs) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; trial->pods && i < moves->n; i++) {
		if (moves->list[i].fate == PLAN_RUNS && !moves->list[i].outcome.placed)
			moves->list[i].fate = PLAN_WAITS;
		plan_pod_release(&trial->pods[i]);
	}
	free(trial->pods);
	return r;
}

int plan_try_moves(struct plan_world *world, struct plan_moves *moves, size_t number, struct error *err)
{
	struct plan_trial trial;
	int r = plan_trial_begin(&trial, world, moves, err);

	for (size_t i = 0; r == 0 && i < moves->n; i++)
		r = plan_trial_create(&trial, i, moves->list[i].pod, number ? number + i : 0, err);
	for (size_t i = 0; r == 0 && i < moves->n; i++)
		r = plan_trial_try(&trial, i, err);
	return plan_trial_end(&trial, r, err);
}

/* ---- drain ---- */

static bool is_named(const char *const *nodes, const char *name)
{
	for (; *nodes; nodes++)
		if (strcmp(*nodes, name) == 0)
			return true;
	return false;
}

int plan_end_pod(struct plan_world *world, struct json_object *pod)
{
	struct json_object *metadata = json_member(pod, "metadata");
	const char *uid = json_text_of(metadata, "uid");
	struct policy_space *space = core_policy_space(world->core, json_text_of(metadata, "namespace"));
	const struct ledger_pod *known = ledger_pod(&world->core->ledger, uid);
	_cleanup_pod_facts_ struct pod_facts facts = {0};
	int r = known ? pod_facts_copy(&known->facts, &facts) : 0;

	if (known && r == 0) {
		/* Without this, the scheduler keeps the GPU for containers that may still run. */
		facts.finished = true;
		facts.running = false;
		r = core_see_pod(world->core, &facts, 0, world->now_ns);
	}
	core_pod_is_gone(world->core, uid, true, world->now_ns);
	if (space)
		core_policy_pod_is_gone(world->core, space, uid);
	return r < 0 ? r : 0;
}

static int cordon(struct plan_world *world, const char *const *nodes, struct error *err)
{
	for (; *nodes; nodes++) {
		struct kube_node *node = kube_nodes_find(world->kube, *nodes);

		if (!node)
			return error_set(err, ENOENT, "there is no node %.253s", *nodes);
		node->unschedulable = true;
	}
	return 0;
}

int plan_compare_names(const void *a, const void *b)
{
	const struct plan_move *x = a, *y = b;
	int r = strcmp(x->namespace_, y->namespace_);

	if (x->priority != y->priority)
		return x->priority < y->priority ? 1 : -1;
	return r ? r : strcmp(x->name, y->name);
}

/* The pod is evicted, and its controller makes a new one; or the pod's fate and text say why not. spent: uid
 * of a PodDisruptionBudget -> how many evictions of this plan it has seen. */
static int evict_pod(struct plan_trial *trial, size_t i, struct table *spent, struct error *err)
{
	struct plan_move *move = &trial->moves->list[i];
	_cleanup_json_ struct json_object *next = NULL;
	int fate;

	if (json_member(json_member(move->pod, "metadata"), "deletionTimestamp")) {
		move->fate = PLAN_STAYS;
		snprintf(move->text, sizeof(move->text), "it is ending already");
		return 0;
	}
	fate = plan_may_evict(trial->world, spent, move->pod, move->text);
	if (fate < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (fate != PLAN_RUNS)
		move->fate = (enum plan_fate)fate;
	if (fate != PLAN_RUNS && fate != PLAN_LOST)
		return 0;
	if (plan_spend_budget(trial->world, spent, move->pod) < 0 ||
		plan_end_pod(trial->world, move->pod) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (fate == PLAN_LOST)
		return 0;
	next = plan_replacement(move->pod);
	return next ? plan_trial_create(trial, i, next, i + 1, err) : error_set(err, ENOMEM, "out of memory");
}

int plan_drain(struct plan_world *world, struct json_object *const *pods, size_t n, const char *const *nodes,
	bool one_by_one, struct plan_moves *moves, struct error *err)
{
	struct plan_trial trial;
	struct table spent;
	int r = cordon(world, nodes, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (!plan_has_ended(pods[i]) &&
			is_named(nodes, json_text_of(json_member(pods[i], "spec"), "nodeName")) &&
			!plan_add_move(moves, pods[i]))
			return error_set(err, ENOMEM, "out of memory");
	if (moves->n)
		qsort(moves->list, moves->n, sizeof(*moves->list), plan_compare_names);
	table_init(&spent);
	r = plan_trial_begin(&trial, world, moves, err);
	for (size_t i = 0; r == 0 && i < moves->n; i++) {
		r = evict_pod(&trial, i, &spent, err);
		if (r == 0 && one_by_one)
			r = plan_trial_try(&trial, i, err);
	}
	for (size_t i = 0; r == 0 && i < moves->n && !one_by_one; i++)
		r = plan_trial_try(&trial, i, err);
	table_release(&spent);
	return plan_trial_end(&trial, r, err);
}

/* ---- nodes that join ---- */

/* The settings that the present nodes have from the scheduler's options. */
static struct node_template_rules rules_of(const struct core *core)
{
	struct node_template_rules rules = {0};
	const struct node_ledger *node;

	table_for_each (&core->ledger.nodes, cursor, node) {
		rules.mixing |= node->facts.mixing;
		if (node->facts.instances_max)
			rules.max_pods_per_gpu = node->facts.instances_max;
		if (node->facts.n_gpus && node->facts.mode != GPU_MODE_TOPOLOGY)
			rules.unit_mib = node->facts.unit_mib;
	}
	return rules;
}

/* Whether the control plane has set the taint for the state of one machine. */
static bool is_of_the_machine(struct json_object *taint)
{
	const char *key = json_text_of(taint, "key");

	return strncmp(key, "node.kubernetes.io/", 19) == 0 ||
	       strcmp(key, "node.cloudprovider.kubernetes.io/uninitialized") == 0;
}

static struct json_object *lasting_taints(struct json_object *taints)
{
	size_t n = json_count(taints);
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; list && i < n; i++) {
		struct json_object *taint = json_item(taints, i);

		if (!is_of_the_machine(taint))
			json_append(list, json_object_get(taint));
	}
	return list;
}

/* A copy of the object under this name, without the state of the machine. */
static int rename_node(struct json_object *node, const char *name, struct json_object **ret_copy)
{
	_cleanup_json_ struct json_object *copy = NULL;
	struct json_object *metadata, *spec, *labels;

	if (json_object_deep_copy(node, &copy, NULL) < 0)
		return -ENOMEM;
	metadata = json_member(copy, "metadata");
	labels = json_member(metadata, "labels");
	spec = json_member(copy, "spec");
	if (!metadata)
		return -EINVAL;
	if (json_set_text(metadata, "name", name) < 0 || json_set_text(metadata, "uid", name) < 0 ||
		(labels && json_set_text(labels, "kubernetes.io/hostname", name) < 0) ||
		(spec && json_set(spec, "taints", lasting_taints(json_member(spec, "taints"))) < 0))
		return -ENOMEM;
	if (spec)
		json_object_object_del(spec, "unschedulable");
	*ret_copy = TAKE_PTR(copy);
	return 0;
}

int plan_add_node(struct plan_world *world, struct json_object *node, const char *name, struct error *err)
{
	struct node_template_rules rules = rules_of(world->core);
	_cleanup_node_facts_ struct node_facts facts;
	_cleanup_json_ struct json_object *copy = NULL;
	struct error problem = {""};
	int r;

	node_facts_init(&facts);
	r = rename_node(node, name, &copy);
	if (r < 0)
		return error_set(err, -r, "%s",
			r == -EINVAL ? "it is not a Node: it has no metadata" : "out of memory");
	r = node_facts_from_json(copy, &facts, &problem);
	if (r == 0 && *problem.text)
		r = -EINVAL;
	if (r == 0)
		r = node_template_complete(copy, &rules, &facts, &problem);
	if (r < 0)
		return error_set(err, -r, "%s", *problem.text ? problem.text : strerror(-r));
	for (size_t i = 0; i < facts.n_gpus; i++)
		snprintf(facts.gpus[i].uuid, sizeof(facts.gpus[i].uuid), "plan-%.40s-%u", name, (unsigned)i);
	if (core_see_node(world->core, &facts) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = world->kube ? kube_nodes_see_node(world->kube, copy) : 0;
	return r < 0 ? error_set(err, -r, "%s", strerror(-r)) : 0;
}

/* ---- pods that wait ---- */

static int compare_ages(const void *a, const void *b)
{
	const struct plan_move *x = a, *y = b;
	int r = strcmp(x->created, y->created);

	return x->priority == y->priority && r ? r : plan_compare_names(a, b);
}

/* ration serves only pods of these two schedulers. */
static bool is_served(struct json_object *pod)
{
	const char *scheduler = json_text_of(json_member(pod, "spec"), "schedulerName");

	return !*scheduler || strcmp(scheduler, SCHEDULER_NAME) == 0 ||
	       strcmp(scheduler, DEFAULT_SCHEDULER_NAME) == 0;
}

static bool waits(struct json_object *pod)
{
	return !plan_has_ended(pod) && is_served(pod) &&
	       !*json_text_of(json_member(pod, "spec"), "nodeName") &&
	       !json_member(json_member(pod, "metadata"), "deletionTimestamp");
}

int plan_list_waiting(struct json_object *const *pods, size_t n, struct plan_moves *moves)
{
	for (size_t i = 0; i < n; i++)
		if (waits(pods[i]) && !plan_add_move(moves, pods[i]))
			return -ENOMEM;
	if (moves->n)
		qsort(moves->list, moves->n, sizeof(*moves->list), compare_ages);
	return 0;
}

int plan_waiting(struct plan_world *world, struct json_object *const *pods, size_t n,
	struct plan_moves *moves, struct error *err)
{
	return plan_list_waiting(pods, n, moves) < 0 ? error_set(err, ENOMEM, "out of memory")
						     : plan_try_moves(world, moves, 0, err);
}
