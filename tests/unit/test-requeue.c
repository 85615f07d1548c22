/* What pods wait for, what makes an attempt worth it, whose turn it is, and how the back-off grows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/placement/decide.h"
#include "core/registry/nomination.h"
#include "core/requeue.h"
#include "model/units.h"
#include "model-fixture.h"

static void open_ledger(struct ledger *ledger)
{
	_cleanup_node_facts_ struct node_facts facts;

	ledger_init(ledger);
	fixture_node(&facts, "n", GPU_POLICY_BINPACK, 2, (const uint32_t[]){10, 4});
	assert_int_equal(ledger_set_node(ledger, &facts), 0);
}

/* ---- room ---- */

static size_t look(struct requeue_list *list, struct ledger *ledger, int64_t now,
	const struct pod_facts **pods, int64_t *again)
{
	return requeue_list_look(list, ledger, now, pods, again);
}

/* After a change of the ledger. */
static void assert_only_woken(struct requeue_list *list, struct ledger *ledger, const char *uid)
{
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	int64_t again;

	ledger->generation++;
	assert_int_equal(look(list, ledger, 0, pods, &again), 1);
	assert_string_equal(pods[0]->uid, uid);
}

static void a_freed_gpu_wakes_the_most_important_pod_first(void **state)
{
	_cleanup_pod_facts_ struct pod_facts running, low, high;
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list list;
	struct ledger ledger;
	int64_t again;

	open_ledger(&ledger);
	requeue_list_init(&list);
	fixture_pod(&running, "r", 10, "");
	fixture_bind(&running, "n", "GPU-n-0");
	assert_int_equal(ledger_set_pod(&ledger, &running), 0);
	fixture_pod(&low, "low", 9, "");
	fixture_pod(&high, "high", 9, "");
	high.priority = 1;
	assert_int_equal(requeue_list_rejected(&list, &low, &ledger, 0), 0);
	assert_int_equal(requeue_list_rejected(&list, &high, &ledger, 0), 0);
	assert_int_equal(look(&list, &ledger, 0, pods, &again), 0);
	assert_true(again == INT64_MAX);
	ledger_remove_pod(&ledger, "r");
	assert_true(requeue_list_is_due(&list, &ledger));
	assert_int_equal(look(&list, &ledger, 0, pods, &again), 2);
	assert_string_equal(pods[0]->uid, "high");
	assert_string_equal(pods[1]->uid, "low");
	assert_true(again == NS_PER_S); /* in vain: again after a back-off */
	assert_int_equal(look(&list, &ledger, NS_PER_S / 2, pods, &again), 0);
	requeue_list_leave(&list, "high");
	assert_int_equal(look(&list, &ledger, NS_PER_S, pods, &again), 1);
	requeue_list_release(&list);
	ledger_release(&ledger);
}

static void a_freed_gpu_wakes_the_pod_that_it_is_kept_for_and_no_other(void **state)
{
	_cleanup_pod_facts_ struct pod_facts running, other, mine;
	_cleanup_placement_ struct placement placement;
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list list;
	struct ledger ledger;
	int64_t again;

	open_ledger(&ledger);
	requeue_list_init(&list);
	fixture_pod(&running, "r", 10, "");
	fixture_bind(&running, "n", "GPU-n-0");
	assert_int_equal(ledger_set_pod(&ledger, &running), 0);
	fixture_pod(&other, "other", 9, "");
	fixture_pod(&mine, "mine", 9, "");
	fixture_place(&placement, &mine.request, "GPU-n-0");
	assert_int_equal(ledger_nominate(&ledger, &mine, "n", &placement, NOMINATION_LASTS), 0);
	assert_int_equal(requeue_list_rejected(&list, &other, &ledger, 0), 0);
	assert_int_equal(requeue_list_rejected(&list, &mine, &ledger, 0), 0);
	ledger_remove_pod(&ledger, "r");
	assert_int_equal(look(&list, &ledger, 0, pods, &again), 1);
	assert_string_equal(pods[0]->uid, "mine");
	requeue_list_release(&list);
	ledger_release(&ledger);
}

