#include "core/evicting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/core.h"
#include "core/events-internal.h"
#include "core/eviction-attempt.h"
#include "core/preemption/preemption.h"
#include "core/registry/nomination.h"

#define ATTEMPTS_MAX 1000
#define PLANS_MAX 100		  /* nodes with a plan that one search compares, as in kube-scheduler */
#define SEARCH_SHARE 10		  /* searches take at most one part in SEARCH_SHARE of the time */
#define STEP_NS (100 * NS_PER_MS) /* between two evictions, of all attempts together */
/* kube-scheduler's own preemption follows filter in the same scheduling cycle, so it gets this time first. */
#define IN_TREE_FIRST_NS (250 * NS_PER_MS)
#define FORGET_NS (600 * NS_PER_S) /* how long after due_ns a resting attempt is forgotten */
#define TRIES_MAX 3
#define VICTIMS_MAX_NS (600 * NS_PER_S) /* how long victims may take to end */
#define UNUSED_MAX_NS (30 * NS_PER_S)	/* how long the free GPU waits for the pod */

void evictions_init(struct evictions *evictions)
{
	*evictions = (struct evictions){0};
	table_init(&evictions->attempts);
	list_init(&evictions->orders);
}

void evictions_release(struct evictions *evictions)
{
	struct eviction_attempt *attempt;

	table_for_each (&evictions->attempts, cursor, attempt)
		attempt_free(attempt);
	table_release(&evictions->attempts);
}

/* ---- orders ---- */

struct eviction_attempt *core_next_eviction_order(struct core *core)
{
	struct eviction_attempt *attempt;

	if (list_empty(&core->evictions.orders))
		return NULL;
	attempt = list_entry(core->evictions.orders.next, struct eviction_attempt, order_item);
	list_remove(&attempt->order_item);
	return attempt;
}

/* ---- searching ---- */

/* Inserts the plan into the sorted list of the best. Takes it over. */
static void keep_best(struct preemption_plan *best, size_t *n, size_t max, struct preemption_plan *plan)
{
	size_t at = *n;

	while (at > 0 && preemption_plan_compare(plan, &best[at - 1]) < 0)
		at--;
	if (at == max) {
		preemption_plan_release(plan);
		return;
	}
	if (*n == max)
		preemption_plan_release(&best[--*n]);
	memmove(&best[at + 1], &best[at], (*n - at) * sizeof(*best));
	best[at] = *plan;
	++*n;
}

/* Returns how many plans were found, at most max; they are the best ones. */
static size_t search(struct core *core, const struct eviction_attempt *attempt, const char *const *names,
	size_t n_names, enum eviction_scope scope, size_t max, struct preemption_plan *best)
{
	size_t n = 0, found = 0;

	for (size_t i = 0; i < n_names && found < PLANS_MAX; i++) {
		struct preemption_plan plan = {0};

		if (!reject_reason_is_occupancy(
			    ledger_choose(&core->ledger, names[i], &attempt->pod, NULL)) ||
			attempt_plan_on(core, attempt, names[i], scope, &plan) != FITS)
			continue;
		keep_best(best, &n, max, &plan);
		found++;
	}
	return n;
}

/* A pod of lower priority that is about to be bound can be evicted after its binding. kube-scheduler waits
 * for no event that tells of it, so another search is needed. */
static bool is_worth_another_search(
	struct core *core, const struct eviction_attempt *attempt, const char *const *names, size_t n_names)
{
	_cleanup_preemption_plan_ struct preemption_plan best = {0};
	const struct ledger_pod *pod;
	bool any = false;

	table_for_each (&core->ledger.pods, cursor, pod)
		any |= (pod->occupancy == OCCUPANCY_TENTATIVE || pod->occupancy == OCCUPANCY_RESERVED) &&
		       pod->facts.priority < attempt->pod.priority;
	return any && search(core, attempt, names, n_names, EVICTION_UNBOUND, 1, &best) > 0;
}

/* Reports why there is no plan. If only budgets or pods that are about to be bound are in the way, the
 * attempt rests and is made again later. */
static void search_protected(struct core *core, struct eviction_attempt *attempt, const char *const *names,
	size_t n_names, int64_t now_ns)
{
	struct preemption_plan best[1] = {0};
	const struct pod_facts *first;
	char text[512];

	if (search(core, attempt, names, n_names, EVICTION_PROTECTED, 1, best) == 0) {
		attempt_report(
			attempt, (struct eviction_report){.kind = EVICTION_SEARCHED,
					 .search = SEARCH_NO_VICTIMS,
					 .n_names = n_names,
					 .text = "no pod of lower priority whose going would free a GPU"});
		requeue_list_may_evict(&core->requeues, attempt->pod.uid);
		if (is_worth_another_search(core, attempt, names, n_names))
			attempt_fail(core, attempt, now_ns);
		return;
	}
	first = &best[0].victims[0]->facts;
	snprintf(text, sizeof(text),
		"no pod was evicted to free a GPU: PodDisruptionBudgets protect the pods of lower priority, the first choice would be %s/%s on node %s",
		first->namespace_, first->name, best[0].node->facts.name);
	attempt_report(attempt, (struct eviction_report){.kind = EVICTION_SEARCHED,
					.search = SEARCH_PROTECTED,
					.n_names = n_names,
					.text = text});
	preemption_plan_release(&best[0]);
	attempt_fail(core, attempt, now_ns);
}

