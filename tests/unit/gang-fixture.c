#include "gang-fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "core/placement/decide.h"
#include "model-fixture.h"

#define PODS_MAX 64

static struct pod_facts pods[PODS_MAX];
static size_t n_pods;

int scene_open(void **state)
{
	static struct scene scene;

	scene = (struct scene){.now_ns = 1000 * SECOND};
	ledger_init(&scene.ledger);
	requeue_list_init(&scene.requeues);
	gangs_init(&scene.gangs,
		&(struct gang_rules){.keep_after_ns = 300 * SECOND, .timeout_ns = 60 * SECOND},
		&scene.requeues);
	*state = &scene;
	return 0;
}

int scene_close(void **state)
{
	struct scene *scene = *state;
	size_t over = 0;

	assert_int_equal(ledger_check(&scene->ledger, &over), 0);
	gangs_release(&scene->gangs);
	requeue_list_release(&scene->requeues);
	ledger_release(&scene->ledger);
	for (size_t i = 0; i < n_pods; i++)
		pod_facts_release(&pods[i]);
	n_pods = 0;
	return 0;
}

void scene_node(struct scene *scene, const char *name, uint32_t units)
{
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, name, GPU_POLICY_BINPACK, 1, &units);
	assert_int_equal(ledger_set_node(&scene->ledger, &facts), 0);
}

void scene_nodes(struct scene *scene, size_t n, uint32_t units)
{
	char name[24];

	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "n%zu", i);
		scene_node(scene, name, units);
	}
	scene_wait(scene, 0);
}

struct pod_facts *scene_facts(struct scene *scene, const char *uid)
{
	for (size_t i = 0; i < n_pods; i++)
		if (strcmp(pods[i].uid, uid) == 0)
			return &pods[i];
	fail_msg("no pod %s", uid);
	return NULL;
}

void scene_show(struct scene *scene, const char *uid)
{
	assert_int_equal(ledger_set_pod(&scene->ledger, scene_facts(scene, uid)), 0);
	assert_int_equal(
		gangs_see_pod(&scene->gangs, &scene->ledger, scene_facts(scene, uid), true, scene->now_ns),
		0);
}

void scene_pod(struct scene *scene, const char *uid, const char *gang, uint32_t min, uint32_t units)
{
	struct pod_facts *pod = &pods[n_pods++];

	assert_true(n_pods <= PODS_MAX);
	fixture_pod(pod, uid, units, gang ? gang : "");
	free(pod->namespace_);
	pod->namespace_ = strdup("default");
	pod->gang = gang ? strdup(gang) : NULL;
	pod->gang_min = min;
	pod->created = (int64_t)n_pods;
	scene_show(scene, uid);
}

void scene_pods(struct scene *scene, const char *const *uids, size_t n, const char *gang, uint32_t min,
	uint32_t units)
{
	for (size_t i = 0; i < n; i++)
		scene_pod(scene, uids[i], gang, min, units);
}

struct scene *scene_gang(struct scene *scene, size_t nodes, size_t members, uint32_t min)
{
	char uid[24];

	scene_nodes(scene, nodes, 10);
	for (size_t i = 0; i < members; i++) {
		snprintf(uid, sizeof(uid), "u%zu", i);
		scene_pod(scene, uid, "g", min, 5);
	}
	return scene;
}

static void add_order(struct scene *scene, const char *what, const char *uid)
{
	size_t len = strlen(scene->orders);

	snprintf(scene->orders + len, sizeof(scene->orders) - len, "%s:%s ", what, uid);
}

static void collect_orders(struct scene *scene)
{
	static const char *const names[] = {[GANG_GO] = "go",
		[GANG_TURN_AWAY] = "away",
		[GANG_EVICT] = "evict",
		[GANG_UNMARK] = "unmark",
		[GANG_RECALL] = "recall"};
	struct gang_order *order;

	while ((order = gangs_next_order(&scene->gangs))) {
		add_order(scene, names[order->kind], order->uid);
		gang_order_free(order);
	}
}

static void collect_requeues(struct scene *scene)
{
	const struct pod_facts *due[REQUEUES_PER_LOOK];
	size_t n = requeue_list_look(
		&scene->requeues, &scene->ledger, scene->now_ns, due, &scene->requeues_again_ns);

	for (size_t i = 0; i < n; i++)
		add_order(scene, "nudge", due[i]->uid);
}

