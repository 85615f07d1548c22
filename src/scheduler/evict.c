#include "scheduler/evict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/preemption/preemption.h"
#include "core/registry/nomination.h"
#include "net/loop.h"
#include "scheduler/evict-internal.h"
#include "scheduler/record.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"

#define ATTEMPTS_MAX 1000
#define PLANS_MAX 100		  /* nodes with a plan that one search looks at, as kube-scheduler does */
#define SEARCH_SHARE 10		  /* of the time, one part at most is spent on searches */
#define STEP_NS (100 * NS_PER_MS) /* between two evictions, of whomever */
/* kube-scheduler's own preemption follows filter in the same scheduling cycle. */
#define IN_TREE_FIRST_NS (250 * NS_PER_MS)
#define BACKOFF_FIRST_NS (2 * NS_PER_S)
#define FORGET_NS (600 * NS_PER_S) /* an attempt that rests and is not asked for again */

static void attempt_free(struct attempt *attempt)
{
	if (!attempt)
		return;
	attempt_drop_victims(attempt);
	attempt_drop_nodes(attempt);
	table_release(&attempt->spared);
	pod_facts_release(&attempt->pod);
	free(attempt);
}

static void on_timer(void *userdata);

int evictions_new(struct scheduler *scheduler, struct evictions **ret_evictions)
{
	struct evictions *evictions = calloc(1, sizeof(*evictions));
	int r;

	if (!evictions)
		return -ENOMEM;
	evictions->scheduler = scheduler;
	table_init(&evictions->attempts);
	r = loop_add_timer(scheduler->loop, on_timer, evictions, &evictions->timer);
	if (r < 0) {
		free(evictions);
		return r;
	}
	*ret_evictions = evictions;
	return 0;
}

void evictions_free(struct evictions *evictions)
{
	struct attempt *attempt;

	if (!evictions)
		return;
	table_for_each (&evictions->attempts, cursor, attempt)
		attempt_free(attempt);
	table_release(&evictions->attempts);
	loop_timer_remove(evictions->timer);
	free(evictions);
}

static void arm(struct evictions *evictions)
{
	if (evictions->timer_armed || evictions->attempts.count == 0)
		return;
	evictions->timer_armed = true;
	loop_timer_set(evictions->timer, STEP_NS);
}

/* Searching. */

/* Put the plan among the best, which are sorted. Takes it over. */
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

static size_t search(struct attempt *attempt, const char *const *names, size_t n_names, bool may_violate,
	size_t max, struct preemption_plan *best)
{
	struct ledger *ledger = &attempt->evictions->scheduler->core.ledger;
	size_t n = 0, found = 0;

	for (size_t i = 0; i < n_names && found < PLANS_MAX; i++) {
		struct preemption_plan plan = {0};

		if (!reject_reason_is_occupancy(ledger_choose(ledger, names[i], &attempt->pod, NULL)) ||
			attempt_plan_on(attempt, names[i], may_violate, &plan) != FITS)
			continue;
		keep_best(best, &n, max, &plan);
		found++;
	}
	return n;
}

static void note_search(
	struct attempt *attempt, enum search_outcome outcome, size_t n_names, const char *text)
{
	struct scheduler *scheduler = attempt->evictions->scheduler;

	scheduler->metrics.eviction_searches[outcome]++;
	record_eviction_search(scheduler, &attempt->pod, n_names, (const char *const *)attempt->nodes,
		attempt->n_nodes, text);
}

/* Nobody can go without breaking a budget: say so, and look again after a while. */
static void tell_if_protected(struct attempt *attempt, const char *const *names, size_t n_names)
{
	struct preemption_plan best[1] = {0};
	char text[512];

	if (search(attempt, names, n_names, true, 1, best) == 0) {
		note_search(attempt, SEARCH_NOBODY, n_names,
			"no pod of lower priority whose going would free a GPU");
		return;
	}
	snprintf(text, sizeof(text),
		"no pod was evicted to free a GPU: PodDisruptionBudgets protect the pods of lower priority, the first choice would be %s/%s on node %s",
		best[0].victims[0]->facts.namespace_, best[0].victims[0]->facts.name,
		best[0].node->facts.name);
	note_search(attempt, SEARCH_PROTECTED, n_names, text);
	attempt_tell(attempt, &attempt->pod, "Warning", "PreemptionBlocked", text);
	preemption_plan_release(&best[0]);
	attempt_fail(attempt);
}

static void search_for(struct attempt *attempt, const char *const *names, size_t n_names)
{
	struct preemption_plan best[NODES_MAX] = {0};
	size_t n;

	table_release(&attempt->spared); /* after a rest they may be let go */
	table_init(&attempt->spared);
	n = search(attempt, names, n_names, false, NODES_MAX, best);
	for (size_t i = 0; i < n; i++) {
		attempt->nodes[attempt->n_nodes] = strdup(best[i].node->facts.name);
		attempt->n_nodes += attempt->nodes[attempt->n_nodes] != NULL;
		preemption_plan_release(&best[i]);
	}
	if (attempt->n_nodes) {
		note_search(attempt, SEARCH_PLANNED, n_names, "");
		attempt->step = STEP_PLANNED;
		attempt->due_ns = monotonic_ns() + IN_TREE_FIRST_NS;
	} else {
		tell_if_protected(attempt, names, n_names);
	}
}

static struct attempt *attempt_new(struct evictions *evictions, const struct pod_facts *pod)
{
	struct attempt *attempt = calloc(1, sizeof(*attempt));

