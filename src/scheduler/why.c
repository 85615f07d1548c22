/* why.c - the page /why. */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/placement/explain.h"
#include "core/placement/links.h"
#include "core/placement/node-room.h"
#include "core/placement/rank.h"
#include "core/registry/node-ledger.h"
#include "core/requeue.h"
#include "kube/json.h"
#include "net/http-server.h"
#include "scheduler/decision-json.h"
#include "scheduler/pages.h"
#include "scheduler/policies.h"
#include "scheduler/recorder.h"
#include "scheduler/scheduler.h"

#define EXAMPLES_MAX 3
#define JSON_TYPE "application/json"

/* The pod that a user asks about. */
struct question {
	const char *namespace_, *name, *uid, *node; /* the last two may be NULL */
};

static bool is_asked_about(
	const struct question *question, const char *namespace_, const char *name, const char *uid)
{
	return strcmp(namespace_, question->namespace_) == 0 && strcmp(name, question->name) == 0 &&
	       (!question->uid || strcmp(uid, question->uid) == 0);
}

/* Without a uid, an entry that has not ended is preferred, because the name may have been used again. */
static const struct ledger_pod *find_pod(const struct ledger *ledger, const struct question *question)
{
	const struct ledger_pod *pod, *found = NULL;

	table_for_each (&ledger->pods, cursor, pod) {
		const struct pod_facts *facts = &pod->facts;

		if (is_asked_about(question, facts->namespace_, facts->name, facts->uid) &&
			(!found || found->facts.finished))
			found = pod;
	}
	return found;
}

/* One node. */

static struct json_object *holder_json(const struct ledger_pod *pod, uint32_t units)
{
	struct json_object *object = json_object_new_object();

	json_set(object, "namespace", json_new_text(pod->facts.namespace_));
	json_set(object, "name", json_new_text(pod->facts.name));
	json_set(object, "units", json_object_new_int64(units));
	json_set(object, "state", json_new_text(occupancy_text(pod->occupancy)));
	return object;
}

/* Adds the pods on the GPU; uuid NULL: those on no GPU of the node. budget: how many pods this answer may
 * still name. */
static void add_holders(
	struct json_object *object, const struct node_ledger *node, const char *uuid, size_t *budget)
{
	struct json_object *holders = json_object_new_array();
	size_t unnamed = 0;

	list_for_each (item, &node->pods) {
		const struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);
		uint32_t units = units_on(node, pod, uuid);

		if (!units)
			continue;
		if (*budget == 0) {
			unnamed++;
			continue;
		}
		--*budget;
		json_object_array_add(holders, holder_json(pod, units));
	}
	json_set(object, "pods", holders);
	json_set(object, "morePods", json_object_new_int64((int64_t)unnamed));
}

static struct json_object *gpu_json(
	const struct node_ledger *node, const struct gpu_explanation *gpu, bool served, size_t *budget)
{
	struct json_object *object = json_object_new_object();

	json_set(object, "index", json_object_new_int64(gpu->gpu->facts.index));
	json_set(object, "uuid", json_new_text(gpu->gpu->facts.uuid));
	json_set(object, "total", json_object_new_int64(gpu->gpu->units_total));
	json_set(object, "used", json_object_new_int64(gpu->gpu->units_used));
	json_set(object, "free", json_object_new_int64(gpu->units_free));
	json_set(object, "healthy", json_object_new_boolean(gpu->gpu->facts.healthy));
	if (gpu->gpu->reason)
		json_set(object, "unhealthyBecause", json_new_text(gpu->gpu->reason));
	if (node->facts.mode == GPU_MODE_CORE_MEM)
		json_set(object, "coreFree", json_object_new_int64(gpu->core_free));
	if (served) {
		json_set(object, "fits", json_object_new_boolean(gpu->reject_reason == GPU_FITS));
		json_set(object, "reason", json_new_text(gpu_reject_reason_text(gpu->reject_reason)));
		if (gpu->turn)
			json_set(object, "turn", json_object_new_int64((int64_t)gpu->turn));
	}
	add_holders(object, node, gpu->gpu->facts.uuid, budget);
	return object;
}