static enum gang_answer ask(struct scene *scene, const char *uid, const char *const *names, size_t n)
{
	enum gang_answer answer;

	scene->node = scene->text = "";
	answer = gangs_filter(&scene->gangs, &scene->ledger, scene_facts(scene, uid), names, n, scene->now_ns,
		&scene->node, &scene->text);
	collect_orders(scene);
	assert_int_equal(ledger_check(&scene->ledger, NULL), 0);
	return answer;
}

enum gang_answer scene_ask(struct scene *scene, const char *uid)
{
	const char *names[64];
	size_t n = 0, cursor = 0;

	while (table_next(&scene->ledger.nodes, &cursor, &names[n], NULL))
		n++;
	return ask(scene, uid, names, n);
}

enum gang_answer scene_ask_for(struct scene *scene, const char *uid, const char *node)
{
	return ask(scene, uid, &node, 1);
}

void scene_bind(struct scene *scene, const char *uid, const char *node)
{
	assert_true(gangs_bind(&scene->gangs, &scene->ledger, uid, node, scene->now_ns));
	collect_orders(scene);
	assert_int_equal(ledger_check(&scene->ledger, NULL), 0);
}

void scene_ask_and_bind(struct scene *scene, const char *uid)
{
	assert_int_equal(scene_ask(scene, uid), GANG_NODE);
	scene_bind(scene, uid, scene->node);
}

void scene_all_at_bind(struct scene *scene, const char *const *uids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		scene_ask_and_bind(scene, uids[i]);
}

void scene_sent(struct scene *scene, const char *uid)
{
	_cleanup_placement_ struct placement placement;

	placement_init(&placement);
	assert_int_equal(decide_reserve(&scene->ledger, scene_facts(scene, uid),
				 ledger_pod(&scene->ledger, uid)->node, &placement),
		FITS);
	gangs_sent(&scene->gangs, uid);
}

void scene_bound(struct scene *scene, const char *uid, bool forming)
{
	const struct ledger_pod *known = ledger_pod(&scene->ledger, uid);
	struct pod_facts *facts = scene_facts(scene, uid);
	char uuid[32], node[16];

	assert_non_null(known->node);
	snprintf(node, sizeof(node), "%s", known->node);
	snprintf(uuid, sizeof(uuid), "GPU-%s-0", node);
	fixture_bind(facts, node, uuid);
	facts->gang_forming = forming;
	requeue_list_leave(&scene->requeues, uid);
	scene_show(scene, uid);
}

void scene_occupy(struct scene *scene, const char *uid, uint32_t units, const char *node)
{
	const struct pod_facts *pod;
	struct placement placement;

	scene_pod(scene, uid, NULL, 0, units);
	pod = scene_facts(scene, uid);
	assert_int_equal(ledger_choose(&scene->ledger, node, pod, &placement), FITS);
	assert_int_equal(ledger_hold(&scene->ledger, pod, node, &placement, INT64_MAX), 0);
	placement_release(&placement);
	scene_bound(scene, uid, false);
}

void scene_bound_together(struct scene *scene, const char *const *uids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		scene_ask_and_bind(scene, uids[i]);
	for (size_t i = 0; i < n; i++)
		scene_sent(scene, uids[i]);
	for (size_t i = 0; i < n; i++)
		scene_bound(scene, uids[i], false);
	scene_wait(scene, 0);
	scene_orders(scene);
}

void scene_delete(struct scene *scene, const char *uid)
{
	ledger_remove_pod(&scene->ledger, uid);
	requeue_list_leave(&scene->requeues, uid);
	gangs_forget_pod(&scene->gangs, uid);
	collect_orders(scene);
}

int64_t scene_wait(struct scene *scene, int64_t ns)
{
	int64_t again_ns;

	scene->now_ns += ns;
	again_ns = gangs_look(&scene->gangs, &scene->ledger, scene->now_ns, true);
	collect_orders(scene);
	collect_requeues(scene);
	assert_int_equal(ledger_check(&scene->ledger, NULL), 0);
	return again_ns;
}

const char *scene_orders(struct scene *scene)
{
	static char orders[sizeof(scene->orders)];

	memcpy(orders, scene->orders, sizeof(orders));
	scene->orders[0] = '\0';
	return orders;
}

const char *scene_held(struct scene *scene, const char *uid)
{
	const struct ledger_pod *known = ledger_pod(&scene->ledger, uid);

	return known && known->occupancy == OCCUPANCY_TENTATIVE ? known->node : "";
}