/* A search that failed for two containers says nothing about one. */
static void a_place_for_one_container_wakes_the_pod_that_has_one(void **state)
{
	_cleanup_node_facts_ struct node_facts node;
	_cleanup_pod_facts_ struct pod_facts running, two, one;
	struct requeue_list list;
	struct ledger ledger;

	ledger_init(&ledger);
	requeue_list_init(&list);
	fixture_node(&node, "n", GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	node.mode = GPU_MODE_CGPU;
	node.instances_max = 2;
	assert_int_equal(ledger_set_node(&ledger, &node), 0);
	fixture_pod(&running, "r", 1, "");
	fixture_bind(&running, "n", "GPU-n-0");
	assert_int_equal(ledger_set_pod(&ledger, &running), 0);
	fixture_pod(&two, "two", 1, "");
	assert_int_equal(request_add(&two.request, "second", CONTAINER_MAIN, 1, "1", NULL, NULL), 0);
	two.priority = 1;
	fixture_pod(&one, "one", 3, "");
	assert_int_equal(requeue_list_rejected(&list, &two, &ledger, 0), 0);
	assert_int_equal(requeue_list_rejected(&list, &one, &ledger, 0), 0);
	assert_only_woken(&list, &ledger, "one");
	requeue_list_release(&list);
	ledger_release(&ledger);
}

/* Rejected by our predecessor, and the GPU was freed while nobody looked. Found by the simulation. */
static void a_pod_found_waiting_at_the_start_is_woken_three_times_at_most(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list list;
	struct ledger ledger;
	int64_t again;

	open_ledger(&ledger);
	requeue_list_init(&list);
	fixture_pod(&pod, "a", 9, "");
	assert_int_equal(requeue_list_found_waiting(&list, &pod, 0), 0);
	assert_true(requeue_list_is_due(&list, &ledger));
	/* kube-scheduler may be about to ask for it. */
	assert_int_equal(look(&list, &ledger, 0, pods, &again), 0);
	assert_int_equal(again, NS_PER_S);
	for (int i = 0; i < 3; i++)
		assert_int_equal(look(&list, &ledger, (1 + i * 100) * NS_PER_S, pods, &again), 1);
	assert_int_equal(look(&list, &ledger, 1000 * NS_PER_S, pods, &again), 0);
	assert_int_equal(requeue_list_rejected(&list, &pod, &ledger, 1000 * NS_PER_S), 0);
	ledger.generation++;
	assert_int_equal(look(&list, &ledger, 1000 * NS_PER_S, pods, &again), 1);
	requeue_list_release(&list);
	ledger_release(&ledger);
}

static void a_waiting_pod_that_nobody_knows_is_forgotten_after_ten_seconds(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	struct requeue_list list;
	struct ledger ledger;

	open_ledger(&ledger);
	requeue_list_init(&list);
	fixture_pod(&pod, "a", 9, "");
	assert_int_equal(requeue_list_rejected(&list, &pod, &ledger, 0), 0);
	requeue_list_forget_gone(&list, &ledger, 10 * NS_PER_S);
	assert_int_equal(list.pods.count, 1);
	requeue_list_forget_gone(&list, &ledger, 10 * NS_PER_S + 1);
	assert_int_equal(list.pods.count, 0);
	requeue_list_release(&list);
	ledger_release(&ledger);
}

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

#define MANY_NODES 2000
#define MANY_PODS 1000

/* Only the last node has a GPU with room for the pods. */
static void open_large_ledger(struct ledger *ledger)
{
	ledger_init(ledger);
	for (int i = 0; i < MANY_NODES; i++) {
		_cleanup_node_facts_ struct node_facts facts;
		char name[16];

		snprintf(name, sizeof(name), "n%d", i);
		fixture_node(&facts, name, GPU_POLICY_BINPACK, 1,
			(const uint32_t[]){i == MANY_NODES - 1 ? 10 : 2});
		assert_int_equal(ledger_set_node(ledger, &facts), 0);
	}
}

static void add_waiting(struct requeue_list *list, struct ledger *ledger, size_t n, uint32_t units)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_pod_facts_ struct pod_facts pod;
		char uid[sizeof("p--") + 10 + 20];

		snprintf(uid, sizeof(uid), "p-%u-%zu", units, i);
		fixture_pod(&pod, uid, units, "");
		assert_int_equal(requeue_list_rejected(list, &pod, ledger, 0), 0);
	}
	ledger->generation++;
}

