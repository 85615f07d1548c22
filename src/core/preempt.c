#include "core/preempt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/core.h"
#include "core/events-internal.h"
#include "core/registry/nomination.h"

/* How long a nomination lasts that kube-scheduler has cleared: it may be about to nominate the pod again. */
#define CLEARED_NS (10 * NS_PER_S)

void preempt_answer_release(struct preempt_answer *answer)
{
	preemption_plan_release(&answer->plan);
	free(answer->others);
	*answer = (struct preempt_answer){0};
}

static int plan_on(struct core *core, const struct pod_facts *pod, const struct preempt_node *node,
	struct preemption_plan *ret_plan)
{
	struct table given;
	const struct preemption_question question = {.pod = pod,
		.budgets = &core->budgets,
		.given = &given,
		.may_violate = true,
		.may_stop_bindings = true};
	int r = 0;

	table_init(&given);
	for (size_t i = 0; i < node->n_uids && r == 0; i++)
		r = table_set(&given, node->uids[i], core);
	if (r == 0)
		r = preemption_plan_node(&core->ledger, node->name, &question, ret_plan);
	table_release(&given);
	return r;
}

/* Keeps the plan of this node if it is better than the best so far. */
static int consider_node(struct core *core, const struct pod_facts *pod, const struct preempt_node *node,
	const struct preempt_node **best, struct preempt_answer *answer)
{
	_cleanup_preemption_plan_ struct preemption_plan plan = {0};
	int r;

	if (!node->n_uids) {
		answer->tally.n_without_victims++;
		return 0;
	}
	r = plan_on(core, pod, node, &plan);
	if (r > 0)
		answer->tally.reject_reasons[r]++;
	if (r != FITS)
		return r < 0 ? r : 0;
	answer->tally.n_fitting++;
	plan.n_violations += node->n_violations;
	if (*best && preemption_plan_compare(&answer->plan, &plan) <= 0)
		return 0;
	preemption_plan_release(&answer->plan);
	answer->plan = plan;
	plan = (struct preemption_plan){0};
	*best = node;
	return 0;
}

static bool plan_names(const struct preemption_plan *plan, const char *uid)
{
	for (size_t i = 0; i < plan->n_victims; i++)
		if (strcmp(plan->victims[i]->facts.uid, uid) == 0)
			return true;
	return false;
}

static int add_others(const struct preempt_node *node, struct preempt_answer *answer)
{
	answer->others = calloc(node->n_uids + 1, sizeof(*answer->others));
	if (!answer->others)
		return -ENOMEM;
	for (size_t i = 0; i < node->n_uids; i++)
		if (!plan_names(&answer->plan, node->uids[i]))
			answer->others[answer->n_others++] = node->uids[i];
	return 0;
}

static int choose_node(
	struct core *core, const struct preempt_question *question, struct preempt_answer *answer)
{
	const struct preempt_node *best = NULL;

	for (size_t i = 0; i < question->n; i++)
		if (policy_may_preempt(&answer->policy, question->nodes[i].name) &&
			consider_node(core, question->pod, &question->nodes[i], &best, answer) < 0)
			return -ENOMEM;
	if (!best)
		return 0;
	answer->outcome = PREEMPT_NODE;
	return add_others(best, answer);
}

static void tell_answer(
	const struct core *core, const struct pod_facts *pod, const struct preempt_answer *answer)
{
	bool names_node = answer->outcome == PREEMPT_NODE;
	size_t n_victims = names_node ? answer->plan.n_victims : 0, n = n_victims + answer->n_others;
	_cleanup_free_ const char **victims = calloc(n + 1, sizeof(*victims));

	for (size_t i = 0; victims && i < n; i++)
		victims[i] = i < n_victims ? answer->plan.victims[i]->facts.uid
					   : answer->others[i - n_victims];
	core_tell(
		core, &(struct core_output){GAVE_PREEMPTION, .uid = pod->uid, .outcome = (int)answer->outcome,
			      .name = names_node ? answer->plan.node->facts.name : NULL,
			      .placement = names_node ? &answer->plan.placement : NULL, .names = victims,
			      .n_names = victims ? n : 0, .text = answer->text});
}

