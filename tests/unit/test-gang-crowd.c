/* 50 gangs of 2 to 16 members with shares of GPUs, on a cluster that holds about 60 % of them;
 * kube-scheduler asks in any order, binds take their time, ration-scheduler is killed now and then, in the
 * middle of Bindings too. All in one thread and from one seed, in steps of 10 ms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "core/gang/gang.h"
#include "core/gang/gang-plan.h"
#include "core/placement/decide.h"
#include "model-fixture.h"

#define GANGS 50
#define MEMBERS_MAX 16
#define PODS_MAX 4096
#define STEP_NS INT64_C(10000000)
#define SECOND INT64_C(1000000000)
#define GPUS 8
#define GPU_UNITS 16

enum state { SLEEPS, QUEUED, ON_ITS_WAY, AT_BIND, SENT, BOUND, GONE };

/* A pod, as the API server and kube-scheduler have it. */
struct crowd_pod {
	struct pod_facts facts;
	enum state state;
	int gang;
	int64_t due_ns; /* SLEEPS: asked again; ON_ITS_WAY: at bind; SENT: the Binding lands */
	char node[8];
	struct placement placement;
};

struct crowd {
	struct ledger ledger;
	struct requeue_list requeues;
	struct gangs gangs;
	struct crowd_pod pods[PODS_MAX];
	size_t n_pods, n_nodes;
	size_t sizes[GANGS];
	uint32_t units[GANGS];
	bool done[GANGS], whole[GANGS];
	int64_t now_ns, partly_since_ns[GANGS];
	unsigned drawn;
	size_t evicted, kills;
};

static struct crowd crowd;

static uint32_t draw(uint32_t below)
{
	crowd.drawn = crowd.drawn * 1103515245 + 12345;
	return (crowd.drawn >> 16) % below;
}

static struct crowd_pod *pod_of(const char *uid)
{
	return &crowd.pods[atoi(uid + 1)];
}

static void show(struct crowd_pod *pod)
{
	assert_int_equal(ledger_set_pod(&crowd.ledger, &pod->facts), 0);
	assert_int_equal(gangs_see_pod(&crowd.gangs, &crowd.ledger, &pod->facts, true, crowd.now_ns), 0);
}

static void create(int gang)
{
	struct crowd_pod *pod = &crowd.pods[crowd.n_pods];
	char uid[16], name[16];

	assert_true(crowd.n_pods < PODS_MAX);
	snprintf(uid, sizeof(uid), "u%zu", crowd.n_pods++);
	snprintf(name, sizeof(name), "g%d", gang);
	fixture_pod(&pod->facts, uid, crowd.units[gang], name);
	pod->facts.gang = strdup(name);
	pod->facts.gang_min = (uint32_t)crowd.sizes[gang];
	pod->facts.created = crowd.now_ns / SECOND;
	pod->gang = gang;
	pod->state = QUEUED;
	show(pod);
}

static void sleep_for(struct crowd_pod *pod, int64_t ns)
{
	pod->state = SLEEPS;
	pod->due_ns = crowd.now_ns + ns;
}

static void end(struct crowd_pod *pod)
{
	pod->state = GONE;
	ledger_remove_pod(&crowd.ledger, pod->facts.uid);
	gangs_forget_pod(&crowd.gangs, pod->facts.uid);
	requeue_list_leave(&crowd.requeues, pod->facts.uid);
}

static void go(const char *uid)
{
	bool all = true;

	for (size_t i = 0; i < crowd.n_pods; i++) {
		struct crowd_pod *pod = &crowd.pods[i];

		if (pod->state == AT_BIND && gangs_are_mates(&crowd.gangs, pod->facts.uid, uid) && all)
			all = decide_reserve(&crowd.ledger, &pod->facts, pod->node, &pod->placement) == FITS;
	}
	if (!all)
		gangs_give_up(&crowd.gangs, &crowd.ledger, uid, "the test says so", crowd.now_ns);
	for (size_t i = 0; i < crowd.n_pods; i++) {
		struct crowd_pod *pod = &crowd.pods[i];

		if (pod->state != AT_BIND || !gangs_are_mates(&crowd.gangs, pod->facts.uid, uid))
			continue;
		if (!all) {
			ledger_release_reservation(&crowd.ledger, pod->facts.uid);
			placement_release(&pod->placement);
			sleep_for(pod, SECOND);
			continue;
		}
		gangs_sent(&crowd.gangs, pod->facts.uid);
		pod->facts.gang_forming = gangs_is_forming(&crowd.gangs, pod->facts.uid);
		pod->state = SENT;
		pod->due_ns = crowd.now_ns + (1 + draw(5)) * STEP_NS;
	}
}

static void carry_out(void)
{
	struct gang_order *order;

	while ((order = gangs_next_order(&crowd.gangs))) {
		struct crowd_pod *pod = pod_of(order->uid);

		if (order->kind == GANG_GO)
			go(order->uid);
		else if (order->kind == GANG_TURN_AWAY && pod->state == AT_BIND)
			sleep_for(pod, SECOND);
		else if (order->kind == GANG_UNMARK && pod->state == BOUND) {
			pod->facts.gang_forming = false;
			show(pod);
		} else if (order->kind == GANG_EVICT && pod->state == BOUND) {
			crowd.evicted++;
			end(pod);
			create(pod->gang);
		}
		gang_order_free(order);
	}
}

