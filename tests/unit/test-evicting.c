/* Evictions of our own and the verb preempt, decided by the core alone: the test is the API server,
 * kube-scheduler and the clock. Node "n" has four GPUs of 15 units; on each a pod "v0" to "v3" of priority 0
 * has 8. The pod "big" of priority 1000 asks for 10 units, and fits on no GPU. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/core.h"
#include "core/evicting.h"
#include "core/events.h"
#include "core/filter.h"
#include "core/preempt.h"
#include "core/registry/nomination.h"
#include "model-fixture.h"

#define STEP_NS (100 * NS_PER_MS)

static struct core core;
static int64_t now_ns;
static char reports[4096]; /* what was reported since reported() was called last */

static void add_report(const char *what, const char *which)
{
	size_t len = strlen(reports);

	snprintf(reports + len, sizeof(reports) - len, "%s:%s ", what, which);
}

static void on_report(void *userdata, const struct eviction_report *report)
{
	static const char *const searches[] = {"planned", "protected", "no_victims"};
	static const char *const answers[] = {"accepted", "gone", "refused", "again"};
	static const char *const ends[] = {"bound", "gone", "refused", "stuck", "unused"};

	switch (report->kind) {
	case EVICTION_SEARCHED:
		add_report("search", searches[report->search]);
		break;
	case EVICTION_CHOSEN:
		assert_null(ledger_pod(&core.ledger, report->attempt->pod.uid)->nomination);
		add_report("plan", report->attempt->plan.gpu);
		break;
	case EVICTION_ANSWERED:
		add_report(answers[report->answer], eviction_victim(report->attempt)->uid);
		break;
	case EVICTION_NOMINATED:
		add_report("nominated", eviction_node(report->attempt));
		break;
	case EVICTION_NOT_REQUEUED:
		add_report("not-requeued", report->attempt->pod.uid);
		break;
	case EVICTION_ENDED:
		add_report("end", ends[report->end]);
		break;
	}
}

static void assert_reported(const char *expected)
{
	assert_string_equal(reports, expected);
	reports[0] = 0;
}

/* priority of a waiting pod, or a bound one where gpu is not NULL. labelled: app=x. */
static void show(const char *uid, uint32_t units, int32_t priority, const char *gpu, bool labelled)
{
	_cleanup_pod_facts_ struct pod_facts facts;

	fixture_pod(&facts, uid, units, "");
	facts.priority = priority;
	facts.started = 1000;
	facts.labels = labelled ? strdup("app=x\n") : NULL;
	if (gpu)
		fixture_bind(&facts, "n", gpu);
	assert_int_equal(core_see_pod(&core, &facts, 0, now_ns), 0);
}

static int set_up(void **state)
{
	static const uint32_t units[] = {15, 15, 15, 15};
	_cleanup_node_facts_ struct node_facts node;
	char uid[8], gpu[16];

	now_ns = 1000 * NS_PER_S;
	reports[0] = 0;
	core_init(&core, NULL);
	core.evictions.report = on_report;
	fixture_node(&node, "n", GPU_POLICY_BINPACK, 4, units);
	assert_int_equal(ledger_set_node(&core.ledger, &node), 0);
	for (int i = 0; i < 4; i++) {
		snprintf(uid, sizeof(uid), "v%d", i);
		snprintf(gpu, sizeof(gpu), "GPU-n-%d", i);
		show(uid, 8, 0, gpu, i == 3);
	}
	show("big", 10, 1000, NULL, false);
	core_nodes_are_listed(&core, now_ns);
	core_pods_are_listed(&core, now_ns);
	core.following = true;
	return 0;
}

static int tear_down(void **state)
{
	size_t wrong = ledger_check(&core.ledger, NULL);

	core_release(&core);
	return wrong ? -1 : 0;
}

static void filter(const char *uid, uint32_t units, int32_t priority, const char *nominated,
	struct filter_answer *ret_answer)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	const char *const names[] = {"n"};
	struct filter_question question = {.pod = &facts, .names = names, .n = 1};

	fixture_pod(&facts, uid, units, "");
	facts.priority = priority;
	facts.nominated_node = nominated ? strdup(nominated) : NULL;
	core_filter(&core, &question, now_ns, ret_answer);
	core_filter_is_answered(&core, now_ns);
}

