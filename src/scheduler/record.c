#include "scheduler/record.h"

#include <string.h>

#include "base/clock.h"
#include "core/placement/explain.h"
#include "core/preemption/preemption.h"
#include "scheduler/recorder.h"
#include "scheduler/scheduler.h"

static struct decision decision_about(
	struct scheduler *scheduler, const struct pod_facts *pod, enum decision_kind kind)
{
	return (struct decision){.kind = kind,
		.time_ns = realtime_ns(),
		.uid = pod->uid,
		.namespace_ = pod->namespace_,
		.name = pod->name,
		.units = pod->request.units};
}

/* The GPUs of a placement, with their room before it. */
struct chosen_gpus {
	struct node_explanation explanation;
	struct decision_gpu gpus[DECISION_GPUS_MAX];
};

static void describe_choice(struct scheduler *scheduler, const struct pod_facts *pod, const char *node,
	const struct placement *placement, struct chosen_gpus *chosen, struct decision *decision)
{
	const struct node_ledger *known = ledger_node(&scheduler->core.ledger, node);
	const struct ledger_pod *entry = ledger_pod(&scheduler->core.ledger, pod->uid);
	const struct node_explanation *e = &chosen->explanation;
	/* ledger_explain() ignores the pod's own hold, but not its reservation. */
	bool reserved = entry && entry->occupancy == OCCUPANCY_RESERVED;

	decision->node = node;
	if (!known)
		return;
	decision->policy = gpu_policy_text(known->facts.policy);
	ledger_explain(&scheduler->core.ledger, node, pod, &chosen->explanation);
	for (size_t i = 0; i < e->n_gpus; i++) {
		const struct gpu_explanation *gpu = &e->gpus[i];

		uint32_t units = placement_units_on(placement, &pod->request, gpu->gpu->facts.uuid);

		decision->n_gpus_fitting += units || gpu->reject_reason == GPU_FITS;
		if (decision->n_gpus == DECISION_GPUS_MAX || !units)
			continue;
		chosen->gpus[decision->n_gpus++] = (struct decision_gpu){.uuid = gpu->gpu->facts.uuid,
			.index = gpu->gpu->facts.index,
			.units_free = gpu->units_free + (reserved ? units : 0),
			.units_total = gpu->gpu->units_total};
	}
	decision->gpus = chosen->gpus;
}

static size_t describe_reject_reasons(const uint32_t reject_reasons[REJECT_MAX],
	const struct request *request, struct decision_reason *reasons, char (*texts)[64])
{
	size_t n = 0;

	for (int reject_reason = FITS + 1; reject_reason < REJECT_MAX && n < DECISION_REASONS_MAX;
		reject_reason++) {
		if (!reject_reasons[reject_reason])
			continue;
		reasons[n] = (struct decision_reason){
			.text = reject_reason_text(
				(enum reject_reason)reject_reason, request, texts[n], sizeof(texts[n])),
			.nodes = reject_reasons[reject_reason]};
		n++;
	}
	return n;
}

void record_filter(struct scheduler *scheduler, const struct pod_facts *pod, size_t n_asked,
	const struct node_ledger *const *offered, size_t n_offered, size_t n_fitting,
	const uint32_t reject_reasons[REJECT_MAX], const char *text)
{
	struct decision decision = decision_about(scheduler, pod, DECISION_FILTER);
	const struct ledger_pod *held = ledger_pod(&scheduler->core.ledger, pod->uid);
	struct decision_reason reasons[DECISION_REASONS_MAX];
	struct decision_node nodes[DECISION_NODES_MAX];
	char texts[DECISION_REASONS_MAX][64];
	struct chosen_gpus chosen;

	decision.n_asked = (uint32_t)n_asked;
	decision.n_fitting = (uint32_t)n_fitting;
	decision.text = text;
	for (; decision.n_nodes < n_offered && decision.n_nodes < DECISION_NODES_MAX; decision.n_nodes++)
		nodes[decision.n_nodes] = (struct decision_node){
			.name = offered[decision.n_nodes]->facts.name};
	decision.nodes = nodes;
	decision.n_reasons = describe_reject_reasons(reject_reasons, &pod->request, reasons, texts);
	decision.reasons = reasons;
	if (held && held->occupancy == OCCUPANCY_TENTATIVE && held->has_placement)
		describe_choice(scheduler, pod, held->node, &held->placement, &chosen, &decision);
	recorder_add(scheduler->recorder, &decision);
}

