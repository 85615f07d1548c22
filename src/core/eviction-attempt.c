#include "core/eviction-attempt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "core/core.h"
#include "core/preemption/preemption.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"

#define BACKOFF_FIRST_NS (2 * NS_PER_S)
#define BACKOFF_LAST_NS (60 * NS_PER_S)

struct eviction_attempt *attempt_new(struct evictions *evictions, const struct pod_facts *pod, int64_t now_ns)
{
	struct eviction_attempt *attempt = calloc(1, sizeof(*attempt));

	if (!attempt)
		return NULL;
	attempt->evictions = evictions;
	attempt->backoff_ns = BACKOFF_FIRST_NS;
	attempt->begun_ns = now_ns;
	table_init(&attempt->spared);
	if (pod_facts_copy(pod, &attempt->pod) < 0 ||
		table_set(&evictions->attempts, pod->uid, attempt) < 0) {
		attempt_free(attempt);
		return NULL;
	}
	return attempt;
}

static void drop_victims(struct eviction_attempt *attempt)
{
	for (size_t i = 0; i < attempt->plan.n_victims; i++)
		pod_facts_release(&attempt->plan.victims[i]);
	free(attempt->plan.victims);
	attempt->plan.victims = NULL;
	attempt->plan.n_victims = attempt->plan.next = 0;
}

static void drop_nodes(struct eviction_attempt *attempt)
{
	for (size_t i = 0; i < attempt->nodes.n; i++)
		free(attempt->nodes.names[i]);
	attempt->nodes.n = attempt->nodes.next = 0;
}

void attempt_free(struct eviction_attempt *attempt)
{
	if (!attempt)
		return;
	list_remove(&attempt->order_item);
	drop_victims(attempt);
	drop_nodes(attempt);
	table_release(&attempt->spared);
	pod_facts_release(&attempt->pod);
	free(attempt);
}

void attempt_report(const struct eviction_attempt *attempt, struct eviction_report what)
{
	const struct evictions *evictions = attempt->evictions;

	what.attempt = attempt;
	if (evictions->report)
		evictions->report(evictions->userdata, &what);
}

/* A request that clears a nomination does not block other requests. */
void attempt_set_busy(struct eviction_attempt *attempt, bool busy)
{
	attempt->busy = busy;
	if (attempt->order != EVICTION_ORDER_CLEAR)
		attempt->evictions->busy = busy;
}

void attempt_order(struct core *core, struct eviction_attempt *attempt, enum eviction_order order)
{
	bool names_victim = order == EVICTION_ORDER_EVICT || order == EVICTION_ORDER_MARK;

	attempt->order = order;
	attempt_set_busy(attempt, true);
	list_append(&attempt->evictions->orders, &attempt->order_item);
	core_tell(core,
		&(struct core_output){GAVE_EVICTION_ORDER, .uid = attempt->pod.uid, .outcome = (int)order,
			.name = names_victim ? eviction_victim(attempt)->uid : NULL});
}

/* ---- the end of an attempt ---- */

void attempt_back_off(struct eviction_attempt *attempt)
{
	attempt->backoff_ns *= 2;
	if (attempt->backoff_ns > BACKOFF_LAST_NS)
		attempt->backoff_ns = BACKOFF_LAST_NS;
}

void attempt_fail(struct core *core, struct eviction_attempt *attempt, int64_t now_ns)
{
	if (attempt->step > EVICTION_PLANNED)
		ledger_drop_nomination(&core->ledger, attempt->pod.uid);
	/* Another scheduler may own the ledger by now, and may have nominated the pod again. */
	if (attempt->step == EVICTION_WAIT && ownership_may_bind(&core->ownership, now_ns, NULL) == 0)
		attempt_order(core, attempt, EVICTION_ORDER_CLEAR);
	drop_victims(attempt);
	drop_nodes(attempt);
	attempt->step = EVICTION_REST;
	attempt->due_ns = attempt->requeue_ns = now_ns + attempt->backoff_ns;
	attempt_back_off(attempt);
}

void attempt_report_end(const struct eviction_attempt *attempt, enum attempt_outcome outcome, const char *why)
{
	attempt_report(
		attempt, (struct eviction_report){.kind = EVICTION_ENDED, .end = outcome, .text = why});
}