static void filter_rejects(const char *uid, uint32_t units, int32_t priority)
{
	_cleanup_filter_answer_ struct filter_answer answer = {0};

	filter(uid, units, priority, NULL, &answer);
	assert_int_equal(answer.outcome, FILTER_NO_NODE);
	assert_null(answer.waits_for);
}

/* Time passes as the timer does it. Stops where something is ordered. */
static void pass(int64_t ns)
{
	int64_t end_ns = now_ns + ns;

	while (core.evictions.due_ns && core.evictions.due_ns <= end_ns &&
		list_empty(&core.evictions.orders)) {
		now_ns = core.evictions.due_ns;
		core_continue_evictions(&core, now_ns);
	}
	if (list_empty(&core.evictions.orders))
		now_ns = end_ns;
}

static struct eviction_attempt *ordered(enum eviction_order order)
{
	struct eviction_attempt *attempt = core_next_eviction_order(&core);

	assert_non_null(attempt);
	assert_int_equal(attempt->order, order);
	return attempt;
}

/* Answers the eviction that is ordered next within a second. Returns who was asked. */
static char evict(enum eviction_outcome outcome)
{
	struct eviction_attempt *attempt;
	char victim;

	pass(NS_PER_S);
	attempt = ordered(EVICTION_ORDER_EVICT);
	victim = eviction_victim(attempt)->uid[1];
	core_eviction_answered(&core, attempt, outcome, "as the test has it", now_ns);
	return victim;
}

static void mark_and_nominate(void)
{
	struct eviction_attempt *attempt;

	pass(NS_PER_S);
	core_victim_is_marked(&core, ordered(EVICTION_ORDER_MARK));
	pass(NS_PER_S);
	attempt = ordered(EVICTION_ORDER_NOMINATE);
	assert_string_equal(eviction_node(attempt), "n");
	core_nomination_answered(&core, attempt, true);
}

static bool is_nominated(const char *uid)
{
	const struct ledger_pod *pod = ledger_pod(&core.ledger, uid);

	return pod && pod->nomination;
}

/* kube-scheduler is told to try the pod again. */
static bool is_requeued(const char *uid)
{
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	int64_t again_ns;
	size_t n = requeue_list_look(&core.requeues, &core.ledger, now_ns, pods, &again_ns);
	bool found = false;

	for (size_t i = 0; i < n; i++)
		found |= strcmp(pods[i]->uid, uid) == 0;
	return found;
}

static void show_nominated(const char *node)
{
	_cleanup_pod_facts_ struct pod_facts facts;

	fixture_pod(&facts, "big", 10, "");
	facts.priority = 1000;
	facts.nominated_node = node ? strdup(node) : NULL;
	assert_int_equal(core_see_pod(&core, &facts, 0, now_ns), 0);
}

static void one_victim_is_evicted_marked_and_the_pod_is_nominated(void **state)
{
	_cleanup_filter_answer_ struct filter_answer answer = {0};

	filter_rejects("big", 10, 1000);
	assert_reported("search:planned ");
	assert_false(is_nominated("big"));
	assert_int_equal(evict(EVICTION_ACCEPTED), '0');
	assert_true(is_nominated("big"));
	mark_and_nominate();
	assert_reported("plan:GPU 0 (GPU-n-0) of node n accepted:v0 nominated:n ");
	core_pod_is_gone(&core, "v0", true, now_ns);
	pass(NS_PER_S);
	filter("big", 10, 1000, NULL, &answer);
	assert_int_equal(answer.outcome, FILTER_FITS);
	show("big", 10, 1000, "GPU-n-0", false);
	pass(NS_PER_S);
	assert_reported("end:bound ");
	assert_int_equal(core.evictions.due_ns, 0);
	assert_int_equal(core.evictions.attempts.count, 0);
}

static void kube_scheduler_has_a_moment_to_preempt_by_itself(void **state)
{
	int64_t began_ns = now_ns;

	filter_rejects("big", 10, 1000);
	pass(10 * NS_PER_S);
	assert_in_range(now_ns - began_ns, 250 * NS_PER_MS, 500 * NS_PER_MS);
	ordered(EVICTION_ORDER_EVICT);
}