static void search_victims(struct core *core, struct eviction_attempt *attempt, const char *const *names,
	size_t n_names, int64_t now_ns)
{
	struct preemption_plan best[EVICTION_NODES_MAX] = {0};
	size_t n;

	table_release(&attempt->spared); /* after a rest, the API server may let them go */
	table_init(&attempt->spared);
	n = search(core, attempt, names, n_names, EVICTION_ALLOWED, EVICTION_NODES_MAX, best);
	for (size_t i = 0; i < n; i++) {
		attempt->nodes.names[attempt->nodes.n] = strdup(best[i].node->facts.name);
		attempt->nodes.n += attempt->nodes.names[attempt->nodes.n] != NULL;
		preemption_plan_release(&best[i]);
	}
	if (!attempt->nodes.n) {
		search_protected(core, attempt, names, n_names, now_ns);
		return;
	}
	attempt_report(attempt,
		(struct eviction_report){
			.kind = EVICTION_SEARCHED, .search = SEARCH_PLANNED, .n_names = n_names, .text = ""});
	attempt->step = EVICTION_PLANNED;
	attempt->due_ns = now_ns + IN_TREE_FIRST_NS;
}

bool core_may_evict_for(const struct core *core, const struct pod_facts *pod)
{
	return !pod->never_preempts && !pod->deleting && !preemption_is_pointless(&core->ledger, pod);
}

/* If the search may not start now, the pod is requeued when it may. */
static bool may_search(struct core *core, const struct pod_facts *pod, const struct eviction_attempt *attempt,
	int64_t now_ns)
{
	const struct ledger_pod *known = ledger_pod(&core->ledger, pod->uid);

	if (known && known->nomination) {
		/* Either kube-scheduler nominated the pod and its victims are not being deleted yet, or
		 * another pod has taken what the victims left. */
		requeue_list_may_evict(&core->requeues, pod->uid);
		return false;
	}
	if (!attempt)
		return true;
	return attempt->step == EVICTION_REST && !attempt->busy && now_ns >= attempt->due_ns;
}

/* Makes room for one more attempt: gives up the oldest one that rests. Its pod is considered again when it is
 * rejected. */
static bool make_room(struct evictions *evictions)
{
	struct eviction_attempt *attempt;

	if (evictions->attempts.count < ATTEMPTS_MAX)
		return true;
	table_for_each (&evictions->attempts, cursor, attempt) {
		if (attempt->step != EVICTION_REST || attempt->busy)
			continue;
		attempt_free(table_remove(&evictions->attempts, attempt->pod.uid));
		return true;
	}
	return false;
}

void core_consider_evictions(struct core *core, const struct pod_facts *pod, const char *const *names,
	size_t n_names, int64_t now_ns)
{
	struct evictions *evictions = &core->evictions;
	struct eviction_attempt *attempt = table_get(&evictions->attempts, pod->uid);

	if (attempt && attempt->step == EVICTION_WAIT && attempt->plan.gone_ns) {
		attempt_end(core, attempt, ATTEMPT_UNUSED, "given up: another pod was faster", now_ns);
		return;
	}
	if (!may_search(core, pod, attempt, now_ns))
		return;
	if (!attempt && make_room(evictions))
		attempt = attempt_new(evictions, pod, now_ns);
	if (!attempt)
		return;
	if (!evictions->due_ns)
		evictions->due_ns = now_ns + STEP_NS;
	if (now_ns < evictions->search_after_ns) {
		/* Searches have taken too much time: the pod is requeued when it may be searched for. */
		attempt->due_ns = attempt->requeue_ns = evictions->search_after_ns;
		return;
	}
	evictions->search_began_ns = now_ns;
	search_victims(core, attempt, names, n_names, now_ns);
	if (attempt->step == EVICTION_REST && attempt->due_ns <= now_ns)
		attempt_free(table_remove(&evictions->attempts, pod->uid)); /* no victim on any node */
}