static void requeue(void)
{
	const struct pod_facts *due[REQUEUES_PER_LOOK];
	int64_t again_ns;
	size_t n = requeue_list_look(&crowd.requeues, &crowd.ledger, crowd.now_ns, due, &again_ns);

	for (size_t i = 0; i < n; i++)
		if (pod_of(due[i]->uid)->state == SLEEPS)
			pod_of(due[i]->uid)->state = QUEUED;
}

static void ask(struct crowd_pod *pod)
{
	const char *names[64], *node, *text;
	size_t n = 0, cursor = 0;

	while (table_next(&crowd.ledger.nodes, &cursor, &names[n], NULL))
		n++;
	if (gangs_filter(&crowd.gangs, &crowd.ledger, &pod->facts, names, n, crowd.now_ns, &node, &text) !=
		GANG_NODE) {
		sleep_for(pod, (20 + draw(280)) * SECOND);
		return;
	}
	snprintf(pod->node, sizeof(pod->node), "%s", node);
	pod->state = ON_ITS_WAY;
	pod->due_ns = crowd.now_ns + (1 + draw(20)) * STEP_NS;
}

static void land(struct crowd_pod *pod)
{
	free(pod->facts.node);
	pod->facts.node = strdup(pod->node);
	pod->facts.has_placement = true;
	pod->facts.placement = pod->placement;
	placement_init(&pod->placement);
	pod->state = BOUND;
	requeue_list_leave(&crowd.requeues, pod->facts.uid);
	show(pod);
}

static void advance(struct crowd_pod *pod)
{
	if (pod->state == SLEEPS && pod->due_ns <= crowd.now_ns)
		pod->state = QUEUED;
	if (pod->state == ON_ITS_WAY && pod->due_ns <= crowd.now_ns) {
		pod->state = AT_BIND;
		assert_true(gangs_bind(&crowd.gangs, &crowd.ledger, pod->facts.uid, pod->node, crowd.now_ns));
	}
	if (pod->state == SENT && pod->due_ns <= crowd.now_ns)
		land(pod);
}

static void add_nodes(void)
{
	for (size_t i = 0; i < crowd.n_nodes; i++) {
		_cleanup_node_facts_ struct node_facts facts;
		uint32_t units[GPUS];
		char name[24];

		for (size_t k = 0; k < GPUS; k++)
			units[k] = GPU_UNITS;
		snprintf(name, sizeof(name), "n%zu", i);
		fixture_node(&facts, name, GPU_POLICY_BINPACK, GPUS, units);
		assert_int_equal(ledger_set_node(&crowd.ledger, &facts), 0);
	}
}

static void start(void)
{
	ledger_init(&crowd.ledger);
	requeue_list_init(&crowd.requeues);
	gangs_init(&crowd.gangs,
		&(struct gang_rules){.keep_after_ns = 300 * SECOND, .timeout_ns = 60 * SECOND},
		&crowd.requeues);
	add_nodes();
}

static void stop(void)
{
	gangs_release(&crowd.gangs);
	requeue_list_release(&crowd.requeues);
	ledger_release(&crowd.ledger);
}

/* Of the Bindings on their way some land, some do not; all calls fail. */
static void kill_scheduler(void)
{
	crowd.kills++;
	stop();
	start();
	/* A LIST shows all of them. */
	gangs_set_following(&crowd.gangs, false);
	for (size_t i = 0; i < crowd.n_pods; i++) {
		struct crowd_pod *pod = &crowd.pods[i];

		if (pod->state == GONE)
			continue;
		if (pod->state == SENT && draw(2)) {
			land(pod);
			continue;
		}
		if (pod->state == SENT || pod->state == ON_ITS_WAY || pod->state == AT_BIND) {
			placement_release(&pod->placement);
			pod->facts.gang_forming = false;
			sleep_for(pod, SECOND);
		} else if (pod->state == SLEEPS) {
			pod->due_ns = crowd.now_ns + draw(5) * SECOND;
		}
		show(pod);
	}
	gangs_set_following(&crowd.gangs, true);
}

static size_t bound_of(int gang)
{
	size_t n = 0;

	for (size_t i = 0; i < crowd.n_pods; i++)
		n += crowd.pods[i].gang == gang && crowd.pods[i].state == BOUND;
	return n;
}

/* No gang is partly placed for longer than its time and what it takes to see and to evict. */
static void check(void)
{
	for (int gang = 0; gang < GANGS; gang++) {
		size_t n = bound_of(gang);

		crowd.whole[gang] = n && (crowd.whole[gang] || n == crowd.sizes[gang]);
		if (!n || crowd.whole[gang])
			crowd.partly_since_ns[gang] = 0;
		else if (!crowd.partly_since_ns[gang])
			crowd.partly_since_ns[gang] = crowd.now_ns;
		if (crowd.partly_since_ns[gang])
			assert_true(crowd.now_ns - crowd.partly_since_ns[gang] < 140 * SECOND);
	}
}

