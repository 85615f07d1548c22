#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "core/preemption/preemption.h"
#include "core/registry/nomination.h"
#include "kube/event.h"
#include "kube/eviction.h"
#include "scheduler/evict-internal.h"
#include "scheduler/evict-request.h"
#include "scheduler/lease.h"
#include "scheduler/record.h"
#include "scheduler/actuator.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"

#define BACKOFF_LAST_NS (60 * NS_PER_S)
#define TRIES_MAX 3
#define VICTIMS_MAX_NS (600 * NS_PER_S) /* how long they may take to end */
#define UNUSED_MAX_NS (30 * NS_PER_S)	/* how long the free GPU waits for the pod */

void attempt_drop_victims(struct attempt *attempt)
{
	for (size_t i = 0; i < attempt->n_victims; i++)
		pod_facts_release(&attempt->victims[i]);
	free(attempt->victims);
	attempt->victims = NULL;
	attempt->n_victims = attempt->next = 0;
}

void attempt_drop_nodes(struct attempt *attempt)
{
	for (size_t i = 0; i < attempt->n_nodes; i++)
		free(attempt->nodes[i]);
	attempt->n_nodes = attempt->next_node = 0;
}

void attempt_tell(struct attempt *attempt, const struct pod_facts *about, const char *type,
	const char *reason, const char *text)
{
	const struct kube_object_ref ref = {.api_version = "v1",
		.kind = "Pod",
		.namespace_ = about->namespace_,
		.name = about->name,
		.uid = about->uid};

	kube_event_post(
		attempt->evictions->scheduler->client, &ref, type, reason, text, "ration-scheduler", NULL);
}

/* If it fails, kube-scheduler clears it as soon as it sees that the pod does not fit there. */
static void on_nomination_cleared(void *userdata, const struct kube_response *response)
{
	if (response->result < 0 || (response->status / 100 != 2 && response->status != 404))
		log_warning("cannot clear a pod's nominatedNodeName: %s, ignoring", response->text);
}

/* The attempt rests; what was kept for the pod is free for others. */
void attempt_fail(struct attempt *attempt)
{
	struct scheduler *scheduler = attempt->evictions->scheduler;

	if (attempt->step > STEP_PLANNED)
		ledger_drop_nomination(&scheduler->core.ledger, attempt->pod.uid);
	if (attempt->step == STEP_WAIT)
		nominate_request(scheduler->client, &attempt->pod, "", on_nomination_cleared, NULL);
	attempt_drop_victims(attempt);
	attempt_drop_nodes(attempt);
	attempt->step = STEP_REST;
	attempt->woken = false;
	attempt->due_ns = monotonic_ns() + attempt->backoff_ns;
	attempt->backoff_ns = attempt->backoff_ns * 2 > BACKOFF_LAST_NS ? BACKOFF_LAST_NS
									: attempt->backoff_ns * 2;
	actuate(scheduler);
}

static const char *node_of(const struct attempt *attempt)
{
	return attempt->next_node < attempt->n_nodes ? attempt->nodes[attempt->next_node] : NULL;
}

void attempt_note_end(struct attempt *attempt, enum attempt_outcome outcome, const char *why)
{
	struct scheduler *scheduler = attempt->evictions->scheduler;

	scheduler->metrics.eviction_attempts[outcome]++;
	record_eviction_end(scheduler, &attempt->pod, node_of(attempt), why);
}

void attempt_end(struct attempt *attempt, enum attempt_outcome outcome, const char *why)
{
	attempt_note_end(attempt, outcome, why);
	attempt_fail(attempt);
}

int attempt_plan_on(
	struct attempt *attempt, const char *node, bool may_violate, struct preemption_plan *ret_plan)
{
	struct scheduler *scheduler = attempt->evictions->scheduler;
	const struct preemption_question question = {.pod = &attempt->pod,
		.budgets = &scheduler->budgets,
		.spared = &attempt->spared,
		.may_violate = may_violate,
		.ignore_deleting = attempt->ignore_deleting};

	return preemption_plan_node(&scheduler->core.ledger, node, &question, ret_plan);
}

/* Evicting. */

static const struct gpu_ledger *gpu_find(const struct node_ledger *node, const char *uuid)
{
	for (size_t i = 0; i < node->facts.n_gpus; i++)
		if (strcmp(node->gpus[i].uuid, uuid) == 0)
			return &node->gpus[i];
	return NULL;
}

