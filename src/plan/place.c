#include "plan/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/core.h"
#include "core/events.h"
#include "core/filter.h"
#include "core/registry/node-ledger.h"
#include "kube/names.h"
#include "kube/resource-policy.h"

/* The name of a limit that only the core knows; it is not a resource of Kubernetes. */
#define CONTAINERS_PER_GPU "containers per GPU"

void plan_outcome_release(struct plan_outcome *outcome)
{
	for (size_t i = 0; i < outcome->n_reasons; i++)
		free(outcome->reasons[i].node);
	free(outcome->reasons);
	free(outcome->node);
	free(outcome->text);
	placement_release(&outcome->placement);
	*outcome = (struct plan_outcome){0};
}

/* ---- which nodes kube-scheduler offers ---- */

struct offer {
	const char **names;
	size_t n;
};

static void offer_release(struct offer *offer)
{
	free(offer->names);
}

static bool passes(
	const struct kube_node *node, const struct plan_pod *pod, char *ret_reason, const char **ret_resource)
{
	*ret_resource = NULL;
	return kube_node_admits(node, pod->object, ret_reason) &&
	       kube_node_has_room(node, &pod->requests, ret_reason, ret_resource);
}

static int make_offer(const struct plan_world *world, const struct plan_pod *pod, struct offer *offer)
{
	const struct table *ledger = &world->core->ledger.nodes;
	size_t n = world->kube ? world->kube->by_name.count : ledger->count;
	char reason[KUBE_REASON_SIZE];
	const struct kube_node *kube;
	const struct node_ledger *node;
	const char *resource;

	offer->names = calloc(n + 1, sizeof(*offer->names));
	if (!offer->names)
		return -ENOMEM;
	if (world->kube) {
		table_for_each (&world->kube->by_name, cursor, kube)
			if (passes(kube, pod, reason, &resource))
				offer->names[offer->n++] = kube->name;
		return 0;
	}
	table_for_each (ledger, cursor, node)
		if (node_ledger_known(node))
			offer->names[offer->n++] = node->facts.name;
	return 0;
}

/* ---- the calls of kube-scheduler ---- */

/* No plan counts on evictions, so the core must not begin any. */
static int ask(struct plan_world *world, struct plan_pod *pod, const struct offer *offer,
	struct policy_pod_facts *policy_facts, struct filter_answer *answer)
{
	struct filter_question question = {
		.pod = &pod->facts, .names = offer->names, .n = offer->n, .best = 1};

	question.policy.uid = pod->facts.uid;
	question.policy.space = core_policy_space(world->core, pod->facts.namespace_);
	pod->facts.never_preempts = true;
	if (question.policy.space && policy_pod_facts_from_json(pod->object,
					     &question.policy.space->book.annotation_keys, policy_facts) == 0)
		question.policy.facts = policy_facts;
	else if (question.policy.space)
		policy_pod_facts_release(policy_facts);
	core_filter(world->core, &question, world->now_ns, answer);
	return answer->outcome == FILTER_FAILED ? -ENOMEM : 0;
}

/* The pod's ResourcePolicy counts it from now on. */
int plan_show_bound(struct plan_world *world, struct plan_pod *pod, const char *node)
{
	struct policy_space *space = core_policy_space(world->core, pod->facts.namespace_);
	const struct ledger_pod *held = ledger_pod(&world->core->ledger, pod->facts.uid);
	struct policy_pod_facts policy_facts = {0};

	free(pod->facts.node);
	pod->facts.node = strdup(node);
	if (!pod->facts.node)
		return -ENOMEM;
	if (held && held->has_placement) {
		placement_release(&pod->facts.placement);
		if (placement_copy(&held->placement, &pod->facts.placement) < 0)
			return -ENOMEM;
		pod->facts.has_placement = true;
	}
	if (space &&
		policy_pod_facts_from_json(pod->object, &space->book.annotation_keys, &policy_facts) == 0) {
		free(policy_facts.node);
		policy_facts.node = strdup(node);
		if (!policy_facts.node) {
			policy_pod_facts_release(&policy_facts);
			return -ENOMEM;
		}
		core_see_policy_pod(world->core, space, &policy_facts, world->now_ns);
	}
	return core_see_pod(world->core, &pod->facts, 0, world->now_ns);
}