	if (!attempt)
		return NULL;
	attempt->evictions = evictions;
	attempt->backoff_ns = BACKOFF_FIRST_NS;
	attempt->begun_ns = monotonic_ns();
	table_init(&attempt->spared);
	if (pod_facts_copy(pod, &attempt->pod) < 0 ||
		table_set(&evictions->attempts, pod->uid, attempt) < 0) {
		attempt_free(attempt);
		return NULL;
	}
	return attempt;
}

/* Filter has rejected the pod once more although its victims are gone: somebody above it was faster. */
static bool is_lost(const struct attempt *attempt)
{
	return attempt->step == STEP_WAIT && attempt->gone_ns;
}

static bool may_search(
	const struct evictions *evictions, const struct pod_facts *pod, struct attempt *attempt)
{
	const struct ledger *ledger = &evictions->scheduler->core.ledger;
	const struct ledger_pod *known = ledger_pod(ledger, pod->uid);
	int64_t now = monotonic_ns();

	if (pod->never_preempts || pod->deleting || preemption_is_pointless(ledger, pod))
		return false;
	if (known && known->nomination)
		return false;
	if (!attempt)
		return evictions->attempts.count < ATTEMPTS_MAX;
	return attempt->step == STEP_REST && !attempt->in_flight && now >= attempt->due_ns;
}

void evictions_consider(
	struct evictions *evictions, const struct pod_facts *pod, const char *const *names, size_t n_names)
{
	struct attempt *attempt = evictions ? table_get(&evictions->attempts, pod->uid) : NULL;
	int64_t began_ns = monotonic_ns(), now;

	if (attempt && is_lost(attempt)) {
		attempt_end(attempt, ATTEMPT_UNUSED, "given up: another pod was faster");
		return;
	}
	if (!evictions || !may_search(evictions, pod, attempt))
		return;
	if (!attempt)
		attempt = attempt_new(evictions, pod);
	if (!attempt)
		return;
	arm(evictions);
	if (began_ns < evictions->search_after_ns) {
		/* Too many searches: the pod is woken when it is its turn. */
		attempt->due_ns = evictions->search_after_ns;
		attempt->woken = false;
		return;
	}
	search_for(attempt, names, n_names);
	if (attempt->step == STEP_REST && attempt->due_ns < began_ns)
		attempt_free(table_remove(&evictions->attempts, pod->uid)); /* nobody to evict anywhere */
	now = monotonic_ns();
	evictions->search_after_ns = now + (now - began_ns) * (SEARCH_SHARE - 1);
}

void evictions_cancel(struct evictions *evictions, const char *uid)
{
	struct attempt *attempt = evictions ? table_get(&evictions->attempts, uid) : NULL;

	if (attempt && attempt->step <= STEP_PLANNED && !attempt->in_flight)
		attempt_free(table_remove(&evictions->attempts, uid));
}

bool evictions_are_under_way(const struct evictions *evictions, const char *uid)
{
	const struct attempt *attempt = evictions ? table_get(&evictions->attempts, uid) : NULL;

	return attempt && attempt->step > STEP_PLANNED;
}

/* True: the attempt has come to its end. */
static bool is_over(const struct attempt *attempt, const struct ledger_pod *pod, int64_t now)
{
	if (attempt->in_flight)
		return false;
	if (!pod)
		return attempt->step > STEP_PLANNED || now - attempt->begun_ns > WATCH_LAG_MAX_NS;
	return pod->facts.finished || pod->facts.deleting || pod->occupancy >= OCCUPANCY_BOUND ||
	       (attempt->step == STEP_REST && now - attempt->due_ns > FORGET_NS);
}

static void advance(struct attempt *attempt, const struct ledger_pod *pod, int64_t now)
{
	struct evictions *evictions = attempt->evictions;

	/* It has found a place by itself, or seems so. */
	if (attempt->in_flight || !pod || pod->occupancy != OCCUPANCY_WAITING)
		return;
	if (attempt->step == STEP_REST) {
		if (attempt->due_ns > now || attempt->woken)
			return;
		requeuer_eviction_due(evictions->scheduler->requeuer, &attempt->pod);
		attempt->woken = true;
	} else if (attempt->step == STEP_PLANNED) {
		if (attempt->due_ns <= now)
			attempt_begin(attempt);
	} else if (attempt->step == STEP_WAIT) {
		attempt_wait(attempt, pod, now);
	} else if (!evictions->busy) {
		attempt_send_next(attempt);
	}
}

static void take_back(struct attempt *attempt, const struct ledger_pod *pod)
{
	bool bound = pod && pod->occupancy == OCCUPANCY_BOUND && !pod->facts.finished && !pod->facts.deleting;

	attempt_note_end(attempt, bound ? ATTEMPT_BOUND : ATTEMPT_GONE,
		bound ? "the pod is bound" : "the pod has ended or is being deleted");
	ledger_drop_nomination(&attempt->evictions->scheduler->core.ledger, attempt->pod.uid);
}

static void on_timer(void *userdata)
{
	struct evictions *evictions = userdata;
	struct attempt *attempt;
	int64_t now = monotonic_ns();

	evictions->timer_armed = false;
	table_for_each (&evictions->attempts, cursor, attempt) {
		const struct ledger_pod *pod = ledger_pod(
			&evictions->scheduler->core.ledger, attempt->pod.uid);

		if (is_over(attempt, pod, now)) {
			if (attempt->step > STEP_PLANNED)
				take_back(attempt, pod);
			attempt_free(table_remove(&evictions->attempts, attempt->pod.uid));
		} else {
			advance(attempt, pod, now);
		}
	}
	arm(evictions);
}