/* Records a decision that leaves some of the nodes. */
static void record_names(struct scheduler *scheduler, struct decision *decision, size_t n_asked,
	const char *const *names, size_t n, const char *text)
{
	struct decision_node nodes[DECISION_NODES_MAX];

	decision->n_asked = (uint32_t)n_asked;
	decision->n_fitting = (uint32_t)n;
	decision->text = text;
	for (; decision->n_nodes < n && decision->n_nodes < DECISION_NODES_MAX; decision->n_nodes++)
		nodes[decision->n_nodes] = (struct decision_node){.name = names[decision->n_nodes]};
	decision->nodes = nodes;
	recorder_add(scheduler->recorder, decision);
}

void record_policy(struct scheduler *scheduler, const struct pod_facts *pod, size_t n_asked,
	const char *const *names, size_t n, const char *text)
{
	struct decision decision = decision_about(scheduler, pod, DECISION_POLICY);

	record_names(scheduler, &decision, n_asked, names, n, text);
}

void record_prioritize(struct scheduler *scheduler, const struct pod_facts *pod, const char *const *names,
	const int *scores, size_t n)
{
	struct decision decision = decision_about(scheduler, pod, DECISION_PRIORITIZE);
	struct decision_node nodes[DECISION_NODES_MAX];

	decision.n_asked = (uint32_t)n;
	for (; decision.n_nodes < n && decision.n_nodes < DECISION_NODES_MAX; decision.n_nodes++)
		nodes[decision.n_nodes] = (struct decision_node){
			.name = names[decision.n_nodes], .score = (uint32_t)scores[decision.n_nodes]};
	decision.nodes = nodes;
	recorder_add(scheduler->recorder, &decision);
}

void record_bind(struct scheduler *scheduler, const struct pod_facts *pod, const char *node,
	const struct placement *placement)
{
	struct decision decision = decision_about(scheduler, pod, DECISION_BIND);
	struct chosen_gpus chosen;

	describe_choice(scheduler, pod, node, placement, &chosen, &decision);
	recorder_add(scheduler->recorder, &decision);
}

void record_outcome(struct scheduler *scheduler, const char *uid, const char *namespace_, const char *name,
	const char *node, const char *text, int64_t spent_ns)
{
	recorder_add(scheduler->recorder, &(struct decision){.kind = DECISION_OUTCOME,
						  .time_ns = realtime_ns(),
						  .spent_ns = spent_ns,
						  .uid = uid,
						  .namespace_ = namespace_,
						  .name = name,
						  .node = node,
						  .text = text});
}

void record_requeue(struct scheduler *scheduler, const struct pod_facts *pod)
{
	struct decision decision = decision_about(scheduler, pod, DECISION_REQUEUE);

	recorder_add(scheduler->recorder, &decision);
}

void record_filter_error(struct scheduler *scheduler, const struct pod_facts *pod, const char *text)
{
	struct decision decision = decision_about(scheduler, pod, DECISION_FILTER_ERROR);

	decision.text = text;
	recorder_add(scheduler->recorder, &decision);
}

/* Preemption. */

/* victims has room for DECISION_VICTIMS_MAX; further victims are counted. */
static void describe_victims(
	const struct preemption_plan *plan, struct decision_victim *victims, struct decision *decision)
{
	for (; decision->n_victims < plan->n_victims && decision->n_victims < DECISION_VICTIMS_MAX;
		decision->n_victims++) {
		const struct pod_facts *facts = &plan->victims[decision->n_victims]->facts;

		victims[decision->n_victims] = (struct decision_victim){.uid = facts->uid,
			.namespace_ = facts->namespace_,
			.name = facts->name,
			.priority = facts->priority};
	}
	decision->victims = victims;
	decision->n_victims_unnamed += (uint32_t)(plan->n_victims - decision->n_victims);
}