static int bind_to(struct plan_world *world, struct plan_pod *pod, const struct filter_answer *answer,
	struct plan_outcome *outcome, struct error *err)
{
	const char *node = answer->nodes[0]->facts.name;
	const struct ledger_pod *held = ledger_pod(&world->core->ledger, pod->facts.uid);
	int r;

	if (answer->hold_error)
		return error_set(err, EIO, "no GPU could be held on node %s", node);
	outcome->held = answer->planned;
	outcome->node = strdup(node);
	r = outcome->node ? 0 : -ENOMEM;
	if (r == 0 && held && held->has_placement)
		r = placement_copy(&held->placement, &outcome->placement);
	if (r == 0 && !outcome->held)
		r = plan_show_bound(world, pod, outcome->node);
	if (r == 0 && world->kube)
		r = kube_nodes_place(world->kube, outcome->node, &pod->requests);
	if (r < 0)
		return error_set(err, -r, "%s", strerror(-r));
	outcome->placed = true;
	return 0;
}

/* ---- why not ---- */

static const char *resource_of(enum reject_reason reason, const struct request *request)
{
	switch (reason) {
	case REJECT_FULL:
		return request->whole ? RESOURCE_GPU : RESOURCE_GPU_MEM;
	case REJECT_CORE:
		return RESOURCE_GPU_CORE;
	case REJECT_INSTANCES:
		return CONTAINERS_PER_GPU;
	default:
		return NULL;
	}
}

static bool is_gpu_node(const struct node_ledger *node)
{
	return node && (node->facts.n_gpus || node->facts.mode != GPU_MODE_NONE || node->unplaced_units);
}

/* kube-scheduler knows only the sum of a node's GPU memory. The ledger's reason, which is about single GPUs,
 * says more. */
static bool is_sum_of_gpus(const char *resource)
{
	return resource && strncmp(resource, "aliyun.com/", strlen("aliyun.com/")) == 0;
}

/* Fills in the reason; `fits` with a name for a node that takes the pod by itself. */
static int explain_node(struct plan_world *world, const struct plan_pod *pod, const char *name,
	enum reject_reason verdict, struct plan_reason *reason)
{
	const struct kube_node *kube = world->kube ? kube_nodes_find(world->kube, name) : NULL;
	const char *resource = NULL;

	*reason = (struct plan_reason){.node = strdup(name)};
	if (!reason->node)
		return -ENOMEM;
	reason->by_kube = kube && !passes(kube, pod, reason->text, &resource);
	if (reason->by_kube && verdict != FITS && is_sum_of_gpus(resource))
		reason->by_kube = false;
	if (!reason->by_kube) {
		resource = resource_of(verdict, &pod->facts.request);
		reject_reason_text(verdict, &pod->facts.request, reason->text, sizeof(reason->text));
	}
	snprintf(reason->resource, sizeof(reason->resource), "%s", resource ? resource : "");
	return 0;
}

static int compare_reasons(const void *a, const void *b)
{
	return strcmp(((const struct plan_reason *)a)->node, ((const struct plan_reason *)b)->node);
}

static int explain_nodes(struct plan_world *world, const struct plan_pod *pod, const struct table *offered,
	const struct filter_answer *answer, struct plan_outcome *outcome)
{
	struct ledger *ledger = &world->core->ledger;
	const struct node_ledger *node;

	table_for_each (&ledger->nodes, cursor, node) {
		size_t place = (uintptr_t)table_get(offered, node->facts.name);
		struct plan_reason *reason = &outcome->reasons[outcome->n_reasons];
		int verdict;

		if (!is_gpu_node(node)) {
			outcome->n_without_gpus += node_ledger_known(node);
			continue;
		}
		verdict = place && answer->verdicts
				  ? (int)answer->verdicts[place - 1].reject_reason
				  : ledger_choose(ledger, node->facts.name, &pod->facts, NULL);
		if (verdict < 0 ||
			explain_node(world, pod, node->facts.name, (enum reject_reason)verdict, reason) < 0)
			return -ENOMEM;
		outcome->n_reasons++;
	}
	qsort(outcome->reasons, outcome->n_reasons, sizeof(*outcome->reasons), compare_reasons);
	return 0;
}

