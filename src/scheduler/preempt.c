#include "scheduler/preempt.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "core/preemption/preemption.h"
#include "core/registry/nomination.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "scheduler/evict.h"
#include "scheduler/metrics.h"
#include "scheduler/policies.h"
#include "scheduler/record.h"
#include "scheduler/scheduler.h"

/* How long a nomination lasts that kube-scheduler has cleared: it may be about to nominate anew. */
#define CLEARED_NS (10 * NS_PER_S)

/* The best node so far. */
struct choice {
	struct json_object *in_tree; /* its victims as asked, borrowed */
	struct preemption_plan plan;
	bool found;
	struct preempt_tally tally;
};

/* {"Pods":[{"UID":".."}],"NumPDBViolations":n} */
static int given_uids(struct json_object *victims, struct table *given)
{
	struct json_object *pods = json_member(victims, "Pods");
	size_t n = json_object_is_type(pods, json_type_array) ? json_object_array_length(pods) : 0;

	for (size_t i = 0; i < n; i++) {
		const char *uid = json_member_string(json_object_array_get_idx(pods, i), "UID");

		if (uid && table_set(given, uid, victims) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int consider_node(struct scheduler *scheduler, const struct pod_facts *pod, const char *node,
	struct json_object *victims, struct choice *choice)
{
	_cleanup_preemption_plan_ struct preemption_plan plan = {0};
	struct table given;
	const struct preemption_question question = {.pod = pod,
		.budgets = &scheduler->budgets,
		.given = &given,
		.may_violate = true,
		.may_stop_bindings = true};
	int64_t violations = 0;
	int r;

	table_init(&given);
	r = given_uids(victims, &given);
	if (r == 0)
		r = given.count ? preemption_plan_node(&scheduler->core.ledger, node, &question, &plan)
				: REJECT_FULL;
	if (r > 0 && given.count)
		choice->tally.reject_reasons[r]++;
	else if (r > 0)
		choice->tally.n_without_victims++;
	table_release(&given);
	if (r != FITS)
		return r < 0 ? r : 0;
	choice->tally.n_fitting++;
	json_whole(json_member(victims, "NumPDBViolations"), 0, INT32_MAX, &violations);
	plan.n_violations += (size_t)violations;
	if (choice->found && preemption_plan_compare(&choice->plan, &plan) <= 0)
		return 0;
	preemption_plan_release(&choice->plan);
	choice->in_tree = victims;
	choice->plan = plan;
	choice->found = true;
	plan = (struct preemption_plan){0};
	return 0;
}

static bool plan_names(const struct preemption_plan *plan, const char *uid)
{
	for (size_t i = 0; i < plan->n_victims; i++)
		if (strcmp(plan->victims[i]->facts.uid, uid) == 0)
			return true;
	return false;
}

static int add_victim(struct json_object *pods, const char *uid)
{
	struct json_object *pod = json_object_new_object();

	if (!pod || json_set(pod, "UID", json_object_new_string(uid)) < 0 ||
		json_object_array_add(pods, pod) < 0) {
		json_object_put(pod);
		return -ENOMEM;
	}
	return 0;
}

/* Ours in order of importance, then those of in-tree's victims that ask for no GPU. */
static struct json_object *victims_json(const struct choice *choice)
{
	_cleanup_json_ struct json_object *victims = json_object_new_object();
	struct json_object *pods = json_object_new_array(), *asked = json_member(choice->in_tree, "Pods");

	if (!victims || json_set(victims, "Pods", pods) < 0 ||
		json_set(victims, "NumPDBViolations",
			json_object_new_int64((int64_t)choice->plan.n_violations)) < 0)
		return NULL;
	for (size_t i = 0; i < choice->plan.n_victims; i++)
		if (add_victim(pods, choice->plan.victims[i]->facts.uid) < 0)
			return NULL;
	for (size_t i = 0; i < json_object_array_length(asked); i++) {
		const char *uid = json_member_string(json_object_array_get_idx(asked, i), "UID");

		if (uid && !plan_names(&choice->plan, uid) && add_victim(pods, uid) < 0)
			return NULL;
	}
	return TAKE_PTR(victims);
}

static char *answer_text(const struct choice *choice)
{
	_cleanup_json_ struct json_object *answer = json_object_new_object();
	struct json_object *nodes = json_object_new_object();

	if (!answer || json_set(answer, "NodeNameToMetaVictims", nodes) < 0)
		return NULL;
	if (choice->found && json_set(nodes, choice->plan.node->facts.name, victims_json(choice)) < 0)
		return NULL;
	return strdup(json_text(answer));
}

/* How many of in-tree's victims ask for no GPU. */
static size_t count_others(const struct choice *choice)
{
	struct json_object *asked = json_member(choice->in_tree, "Pods");
	size_t n = 0;

	for (size_t i = 0; i < json_object_array_length(asked); i++) {
		const char *uid = json_member_string(json_object_array_get_idx(asked, i), "UID");

		n += uid && !plan_names(&choice->plan, uid);
	}
	return n;
}

static void take_choice(struct scheduler *scheduler, const struct pod_facts *pod, const struct choice *choice)
{
	const char *node = choice->plan.node->facts.name;
	int r;

	record_preempt(scheduler, pod, &choice->tally, &choice->plan, count_others(choice), "");
	evictions_cancel(scheduler->evictions, pod->uid);
	log_info("pod %s/%s: kube-scheduler is to preempt %zu pods on node %s", pod->namespace_, pod->name,
		choice->plan.n_victims, node);
	r = ledger_nominate(&scheduler->core.ledger, pod, node, &choice->plan.placement,
		monotonic_ns() + WATCH_LAG_MAX_NS);
	if (r < 0)
		log_warning("pod %s/%s: no card is kept for it on node %s: %s, ignoring", pod->namespace_,
			pod->name, node, strerror(-r));
}

static char *decide(struct scheduler *scheduler, const struct pod_facts *pod, struct json_object *nodes,
	const struct policy_decision *decision, enum preempt_outcome *ret_result)
{
	/* While we evict for the pod ourselves, nobody else needs to go. */
	bool own = evictions_are_under_way(scheduler->evictions, pod->uid);
	bool gang = gangs_rules_out(&scheduler->core.gangs, pod);
	/* Filter rejects it on every node. kube-scheduler asks all the same for the nodes that it rejected
	 * itself. */
	bool full = pod->annotations_full;
	struct choice choice = {.tally.n_asked = (uint32_t)json_object_object_length(nodes)};
	char *text = NULL;
	int r = 0;

	if (!own && !gang && !full) {
		json_object_object_foreach (nodes, node, victims)
			if (r == 0 && policy_may_preempt(decision, node))
				r = consider_node(scheduler, pod, node, victims, &choice);
	}
	if (r == 0)
		text = answer_text(&choice);
	if (text && choice.found)
		take_choice(scheduler, pod, &choice);
	else if (text)
		record_preempt(scheduler, pod, &choice.tally, NULL, 0,
			own    ? "pods are being evicted for it already"
			: gang ? "its gang waits as a whole: nobody goes for a part of it"
			: full ? "its annotations leave no room for a placement: it cannot be bound"
			       : "");
	*ret_result = !text	     ? PREEMPT_FAILED
		      : choice.found ? PREEMPT_NODE
		      : own	     ? PREEMPT_OWN
		      : gang	     ? PREEMPT_GANG
				     : PREEMPT_NO_NODE;
	preemption_plan_release(&choice.plan);
	return text;
}

/* A pod that asks for "0" of our resources is none of our business. */
static char *pass_all(struct json_object *nodes)
{
	_cleanup_json_ struct json_object *answer = json_object_new_object();

	if (!answer || json_set(answer, "NodeNameToMetaVictims", json_object_get(nodes)) < 0)
		return NULL;
	return strdup(json_text(answer));
}

static char *answer(struct scheduler *scheduler, const char *body, size_t len, unsigned *ret_status,
	enum preempt_outcome *ret_result, struct error *err)
{
	_cleanup_json_ struct json_object *root = NULL;
	_cleanup_pod_facts_ struct pod_facts pod;
	struct policy_decision decision = {0};
	struct json_object *nodes;

	pod_facts_init(&pod);
	*ret_status = 503;
	*ret_result = PREEMPT_NOT_READY;
	if (!core_is_ready(&scheduler->core)) {
		error_set(err, EAGAIN, "ration-scheduler has not read the cluster's nodes and pods yet");
		return NULL;
	}
	*ret_result = PREEMPT_NOT_OWNER;
	if (ownership_may_plan(&scheduler->core.ownership, err) < 0)
		return NULL;
	*ret_status = 400;
	*ret_result = PREEMPT_BAD_REQUEST;
	if (json_parse(body, len, &root, err) < 0)
		return NULL;
	nodes = json_member(root, "NodeNameToMetaVictims");
	if (!json_object_is_type(nodes, json_type_object)) {
		error_set(err, EINVAL,
			"request has no NodeNameToMetaVictims: set nodeCacheCapable: true for this extender");
		return NULL;
	}
	if (pod_facts_read(json_member(root, "Pod"), &pod, err) < 0)
		return NULL;
	*ret_status = 200;
	*ret_result = PREEMPT_NOT_OURS;
	if (request_is_empty(&pod.request))
		return pass_all(nodes);
	if (core_policies_are_used(&scheduler->core))
		policies_recall(scheduler->policies, json_member(root, "Pod"), &decision);
	return decide(scheduler, &pod, nodes, &decision, ret_result);
}

char *preempt_answer(
	struct scheduler *scheduler, const char *body, size_t len, unsigned *ret_status, struct error *err)
{
	enum preempt_outcome result;
	char *text = answer(scheduler, body, len, ret_status, &result, err);

	scheduler->metrics.preempt_results[result]++;
	return text;
}

static bool is_nominated_for(const struct ledger_pod *pod, const char *node)
{
	return pod && pod->nomination && strcmp(pod->nomination->node->facts.name, node) == 0;
}

static void nominate_as_shown(struct scheduler *scheduler, const struct pod_facts *pod)
{
	_cleanup_preemption_plan_ struct preemption_plan plan = {0};
	const struct preemption_question question = {
		.pod = pod, .budgets = &scheduler->budgets, .may_violate = true, .may_stop_bindings = true};

	if (preemption_plan_node(&scheduler->core.ledger, pod->nominated_node, &question, &plan) == FITS)
		ledger_nominate(
			&scheduler->core.ledger, pod, pod->nominated_node, &plan.placement, NOMINATION_LASTS);
}

void nomination_follow(struct scheduler *scheduler, const struct pod_facts *pod)
{
	const struct ledger_pod *known = ledger_pod(&scheduler->core.ledger, pod->uid);

	if (!core_is_ready(&scheduler->core) || !known || pod->finished ||
		evictions_are_under_way(scheduler->evictions, pod->uid))
		return;
	if (!pod->nominated_node) {
		if (known->nomination && known->nomination->expires_ns == NOMINATION_LASTS)
			ledger_nomination_set_end(
				&scheduler->core.ledger, pod->uid, monotonic_ns() + CLEARED_NS);
		return;
	}
	if (is_nominated_for(known, pod->nominated_node))
		ledger_nomination_set_end(&scheduler->core.ledger, pod->uid, NOMINATION_LASTS);
	else
		nominate_as_shown(scheduler, pod);
}

void nominations_follow_all(struct scheduler *scheduler)
{
	const struct ledger_pod *pod;

	table_for_each (&scheduler->core.ledger.pods, cursor, pod)
		if (pod->occupancy == OCCUPANCY_WAITING && pod->facts.nominated_node)
			nomination_follow(scheduler, &pod->facts);
}

const struct node_ledger *nomination_waits(const struct scheduler *scheduler, const struct pod_facts *pod)
{
	const struct ledger_pod *known = ledger_pod(&scheduler->core.ledger, pod->uid);
	const struct node_ledger *node;

	if (!pod->nominated_node || !is_nominated_for(known, pod->nominated_node))
		return NULL;
	node = known->nomination->node;
	list_for_each (item, &node->pods)
		if (list_entry(item, struct ledger_pod, item)->facts.deleting)
			return node;
	return NULL;
}