/* For whole GPUs: how well the GPUs that the pod would get are connected, together with those of its job on
 * the node. */
static void add_links(struct json_object *object, const struct node_ledger *node,
	const struct node_explanation *e, const struct request *request)
{
	uint64_t near = node_ledger_group_gpus(node, request), set = near;
	struct links_score score;

	for (size_t i = 0; i < e->n_gpus; i++)
		if (e->gpus[i].turn && e->gpus[i].turn <= request_gpus(request))
			set |= UINT64_C(1) << i;
	if (!request->whole || !node->links || e->reject_reason != FITS)
		return;
	score = links_score(node->links, set);
	json_set(object, "ringGBps", json_object_new_int64(score.ring));
	json_set(object, "pairsGBps", json_object_new_int64(score.sum));
	json_set(object, "ofJob", json_object_new_int64(__builtin_popcountll(near)));
}

/* The amounts that the order of nodes compares: what is left on the node besides the pod, which may hold its
 * place already. */
static void add_left(struct json_object *object, const struct ledger *ledger, const struct node_ledger *node,
	const struct pod_facts *pod)
{
	const struct ledger_pod *known = ledger_pod(ledger, pod->uid);
	bool is_there = known && known->node && strcmp(known->node, node->facts.name) == 0;
	struct node_order_ask ask = node_room_ask(node, pod);
	const struct node_room *room = is_there ? &ask.before : &ask.after;
	struct gpu_mean mean = ledger_gpu_mean(ledger);
	struct json_object *left;

	if (!mean.host.cpu_milli || !node->facts.host.cpu_milli)
		return;
	left = json_object_new_object();
	json_set(left, "gpuMilli", json_object_new_int64(room->gpu_milli));
	json_set(left, "cpuMilli", json_object_new_int64((int64_t)room->cpu_milli));
	json_set(left, "memoryMiB", json_object_new_int64((int64_t)room->memory_mib));
	json_set(left, "strandedMilli", json_object_new_int64(node_order_stranded(room, &mean) / 1000));
	json_set(object, "left", left);
}

/* GPUs are evaluated only if the node itself could serve the pod; otherwise their reasons would not matter.
 */
static struct json_object *node_json(
	struct ledger *ledger, const struct node_ledger *node, const struct pod_facts *pod, size_t *budget)
{
	struct json_object *object = json_object_new_object(), *gpus = json_object_new_array();
	struct node_explanation e;
	char reason[64];
	bool served;

	ledger_explain(ledger, node->facts.name, pod, &e);
	served = e.reject_reason == FITS || e.reject_reason == REJECT_FULL ||
		 e.reject_reason == REJECT_TOO_LARGE || e.reject_reason == REJECT_TOO_FEW ||
		 e.reject_reason == REJECT_INSTANCES || e.reject_reason == REJECT_CORE;
	for (size_t i = 0; i < e.n_gpus; i++)
		json_object_array_add(gpus, gpu_json(node, &e.gpus[i], served, budget));
	json_set(object, "name", json_new_text(node->facts.name));
	json_set(object, "fits", json_object_new_boolean(e.reject_reason == FITS));
	json_set(object, "reason",
		json_new_text(reject_reason_text(e.reject_reason, &pod->request, reason, sizeof(reason))));
	json_set(object, "mode", json_new_text(gpu_mode_text(node->facts.mode)));
	json_set(object, "policy", json_new_text(gpu_policy_text(node->facts.policy)));
	json_set(object, "unitMiB", json_object_new_int64(node->facts.unit_mib));
	json_set(object, "unplacedUnits", json_object_new_int64(node->unplaced_units));
	json_set(object, "cards", gpus);
	add_links(object, node, &e, &pod->request);
	if (e.reject_reason == FITS)
		add_left(object, ledger, node, pod);
	if (node->unplaced_units)
		add_holders(object, node, NULL, budget);
	return object;
}

/* All nodes: those that fit in the order of rank_nodes(), then the others by name. */

struct feasibility {
	const struct node_ledger **fitting, **others;
	enum reject_reason *reject_reasons; /* of the other nodes */
	size_t n_fitting, n_others, n_without_gpus;
};