static void a_thousand_waiting_pods_that_fit_cost_no_thousand_searches(void **state)
{
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list one, many;
	struct ledger ledger;
	int64_t again, search_ns, began;

	open_large_ledger(&ledger);
	requeue_list_init(&one);
	requeue_list_init(&many);
	add_waiting(&one, &ledger, 1, 11);
	began = cpu_ns();
	assert_int_equal(look(&one, &ledger, 0, pods, &again), 0);
	search_ns = cpu_ns() - began;
	add_waiting(&many, &ledger, MANY_PODS, 9);
	began = cpu_ns();
	assert_int_equal(look(&many, &ledger, 0, pods, &again), REQUEUES_PER_LOOK);
	assert_true(cpu_ns() - began < 30 * search_ns);
	requeue_list_release(&one);
	requeue_list_release(&many);
	ledger_release(&ledger);
}

/* Share nodes promise no computing power, so nothing will ever free a place for these. */
static void a_thousand_pods_that_wait_for_computing_power_cost_no_thousand_searches(void **state)
{
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list one, many;
	struct ledger ledger;
	int64_t again, search_ns, began;

	open_large_ledger(&ledger);
	requeue_list_init(&one);
	requeue_list_init(&many);
	add_waiting(&one, &ledger, 1, 11);
	began = cpu_ns();
	assert_int_equal(look(&one, &ledger, 0, pods, &again), 0);
	search_ns = cpu_ns() - began;
	for (size_t i = 0; i < MANY_PODS; i++) {
		_cleanup_pod_facts_ struct pod_facts pod;
		char uid[24];

		snprintf(uid, sizeof(uid), "core-%zu", i);
		fixture_pod(&pod, uid, 2, "");
		pod.request.core = pod.request.containers[0].core = 5 + i % 20 * 5;
		assert_int_equal(requeue_list_rejected(&many, &pod, &ledger, 0), 0);
	}
	ledger.generation++;
	began = cpu_ns();
	assert_int_equal(look(&many, &ledger, 0, pods, &again), 0);
	assert_true(cpu_ns() - began < 30 * search_ns);
	add_waiting(&many, &ledger, 1, 2); /* without it there is room */
	assert_int_equal(look(&many, &ledger, 0, pods, &again), 1);
	requeue_list_release(&one);
	requeue_list_release(&many);
	ledger_release(&ledger);
}

/* No node has the unit of the first pod, which is tested first because it is more important. */
static void a_pod_whose_unit_no_node_has_keeps_no_other_pod_waiting(void **state)
{
	static const uint32_t others[] = {UNIT_MIB_NONE, 128, 3000};
	const struct pod_facts *pods[REQUEUES_PER_LOOK];

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		_cleanup_pod_facts_ struct pod_facts odd, usual;
		struct requeue_list list;
		struct ledger ledger;
		int64_t again;

		open_ledger(&ledger);
		requeue_list_init(&list);
		fixture_pod(&odd, "odd", 1, "");
		odd.priority = 1;
		odd.request.unit_mib = others[i];
		fixture_pod(&usual, "usual", 9, "");
		usual.request.unit_mib = UNIT_MIB_DEFAULT;
		assert_int_equal(requeue_list_rejected(&list, &odd, &ledger, 0), 0);
		assert_int_equal(requeue_list_rejected(&list, &usual, &ledger, 0), 0);
		ledger.generation++;
		assert_int_equal(look(&list, &ledger, 0, pods, &again), 1);
		assert_string_equal(pods[0]->uid, "usual");
		requeue_list_release(&list);
		ledger_release(&ledger);
	}
}