static void add_reason(struct decision_reason *reasons, size_t *n, const char *text, uint32_t nodes)
{
	if (nodes && *n < DECISION_REASONS_MAX)
		reasons[(*n)++] = (struct decision_reason){.text = text, .nodes = nodes};
}

void record_preempt(struct scheduler *scheduler, const struct pod_facts *pod,
	const struct preempt_tally *tally, const struct preemption_plan *plan, size_t n_others,
	const char *text)
{
	struct decision decision = decision_about(scheduler, pod, DECISION_PREEMPT);
	struct decision_victim victims[DECISION_VICTIMS_MAX];
	struct decision_reason reasons[DECISION_REASONS_MAX];
	char texts[DECISION_REASONS_MAX][64];
	struct chosen_gpus chosen;

	decision.n_asked = tally->n_asked;
	decision.n_fitting = tally->n_fitting;
	decision.text = text;
	decision.n_reasons = describe_reject_reasons(tally->reject_reasons, &pod->request, reasons, texts);
	add_reason(reasons, &decision.n_reasons, "kube-scheduler names no victims", tally->n_without_victims);
	if (plan) {
		add_reason(reasons, &decision.n_reasons, "other victims are to be preferred",
			tally->n_fitting - 1);
		decision.n_victims_unnamed = (uint32_t)n_others;
		describe_victims(plan, victims, &decision);
		describe_choice(scheduler, pod, plan->node->facts.name, &plan->placement, &chosen, &decision);
	}
	decision.reasons = reasons;
	recorder_add(scheduler->recorder, &decision);
}

void record_eviction_search(struct scheduler *scheduler, const struct pod_facts *pod, size_t n_asked,
	const char *const *nodes, size_t n_nodes, const char *text)
{
	struct decision decision = decision_about(scheduler, pod, DECISION_EVICT_SEARCH);

	record_names(scheduler, &decision, n_asked, nodes, n_nodes, text);
}

void record_eviction_plan(
	struct scheduler *scheduler, const struct pod_facts *pod, const struct preemption_plan *plan)
{
	struct decision decision = decision_about(scheduler, pod, DECISION_EVICT_PLAN);
	struct decision_victim victims[DECISION_VICTIMS_MAX];
	struct chosen_gpus chosen;

	describe_victims(plan, victims, &decision);
	describe_choice(scheduler, pod, plan->node->facts.name, &plan->placement, &chosen, &decision);
	recorder_add(scheduler->recorder, &decision);
}

void record_eviction(struct scheduler *scheduler, const struct pod_facts *pod, const struct pod_facts *victim,
	const char *node, const char *text)
{
	struct decision decision = decision_about(scheduler, pod, DECISION_EVICT_ANSWER);
	const struct decision_victim victims[] = {{.uid = victim->uid,
		.namespace_ = victim->namespace_,
		.name = victim->name,
		.priority = victim->priority}};

	decision.victims = victims;
	decision.n_victims = 1;
	decision.node = node;
	decision.text = text;
	recorder_add(scheduler->recorder, &decision);
}

void record_eviction_end(
	struct scheduler *scheduler, const struct pod_facts *pod, const char *node, const char *text)
{
	struct decision decision = decision_about(scheduler, pod, DECISION_EVICT_END);

	decision.node = node;
	decision.text = text;
	recorder_add(scheduler->recorder, &decision);
}

/* Gangs. */

void record_gang_place(struct scheduler *scheduler, const struct pod_facts *pod, enum decision_kind kind,
	const char *node, const struct placement *placement, const char *text)
{
	struct decision decision = decision_about(scheduler, pod, kind);
	struct chosen_gpus chosen;

	describe_choice(scheduler, pod, node, placement, &chosen, &decision);
	decision.text = text;
	recorder_add(scheduler->recorder, &decision);
}

void record_gang_end(struct scheduler *scheduler, const struct pod_facts *pod, enum decision_kind kind,
	const char *node, const char *text)
{
	struct decision decision = decision_about(scheduler, pod, kind);

	decision.node = node;
	decision.text = text;
	recorder_add(scheduler->recorder, &decision);
}
