#include "scheduler/record.h"

#include <string.h>

#include "base/clock.h"
#include "model/explain.h"
#include "scheduler/journal.h"
#include "scheduler/recorder.h"
#include "scheduler/scheduler.h"

static struct decision decision_about(
	struct scheduler *scheduler, const struct pod_facts *pod, enum decision_kind kind)
{
	return (struct decision){.kind = kind,
		.number = journal_number(scheduler->journal),
		.time_ns = realtime_ns(),
		.uid = pod->uid,
		.namespace_ = pod->namespace_,
		.name = pod->name,
		.units = pod->request.units};
}

/* What is known of the cards of a placement, with their room before it. */
struct chosen_cards {
	struct node_explanation explanation;
	struct decision_card cards[DECISION_CARDS_MAX];
};

static void describe_choice(struct scheduler *scheduler, const struct pod_facts *pod, const char *node,
	const struct placement *placement, struct chosen_cards *chosen, struct decision *decision)
{
	const struct node_ledger *known = ledger_node(&scheduler->ledger, node);
	const struct ledger_pod *entry = ledger_pod(&scheduler->ledger, pod->uid);
	const struct node_explanation *e = &chosen->explanation;
	/* ledger_explain() leaves the pod's own hold out of account, but not its reservation. */
	bool reserved = entry && entry->occupancy == OCCUPANCY_RESERVED;

	decision->node = node;
	if (!known)
		return;
	decision->policy = gpu_policy_text(known->facts.policy);
	ledger_explain(&scheduler->ledger, node, pod, &chosen->explanation);
	for (size_t i = 0; i < e->n_cards; i++) {
		const struct card_explanation *card = &e->cards[i];

		uint32_t units = placement_units_on(placement, &pod->request, card->gpu->uuid);

		decision->n_cards_fitting += units || card->misfit == CARD_FITS;
		if (decision->n_cards == DECISION_CARDS_MAX || !units)
			continue;
		chosen->cards[decision->n_cards++] = (struct decision_card){.uuid = card->gpu->uuid,
			.index = card->gpu->index,
			.units_free = card->units_free + (reserved ? units : 0),
			.units_total = card->gpu->units_total};
	}
	decision->cards = chosen->cards;
}

static size_t describe_misfits(const uint32_t misfits[MISFIT_MAX], const struct request *request,
	struct decision_reason *reasons, char (*texts)[64])
{
	size_t n = 0;

	for (int misfit = FITS + 1; misfit < MISFIT_MAX && n < DECISION_REASONS_MAX; misfit++) {
		if (!misfits[misfit])
			continue;
		reasons[n] = (struct decision_reason){
			.text = misfit_text((enum misfit)misfit, request, texts[n], sizeof(texts[n])),
			.nodes = misfits[misfit]};
		n++;
	}
	return n;
}

void record_filter(struct scheduler *scheduler, const struct pod_facts *pod, size_t n_asked,
	const struct node_ledger *const *offered, size_t n_offered, size_t n_fitting,
	const uint32_t misfits[MISFIT_MAX])
{
	struct decision decision = decision_about(scheduler, pod, DECISION_FILTER);
	const struct ledger_pod *held = ledger_pod(&scheduler->ledger, pod->uid);
	struct decision_reason reasons[DECISION_REASONS_MAX];
	struct decision_node nodes[DECISION_NODES_MAX];
	char texts[DECISION_REASONS_MAX][64];
	struct chosen_cards chosen;

	decision.n_asked = (uint32_t)n_asked;
	decision.n_fitting = (uint32_t)n_fitting;
	for (; decision.n_nodes < n_offered && decision.n_nodes < DECISION_NODES_MAX; decision.n_nodes++)
		nodes[decision.n_nodes] = (struct decision_node){
			.name = offered[decision.n_nodes]->facts.name};
	decision.nodes = nodes;
	decision.n_reasons = describe_misfits(misfits, &pod->request, reasons, texts);
	decision.reasons = reasons;
	if (held && held->occupancy == OCCUPANCY_TENTATIVE && held->has_placement)
		describe_choice(scheduler, pod, held->node, &held->placement, &chosen, &decision);
	recorder_add(scheduler->recorder, &decision);
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
	struct chosen_cards chosen;

	describe_choice(scheduler, pod, node, placement, &chosen, &decision);
	recorder_add(scheduler->recorder, &decision);
}

void record_outcome(struct scheduler *scheduler, const char *uid, const char *namespace_, const char *name,
	const char *node, const char *text, int64_t spent_ns)
{
	recorder_add(scheduler->recorder, &(struct decision){.kind = DECISION_OUTCOME,
						  .number = journal_number(scheduler->journal),
						  .time_ns = realtime_ns(),
						  .spent_ns = spent_ns,
						  .uid = uid,
						  .namespace_ = namespace_,
						  .name = name,
						  .node = node,
						  .text = text});
}

void record_nudge(struct scheduler *scheduler, const struct pod_facts *pod)
{
	struct decision decision = decision_about(scheduler, pod, DECISION_NUDGE);

	recorder_add(scheduler->recorder, &decision);
}