static void feasibility_release(struct feasibility *feasibility)
{
	free(feasibility->fitting);
	free(feasibility->others);
	free(feasibility->reject_reasons);
}

static int feasibility_read(
	struct ledger *ledger, const struct pod_facts *pod, const char *only, struct feasibility *feasibility)
{
	size_t n = ledger->nodes.count + 1;
	const struct node_ledger *node;

	feasibility->fitting = calloc(n, sizeof(*feasibility->fitting));
	feasibility->others = calloc(n, sizeof(*feasibility->others));
	feasibility->reject_reasons = calloc(n, sizeof(*feasibility->reject_reasons));
	if (!feasibility->fitting || !feasibility->others || !feasibility->reject_reasons)
		return -1;
	table_for_each (&ledger->nodes, cursor, node) {
		if (only && strcmp(node->facts.name, only) != 0)
			continue;
		if (!(node->facts.n_gpus || node->facts.mode != GPU_MODE_NONE || node->unplaced_units) &&
			!only)
			feasibility->n_without_gpus++;
		else if (ledger_choose(ledger, node->facts.name, pod, NULL) == FITS)
			feasibility->fitting[feasibility->n_fitting++] = node;
		else
			feasibility->others[feasibility->n_others++] = node;
	}
	qsort(feasibility->others, feasibility->n_others, sizeof(*feasibility->others), node_ledger_compare);
	for (size_t i = 0; i < feasibility->n_others; i++)
		feasibility->reject_reasons[i] = (enum reject_reason)ledger_choose(
			ledger, feasibility->others[i]->facts.name, pod, NULL);
	return rank_nodes(ledger, feasibility->fitting, feasibility->n_fitting, SIZE_MAX, pod);
}

static struct json_object *reason_json(enum reject_reason reject_reason, const struct request *request,
	const struct node_ledger *const *nodes, const enum reject_reason *reject_reasons, size_t n)
{
	struct json_object *object = json_object_new_object(), *examples = json_object_new_array();
	char text[64];
	int64_t count = 0;

	for (size_t i = 0; i < n; i++) {
		if (reject_reasons && reject_reasons[i] != reject_reason)
			continue;
		if (count++ < EXAMPLES_MAX)
			json_object_array_add(examples, json_new_text(nodes[i]->facts.name));
	}
	json_set(object, "reason",
		json_new_text(reject_reason_text(reject_reason, request, text, sizeof(text))));
	json_set(object, "nodes", json_object_new_int64(count));
	json_set(object, "examples", examples);
	if (count)
		return object;
	json_object_put(object);
	return NULL;
}

/* Counts the nodes that are not shown GPU by GPU, by reason. */
static struct json_object *more_json(const struct feasibility *feasibility, size_t fitting_shown,
	size_t others_shown, const struct request *request)
{
	struct json_object *more = json_object_new_array();

	for (int reject_reason = FITS; reject_reason < REJECT_MAX; reject_reason++) {
		struct json_object *reason = reject_reason == FITS
						     ? reason_json(FITS, request,
							       feasibility->fitting + fitting_shown, NULL,
							       feasibility->n_fitting - fitting_shown)
						     : reason_json((enum reject_reason)reject_reason, request,
							       feasibility->others + others_shown,
							       feasibility->reject_reasons + others_shown,
							       feasibility->n_others - others_shown);

		if (reason)
			json_object_array_add(more, reason);
	}
	return more;
}

static size_t at_most(size_t n, size_t max)
{
	return n > max ? max : n;
}

/* At least half of the room is for nodes that do not fit, if there are any, because users want to know why
 * they do not. */
static void add_nodes(
	struct json_object *root, struct ledger *ledger, const struct pod_facts *pod, const char *only)
{
	_cleanup_(feasibility_release) struct feasibility feasibility = {0};
	struct json_object *shown = json_object_new_array();
	size_t budget = WHY_PODS_MAX, n_fitting, n_others;