/* "GPU 1 (GPU-..) of node n", "GPU 1 (GPU-..), GPU 3 (GPU-..) of node n" */
static void describe_gpus(struct attempt *attempt, const struct preemption_plan *plan)
{
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	size_t n = placement_gpus(&plan->placement, gpus);
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, sizeof(attempt->gpu) - 300); /* and a node's name of at most 253 */
	for (size_t i = 0; i < n; i++) {
		const struct gpu_ledger *gpu = gpu_find(plan->node, gpus[i]->uuid);

		strbuf_addf(&text, "%sGPU %d (%s)", i ? ", " : "", gpu ? gpu->index : -1, gpus[i]->uuid);
	}
	snprintf(attempt->gpu, sizeof(attempt->gpu), "%s%s of node %s", strbuf_cstr(&text),
		text.failed ? " and others" : "", plan->node->facts.name);
}

/* Who is guarded by a budget comes first: only they can be refused, and then nobody has gone in vain. */
static int take_victims(struct attempt *attempt, const struct preemption_plan *plan)
{
	const struct budgets *budgets = &attempt->evictions->scheduler->budgets;

	attempt_drop_victims(attempt);
	attempt->victims = calloc(plan->n_victims + 1, sizeof(*attempt->victims));
	if (!attempt->victims)
		return -ENOMEM;
	for (int guarded = 1; guarded >= 0; guarded--) {
		for (size_t i = 0; i < plan->n_victims; i++) {
			const struct pod_facts *facts = &plan->victims[i]->facts;
			const struct budget *budget;

			if ((int)budgets_matching(budgets, facts->namespace_, facts->labels, &budget, 1) !=
				guarded)
				continue;
			if (pod_facts_copy(facts, &attempt->victims[attempt->n_victims]) < 0)
				return -ENOMEM;
			attempt->n_victims++;
		}
	}
	return 0;
}

/* False: this node is of no use any more. */
static bool begin_on(struct attempt *attempt, const char *node)
{
	_cleanup_preemption_plan_ struct preemption_plan plan = {0};
	struct scheduler *scheduler = attempt->evictions->scheduler;

	if (attempt_plan_on(attempt, node, false, &plan) != FITS || (plan.n_victims == 0 && !plan.waits))
		return false;
	describe_gpus(attempt, &plan);
	record_eviction_plan(scheduler, &attempt->pod, &plan);
	if (take_victims(attempt, &plan) < 0 || ledger_nominate(&scheduler->core.ledger, &attempt->pod, node,
							&plan.placement, NOMINATION_LASTS) < 0)
		return false;
	attempt->step = attempt->n_victims ? STEP_EVICT : STEP_NOMINATE;
	attempt->tries = 0;
	attempt->gone_ns = 0;
	attempt->evicted_ns = monotonic_ns();
	log_info("pod %s/%s: %zu pods are evicted from %s", attempt->pod.namespace_, attempt->pod.name,
		attempt->n_victims, attempt->gpu);
	return true;
}

void attempt_begin(struct attempt *attempt)
{
	for (; attempt->next_node < attempt->n_nodes; attempt->next_node++)
		if (begin_on(attempt, attempt->nodes[attempt->next_node]))
			return;
	attempt_end(attempt, ATTEMPT_REFUSED, "given up: no node is left whose pods may go");
}

static void tell_victim(struct attempt *attempt, const struct pod_facts *victim)
{
	char text[2048];

	snprintf(text, sizeof(text), "evicted from %s to make room for pod %s/%s of higher priority",
		attempt->gpu, attempt->pod.namespace_, attempt->pod.name);
	attempt_tell(attempt, victim, "Normal", "Preempted", text);
}

static void tell_preemptor(struct attempt *attempt)
{
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, 1000);
	strbuf_addf(&text, "%s is kept for this pod", attempt->gpu);
	for (size_t i = 0; i < attempt->n_victims; i++)
		strbuf_addf(&text, "%s %s/%s", i ? "," : "; evicted for it:", attempt->victims[i].namespace_,
			attempt->victims[i].name);
	attempt_tell(attempt, &attempt->pod, "Normal", "Preempting", strbuf_cstr(&text));
}

static void note_eviction(struct attempt *attempt, const struct pod_facts *victim,
	enum eviction_outcome outcome, const char *text)
{
	struct scheduler *scheduler = attempt->evictions->scheduler;

	scheduler->metrics.evictions[outcome]++;
	if (outcome != EVICTION_AGAIN)
		record_eviction(scheduler, &attempt->pod, victim, node_of(attempt), text);
}

/* A victim that will not go is spared from now on; perhaps others make room. */
static void refused(struct attempt *attempt, const struct pod_facts *victim, const char *why)
{
	char text[2048];

	snprintf(text, sizeof(text), "pod %s/%s could not be evicted from %s to make room: %s",
		victim->namespace_, victim->name, attempt->gpu, why);
	log_info("pod %s/%s: %s", attempt->pod.namespace_, attempt->pod.name, text);
	attempt_tell(attempt, &attempt->pod, "Warning", "PreemptionBlocked", text);
	note_eviction(attempt, victim, EVICTION_REFUSED, why);
	ledger_drop_nomination(&attempt->evictions->scheduler->core.ledger, attempt->pod.uid);
	if (table_set(&attempt->spared, victim->uid, attempt) < 0) {
		attempt_end(attempt, ATTEMPT_REFUSED, "given up: out of memory");
		return;
	}
	attempt_begin(attempt);
}