void core_filter_is_answered(struct core *core, int64_t now_ns)
{
	_event_ struct core *event = NULL;
	struct evictions *evictions = &core->evictions;

	if (!evictions->search_began_ns)
		return;
	event = core_begin(core, &(struct core_event){CORE_FILTER_ANSWERED, now_ns});
	evictions->search_after_ns = now_ns + (now_ns - evictions->search_began_ns) * (SEARCH_SHARE - 1);
	evictions->search_began_ns = 0;
}

void core_cancel_evictions(struct core *core, const char *uid)
{
	struct eviction_attempt *attempt = table_get(&core->evictions.attempts, uid);

	if (attempt && attempt->step <= EVICTION_PLANNED && !attempt->busy)
		attempt_free(table_remove(&core->evictions.attempts, uid));
}

bool core_is_evicting_for(const struct core *core, const char *uid)
{
	const struct eviction_attempt *attempt = table_get(&core->evictions.attempts, uid);

	return attempt && attempt->step > EVICTION_PLANNED;
}

/* ---- evicting ---- */

static void give_next_order(struct core *core, struct eviction_attempt *attempt, int64_t now_ns)
{
	if (ownership_may_bind(&core->ownership, now_ns, NULL) < 0)
		return;
	if (attempt->step == EVICTION_EVICT && attempt->plan.next == attempt->plan.n_victims)
		attempt->step = EVICTION_NOMINATE;
	attempt_order(core, attempt,
		attempt->step == EVICTION_EVICT	 ? EVICTION_ORDER_EVICT
		: attempt->step == EVICTION_MARK ? EVICTION_ORDER_MARK
						 : EVICTION_ORDER_NOMINATE);
}

enum eviction_outcome eviction_outcome(int result, long status, bool accepted)
{
	if (accepted)
		return EVICTION_ACCEPTED;
	if (result == 0 && status == 404)
		return EVICTION_GONE;
	/* 409 means that the pod was deleted and created again, or changed at this moment. 5xx and no answer
	 * can mean anything. If asked again, the API server answers 404 for a pod that is gone. */
	return result < 0 || status == 409 || status >= 500 ? EVICTION_AGAIN : EVICTION_REFUSED;
}

void core_eviction_answered(struct core *core, struct eviction_attempt *attempt,
	enum eviction_outcome outcome, const char *why, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_EVICTION_ANSWERED, now_ns, .uid = attempt->pod.uid,
			      .outcome = (int)outcome, .text = why});
	attempt_set_busy(attempt, false);
	attempt->plan.evicted_ns = now_ns;
	if (outcome == EVICTION_AGAIN && ++attempt->plan.tries >= TRIES_MAX)
		outcome = EVICTION_REFUSED;
	attempt_report(attempt, (struct eviction_report){.kind = EVICTION_ANSWERED,
					.answer = outcome,
					.text = outcome == EVICTION_ACCEPTED ? ""
						: outcome == EVICTION_GONE   ? "it was gone already"
									     : why});
	if (outcome == EVICTION_AGAIN)
		return;
	attempt->plan.tries = 0;
	if (outcome == EVICTION_ACCEPTED)
		attempt->step = EVICTION_MARK;
	else if (outcome == EVICTION_GONE)
		attempt->plan.next++;
	else {
		/* A victim that the API server does not let go is spared from now on; other pods may make
		 * room. */
		ledger_drop_nomination(&core->ledger, attempt->pod.uid);
		if (table_set(&attempt->spared, eviction_victim(attempt)->uid, attempt) < 0)
			attempt_end(core, attempt, ATTEMPT_REFUSED, "given up: out of memory", now_ns);
		else
			attempt_begin(core, attempt, now_ns);
	}
}

void core_victim_is_marked(struct core *core, struct eviction_attempt *attempt)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_VICTIM_MARKED, .uid = attempt->pod.uid});
	attempt_set_busy(attempt, false);
	attempt->plan.next++;
	attempt->step = EVICTION_EVICT;
}

void core_nomination_answered(struct core *core, struct eviction_attempt *attempt, bool written)
{
	_event_ struct core *event = core_begin(core,
		&(struct core_event){CORE_NOMINATION_ANSWERED, .uid = attempt->pod.uid, .yes = written});
	attempt_set_busy(attempt, false);
	if (!written && ++attempt->plan.tries < TRIES_MAX)
		return;
	attempt_report(attempt, (struct eviction_report){.kind = EVICTION_NOMINATED});
	attempt->step = EVICTION_WAIT;
}

void core_nomination_is_cleared(struct core *core, struct eviction_attempt *attempt)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_NOMINATION_CLEARED, .uid = attempt->pod.uid});
	attempt_set_busy(attempt, false);
}

void core_eviction_not_asked(struct core *core, struct eviction_attempt *attempt)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_EVICTION_NOT_ASKED, .uid = attempt->pod.uid});
	attempt_set_busy(attempt, false);
}

/* ---- waiting ---- */