/* The node has a unit that no chart sets, and more important pods name others of this kind. */
static void many_units_that_no_node_has_keep_no_other_pod_waiting(void **state)
{
	_cleanup_node_facts_ struct node_facts node;
	_cleanup_pod_facts_ struct pod_facts usual;
	struct requeue_list list;
	struct ledger ledger;

	ledger_init(&ledger);
	fixture_node(&node, "a", GPU_POLICY_BINPACK, 1, (const uint32_t[]){10});
	node.unit_mib = 2048;
	node.gpus[0].mib *= 2;
	assert_int_equal(ledger_set_node(&ledger, &node), 0);
	requeue_list_init(&list);
	for (uint32_t i = 0; i < 20; i++) {
		_cleanup_pod_facts_ struct pod_facts odd;
		char uid[8];

		snprintf(uid, sizeof(uid), "odd-%u", i);
		fixture_pod(&odd, uid, 1, "");
		odd.priority = 1;
		odd.request.unit_mib = 3000 + i;
		assert_int_equal(requeue_list_rejected(&list, &odd, &ledger, 0), 0);
	}
	fixture_pod(&usual, "usual", 9, "");
	usual.request.unit_mib = 2048;
	assert_int_equal(requeue_list_rejected(&list, &usual, &ledger, 0), 0);
	assert_only_woken(&list, &ledger, "usual");
	requeue_list_release(&list);
	ledger_release(&ledger);
}

static void a_requeue_that_did_not_arrive_is_tried_again_soon(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	struct requeue_list list;
	struct ledger ledger;
	int64_t again;

	open_ledger(&ledger);
	requeue_list_init(&list);
	fixture_pod(&pod, "a", 9, "");
	assert_int_equal(requeue_list_found_waiting(&list, &pod, 0), 0);
	for (int i = 1; i < 20; i++) {
		assert_int_equal(look(&list, &ledger, i * NS_PER_S, pods, &again), 1);
		requeue_list_failed(&list, "a", i * NS_PER_S);
		assert_int_equal(look(&list, &ledger, i * NS_PER_S, pods, &again), 0);
		assert_true(again == NS_PER_S);
	}
	requeue_list_failed(&list, "unknown", 0);
	requeue_list_release(&list);
	ledger_release(&ledger);
}

/* ---- units and gangs ---- */

static struct fixture {
	struct requeue_list list;
	struct ledger ledger;
	int64_t again_ns;
} f;

static int set_up(void **state)
{
	(void)state;
	open_ledger(&f.ledger);
	requeue_list_init(&f.list);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	requeue_list_release(&f.list);
	ledger_release(&f.ledger);
	return 0;
}

/* The uids that are requeued, each followed by a space. */
static const char *requeued(int64_t seconds)
{
	static char text[512];
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	size_t n = requeue_list_look(&f.list, &f.ledger, seconds * NS_PER_S, pods, &f.again_ns);

	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ", pods[i]->uid);
	return text;
}

static struct pod_facts named(const char *uid, const char *namespace_)
{
	return (struct pod_facts){.uid = (char *)uid, .namespace_ = (char *)namespace_, .name = (char *)uid};
}

static void no_unit(const char *uid, uint64_t freed, int64_t until_s, int64_t now_s)
{
	const struct pod_facts pod = named(uid, "team");

	assert_int_equal(
		requeue_list_has_no_unit(&f.list, &pod, freed, until_s * NS_PER_S, now_s * NS_PER_S), 0);
}

static void waits_for_gang(const char *uid, int64_t now_s)
{
	const struct pod_facts pod = named(uid, "team");

	assert_int_equal(requeue_list_waits_for_gang(&f.list, &pod, now_s * NS_PER_S), 0);
}