static void no_pod_goes_for_one_of_its_own_priority_or_one_that_never_preempts(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	const char *const names[] = {"n"};
	struct filter_question question = {.pod = &facts, .names = names, .n = 1};
	_cleanup_filter_answer_ struct filter_answer answer = {0};

	filter_rejects("equal", 10, 0);
	fixture_pod(&facts, "big", 10, "");
	facts.priority = 1000;
	facts.never_preempts = true;
	core_filter(&core, &question, now_ns, &answer);
	assert_int_equal(answer.outcome, FILTER_NO_NODE);
	assert_reported("");
	assert_int_equal(core.evictions.attempts.count, 0);
}

static void a_victim_that_is_refused_is_spared_and_the_next_one_asked(void **state)
{
	char asked[5] = "";

	filter_rejects("big", 10, 1000);
	for (int i = 0; i < 3; i++)
		asked[i] = evict(EVICTION_REFUSED);
	asked[3] = evict(EVICTION_ACCEPTED);
	for (char victim = '0'; victim < '4'; victim++)
		assert_non_null(strchr(asked, victim));
	mark_and_nominate();
}

static void when_all_are_refused_the_gpu_is_free_for_others_and_the_pod_is_requeued_later(void **state)
{
	_cleanup_filter_answer_ struct filter_answer small = {0};

	filter_rejects("big", 10, 1000);
	for (int i = 0; i < 4; i++)
		evict(EVICTION_REFUSED);
	assert_non_null(strstr(reports, "end:refused "));
	reports[0] = 0;
	assert_false(is_nominated("big"));
	filter("small", 7, 0, NULL, &small);
	assert_int_equal(small.outcome, FILTER_FITS);
	filter_rejects("big", 10, 1000);
	assert_reported(""); /* not before two seconds are over */
	pass(3 * NS_PER_S);
	assert_true(is_requeued("big"));
	filter_rejects("big", 10, 1000);
	assert_reported("search:planned ");
	evict(EVICTION_ACCEPTED);
}

static void an_eviction_without_a_clear_answer_is_asked_three_times(void **state)
{
	filter_rejects("big", 10, 1000);
	for (int i = 0; i < 3; i++)
		assert_int_equal(evict(EVICTION_AGAIN), '0');
	assert_int_not_equal(evict(EVICTION_GONE), '0');
	assert_non_null(strstr(reports, "again:v0 again:v0 refused:v0 "));
}

static void what_the_api_server_answers_is_understood(void **state)
{
	assert_int_equal(eviction_outcome(0, 201, true), EVICTION_ACCEPTED);
	assert_int_equal(eviction_outcome(0, 201, false), EVICTION_REFUSED);
	assert_int_equal(eviction_outcome(0, 429, false), EVICTION_REFUSED);
	assert_int_equal(eviction_outcome(0, 404, false), EVICTION_GONE);
	assert_int_equal(eviction_outcome(0, 409, false), EVICTION_AGAIN);
	assert_int_equal(eviction_outcome(0, 500, false), EVICTION_AGAIN);
	assert_int_equal(eviction_outcome(-ETIMEDOUT, 0, false), EVICTION_AGAIN);
}

static void one_request_is_on_its_way_at_a_time(void **state)
{
	struct eviction_attempt *first;

	show("big2", 10, 1000, NULL, false);
	filter_rejects("big", 10, 1000);
	filter_rejects("big2", 10, 1000);
	pass(NS_PER_S);
	first = ordered(EVICTION_ORDER_EVICT);
	pass(10 * NS_PER_S);
	assert_null(core_next_eviction_order(&core));
	core_eviction_not_asked(&core, first);
	pass(NS_PER_S);
	assert_ptr_equal(ordered(EVICTION_ORDER_EVICT), first);
}

static void nothing_is_asked_while_another_scheduler_owns_the_ledger(void **state)
{
	filter_rejects("big", 10, 1000);
	core.ownership = (struct ownership){.owner = LEDGER_OWNER_OTHER, .holder = "other/one"};
	pass(10 * NS_PER_S);
	assert_null(core_next_eviction_order(&core));
	ownership_always(&core.ownership);
	assert_int_equal(evict(EVICTION_ACCEPTED), '0');
}