static struct attempt *answered(void *userdata)
{
	struct attempt *attempt = userdata;

	attempt->in_flight = false;
	attempt->evictions->busy = false;
	return attempt;
}

/* 409: it was deleted and created anew, or changed at this moment. 5xx and no answer: anything. Both are
 * asked again; a pod that is gone answers 404 then. */
static void on_evicted(void *userdata, const struct kube_response *response)
{
	struct attempt *attempt = answered(userdata);
	struct pod_facts *victim = &attempt->victims[attempt->next];
	struct error reason;
	bool again = response->result < 0 || response->status == 409 || response->status >= 500;

	attempt->evicted_ns = monotonic_ns();
	if (eviction_was_accepted(response, &reason)) {
		note_eviction(attempt, victim, EVICTION_ACCEPTED, "");
		tell_victim(attempt, victim);
		attempt->step = STEP_MARK;
	} else if (response->result == 0 && response->status == 404) {
		note_eviction(attempt, victim, EVICTION_GONE, "it was gone already");
		attempt->next++;
	} else if (again && ++attempt->tries < TRIES_MAX) {
		note_eviction(attempt, victim, EVICTION_AGAIN, reason.text);
		return;
	} else {
		refused(attempt, victim, reason.text);
	}
	attempt->tries = 0;
}

/* Without the condition kube-scheduler might look for more victims: no reason to stop. */
static void on_marked(void *userdata, const struct kube_response *response)
{
	struct attempt *attempt = answered(userdata);

	attempt->next++;
	attempt->step = STEP_EVICT;
}

static void on_nominated(void *userdata, const struct kube_response *response)
{
	struct attempt *attempt = answered(userdata);

	if (response->result < 0 || response->status / 100 != 2) {
		log_warning("pod %s/%s: cannot set its nominatedNodeName: %s", attempt->pod.namespace_,
			attempt->pod.name, response->text);
		if (++attempt->tries < TRIES_MAX)
			return;
	}
	tell_preemptor(attempt);
	attempt->step = STEP_WAIT;
}

void attempt_send_next(struct attempt *attempt)
{
	struct evictions *evictions = attempt->evictions;
	struct kube_client *client = evictions->scheduler->client;
	const struct pod_facts *victim = &attempt->victims[attempt->next];
	struct error ignored;
	int r;

	if (ownership_may_bind(&evictions->scheduler->core.ownership, monotonic_ns(), &ignored) < 0)
		return;
	if (attempt->step == STEP_EVICT && attempt->next == attempt->n_victims)
		attempt->step = STEP_NOMINATE;
	if (attempt->step == STEP_EVICT)
		r = eviction_request(
			client, victim->namespace_, victim->name, victim->uid, on_evicted, attempt);
	else if (attempt->step == STEP_MARK)
		r = mark_preempted_request(client, victim, on_marked, attempt);
	else
		r = nominate_request(
			client, &attempt->pod, attempt->nodes[attempt->next_node], on_nominated, attempt);
	attempt->in_flight = evictions->busy = r == 0;
}

/* Waiting. */

static bool is_still_there(const struct ledger *ledger, const struct pod_facts *victim)
{
	const struct ledger_pod *pod = ledger_pod(ledger, victim->uid);

	return pod && pod->node;
}

static bool anybody_is_deleting(const struct node_ledger *node)
{
	list_for_each (item, &node->pods)
		if (list_entry(item, struct ledger_pod, item)->facts.deleting)
			return true;
	return false;
}

void attempt_wait(struct attempt *attempt, const struct ledger_pod *pod, int64_t now)
{
	const struct ledger *ledger = &attempt->evictions->scheduler->core.ledger;
	const char *why;
	bool there = attempt->n_victims == 0 && pod->nomination && anybody_is_deleting(pod->nomination->node);

	for (size_t i = 0; i < attempt->n_victims; i++)
		there |= is_still_there(ledger, &attempt->victims[i]);
	if (!there && !attempt->gone_ns)
		attempt->gone_ns = now;
	if (there && now - attempt->evicted_ns <= VICTIMS_MAX_NS)
		return;
	if (!there && now - attempt->gone_ns <= UNUSED_MAX_NS)
		return;
	why = there ? "given up: pods that were evicted do not end"
		    : "given up: the pod was not bound to the freed card";
	log_warning("pod %s/%s: %s: %s", attempt->pod.namespace_, attempt->pod.name, attempt->gpu, why);
	attempt->ignore_deleting |= there;
	attempt_end(attempt, there ? ATTEMPT_STUCK : ATTEMPT_UNUSED, why);
}