static void has_place(const char *uid, int64_t now_s)
{
	const struct pod_facts pod = named(uid, "team");

	assert_int_equal(requeue_list_gang_has_place(&f.list, &pod, now_s * NS_PER_S), 0);
}

static bool waits(const char *uid, enum requeue_reason reason)
{
	struct requeue_state state;

	return requeue_list_find(&f.list, uid, reason, &state);
}

static void what_is_freed_in_the_policies_of_a_namespace_wakes_its_pods_once(void **state)
{
	const struct pod_facts elsewhere = named("elsewhere", "other");

	(void)state;
	no_unit("a", 1, 0, 0);
	no_unit("later", 2, 0, 0);
	assert_int_equal(requeue_list_has_no_unit(&f.list, &elsewhere, 1, 0, 0), 0);
	assert_string_equal(requeued(1), "");
	assert_true(f.again_ns == INT64_MAX);
	assert_false(requeue_list_is_due(&f.list, &f.ledger));
	requeue_list_unit_freed(&f.list, "team", 2);
	assert_true(requeue_list_is_due(&f.list, &f.ledger));
	assert_string_equal(requeued(1), "a ");
	requeue_list_unit_freed(&f.list, "team", 2);
	assert_string_equal(requeued(100), "");
	assert_int_equal(requeue_list_count(&f.list, REQUEUE_UNIT), 3);
	requeue_list_stop(&f.list, "a", REQUEUE_UNIT);
	assert_int_equal(f.list.pods.count, 2);
}

static void a_time_out_is_kept_to_whatever_the_back_off_says(void **state)
{
	(void)state;
	no_unit("a", 1, 0, 0);
	requeue_list_unit_freed(&f.list, "team", 2);
	assert_string_equal(requeued(10), "a ");
	no_unit("a", 2, 10, 10);
	assert_string_equal(requeued(10), "a ");
	assert_string_equal(requeued(1000), ""); /* once */
	no_unit("a", 2, 1030, 1000);
	assert_string_equal(requeued(1000), "");
	assert_true(f.again_ns == 30 * NS_PER_S);
	assert_string_equal(requeued(1030), "a ");
}

/* 1 s, 2 s, 4 s ... up to a minute while kube-scheduler does not ask. */
static void the_back_off_of_a_pod_that_is_not_asked_about_grows_to_a_minute(void **state)
{
	static const int64_t expected[] = {1, 2, 4, 8, 16, 32, 60, 60};
	uint64_t freed = 1;
	int64_t now = 100;

	(void)state;
	no_unit("a", freed, 0, now);
	requeue_list_unit_freed(&f.list, "team", ++freed);
	assert_string_equal(requeued(now), "a ");
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
		requeue_list_unit_freed(&f.list, "team", ++freed);
		assert_string_equal(requeued(now + expected[i] - 1), "");
		assert_true(f.again_ns == NS_PER_S);
		now += expected[i];
		assert_string_equal(requeued(now), "a ");
	}
}

/* Other pods were faster each time. */
static void the_back_off_of_a_pod_that_is_asked_about_in_vain_grows_to_eight_seconds(void **state)
{
	static const int64_t expected[] = {1, 2, 4, 8, 8, 8};
	uint64_t freed = 1;
	int64_t now = 100;

	(void)state;
	no_unit("a", freed, 0, now);
	requeue_list_unit_freed(&f.list, "team", ++freed);
	assert_string_equal(requeued(now), "a ");
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
		no_unit("a", freed, 0, now);
		requeue_list_unit_freed(&f.list, "team", ++freed);
		assert_string_equal(requeued(now + expected[i] - 1), "");
		now += expected[i];
		assert_string_equal(requeued(now), "a ");
	}
	requeue_list_stop(&f.list, "a", REQUEUE_UNIT); /* it has one */
	no_unit("a", freed, 0, now);
	requeue_list_unit_freed(&f.list, "team", ++freed);
	assert_string_equal(requeued(now), "a ");
}