static void budget(int64_t allowed)
{
	struct budget *b = calloc(1, sizeof(*b));

	b->uid = strdup("budget");
	b->namespace_ = strdup("default");
	b->name = strdup("budget");
	b->allowed = allowed;
	assert_int_equal(
		selector_require(&b->selector, "app", SELECTOR_IN, (const char *const[]){"x"}, 1), 0);
	assert_int_equal(budgets_set(&core.budgets, b), 0);
}

/* v3 on the last GPU is guarded, and goes together with another pod: it is asked first. */
static void a_pod_that_a_budget_guards_is_asked_first(void **state)
{
	show("v3-too", 7, 0, "GPU-n-3", false);
	for (int i = 0; i < 3; i++) {
		char uid[8], gpu[16];

		snprintf(uid, sizeof(uid), "h%d", i);
		snprintf(gpu, sizeof(gpu), "GPU-n-%d", i);
		show(uid, 7, 2000, gpu, false);
	}
	show("all", 15, 1000, NULL, false);
	budget(1);
	filter_rejects("all", 15, 1000);
	pass(NS_PER_S);
	assert_string_equal(eviction_victim(ordered(EVICTION_ORDER_EVICT))->uid, "v3");
}

static void where_budgets_protect_all_the_search_is_made_again_later(void **state)
{
	char uid[8], gpu[16];

	for (int i = 0; i < 4; i++) {
		snprintf(uid, sizeof(uid), "v%d", i);
		snprintf(gpu, sizeof(gpu), "GPU-n-%d", i);
		show(uid, 8, 0, gpu, true);
	}
	budget(0);
	filter_rejects("big", 10, 1000);
	assert_reported("search:protected ");
	pass(NS_PER_S);
	filter_rejects("big", 10, 1000);
	assert_reported("");
	budget(1);
	pass(2 * NS_PER_S);
	filter_rejects("big", 10, 1000);
	assert_reported("search:planned ");
}

static void a_search_takes_a_tenth_of_the_time_at_most(void **state)
{
	_cleanup_filter_answer_ struct filter_answer answer = {0};
	_cleanup_pod_facts_ struct pod_facts facts;
	const char *const names[] = {"n"};
	struct filter_question question = {.pod = &facts, .names = names, .n = 1};

	fixture_pod(&facts, "big", 10, "");
	facts.priority = 1000;
	core_filter(&core, &question, now_ns, &answer);
	now_ns += NS_PER_S;
	core_filter_is_answered(&core, now_ns);
	assert_reported("search:planned ");
	show("big2", 10, 1000, NULL, false);
	filter_rejects("big2", 10, 1000);
	now_ns += 9 * NS_PER_S - 1;
	filter_rejects("big2", 10, 1000);
	assert_reported("");
	now_ns += 1;
	filter_rejects("big2", 10, 1000);
	assert_reported("search:planned ");
}

/* Accepted, marked and nominated, for the victim v0. */
static void wait_for_v0(void)
{
	filter_rejects("big", 10, 1000);
	assert_int_equal(evict(EVICTION_ACCEPTED), '0');
	mark_and_nominate();
	reports[0] = 0;
}

static void a_gpu_that_another_pod_took_leads_to_a_new_attempt(void **state)
{
	wait_for_v0();
	core_pod_is_gone(&core, "v0", true, now_ns);
	pass(NS_PER_S);
	show("above", 15, 2000, "GPU-n-0", false);
	filter_rejects("big", 10, 1000);
	assert_reported("end:unused ");
	core_nomination_is_cleared(&core, ordered(EVICTION_ORDER_CLEAR));
	pass(3 * NS_PER_S);
	filter_rejects("big", 10, 1000);
	assert_reported("search:planned ");
}

static void a_free_gpu_is_kept_for_thirty_seconds(void **state)
{
	wait_for_v0();
	core_pod_is_gone(&core, "v0", true, now_ns);
	pass(30 * NS_PER_S);
	assert_reported("");
	assert_true(is_nominated("big"));
	pass(NS_PER_S);
	assert_reported("end:unused ");
	assert_false(is_nominated("big"));
	ordered(EVICTION_ORDER_CLEAR);
}