/* True while victims, or pods that were being deleted already, still occupy what the pod is to get. */
static bool is_occupied(
	const struct core *core, const struct eviction_attempt *attempt, const struct ledger_pod *pod)
{
	for (size_t i = 0; i < attempt->plan.n_victims; i++) {
		const struct ledger_pod *victim = ledger_pod(&core->ledger, attempt->plan.victims[i].uid);

		if (victim && victim->node)
			return true;
	}
	return attempt->plan.n_victims == 0 && pod->nomination && nomination_waits(pod->nomination);
}

/* All victims have accepted. Checks whether they have gone, whether the GPU was used, and whether to give up.
 * pod is the preemptor. */
static void wait_for_room(
	struct core *core, struct eviction_attempt *attempt, const struct ledger_pod *pod, int64_t now_ns)
{
	bool occupied = is_occupied(core, attempt, pod);

	if (!occupied && !attempt->plan.gone_ns)
		attempt->plan.gone_ns = now_ns;
	if (occupied && now_ns - attempt->plan.evicted_ns > VICTIMS_MAX_NS) {
		attempt->ignore_deleting = true;
		attempt_end(
			core, attempt, ATTEMPT_STUCK, "given up: pods that were evicted do not end", now_ns);
	} else if (!occupied && now_ns - attempt->plan.gone_ns > UNUSED_MAX_NS) {
		attempt_end(core, attempt, ATTEMPT_UNUSED, "given up: the pod was not bound to the freed GPU",
			now_ns);
	}
}

/* Returns whether the attempt has ended. */
static bool is_over(const struct eviction_attempt *attempt, const struct ledger_pod *pod, int64_t now_ns)
{
	if (attempt->busy)
		return false;
	if (!pod)
		return attempt->step > EVICTION_PLANNED || now_ns - attempt->begun_ns > WATCH_LAG_MAX_NS;
	return pod->facts.finished || pod->facts.deleting || pod->occupancy >= OCCUPANCY_BOUND ||
	       (attempt->step == EVICTION_REST && now_ns - attempt->due_ns > FORGET_NS);
}

static void forget(struct core *core, struct eviction_attempt *attempt, const struct ledger_pod *pod)
{
	bool bound = pod && pod->occupancy == OCCUPANCY_BOUND && !pod->facts.finished && !pod->facts.deleting;

	if (attempt->step > EVICTION_PLANNED) {
		attempt_report_end(attempt, bound ? ATTEMPT_BOUND : ATTEMPT_GONE,
			bound ? "the pod is bound" : "the pod has ended or is being deleted");
		ledger_drop_nomination(&core->ledger, attempt->pod.uid);
	}
	attempt_free(table_remove(&core->evictions.attempts, attempt->pod.uid));
}

static void rest(struct core *core, struct eviction_attempt *attempt, int64_t now_ns)
{
	int r;

	if (attempt->requeue_ns > now_ns)
		return;
	/* This is the next requeue if kube-scheduler does not ask before: the request that requeues the pod
	 * may be lost. */
	attempt->requeue_ns = now_ns + attempt->backoff_ns;
	attempt_back_off(attempt);
	r = requeue_list_eviction_due(&core->requeues, &attempt->pod, now_ns);
	if (r < 0)
		attempt_report(attempt, (struct eviction_report){.kind = EVICTION_NOT_REQUEUED, .error = r});
}

static void advance(
	struct core *core, struct eviction_attempt *attempt, const struct ledger_pod *pod, int64_t now_ns)
{
	/* Otherwise the pod has, or seems to have, found a place without the eviction. */
	if (attempt->busy || !pod || pod->occupancy != OCCUPANCY_WAITING)
		return;
	switch (attempt->step) {
	case EVICTION_REST:
		rest(core, attempt, now_ns);
		break;
	case EVICTION_PLANNED:
		if (attempt->due_ns <= now_ns)
			attempt_begin(core, attempt, now_ns);
		break;
	case EVICTION_EVICT:
	case EVICTION_MARK:
	case EVICTION_NOMINATE:
		if (!core->evictions.busy)
			give_next_order(core, attempt, now_ns);
		break;
	case EVICTION_WAIT:
		wait_for_room(core, attempt, pod, now_ns);
		break;
	}
}

void core_continue_evictions(struct core *core, int64_t now_ns)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_EVICTIONS_GO_ON, now_ns});
	struct evictions *evictions = &core->evictions;
	struct eviction_attempt *attempt;

	table_for_each (&evictions->attempts, cursor, attempt) {
		const struct ledger_pod *pod = ledger_pod(&core->ledger, attempt->pod.uid);

		if (is_over(attempt, pod, now_ns))
			forget(core, attempt, pod);
		else
			advance(core, attempt, pod, now_ns);
	}
	evictions->due_ns = evictions->attempts.count ? now_ns + STEP_NS : 0;
}