	if (feasibility_read(ledger, pod, only, &feasibility) < 0)
		feasibility.n_fitting = feasibility.n_others = 0;
	n_others = at_most(
		feasibility.n_others, WHY_NODES_MAX - at_most(feasibility.n_fitting, WHY_NODES_MAX / 2));
	n_fitting = at_most(feasibility.n_fitting, WHY_NODES_MAX - n_others);
	for (size_t i = 0; i < n_fitting; i++)
		json_object_array_add(shown, node_json(ledger, feasibility.fitting[i], pod, &budget));
	for (size_t i = 0; i < n_others; i++)
		json_object_array_add(shown, node_json(ledger, feasibility.others[i], pod, &budget));
	json_set(root, "gpuNodes",
		json_object_new_int64((int64_t)(feasibility.n_fitting + feasibility.n_others)));
	json_set(root, "fittingNodes", json_object_new_int64((int64_t)feasibility.n_fitting));
	json_set(root, "otherNodes", json_object_new_int64((int64_t)feasibility.n_without_gpus));
	json_set(root, "nodes", shown);
	json_set(root, "moreNodes", more_json(&feasibility, n_fitting, n_others, &pod->request));
}

/* The past. */

/* A victim of another pod has this decision in its own past, too. */
static bool concerns(const struct question *question, const struct decision *decision)
{
	for (size_t i = 0; i < decision->n_victims; i++) {
		const struct decision_victim *victim = &decision->victims[i];

		if (is_asked_about(question, victim->namespace_, victim->name, victim->uid))
			return true;
	}
	return is_asked_about(question, decision->namespace_, decision->name, decision->uid);
}

static char *why_json(struct scheduler *scheduler, const struct question *question)
{
	const struct ledger_pod *pod = find_pod(&scheduler->core.ledger, question);
	struct json_object *root = json_object_new_object();
	struct json_object *unit = policies_explain(
		scheduler->policies, question->namespace_, question->name);
	struct requeue_state waiting;
	char time[TIME_TEXT_SIZE], *text;
	struct json_object *decisions;
	const struct decision *decision;
	size_t cursor = 0, n = 0, skip;

	json_set(root, "time", json_new_text(time_text(realtime_ns(), time)));
	json_set(root, "ready", json_object_new_boolean(core_is_ready(&scheduler->core)));
	if (pod) {
		const char *only = question->node ? question->node : pod->node;

		json_set(root, "pod", why_pod_json(&scheduler->core.ledger, pod));
		if (requeue_list_find(&scheduler->core.requeues, pod->facts.uid, REQUEUE_ROOM, &waiting))
			json_set(root, "waiting", why_waiting_json(&waiting));
		why_add_gang(root, scheduler, pod);
		if (!pod->facts.finished)
			add_nodes(root, &scheduler->core.ledger, &pod->facts, only);
	}
	if (unit)
		json_set(root, "resourcePolicy", unit);
	decisions = json_object_new_array();
	while ((decision = recorder_next(scheduler->recorder, &cursor)))
		n += concerns(question, decision);
	skip = n > WHY_DECISIONS_MAX ? n - WHY_DECISIONS_MAX : 0;
	json_set(root, "olderDecisions", json_object_new_int64((int64_t)skip));
	cursor = 0;
	while ((decision = recorder_next(scheduler->recorder, &cursor)))
		if (concerns(question, decision)) {
			if (skip)
				skip--;
			else
				json_object_array_add(decisions, decision_to_json(decision));
		}
	json_set(root, "decisions", decisions);
	text = strdup(json_text(root));
	json_object_put(root);
	return text;
}

void why_answer(struct scheduler *scheduler, struct http_call *call)
{
	struct question question = {.namespace_ = http_call_query(call, "namespace"),
		.name = http_call_query(call, "name"),
		.uid = http_call_query(call, "uid"),
		.node = http_call_query(call, "node")};

	if (!question.namespace_ || !question.name)
		http_call_reply(call, 400, "text/plain; charset=utf-8",
			strdup("GET /why?namespace=NS&name=POD[&uid=UID][&node=NODE]\n"));
	else
		http_call_reply(call, 200, JSON_TYPE, why_json(scheduler, &question));
}