/* The owner may have nominated the pod anew. */
static void a_scheduler_that_has_lost_the_ledger_writes_nothing(void **state)
{
	wait_for_v0();
	core_pod_is_gone(&core, "v0", true, now_ns);
	core.ownership = (struct ownership){.owner = LEDGER_OWNER_OTHER, .holder = "other/one"};
	pass(60 * NS_PER_S);
	assert_reported("end:unused ");
	assert_null(core_next_eviction_order(&core));
}

static void victims_have_ten_minutes_to_end(void **state)
{
	wait_for_v0();
	pass(599 * NS_PER_S);
	assert_reported("");
	pass(2 * NS_PER_S);
	assert_reported("end:stuck ");
	assert_false(is_nominated("big"));
}

/* The answer to a request that is on its way finds its attempt, whatever has happened meanwhile. */
static void a_pod_that_is_deleted_ends_its_attempt_after_the_answer(void **state)
{
	struct eviction_attempt *attempt;

	filter_rejects("big", 10, 1000);
	pass(NS_PER_S);
	attempt = ordered(EVICTION_ORDER_EVICT);
	core_pod_is_gone(&core, "big", true, now_ns);
	pass(60 * NS_PER_S);
	assert_int_equal(core.evictions.attempts.count, 1);
	core_eviction_answered(&core, attempt, EVICTION_ACCEPTED, "", now_ns);
	pass(NS_PER_S);
	assert_int_equal(core.evictions.attempts.count, 0);
	assert_null(core_next_eviction_order(&core));
	assert_non_null(strstr(reports, "end:gone "));
}

/* kube-scheduler was faster than the watch: what is freed later is a part of what the pod needs. */
static void what_is_freed_after_a_search_leads_to_another_one(void **state)
{
	bool requeued = false;

	show("all", 15, 1000, NULL, false);
	for (int i = 0; i < 4; i++) {
		char uid[8], gpu[16];

		snprintf(uid, sizeof(uid), "h%d", i);
		snprintf(gpu, sizeof(gpu), "GPU-n-%d", i);
		show(uid, 7, 2000, gpu, false);
	}
	filter_rejects("all", 15, 1000);
	assert_reported("search:no_victims ");
	assert_false(is_requeued("all"));
	core_pod_is_gone(&core, "h2", true, now_ns);
	/* The pod that waits beside it, which nothing helps, has its turn too. */
	for (int i = 0; i < 3 && !requeued; i++) {
		requeued = is_requeued("all");
		now_ns += NS_PER_S;
	}
	assert_true(requeued);
	filter_rejects("all", 15, 1000);
	assert_reported("search:planned ");
}

/* The PATCH that requeues a pod may get lost. */
static void a_pod_that_rests_is_requeued_until_kube_scheduler_asks(void **state)
{
	filter_rejects("big", 10, 1000);
	for (int i = 0; i < 4; i++)
		evict(EVICTION_REFUSED);
	for (int i = 0; i < 3; i++) {
		pass(10 * NS_PER_S);
		assert_true(is_requeued("big"));
		assert_false(is_requeued("big"));
	}
	reports[0] = 0;
	filter_rejects("big", 10, 1000);
	assert_reported("search:planned ");
}

/* Whatever an earlier process was about to do for it. */
static void a_pod_that_is_found_waiting_is_requeued_where_pods_may_go(void **state)
{
	core.pods_listed = false;
	show("small", 10, 0, NULL, false);
	core_pods_are_listed(&core, now_ns);
	now_ns += 2 * NS_PER_S;
	assert_true(is_requeued("big"));
	now_ns += 100 * NS_PER_S;
	assert_false(is_requeued("small"));
}