/* It fits on a node that its policy does not let it use. */
static void a_gpu_pod_that_its_policy_holds_back_keeps_its_back_off(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	(void)state;
	fixture_pod(&pod, "a", 9, "");
	for (int i = 0; i < 3; i++) {
		no_unit("a", 1, 0, 0);
		assert_int_equal(requeue_list_rejected(&f.list, &pod, &f.ledger, 0), 0);
		f.ledger.generation++;
		assert_string_equal(requeued(0), i == 0 ? "a " : "");
	}
	assert_true(f.again_ns == NS_PER_S);
	assert_true(waits("a", REQUEUE_ROOM) && waits("a", REQUEUE_UNIT));
	requeue_list_stop(&f.list, "a", REQUEUE_UNIT);
	assert_string_equal(requeued(0), "a "); /* room alone */
	assert_true(waits("a", REQUEUE_ROOM));
}

static void a_place_that_a_gang_holds_wakes_who_sleeps_at_once_and_others_after_a_second(void **state)
{
	(void)state;
	waits_for_gang("sleeps", 0);
	has_place("sleeps", 10);
	has_place("queued", 10);
	assert_string_equal(requeued(10), "sleeps ");
	assert_string_equal(requeued(11), "queued sleeps ");
	has_place("queued", 11); /* it is known already */
	assert_string_equal(requeued(11), "");
	assert_true(f.again_ns == NS_PER_S);
	requeue_list_stop(&f.list, "queued", REQUEUE_GANG); /* kube-scheduler asked, and got its node */
	requeue_list_gang_has_none(&f.list, "sleeps");
	assert_string_equal(requeued(100), "");
	assert_false(waits("queued", REQUEUE_GANG));
	assert_true(waits("sleeps", REQUEUE_GANG));
}

static void room_does_not_wake_a_member_that_waits_for_its_gang(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	(void)state;
	fixture_pod(&pod, "a", 9, "");
	assert_int_equal(requeue_list_rejected(&f.list, &pod, &f.ledger, 0), 0);
	assert_int_equal(requeue_list_waits_for_gang(&f.list, &pod, 0), 0);
	f.ledger.generation++;
	assert_string_equal(requeued(1), "");
	/* Its gang has started. */
	assert_int_equal(requeue_list_found_waiting(&f.list, &pod, NS_PER_S), 0);
	assert_false(waits("a", REQUEUE_GANG));
	assert_string_equal(requeued(1), "a ");
}

static void a_member_that_was_told_something_else_is_tried_when_its_back_off_is_over(void **state)
{
	(void)state;
	waits_for_gang("a", 0);
	requeue_list_gang_tells(&f.list, "a");
	requeue_list_gang_tells(&f.list, "unknown");
	assert_string_equal(requeued(0), "a ");
	waits_for_gang("a", 0);
	requeue_list_gang_tells(&f.list, "a");
	assert_string_equal(requeued(0), "");
	assert_true(f.again_ns == NS_PER_S);
	assert_string_equal(requeued(1), "a ");
}

static void of_all_kinds_the_priority_counts_first_and_so_many_are_requeued_in_one_look(void **state)
{
	_cleanup_pod_facts_ struct pod_facts room;
	struct pod_facts gang = named("gang", "team");
	char uid[16];

	(void)state;
	for (int i = 0; i < REQUEUES_PER_LOOK; i++) {
		snprintf(uid, sizeof(uid), "u%d", i);
		no_unit(uid, 1, 0, 0);
	}
	fixture_pod(&room, "room", 9, "");
	room.priority = 1;
	gang.priority = 2;
	assert_int_equal(requeue_list_rejected(&f.list, &room, &f.ledger, 0), 0);
	assert_int_equal(requeue_list_waits_for_gang(&f.list, &gang, 1), 0);
	assert_int_equal(requeue_list_gang_has_place(&f.list, &gang, 1), 0);
	f.ledger.generation++;
	requeue_list_unit_freed(&f.list, "team", 2);
	assert_string_equal(requeued(1), "gang room u0 u1 u2 u3 u4 u5 u6 u7 u8 u9 u10 u11 u12 u13 ");
	assert_true(f.again_ns == 50 * NS_PER_MS);
	/* The others first: those above have not been asked about since. */
	requeue_list_stop(&f.list, "room", REQUEUE_ROOM);
	requeue_list_stop(&f.list, "gang", REQUEUE_GANG);
	requeue_list_unit_freed(&f.list, "team", 3);
	assert_string_equal(requeued(2), "u14 u15 u0 u1 u2 u3 u4 u5 u6 u7 u8 u9 u10 u11 u12 u13 ");
}