static void step(bool kills)
{
	size_t first = crowd.n_pods ? draw((uint32_t)crowd.n_pods) : 0;

	crowd.now_ns += STEP_NS;
	for (size_t i = 0; i < crowd.n_pods; i++)
		advance(&crowd.pods[i]);
	for (size_t i = 0, asked = 0; i < crowd.n_pods && asked < 2; i++) {
		struct crowd_pod *pod = &crowd.pods[(first + i) % crowd.n_pods];

		if (pod->state != QUEUED)
			continue;
		ask(pod);
		asked++;
	}
	carry_out();
	if (crowd.now_ns / STEP_NS % 5 == 0) {
		gangs_look(&crowd.gangs, &crowd.ledger, crowd.now_ns, true);
		carry_out();
		requeue();
		check();
	}
	if (kills && draw(1500) == 0)
		kill_scheduler();
}

static uint64_t draw_gangs(void)
{
	uint64_t demand = 0;

	for (int gang = 0; gang < GANGS; gang++) {
		crowd.sizes[gang] = 2 + draw(MEMBERS_MAX - 1);
		crowd.units[gang] = 1 + draw(GPU_UNITS);
		demand += crowd.sizes[gang] * crowd.units[gang];
	}
	return demand;
}

static size_t count_whole(void)
{
	size_t n = 0;

	for (int gang = 0; gang < GANGS; gang++)
		n += crowd.whole[gang] && !crowd.done[gang];
	return n;
}

/* Whoever waits finds no room, and nothing is held for anybody. */
static void assert_settled(uint64_t capacity)
{
	uint64_t used = 0;

	for (size_t i = 0; i < crowd.n_pods; i++)
		used += crowd.pods[i].state == BOUND ? crowd.pods[i].facts.request.units : 0;
	for (int gang = 0; gang < GANGS; gang++) {
		struct gang_slot slots[MEMBERS_MAX];
		size_t n = 0;

		for (size_t i = 0; i < crowd.n_pods && !crowd.whole[gang]; i++)
			if (crowd.pods[i].gang == gang && crowd.pods[i].state != GONE)
				slots[n++] = (struct gang_slot){.pod = &crowd.pods[i].facts};
		if (!n)
			continue;
		assert_int_equal(bound_of(gang), 0);
		assert_int_equal(gang_plan(&crowd.ledger, slots, n, n), 0);
	}
	print_message("# %zu of %d gangs run at once, %llu of %llu units\n", count_whole(), GANGS,
		(unsigned long long)used, (unsigned long long)capacity);
}

static void finish_one(void)
{
	int left = (int)draw(GANGS);

	for (int i = 0; i < GANGS; i++) {
		int gang = (left + i) % GANGS;

		if (crowd.done[gang] || !crowd.whole[gang] || bound_of(gang) != crowd.sizes[gang])
			continue;
		crowd.done[gang] = true;
		for (size_t k = 0; k < crowd.n_pods; k++)
			if (crowd.pods[k].gang == gang && crowd.pods[k].state != GONE)
				end(&crowd.pods[k]);
		return;
	}
}

static size_t count_done(void)
{
	size_t n = 0;

	for (int gang = 0; gang < GANGS; gang++)
		n += crowd.done[gang];
	return n;
}

static void run_crowd(unsigned seed, bool kills)
{
	uint64_t demand, capacity;

	crowd = (struct crowd){.drawn = seed, .now_ns = 1000 * SECOND};
	demand = draw_gangs();
	crowd.n_nodes = (size_t)(demand * 6 / 10 / (GPUS * GPU_UNITS));
	capacity = crowd.n_nodes * GPUS * GPU_UNITS;
	start();
	for (int gang = 0; gang < GANGS; gang++)
		for (size_t i = 0; i < crowd.sizes[gang]; i++)
			create(gang);
	for (int i = 0; i < 6000; i++)
		step(kills);
	for (int i = 0; i < 15000; i++)
		step(false);
	assert_settled(capacity);
	for (int i = 0; i < 600 && count_done() < GANGS; i++) {
		finish_one();
		for (int k = 0; k < 300; k++)
			step(kills);
	}
	print_message("# %zu gangs have run, after %lld s; %zu kills, %zu pods evicted\n", count_done(),
		(long long)(crowd.now_ns / SECOND - 1000), crowd.kills, crowd.evicted);
	assert_int_equal(count_done(), GANGS);
	for (size_t i = 0; i < crowd.n_pods; i++) {
		pod_facts_release(&crowd.pods[i].facts);
		placement_release(&crowd.pods[i].placement);
	}
	stop();
}

static void all_gangs_run_in_the_end_and_none_in_part(void **state)
{
	run_crowd(1, false);
}

static void so_they_do_while_the_scheduler_is_killed(void **state)
{
	run_crowd(2, true);
	run_crowd(3, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_gangs_run_in_the_end_and_none_in_part),
		cmocka_unit_test(so_they_do_while_the_scheduler_is_killed),
	};

	return cmocka_run_group_tests_name("gang-crowd", tests, NULL, NULL);
}