/* The node has one GPU that is free, and a pod of priority 0 is about to get it. */
static void a_pod_that_is_about_to_be_bound_is_evicted_once_it_is(void **state)
{
	_cleanup_filter_answer_ struct filter_answer answer = {0};

	for (int i = 0; i < 4; i++) {
		char uid[8], gpu[16];

		snprintf(uid, sizeof(uid), "v%d", i);
		snprintf(gpu, sizeof(gpu), "GPU-n-%d", i);
		ledger_remove_pod(&core.ledger, uid);
		show(i ? uid : "low", 15, i ? 2000 : 0, i ? gpu : NULL, false);
	}
	filter("low", 15, 0, NULL, &answer);
	assert_int_equal(answer.outcome, FILTER_FITS);
	filter_rejects("big", 10, 1000);
	assert_reported("search:no_victims ");
	show("low", 15, 0, "GPU-n-0", false);
	pass(3 * NS_PER_S);
	assert_true(is_requeued("big"));
	filter_rejects("big", 10, 1000);
	assert_reported("search:planned ");
}

/* A nomination that was made by another program and that is good for nothing any more. */
static void a_pod_that_is_nominated_in_vain_is_requeued(void **state)
{
	show("above", 15, 2000, "GPU-n-0", false);
	ledger_remove_pod(&core.ledger, "v0");
	show_nominated("n");
	filter_rejects("big", 10, 1000);
	assert_reported("");
	show_nominated(NULL);
	assert_false(is_requeued("big"));
	now_ns += 11 * NS_PER_S;
	core_tick(&core, now_ns);
	assert_false(is_nominated("big"));
	assert_true(is_requeued("big"));
	filter_rejects("big", 10, 1000);
	assert_reported("search:planned ");
}

static void while_victims_of_a_nomination_are_going_nothing_else_is_tried(void **state)
{
	_cleanup_filter_answer_ struct filter_answer answer = {0};
	_cleanup_pod_facts_ struct pod_facts victim;

	fixture_pod(&victim, "v0", 8, "");
	fixture_bind(&victim, "n", "GPU-n-0");
	victim.deleting = true;
	assert_int_equal(core_see_pod(&core, &victim, 0, now_ns), 0);
	show_nominated("n");
	filter("big", 10, 1000, "n", &answer);
	assert_int_equal(answer.outcome, FILTER_NO_NODE);
	assert_ptr_equal(answer.waits_for, ledger_node(&core.ledger, "n"));
	assert_int_equal(core.evictions.attempts.count, 0);
}

/* ---- the verb preempt ---- */

static const char *const v1[] = {"v1"};
static size_t n_decided;

static void on_decided(void *userdata, const struct pod_facts *pod, const struct preempt_answer *answer)
{
	n_decided++;
	assert_true(answer->outcome != PREEMPT_NODE || !is_nominated(pod->uid));
}

static void preempt(struct preempt_answer *ret_answer)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	const struct preempt_node node = {.name = "n", .uids = v1, .n_uids = 1};
	const struct preempt_question question = {
		.pod = &facts, .nodes = &node, .n = 1, .decided = on_decided};

	fixture_pod(&facts, "big", 10, "");
	facts.priority = 1000;
	n_decided = 0;
	core_preempt(&core, &question, now_ns, ret_answer);
}

static void preempt_keeps_a_gpu_for_ten_seconds_and_ends_our_own_plans(void **state)
{
	_cleanup_preempt_answer_ struct preempt_answer answer = {0};

	filter_rejects("big", 10, 1000);
	preempt(&answer);
	assert_int_equal(answer.outcome, PREEMPT_NODE);
	assert_int_equal(answer.plan.n_victims, 1);
	assert_string_equal(answer.plan.victims[0]->facts.uid, "v1");
	assert_int_equal(answer.n_others, 0);
	assert_int_equal(n_decided, 1);
	assert_true(is_nominated("big"));
	assert_int_equal(core.evictions.attempts.count, 0);
	core_tick(&core, now_ns + 10 * NS_PER_S - 1);
	assert_true(is_nominated("big"));
	core_tick(&core, now_ns + 10 * NS_PER_S);
	assert_false(is_nominated("big"));
}