static void a_failed_requeue_of_any_kind_comes_again_after_a_second_and_does_not_count(void **state)
{
	struct requeue_state unit;

	(void)state;
	no_unit("unit", 1, 0, 0);
	waits_for_gang("gang", 1);
	has_place("gang", 1);
	requeue_list_unit_freed(&f.list, "team", 2);
	assert_string_equal(requeued(5), "unit gang ");
	requeue_list_failed(&f.list, "unit", 6 * NS_PER_S);
	requeue_list_failed(&f.list, "gang", 6 * NS_PER_S);
	assert_true(requeue_list_find(&f.list, "unit", REQUEUE_UNIT, &unit));
	assert_int_equal(unit.requeues, 0);
	assert_string_equal(requeued(6), "");
	assert_string_equal(requeued(7), "unit gang ");
	/* kube-scheduler has asked since: there is nothing to repeat. */
	no_unit("unit", 2, 0, 7);
	requeue_list_failed(&f.list, "unit", 8 * NS_PER_S);
	requeue_list_gang_has_none(&f.list, "gang");
	assert_string_equal(requeued(100), "");
}

static void a_pod_found_without_a_unit_is_tried_three_times_at_most(void **state)
{
	const struct pod_facts pod = named("a", "team");

	(void)state;
	assert_int_equal(requeue_list_found_without_unit(&f.list, &pod, 1, 1), 0);
	assert_int_equal(requeue_list_found_without_unit(&f.list, &pod, 1, 1), 0);
	assert_string_equal(requeued(1), "");
	assert_string_equal(requeued(3), "a ");
	for (uint64_t i = 2; i < 4; i++) {
		requeue_list_unit_freed(&f.list, "team", i);
		assert_string_equal(requeued((int64_t)i * 100), "a ");
	}
	requeue_list_unit_freed(&f.list, "team", 4);
	assert_string_equal(requeued(500), "");
	assert_false(waits("a", REQUEUE_UNIT));
}

static void evictions_that_may_be_tried_again_wake_a_pod_that_does_not_fit(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	(void)state;
	fixture_pod(&pod, "a", 11, "");
	assert_int_equal(requeue_list_rejected(&f.list, &pod, &f.ledger, 0), 0);
	f.ledger.generation++;
	assert_string_equal(requeued(1), "");
	assert_int_equal(requeue_list_eviction_due(&f.list, &pod, NS_PER_S), 0);
	assert_true(requeue_list_is_due(&f.list, &f.ledger));
	assert_string_equal(requeued(1), "a ");
	assert_string_equal(requeued(100), "");
}