void core_preempt(struct core *core, const struct preempt_question *question, int64_t now_ns,
	struct preempt_answer *ret_answer)
{
	_event_ struct core *event = core_begin(core,
		&(struct core_event){CORE_PREEMPT, now_ns, .pod = question->pod, .uid = question->policy.uid,
			.namespace_ = question->policy.space ? question->policy.space->name : NULL,
			.policy_pod = question->policy.facts, .candidates = question->nodes,
			.n_candidates = question->n});
	const struct pod_facts *pod = question->pod;

	*ret_answer = (struct preempt_answer){.outcome = PREEMPT_NO_NODE, .text = ""};
	if (request_is_empty(&pod->request)) {
		ret_answer->outcome = PREEMPT_NOT_OURS;
		if (question->policy.facts)
			policy_pod_facts_release(question->policy.facts);
		return;
	}
	ret_answer->tally.n_asked = (uint32_t)question->n;
	core_policy_recall(core, &question->policy, now_ns, &ret_answer->policy);
	if (core_is_evicting_for(core, pod->uid)) {
		ret_answer->outcome = PREEMPT_OWN;
		ret_answer->text = "pods are being evicted for it already";
	} else if (gangs_rules_out(&core->gangs, pod)) {
		ret_answer->outcome = PREEMPT_GANG;
		ret_answer->text = "its gang waits as a whole: no pod is evicted for a part of it";
	} else if (pod->annotations_full) {
		/* Filter rejects the pod on every node. kube-scheduler nevertheless asks for the nodes that
		 * its own filters rejected. */
		ret_answer->text = "its annotations leave no room for a placement: it cannot be bound";
	} else if (choose_node(core, question, ret_answer) < 0) {
		ret_answer->outcome = PREEMPT_FAILED;
		return;
	}
	tell_answer(core, pod, ret_answer);
	if (question->decided)
		question->decided(question->userdata, pod, ret_answer);
	if (ret_answer->outcome != PREEMPT_NODE)
		return;
	core_cancel_evictions(core, pod->uid);
	ret_answer->nominate_error = ledger_nominate(&core->ledger, pod, ret_answer->plan.node->facts.name,
		&ret_answer->plan.placement, now_ns + WATCH_LAG_MAX_NS);
}

/* ---- nominations ---- */

static bool is_nominated_for(const struct ledger_pod *pod, const char *node)
{
	return pod && pod->nomination && strcmp(pod->nomination->node->facts.name, node) == 0;
}

static void nominate_as_shown(struct core *core, const struct pod_facts *pod)
{
	_cleanup_preemption_plan_ struct preemption_plan plan = {0};
	const struct preemption_question question = {
		.pod = pod, .budgets = &core->budgets, .may_violate = true, .may_stop_bindings = true};

	if (preemption_plan_node(&core->ledger, pod->nominated_node, &question, &plan) == FITS)
		ledger_nominate(&core->ledger, pod, pod->nominated_node, &plan.placement, NOMINATION_LASTS);
}

void core_follow_nomination(struct core *core, const struct pod_facts *pod, int64_t now_ns)
{
	const struct ledger_pod *known = ledger_pod(&core->ledger, pod->uid);

	if (!core_is_ready(core) || !known || pod->finished || request_is_empty(&pod->request) ||
		core_is_evicting_for(core, pod->uid))
		return;
	if (!pod->nominated_node) {
		if (known->nomination && known->nomination->expires_ns == NOMINATION_LASTS)
			ledger_nomination_set_end(&core->ledger, pod->uid, now_ns + CLEARED_NS);
		return;
	}
	if (is_nominated_for(known, pod->nominated_node))
		ledger_nomination_set_end(&core->ledger, pod->uid, NOMINATION_LASTS);
	else
		nominate_as_shown(core, pod);
}

void core_follow_nominations(struct core *core, int64_t now_ns)
{
	const struct ledger_pod *pod;

	table_for_each (&core->ledger.pods, cursor, pod)
		if (pod->occupancy == OCCUPANCY_WAITING && pod->facts.nominated_node)
			core_follow_nomination(core, &pod->facts, now_ns);
}

const struct node_ledger *core_nomination_waits_for(const struct core *core, const struct pod_facts *pod)
{
	const struct ledger_pod *known = ledger_pod(&core->ledger, pod->uid);

	if (!pod->nominated_node || !is_nominated_for(known, pod->nominated_node) ||
		!nomination_waits(known->nomination))
		return NULL;
	return known->nomination->node;
}