static void preempt_names_no_node_while_pods_are_evicted_for_the_pod(void **state)
{
	_cleanup_preempt_answer_ struct preempt_answer answer = {0};
	struct pod_facts facts = {.uid = (char *)"big", .nominated_node = (char *)"n"};

	wait_for_v0();
	preempt(&answer);
	assert_int_equal(answer.outcome, PREEMPT_OWN);
	assert_string_equal(answer.text, "pods are being evicted for it already");
	/* Its victims are about to go: filter tells it, so that kube-scheduler looks for no others. */
	assert_null(core_nomination_waits_for(&core, &facts));
	{
		_cleanup_pod_facts_ struct pod_facts victim;

		fixture_pod(&victim, "v0", 8, "");
		fixture_bind(&victim, "n", "GPU-n-0");
		victim.deleting = true;
		assert_int_equal(core_see_pod(&core, &victim, 0, now_ns), 0);
	}
	assert_ptr_equal(core_nomination_waits_for(&core, &facts), ledger_node(&core.ledger, "n"));
}

/* ---- nominations as the API server shows them ---- */

static void a_nomination_in_the_status_lasts_and_outlives_its_end_by_ten_seconds(void **state)
{
	show_nominated("n");
	core_tick(&core, now_ns + 600 * NS_PER_S);
	assert_true(is_nominated("big"));
	now_ns += 600 * NS_PER_S;
	show_nominated(NULL);
	core_tick(&core, now_ns + 10 * NS_PER_S - 1);
	assert_true(is_nominated("big"));
	core_tick(&core, now_ns + 10 * NS_PER_S);
	assert_false(is_nominated("big"));
}

static void before_the_first_lists_no_nomination_is_followed(void **state)
{
	core.pods_listed = false;
	show_nominated("n");
	assert_false(is_nominated("big"));
	core_pods_are_listed(&core, now_ns);
	assert_true(is_nominated("big"));
}

/* kube-scheduler's own filters keep the pod back, so that filter is not asked about it again. */
static void a_pod_whose_attempt_rests_is_requeued_more_and_more_rarely(void **state)
{
	size_t n = 0;

	core.evictions.search_after_ns = now_ns + NS_PER_S;
	filter_rejects("big", 10, 1000); /* too early after the last search */
	for (int i = 0; i < 6000; i++) {
		now_ns += 100 * NS_PER_MS;
		if (core.evictions.due_ns)
			core_continue_evictions(&core, now_ns);
		n += is_requeued("big");
	}
	assert_in_range(n, 3, 20);
}

/* How many requeues a second of looks brings; whether `uid` is among them. */
static size_t requeues_of_a_second(const char *uid, bool *ret_is_among)
{
	size_t sum = 0;

	for (int i = 0; i < 20; i++) {
		const struct pod_facts *pods[REQUEUES_PER_LOOK];
		int64_t again_ns;
		size_t n;

		now_ns += 50 * NS_PER_MS;
		n = requeue_list_look(&core.requeues, &core.ledger, now_ns, pods, &again_ns);
		sum += n;
		for (size_t k = 0; k < n; k++)
			*ret_is_among |= strcmp(pods[k]->uid, uid) == 0;
	}
	return sum;
}

/* Each requeue of such a pod costs a request, an attempt of kube-scheduler and up to three searches. */
static void pods_that_no_eviction_helps_keep_no_place_from_one_that_fits(void **state)
{
	static const char *const there[] = {"x3", "x2", "x1", "x0"}, *const gpus[] = {"GPU-n-3", "GPU-n-2",
									     "GPU-n-1", "GPU-n-0"};
	bool fits = false, again = false;
	size_t n = 0;
	char uid[16];

	for (int i = 0; i < 4; i++)
		show(there[i], 7, 1000, gpus[i], false);
	show("small", 7, 0, NULL, false);
	filter_rejects("small", 7, 0);
	for (int i = 0; i < 3000; i++) {
		snprintf(uid, sizeof(uid), "b%d", i);
		show(uid, 16, 1000, NULL, false);
		filter_rejects(uid, 16, 1000);
	}
	core_pod_is_gone(&core, "x0", true, now_ns);
	assert_true(requeues_of_a_second("small", &fits) <= 3);
	assert_true(fits);
	for (int i = 0; i < 60; i++) {
		core.ledger.generation++; /* something changes each second */
		n += requeues_of_a_second("b0", &again);
	}
	assert_in_range(n, 30, 130);
	assert_true(again); /* each has its turn, beginning with the one that waits for it longest */
}