/* Thousands of pods may wait when kube-scheduler and this process start together, and need no requeue. */
static void found_pods_are_not_woken_while_kube_scheduler_works_through_its_queue(void **state)
{
	_cleanup_pod_facts_ struct pod_facts first, second, third;
	const struct pod_facts *pods[REQUEUES_PER_LOOK];

	(void)state;
	fixture_pod(&first, "first", 1, "");
	fixture_pod(&second, "second", 1, "");
	fixture_pod(&third, "third", 1, "");
	assert_int_equal(requeue_list_found_waiting(&f.list, &first, 0), 0);
	assert_int_equal(requeue_list_found_waiting(&f.list, &second, 0), 0);
	assert_int_equal(requeue_list_found_waiting(&f.list, &third, 0), 0);
	requeue_list_asked(&f.list, "first", NS_PER_S);
	requeue_list_leave(&f.list, "first");
	assert_int_equal(look(&f.list, &f.ledger, 2 * NS_PER_S - 1, pods, &f.again_ns), 0);
	/* A pod that was asked for before says nothing about the queue, nor does one that came later. */
	requeue_list_asked(&f.list, "second", NS_PER_S);
	requeue_list_asked(&f.list, "second", 2 * NS_PER_S);
	requeue_list_asked(&f.list, "another", 2 * NS_PER_S);
	assert_int_equal(look(&f.list, &f.ledger, 2 * NS_PER_S, pods, &f.again_ns), 2);
}

/* Its Binding may take long while the API server is slow. */
static void a_pod_for_which_a_gpu_is_held_is_not_woken(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	const struct pod_facts *pods[REQUEUES_PER_LOOK];

	(void)state;
	fixture_pod(&pod, "a", 9, "");
	assert_int_equal(requeue_list_rejected(&f.list, &pod, &f.ledger, 0), 0);
	assert_int_equal(decide_hold(&f.ledger, &pod, "n", 0), 0);
	f.ledger.generation++;
	assert_int_equal(look(&f.list, &f.ledger, NS_PER_S, pods, &f.again_ns), 0);
	assert_int_equal(f.again_ns, NS_PER_S);
	ledger_drop_hold(&f.ledger, "a");
	assert_int_equal(look(&f.list, &f.ledger, 2 * NS_PER_S, pods, &f.again_ns), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_freed_gpu_wakes_the_most_important_pod_first),
		cmocka_unit_test(a_freed_gpu_wakes_the_pod_that_it_is_kept_for_and_no_other),
		cmocka_unit_test(a_place_for_one_container_wakes_the_pod_that_has_one),
		cmocka_unit_test(a_pod_found_waiting_at_the_start_is_woken_three_times_at_most),
		cmocka_unit_test(a_waiting_pod_that_nobody_knows_is_forgotten_after_ten_seconds),
		cmocka_unit_test(a_thousand_waiting_pods_that_fit_cost_no_thousand_searches),
		cmocka_unit_test(a_thousand_pods_that_wait_for_computing_power_cost_no_thousand_searches),
		cmocka_unit_test(a_pod_whose_unit_no_node_has_keeps_no_other_pod_waiting),
		cmocka_unit_test(many_units_that_no_node_has_keep_no_other_pod_waiting),
		cmocka_unit_test(a_requeue_that_did_not_arrive_is_tried_again_soon),
		TEST(what_is_freed_in_the_policies_of_a_namespace_wakes_its_pods_once),
		TEST(a_time_out_is_kept_to_whatever_the_back_off_says),
		TEST(the_back_off_of_a_pod_that_is_not_asked_about_grows_to_a_minute),
		TEST(the_back_off_of_a_pod_that_is_asked_about_in_vain_grows_to_eight_seconds),
		TEST(a_gpu_pod_that_its_policy_holds_back_keeps_its_back_off),
		TEST(a_place_that_a_gang_holds_wakes_who_sleeps_at_once_and_others_after_a_second),
		TEST(room_does_not_wake_a_member_that_waits_for_its_gang),
		TEST(a_member_that_was_told_something_else_is_tried_when_its_back_off_is_over),
		TEST(of_all_kinds_the_priority_counts_first_and_so_many_are_requeued_in_one_look),
		TEST(a_failed_requeue_of_any_kind_comes_again_after_a_second_and_does_not_count),
		TEST(a_pod_found_without_a_unit_is_tried_three_times_at_most),
		TEST(evictions_that_may_be_tried_again_wake_a_pod_that_does_not_fit),
		TEST(a_pod_for_which_a_gpu_is_held_is_not_woken),
		TEST(found_pods_are_not_woken_while_kube_scheduler_works_through_its_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