void attempt_end(struct core *core, struct eviction_attempt *attempt, enum attempt_outcome outcome,
	const char *why, int64_t now_ns)
{
	attempt_report_end(attempt, outcome, why);
	attempt_fail(core, attempt, now_ns);
}

/* ---- planning ---- */

int attempt_plan_on(struct core *core, const struct eviction_attempt *attempt, const char *node,
	enum eviction_scope scope, struct preemption_plan *ret_plan)
{
	const struct preemption_question question = {.pod = &attempt->pod,
		.budgets = &core->budgets,
		.spared = &attempt->spared,
		.may_violate = scope >= EVICTION_PROTECTED,
		.may_stop_holds = scope >= EVICTION_UNBOUND,
		.ignore_deleting = attempt->ignore_deleting};

	return preemption_plan_node(&core->ledger, node, &question, ret_plan);
}

/* "GPU 1 (GPU-..) of node n", "GPU 1 (GPU-..), GPU 3 (GPU-..) of node n" */
static void describe_gpus(struct eviction_attempt *attempt, const struct preemption_plan *plan)
{
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	size_t n = placement_gpus(&plan->placement, gpus);
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, sizeof(attempt->plan.gpu) - 300); /* minus the name of a node, at most 253 bytes */
	for (size_t i = 0; i < n; i++) {
		const struct gpu_ledger *gpu = node_ledger_gpu(plan->node, gpus[i]->uuid);

		strbuf_addf(
			&text, "%sGPU %d (%s)", i ? ", " : "", gpu ? gpu->facts.index : -1, gpus[i]->uuid);
	}
	snprintf(attempt->plan.gpu, sizeof(attempt->plan.gpu), "%s%s of node %s", strbuf_cstr(&text),
		text.failed ? " and others" : "", plan->node->facts.name);
}

/* Pods that a budget guards come first, because only they can be refused. Then no other pod has gone in vain.
 */
static int take_victims(
	struct core *core, struct eviction_attempt *attempt, const struct preemption_plan *plan)
{
	drop_victims(attempt);
	attempt->plan.victims = calloc(plan->n_victims + 1, sizeof(*attempt->plan.victims));
	if (!attempt->plan.victims)
		return -ENOMEM;
	for (int guarded = 1; guarded >= 0; guarded--) {
		for (size_t i = 0; i < plan->n_victims; i++) {
			const struct pod_facts *facts = &plan->victims[i]->facts;
			const struct budget *budget;

			if ((int)budgets_matching(
				    &core->budgets, facts->namespace_, facts->labels, &budget, 1) != guarded)
				continue;
			if (pod_facts_copy(facts, &attempt->plan.victims[attempt->plan.n_victims]) < 0)
				return -ENOMEM;
			attempt->plan.n_victims++;
		}
	}
	return 0;
}

/* Returns false if this node cannot be used any more. */
static bool begin_on(struct core *core, struct eviction_attempt *attempt, const char *node, int64_t now_ns)
{
	_cleanup_preemption_plan_ struct preemption_plan plan = {0};

	if (attempt_plan_on(core, attempt, node, EVICTION_ALLOWED, &plan) != FITS ||
		(plan.n_victims == 0 && !plan.waits))
		return false;
	describe_gpus(attempt, &plan);
	if (take_victims(core, attempt, &plan) < 0)
		return false;
	attempt_report(attempt, (struct eviction_report){.kind = EVICTION_CHOSEN, .plan = &plan});
	core_tell(core, &(struct core_output){GAVE_VICTIMS, .uid = attempt->pod.uid, .name = node,
				.placement = &plan.placement});
	if (ledger_nominate(&core->ledger, &attempt->pod, node, &plan.placement, NOMINATION_LASTS) < 0)
		return false;
	attempt->step = attempt->plan.n_victims ? EVICTION_EVICT : EVICTION_NOMINATE;
	attempt->plan.tries = 0;
	attempt->plan.gone_ns = 0;
	attempt->plan.evicted_ns = now_ns;
	return true;
}

void attempt_begin(struct core *core, struct eviction_attempt *attempt, int64_t now_ns)
{
	for (; attempt->nodes.next < attempt->nodes.n; attempt->nodes.next++)
		if (begin_on(core, attempt, attempt->nodes.names[attempt->nodes.next], now_ns))
			return;
	attempt_end(core, attempt, ATTEMPT_REFUSED, "given up: no node is left whose pods may go", now_ns);
}