/* Every replica finds the pods, whoever leads. */
static void after_a_start_few_pods_that_fit_nowhere_are_requeued(void **state)
{
	static const uint32_t units[] = {15};
	_cleanup_node_facts_ struct node_facts node;
	bool ignored = false;
	size_t n = 0;
	char uid[16];

	core_release(&core);
	core_init(&core, NULL);
	fixture_node(&node, "n", GPU_POLICY_BINPACK, 1, units);
	assert_int_equal(ledger_set_node(&core.ledger, &node), 0);
	show("v0", 15, 0, "GPU-n-0", false);
	for (int i = 0; i < 1000; i++) {
		snprintf(uid, sizeof(uid), "b%d", i);
		show(uid, 16, 1000, NULL, false);
	}
	core_nodes_are_listed(&core, now_ns);
	core_pods_are_listed(&core, now_ns);
	for (int i = 0; i < 120; i++)
		n += requeues_of_a_second("b0", &ignored);
	assert_in_range(n, 10, 125);
}

/* Some pod of lower priority is always about to be bound somewhere. */
static void a_thousand_attempts_that_rest_keep_no_other_pod_from_its_own(void **state)
{
	char uid[16];

	for (int i = 0; i < 1000; i++) {
		snprintf(uid, sizeof(uid), "r%d", i);
		core.evictions.search_after_ns = now_ns + 1000 * NS_PER_S;
		filter_rejects(uid, 10, 1000);
	}
	assert_int_equal(core.evictions.attempts.count, 1000);
	core.evictions.search_after_ns = 0;
	filter_rejects("big", 10, 1000);
	assert_non_null(table_get(&core.evictions.attempts, "big"));
	assert_int_equal(core.evictions.attempts.count, 1000);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(one_victim_is_evicted_marked_and_the_pod_is_nominated),
		T(kube_scheduler_has_a_moment_to_preempt_by_itself),
		T(no_pod_goes_for_one_of_its_own_priority_or_one_that_never_preempts),
		T(a_victim_that_is_refused_is_spared_and_the_next_one_asked),
		T(when_all_are_refused_the_gpu_is_free_for_others_and_the_pod_is_requeued_later),
		T(an_eviction_without_a_clear_answer_is_asked_three_times),
		T(what_the_api_server_answers_is_understood),
		T(one_request_is_on_its_way_at_a_time),
		T(nothing_is_asked_while_another_scheduler_owns_the_ledger),
		T(a_pod_that_a_budget_guards_is_asked_first),
		T(where_budgets_protect_all_the_search_is_made_again_later),
		T(a_search_takes_a_tenth_of_the_time_at_most),
		T(a_gpu_that_another_pod_took_leads_to_a_new_attempt),
		T(a_free_gpu_is_kept_for_thirty_seconds),
		T(a_scheduler_that_has_lost_the_ledger_writes_nothing),
		T(victims_have_ten_minutes_to_end),
		T(a_pod_that_is_deleted_ends_its_attempt_after_the_answer),
		T(what_is_freed_after_a_search_leads_to_another_one),
		T(a_pod_that_is_found_waiting_is_requeued_where_pods_may_go),
		T(a_pod_that_rests_is_requeued_until_kube_scheduler_asks),
		T(a_pod_that_is_about_to_be_bound_is_evicted_once_it_is),
		T(a_pod_that_is_nominated_in_vain_is_requeued),
		T(while_victims_of_a_nomination_are_going_nothing_else_is_tried),
		T(preempt_keeps_a_gpu_for_ten_seconds_and_ends_our_own_plans),
		T(preempt_names_no_node_while_pods_are_evicted_for_the_pod),
		T(a_nomination_in_the_status_lasts_and_outlives_its_end_by_ten_seconds),
		T(before_the_first_lists_no_nomination_is_followed),
		T(a_pod_whose_attempt_rests_is_requeued_more_and_more_rarely),
		T(pods_that_no_eviction_helps_keep_no_place_from_one_that_fits),
		T(after_a_start_few_pods_that_fit_nowhere_are_requeued),
		T(a_thousand_attempts_that_rest_keep_no_other_pod_from_its_own),
	};

	return cmocka_run_group_tests_name("evicting", tests, NULL, NULL);
}