static int explain(struct plan_world *world, const struct plan_pod *pod, const struct offer *offer,
	const struct filter_answer *answer, struct plan_outcome *outcome)
{
	const char *text = answer->text ? answer->text : answer->policy.text; /* the reason of all nodes */
	struct table offered; /* name -> its position, from 1 */
	int r;

	table_init(&offered);
	outcome->reasons = calloc(world->core->ledger.nodes.count + 1, sizeof(*outcome->reasons));
	outcome->text = *text ? strdup(text) : NULL;
	r = outcome->reasons && (outcome->text || !*text) ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < offer->n; i++)
		r = table_set(&offered, offer->names[i], (void *)(uintptr_t)(i + 1));
	if (r == 0)
		r = explain_nodes(world, pod, &offered, answer, outcome);
	table_release(&offered);
	return r;
}

int plan_place(
	struct plan_world *world, struct plan_pod *pod, struct plan_outcome *ret_outcome, struct error *err)
{
	_cleanup_(offer_release) struct offer offer = {0};
	_cleanup_filter_answer_ struct filter_answer answer = {0};
	struct policy_pod_facts policy_facts = {0};
	bool exists = ledger_pod(&world->core->ledger, pod->facts.uid) != NULL;
	int r;

	*ret_outcome = (struct plan_outcome){0};
	r = make_offer(world, pod, &offer);
	if (r == 0)
		r = ask(world, pod, &offer, &policy_facts, &answer);
	if (r < 0)
		return error_set(err, -r, "out of memory");
	if (answer.outcome == FILTER_FITS)
		return bind_to(world, pod, &answer, ret_outcome, err);
	r = explain(world, pod, &offer, &answer, ret_outcome);
	if (!exists)
		core_pod_is_gone(world->core, pod->facts.uid, true, world->now_ns);
	return r < 0 ? error_set(err, -r, "out of memory") : 0;
}

/* ---- what a caller shows ---- */

int plan_gpu_index(const struct plan_world *world, const char *name, const char *uuid)
{
	const struct node_ledger *node = ledger_node(&world->core->ledger, name);
	const struct gpu_ledger *gpu = node ? node_ledger_gpu(node, uuid) : NULL;

	return gpu ? gpu->facts.index : -1;
}

bool plan_same_place(const struct plan_outcome *a, const struct plan_outcome *b)
{
	const struct gpu_share *x[NODE_GPUS_MAX], *y[NODE_GPUS_MAX];
	size_t n = placement_gpus(&a->placement, x), same = 0;

	if (strcmp(a->node, b->node) != 0 || placement_gpus(&b->placement, y) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++)
			same += strcmp(x[i]->uuid, y[k]->uuid) == 0;
	return same == n;
}

bool plan_could_evict(const struct plan_world *world, const struct pod_facts *pod)
{
	const struct ledger_pod *other;

	table_for_each (&world->core->ledger.pods, cursor, other)
		if (other->occupancy == OCCUPANCY_BOUND && other->facts.priority < pod->priority)
			return true;
	return false;
}

static int compare_shortages(const void *a, const void *b)
{
	const struct plan_shortage *x = a, *y = b;

	return x->nodes != y->nodes ? (x->nodes < y->nodes ? 1 : -1) : strcmp(x->resource, y->resource);
}

size_t plan_shortages(
	const struct plan_outcome *outcome, struct plan_shortage ret_shortages[PLAN_SHORTAGES_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < outcome->n_reasons; i++) {
		const char *resource = outcome->reasons[i].resource;
		size_t k = 0;

		if (!*resource)
			continue;
		while (k < n && strcmp(ret_shortages[k].resource, resource) != 0)
			k++;
		if (k == PLAN_SHORTAGES_MAX)
			continue;
		if (k == n)
			ret_shortages[n++] = (struct plan_shortage){.resource = resource};
		ret_shortages[k].nodes++;
	}
	qsort(ret_shortages, n, sizeof(*ret_shortages), compare_shortages);
	return n;
}
