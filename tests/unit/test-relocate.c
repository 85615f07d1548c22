/* src/plan/relocate: random clusters, and whether their plans keep what relocate.h promises. The test
 * recounts GPUs, CPU and budgets by itself, and carries the moves out in a second core that has never tried
 * any other move.
 *
 * RATION_SEED (default 1) and RATION_HISTORIES (default 400): cluster i uses the seed RATION_SEED + i. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/events.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "model-fixture.h"
#include "plan/node-change.h"
#include "plan/relocate.h"
#include "state-fixture.h"

#define N_NODES 4
#define N_GPUS 2
#define ALL_GPUS 3u /* the set */
#define N_PODS 24
#define N_BUDGETS 2

/* Only MOVABLE pods may be moved. */
enum kind {
	MOVABLE,
	NO_CONTROLLER,
	DAEMON,
	STATIC,
	GANG,
	CLAIMS,
	STARTING,
	DELETING,
	N_KINDS,
};

struct test_pod {
	char name[16];
	enum kind kind;
	int node, units, cpu, priority; /* node -1: it waits */
	unsigned gpus;			/* a set: bit i for GPU i */
	bool both;			/* it asks for two GPUs of one node */
	bool in_budget[N_BUDGETS];
	bool waited, moved, stateful;
	struct json_object *object;
};

struct cluster {
	uint64_t random, seed;
	int n_nodes, units[N_NODES], cpu[N_NODES];
	enum gpu_policy policy[N_NODES];
	bool cordoned[N_NODES];
	struct test_pod pods[N_PODS];
	int n_pods, allowed[N_BUDGETS], spent[N_BUDGETS];
	struct json_object *nodes[N_NODES];
	struct json_object *objects[N_PODS];
};

static uint64_t draw(struct cluster *c, uint64_t below)
{
	uint64_t z = c->random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) % below;
}

#define must(c, condition, ...)                                                                              \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			print_error("failed with RATION_SEED=%llu RATION_HISTORIES=1\n",                     \
				(unsigned long long)(c)->seed);                                              \
			fail_msg(__VA_ARGS__);                                                               \
		}                                                                                            \
	} while (0)

/* ---- the truth ---- */

static int units_each(const struct test_pod *pod)
{
	return pod->both ? pod->units / 2 : pod->units;
}

static int used(const struct cluster *c, int node, int gpu)
{
	int units = 0;

	for (int i = 0; i < c->n_pods; i++)
		if (c->pods[i].node == node && c->pods[i].gpus >> gpu & 1)
			units += units_each(&c->pods[i]);
	return units;
}

static int cpu_used(const struct cluster *c, int node)
{
	int cpu = 0;

	for (int i = 0; i < c->n_pods; i++)
		if (c->pods[i].node == node)
			cpu += c->pods[i].cpu;
	return cpu;
}

static int64_t whole_free(const struct cluster *c)
{
	int64_t n = 0;

	for (int node = 0; node < c->n_nodes; node++)
		for (int gpu = 0; gpu < N_GPUS; gpu++)
			n += !used(c, node, gpu);
	return n;
}

static struct test_pod *find_pod(struct cluster *c, const char *name)
{
	for (int i = 0; i < c->n_pods; i++)
		if (strcmp(c->pods[i].name, name) == 0)
			return &c->pods[i];
	fail_msg("no pod %s", name);
	return NULL;
}

/* ---- a random cluster ---- */

static struct json_object *parse(const char *text)
{
	struct json_object *object = NULL;

	assert_int_equal(json_parse(text, strlen(text), &object, NULL), 0);
	return object;
}

static void add_labels(const struct test_pod *pod, char *text, size_t size)
{
	snprintf(text, size, "%s%s%s%s%s", pod->in_budget[0] ? "\"b0\":\"yes\"," : "",
		pod->in_budget[1] ? "\"b1\":\"yes\"," : "",
		pod->both ? "\"aliyun.com/gpu-count\":\"2\"," : "",
		pod->kind == GANG && pod->node < 0
			? "\"pod-group.scheduling.sigs.k8s.io/name\":\"w\",\"pod-group.scheduling.sigs.k8s.io/min-available\":\"20\","
		: pod->kind == GANG
			? "\"pod-group.scheduling.sigs.k8s.io/name\":\"g\",\"pod-group.scheduling.sigs.k8s.io/min-available\":\"1\","
			: "",
		"\"app\":\"x\"");
}

/* The annotation ration.dev/placement, as a member of a JSON object. */
static void write_placement(const struct test_pod *pod, char *text, size_t size)
{
	size_t n = (size_t)snprintf(text, size,
		"\"ration.dev/placement\":\"{\\\"unit\\\":1024,\\\"containers\\\":{\\\"main\\\":[");
	const char *comma = "";

	for (int gpu = 0; gpu < N_GPUS; gpu++) {
		if (!(pod->gpus >> gpu & 1))
			continue;
		n += (size_t)snprintf(text + n, size - n,
			"%s{\\\"uuid\\\":\\\"GPU-n%d-%d\\\",\\\"units\\\":%d}", comma, pod->node, gpu,
			units_each(pod));
		comma = ",";
	}
	snprintf(text + n, size - n, "]}}\"");
}

static void make_object(const struct cluster *c, struct test_pod *pod)
{
	char labels[256], owner[160] = "", placement[400] = "", text[2000];
	int age = (int)(pod - c->pods) % 7;

	add_labels(pod, labels, sizeof(labels));
	if (pod->kind != NO_CONTROLLER)
		snprintf(owner, sizeof(owner),
			"\"ownerReferences\":[{\"kind\":\"%s\",\"name\":\"o\",\"uid\":\"o\",\"controller\":true}],",
			pod->kind == DAEMON   ? "DaemonSet"
			: pod->kind == STATIC ? "Node"
			: pod->stateful	      ? "StatefulSet"
					      : "ReplicaSet");
	if (pod->node >= 0)
		write_placement(pod, placement, sizeof(placement));
	snprintf(text, sizeof(text),
		"{\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\",\"uid\":\"%s\",%s%s\"creationTimestamp\":\"2026-05-04T03:02:0%dZ\",\"labels\":{%s},\"annotations\":{%s%s%s}},"
		"\"spec\":{%s%d%s\"priority\":%d,\"preemptionPolicy\":\"Never\",%s\"schedulerName\":\"ack-co-scheduler\",\"containers\":[{\"name\":\"main\",\"resources\":{"
		"\"limits\":{\"aliyun.com/gpu-mem\":\"%d\"},\"requests\":{\"cpu\":\"%d\",\"aliyun.com/gpu-mem\":\"%d\"}}}]},\"status\":{\"phase\":\"%s\"}}",
		pod->name, pod->name, owner,
		pod->kind == DELETING ? "\"deletionTimestamp\":\"2026-05-04T03:03:00Z\"," : "", age, labels,
		placement, *placement && pod->kind == STATIC ? "," : "",
		pod->kind == STATIC ? "\"kubernetes.io/config.mirror\":\"x\"" : "",
		pod->node >= 0 ? "\"nodeName\":\"n" : "\"x\":\"", pod->node, pod->node >= 0 ? "\"," : "\",",
		pod->priority,
		pod->kind == CLAIMS ? "\"resourceClaims\":[{\"name\":\"c\",\"resourceClaimName\":\"c\"}],"
				    : "",
		pod->units, pod->cpu, pod->units,
		pod->node < 0 || pod->kind == STARTING ? "Pending" : "Running");
	pod->object = parse(text);
}

static bool has_room(const struct cluster *c, const struct test_pod *pod, int node, unsigned gpus)
{
	bool room = cpu_used(c, node) + pod->cpu <= c->cpu[node];

	for (int gpu = 0; gpu < N_GPUS; gpu++)
		if (gpus >> gpu & 1)
			room &= used(c, node, gpu) + units_each(pod) <= c->units[node];
	return room;
}

static bool has_room_somewhere(const struct cluster *c, const struct test_pod *pod)
{
	bool room = false;

	for (int node = 0; node < c->n_nodes; node++)
		for (unsigned gpus = pod->both ? ALL_GPUS : 1; gpus <= ALL_GPUS; gpus <<= 1)
			room |= has_room(c, pod, node, gpus);
	return room;
}

/* Takes a random GPU if it has room. Otherwise the pod waits if no GPU has room, or is left out: false. */
static bool draw_place(struct cluster *c, struct test_pod *pod)
{
	int node = (int)draw(c, (uint64_t)c->n_nodes);
	unsigned gpus = pod->both ? ALL_GPUS : 1u << draw(c, N_GPUS);

	pod->node = -1;
	if (!has_room(c, pod, node, gpus))
		return pod->kind != DELETING && !has_room_somewhere(c, pod) && draw(c, 2);
	pod->node = node;
	pod->gpus = gpus;
	return true;
}

/* has_gangs: pods of a gang wait, and it has too few to start. */
static void draw_cluster(struct cluster *c, uint64_t seed, bool has_gangs)
{
	*c = (struct cluster){.random = seed, .seed = seed};
	c->n_nodes = 2 + (int)draw(c, N_NODES - 1);
	for (int i = 0; i < c->n_nodes; i++) {
		char text[300];

		c->units[i] = 6 + (int)draw(c, 5);
		c->cpu[i] = 6 + (int)draw(c, 15);
		c->policy[i] = draw(c, 2) ? GPU_POLICY_BINPACK : GPU_POLICY_SPREAD;
		c->cordoned[i] = draw(c, 8) == 0;
		snprintf(text, sizeof(text),
			"{\"metadata\":{\"name\":\"n%d\"},\"spec\":{\"unschedulable\":%s},\"status\":{\"allocatable\":{\"cpu\":\"%d\",\"pods\":\"50\",\"aliyun.com/gpu-mem\":\"%d\"}}}",
			i, c->cordoned[i] ? "true" : "false", c->cpu[i], N_GPUS * c->units[i]);
		c->nodes[i] = parse(text);
	}
	for (int i = 0; i < N_BUDGETS; i++)
		c->allowed[i] = (int)draw(c, 3);
	for (int n = 6 + (int)draw(c, N_PODS - 6); c->n_pods < n;) {
		struct test_pod *pod = &c->pods[c->n_pods];

		snprintf(pod->name, sizeof(pod->name), "p%d", c->n_pods);
		pod->kind = draw(c, 4) ? MOVABLE : (enum kind)draw(c, N_KINDS);
		pod->both = draw(c, 4) == 0;
		pod->units = pod->both ? 2 + 2 * (int)draw(c, 4) : 1 + (int)draw(c, 7);
		pod->cpu = 1 + (int)draw(c, 2);
		pod->priority = draw(c, 3) ? 0 : 5;
		for (int k = 0; k < N_BUDGETS; k++)
			pod->in_budget[k] = draw(c, 3) == 0;
		pod->node = -1;
		if (!draw_place(c, pod)) {
			n--;
			continue;
		}
		/* A gang that waits is tried as a whole: tests/component/test_plan_gangs.py. */
		if (pod->kind == GANG && pod->node < 0 && !has_gangs)
			pod->kind = MOVABLE;
		if (has_gangs && pod->node < 0 && draw(c, 2))
			pod->kind = GANG;
		pod->waited = pod->node < 0;
		pod->stateful = draw(c, 3) == 0;
		make_object(c, pod);
		c->objects[c->n_pods++] = pod->object;
	}
}

static void release_cluster(struct cluster *c)
{
	for (int i = 0; i < c->n_nodes; i++)
		json_object_put(c->nodes[i]);
	for (int i = 0; i < c->n_pods; i++)
		json_object_put(c->pods[i].object);
}

/* ---- the same cluster as a world ---- */

static void see_budgets(const struct cluster *c, struct core *core)
{
	static const char *const keys[N_BUDGETS] = {"b0", "b1"};

	for (int i = 0; i < N_BUDGETS; i++) {
		struct budget *budget = calloc(1, sizeof(*budget));

		budget->uid = strdup(keys[i]);
		budget->name = strdup(keys[i]);
		budget->namespace_ = strdup("default");
		budget->allowed = c->allowed[i];
		assert_int_equal(selector_require(&budget->selector, keys[i], SELECTOR_EXISTS, NULL, 0), 0);
		assert_int_equal(core_see_budget(core, budget), 0);
	}
}

static void node_facts_of(const struct cluster *c, int node, struct node_facts *ret_facts)
{
	uint32_t units[N_GPUS] = {(uint32_t)c->units[node], (uint32_t)c->units[node]};
	char name[16];

	snprintf(name, sizeof(name), "n%d", node);
	fixture_node(ret_facts, name, c->policy[node], N_GPUS, units);
	ret_facts->host.cpu_milli = (uint32_t)c->cpu[node] * 1000;
	ret_facts->host.memory_mib = 65536;
}

static void see_cluster(const struct cluster *c, struct core *core)
{
	core_init(core, NULL);
	for (int i = 0; i < c->n_nodes; i++) {
		_cleanup_node_facts_ struct node_facts facts;

		node_facts_of(c, i, &facts);
		assert_int_equal(core_see_node(core, &facts), 0);
	}
	for (int i = 0; i < c->n_pods; i++) {
		_cleanup_pod_facts_ struct pod_facts facts;
		struct error err = {""};

		pod_facts_init(&facts);
		must(c, pod_facts_from_json(c->objects[i], &facts, &err) == 0, "%s", err.text);
		must(c, core_see_pod(core, &facts, 0, 1) >= 0, "pod %s", c->pods[i].name);
	}
	see_budgets(c, core);
}

static void see_kube(const struct cluster *c, struct kube_nodes *kube)
{
	kube_nodes_init(kube);
	for (int i = 0; i < c->n_nodes; i++)
		assert_int_equal(kube_nodes_see_node(kube, c->nodes[i]), 0);
	for (int i = 0; i < c->n_pods; i++)
		assert_int_equal(kube_nodes_see_pod(kube, c->objects[i]), 0);
}

/* ---- the state, with the names of pods in place of their uids ---- */

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_texts(struct json_object *list)
{
	size_t n = json_count(list);
	char *texts[N_PODS];

	assert_true(n <= N_PODS);
	for (size_t i = 0; i < n; i++)
		texts[i] = strdup(json_object_get_string(json_object_array_get_idx(list, i)));
	qsort(texts, n, sizeof(*texts), compare_texts);
	for (size_t i = 0; i < n; i++) {
		json_object_array_put_idx(list, i, json_object_new_string(texts[i]));
		free(texts[i]);
	}
}

static const char *name_of(struct core *core, const char *uid)
{
	const struct ledger_pod *pod = ledger_pod(&core->ledger, uid);

	return pod ? pod->facts.name : uid;
}

/* Leaves out what counts how much has happened, and in which order pods came to their node. */
static struct json_object *comparable_line(struct core *core, const char *line)
{
	struct json_object *parsed = parse(line), *facts = json_member(json_member(parsed, "pod"), "facts"),
			   *pods = json_member(json_member(parsed, "order"), "pods"),
			   *ledger = json_member(parsed, "ledger"),
			   *policies = json_member(parsed, "policies"),
			   *requeue = json_member(parsed, "requeue");

	if (!facts)
		facts = json_member(json_member(parsed, "gangMember"), "facts");
	if (!pods)
		pods = json_member(json_member(parsed, "gangOrder"), "members");
	if (facts)
		json_set(facts, "uid", json_object_new_string(json_member_string(facts, "name")));
	for (size_t i = 0; i < json_count(pods); i++)
		json_object_array_put_idx(pods, i,
			json_object_new_string(
				name_of(core, json_object_get_string(json_object_array_get_idx(pods, i)))));
	if (pods)
		sort_texts(pods);
	if (ledger) {
		json_object_object_del(ledger, "generation");
		json_object_object_del(ledger, "capacity");
	}
	if (requeue)
		json_object_object_del(requeue, "nextOrder");
	if (policies)
		json_object_object_del(policies, "nodesGeneration");
	return parsed;
}

static char *comparable_state(struct core *core)
{
	_cleanup_free_ char *text = state_text(core);
	char *joined = calloc(1, 2 * strlen(text) + 1), *lines[512], *rest = NULL;
	size_t n = 0;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		_cleanup_json_ struct json_object *parsed = comparable_line(core, line);

		if (json_member(parsed, "forgotten"))
			continue;
		assert_true(n < ARRAY_SIZE(lines));
		lines[n++] = strdup(json_text(parsed));
	}
	qsort(lines, n, sizeof(*lines), compare_texts);
	for (size_t i = 0; i < n; i++) {
		strcat(strcat(joined, lines[i]), "\n");
		free(lines[i]);
	}
	return joined;
}

/* ---- the moves, carried out in a core that has tried nothing else ---- */

struct replay {
	struct cluster *c;
	struct core core;
	struct kube_nodes kube;
	struct plan_world world;
	struct plan_moves order;
	size_t number;
	int node; /* of the pod that was tried last */
	unsigned gpus;
};

static unsigned gpus_of(const struct replay *replay, const struct plan_outcome *outcome)
{
	const struct gpu_share *shares[NODE_GPUS_MAX];
	size_t n = placement_gpus(&outcome->placement, shares);
	unsigned gpus = 0;

	for (size_t i = 0; i < n; i++)
		gpus |= 1u << plan_gpu_index(&replay->world, outcome->node, shares[i]->uuid);
	return gpus;
}

/* The pod waits, and is known to the core. The notes of a failed attempt are removed. */
static bool try_pod(struct replay *replay, struct json_object *object)
{
	_cleanup_plan_outcome_ struct plan_outcome outcome = {0};
	struct plan_pod pod = {0};
	struct error err = {""};
	bool placed;

	must(replay->c, plan_pod_read(object, 0, &pod, &err) == 0, "%s", err.text);
	must(replay->c, plan_place(&replay->world, &pod, &outcome, &err) == 0, "%s", err.text);
	placed = outcome.placed;
	if (placed) {
		replay->node = atoi(outcome.node + 1);
		replay->gpus = gpus_of(replay, &outcome);
	} else {
		requeue_list_leave(&replay->core.requeues, pod.facts.uid);
	}
	plan_pod_release(&pod);
	return placed;
}

/* The pod that a controller creates in the place of this one, which waits. */
static struct json_object *create_next(struct replay *replay, struct json_object *object)
{
	struct json_object *next = plan_replacement(object);
	struct plan_pod pod = {0};
	struct error err = {""};

	must(replay->c, plan_pod_read(next, 1000 + ++replay->number, &pod, &err) == 0, "%s", err.text);
	assert_int_equal(core_see_pod(&replay->core, &pod.facts, 0, 1), 0);
	plan_pod_release(&pod);
	return next;
}

/* The pods that run after an eviction. */
struct result {
	bool again; /* the pod that was evicted runs again */
	struct test_pod *runs[N_PODS];
	size_t n;
};

/* kube-scheduler tries the pods that wait from *next on down to this priority. */
static void try_waiting(struct replay *replay, int lowest, size_t *next, struct result *result)
{
	for (; *next < replay->order.n && replay->order.list[*next].priority >= lowest; (*next)++) {
		struct test_pod *pod = find_pod(replay->c, replay->order.list[*next].name);

		if (pod->node >= 0 || !try_pod(replay, pod->object))
			continue;
		pod->node = replay->node;
		pod->gpus = replay->gpus;
		result->runs[result->n++] = pod;
	}
}

static void set_health(struct replay *replay, int node, unsigned gpus, bool healthy)
{
	_cleanup_node_facts_ struct node_facts facts;

	node_facts_of(replay->c, node, &facts);
	for (int gpu = 0; gpu < N_GPUS; gpu++)
		if (gpus >> gpu & 1)
			facts.gpus[gpu].healthy = healthy;
	assert_int_equal(core_see_node(&replay->core, &facts), 0);
}

/* The pod's GPUs are cordoned until the new pod is bound. */
static void evict(struct replay *replay, struct test_pod *pod, struct result *result)
{
	_cleanup_quantities_ struct quantities requests = {0};
	_cleanup_json_ struct json_object *next_pod = NULL;
	const struct test_pod old = *pod;
	struct test_pod new;
	char node[16];
	size_t next = 0;

	*result = (struct result){0};
	snprintf(node, sizeof(node), "n%d", pod->node);
	assert_int_equal(quantities_of_pod(pod->object, &requests), 0);
	set_health(replay, old.node, old.gpus, false);
	/* The new pod of a ReplicaSet is tried while the old one ends. */
	if (!pod->stateful)
		next_pod = create_next(replay, pod->object);
	result->again = next_pod && try_pod(replay, next_pod);
	new = (struct test_pod){.node = replay->node, .gpus = replay->gpus};
	assert_int_equal(kube_nodes_remove(&replay->kube, node, &requests), 0);
	assert_int_equal(core_pod_is_gone(&replay->core, pod->name, true, 1), 0);
	pod->node = N_NODES; /* it is on no GPU meanwhile, and is not one of those that waited */
	if (!next_pod)
		next_pod = create_next(replay, pod->object);
	if (!result->again) {
		try_waiting(replay, pod->priority, &next, result);
		result->again = try_pod(replay, next_pod);
		new = (struct test_pod){.node = replay->node, .gpus = replay->gpus};
	}
	set_health(replay, old.node, old.gpus, true);
	if (!result->again)
		return;
	pod->node = new.node;
	pod->gpus = new.gpus;
	next = 0;
	try_waiting(replay, INT32_MIN, &next, result);
}

static bool is_at(const struct replay *replay, const struct test_pod *pod, const struct plan_outcome *outcome)
{
	return atoi(outcome->node + 1) == pod->node && gpus_of(replay, outcome) == pod->gpus;
}

static void carry_out(struct replay *replay, const struct relocation *move)
{
	struct cluster *c = replay->c;
	struct test_pod *pod = find_pod(c, move->name);
	int64_t whole = whole_free(c);
	struct result result;

	must(c, is_at(replay, pod, &move->from), "%s is not where the plan says", pod->name);
	evict(replay, pod, &result);
	must(c, result.again, "%s waits after its move", pod->name);
	must(c, is_at(replay, pod, &move->to), "%s does not go where the plan says", pod->name);
	must(c, result.n == move->runs.n, "%zu pods run after %s is moved, and not %zu", result.n, pod->name,
		move->runs.n);
	for (size_t i = 0; i < result.n; i++)
		must(c,
			strcmp(result.runs[i]->name, move->runs.list[i].name) == 0 &&
				is_at(replay, result.runs[i], &move->runs.list[i].outcome),
			"%s does not run where the plan says", result.runs[i]->name);
	must(c, whole_free(c) - whole == move->whole, "%s: not as many whole GPUs", pod->name);
}

static void begin_replay(struct replay *replay, struct cluster *c)
{
	*replay = (struct replay){.c = c};
	see_cluster(c, &replay->core);
	see_kube(c, &replay->kube);
	replay->world = (struct plan_world){.core = &replay->core, .kube = &replay->kube, .now_ns = 1};
	assert_int_equal(plan_list_waiting(c->objects, (size_t)c->n_pods, &replay->order), 0);
}

static void end_replay(struct replay *replay)
{
	plan_moves_release(&replay->order);
	kube_nodes_release(&replay->kube);
	core_release(&replay->core);
}

/* ---- what must hold ---- */

static bool may_be_moved(const struct cluster *c, const struct test_pod *pod)
{
	bool may = pod->kind == MOVABLE && pod->node >= 0 && !pod->waited && !pod->moved &&
		   !(pod->in_budget[0] && pod->in_budget[1]);

	for (int i = 0; i < N_BUDGETS; i++)
		may &= !pod->in_budget[i] || c->spent[i] < c->allowed[i];
	return may;
}

static void check_pod(struct cluster *c, const struct relocation *move)
{
	struct test_pod *pod = find_pod(c, move->name);

	must(c, may_be_moved(c, pod), "%s must not be moved: it is of kind %d", pod->name, pod->kind);
	for (int i = 0; i < N_BUDGETS; i++)
		c->spent[i] += pod->in_budget[i];
	pod->moved = true;
}

/* All moves are tried, each in a cluster of its own: whether one of them lets a pod run, and whether one
 * makes a GPU free. */
static void find_gains(const struct cluster *c, bool *ret_runs, bool *ret_whole)
{
	*ret_runs = *ret_whole = false;
	for (int i = 0; i < c->n_pods; i++) {
		struct cluster copy = *c;
		struct replay replay;
		struct result result;

		if (!may_be_moved(c, &c->pods[i]))
			continue;
		begin_replay(&replay, &copy);
		evict(&replay, &copy.pods[i], &result);
		*ret_runs |= result.again && result.n;
		*ret_whole |= result.again && whole_free(&copy) > whole_free(c);
		end_replay(&replay);
	}
}

static void check_first(const struct cluster *c, const struct relocations *moves)
{
	bool runs, whole;

	find_gains(c, &runs, &whole);
	if (runs)
		must(c, moves->n && moves->list[0].runs.n, "a move lets a pod run, and is not the first");
	else if (whole)
		must(c, moves->n && moves->list[0].whole > 0,
			"a move makes a GPU free, and is not the first");
	else if (moves->n)
		must(c, !moves->list[0].runs.n && moves->list[0].whole == 0, "the first move");
}

static void check_sums(const struct cluster *c, const char *moved)
{
	for (int node = 0; node < c->n_nodes; node++) {
		must(c, cpu_used(c, node) <= c->cpu[node], "node %d has too little CPU after %s", node,
			moved);
		for (int gpu = 0; gpu < N_GPUS; gpu++)
			must(c, used(c, node, gpu) <= c->units[node],
				"GPU %d of node %d is over its total after %s", gpu, node, moved);
	}
}

static size_t count_waiting(const struct cluster *c)
{
	size_t n = 0;

	for (int i = 0; i < c->n_pods; i++)
		n += c->pods[i].node < 0;
	return n;
}

static const char *first_difference(const char *a, const char *b)
{
	size_t at = 0, line = 0;

	for (; a[at] && a[at] == b[at]; at++)
		if (a[at] == '\n')
			line = at + 1;
	print_error("%.*s\n", 600, a + line);
	return b + line;
}

static void check_end(struct replay *replay, struct core *planned, const struct kube_nodes *kube,
	const struct relocations *moves)
{
	_cleanup_free_ char *ours = comparable_state(&replay->core), *its = comparable_state(planned);
	const struct kube_node *node;

	must(replay->c, moves->waits == count_waiting(replay->c), "%zu pods wait at the end, not %zu",
		count_waiting(replay->c), moves->waits);
	must(replay->c, moves->whole == whole_free(replay->c), "%d whole GPUs are free, not %d",
		(int)whole_free(replay->c), (int)moves->whole);
	must(replay->c, !moves->n || moves->list[moves->n - 1].runs.n || moves->list[moves->n - 1].whole > 0,
		"the last move gains nothing");
	if (moves->dropped)
		return;
	table_for_each (&replay->kube.by_name, cursor, node) {
		const struct kube_node *other = kube_nodes_find(kube, node->name);

		must(replay->c,
			node->pods == other->pods && quantities_get(&node->requested, "cpu") ==
							     quantities_get(&other->requested, "cpu"),
			"node %s has other pods", node->name);
	}
	must(replay->c, strcmp(ours, its) == 0, "what was tried and taken back is still in the core: %.*s",
		600, first_difference(ours, its));
}

struct seen {
	unsigned moves, runs, freed, prepared, at_max, untouched, budgets;
};

static void note(const struct cluster *c, const struct relocations *moves, size_t max, struct seen *seen)
{
	seen->at_max += moves->n == max;
	seen->untouched += !moves->n && !moves->dropped && moves->tried;
	seen->moves += (unsigned)moves->n;
	for (size_t i = 0; i < moves->n; i++) {
		seen->runs += moves->list[i].runs.n > 0;
		seen->freed += moves->list[i].whole > 0;
		seen->prepared += !moves->list[i].runs.n && !moves->list[i].whole;
	}
	for (int i = 0; i < N_BUDGETS; i++)
		seen->budgets += c->spent[i] && c->spent[i] == c->allowed[i];
}

static void plan_cluster(uint64_t seed, struct seen *seen)
{
	struct cluster c;
	struct core core;
	struct kube_nodes kube;
	struct replay replay;
	struct plan_world world = {.core = &core, .kube = &kube, .now_ns = 1};
	struct relocations moves = {0};
	struct error err = {""};
	size_t max, waits;

	draw_cluster(&c, seed, false);
	max = 1 + draw(&c, 6);
	see_cluster(&c, &core);
	see_kube(&c, &kube);
	begin_replay(&replay, &c);
	must(&c, plan_relocate(&world, c.objects, (size_t)c.n_pods, max, NULL, NULL, &moves, &err) == 0, "%s",
		err.text);
	must(&c, moves.n + moves.dropped <= max, "%zu moves, and at most %zu were asked for", moves.n, max);
	must(&c, !moves.fits_now && moves.waited == count_waiting(&c) && moves.whole_before == whole_free(&c),
		"the beginning");
	check_first(&c, &moves);
	for (size_t i = 0; i < moves.n; i++) {
		waits = count_waiting(&c);
		check_pod(&c, &moves.list[i]);
		carry_out(&replay, &moves.list[i]);
		check_sums(&c, moves.list[i].name);
		must(&c, count_waiting(&c) <= waits, "more pods wait after %s", moves.list[i].name);
	}
	check_end(&replay, &core, &kube, &moves);
	note(&c, &moves, max, seen);
	relocations_release(&moves);
	end_replay(&replay);
	kube_nodes_release(&kube);
	core_release(&core);
	release_cluster(&c);
}

static uint64_t number_from_environment(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void a_random_plan_keeps_its_promises(void **state)
{
	uint64_t seed = number_from_environment("RATION_SEED", 1),
		 n = number_from_environment("RATION_HISTORIES", 1000);
	struct seen seen = {0};

	for (uint64_t i = 0; i < n; i++)
		plan_cluster(seed + i, &seen);
	print_message(
		"# %u moves: pods run after %u, GPUs are free after %u, %u prepare; %u plans at --max, %u without a move, %u budgets used up\n",
		seen.moves, seen.runs, seen.freed, seen.prepared, seen.at_max, seen.untouched, seen.budgets);
	if (n >= 400)
		assert_true(seen.runs > 20 && seen.freed > 20 && seen.prepared && seen.at_max > 20 &&
			    seen.untouched > 20 && seen.budgets > 10);
}

/* Otherwise nodes are compared by means that count the cordoned GPUs as free. */
static void a_cordon_counts_in_all_sums(void **state)
{
	struct cluster c;
	struct core core;
	struct plan_world world = {.core = &core, .now_ns = 1};
	int n = 0;

	draw_cluster(&c, 1, false);
	see_cluster(&c, &core);
	for (int i = 0; i < c.n_pods; i++) {
		const struct ledger_pod *pod = ledger_pod(&core.ledger, c.pods[i].name);
		uint64_t gpus;

		if (c.pods[i].node < 0)
			continue;
		assert_int_equal(plan_cordon_gpus(&world, pod->node, &pod->placement, &gpus), 0);
		assert_int_equal(gpus, c.pods[i].gpus);
		assert_int_equal(ledger_check(&core.ledger, NULL), 0);
		assert_int_equal(plan_uncordon_gpus(&world, pod->node, gpus), 0);
		assert_int_equal(ledger_check(&core.ledger, NULL), 0);
		n++;
	}
	assert_true(n > 3);
	core_release(&core);
	release_cluster(&c);
}

/* Gangs that cannot start are tried with every move. */
static void nothing_is_left_of_gangs_that_were_tried(void **state)
{
	unsigned compared = 0, tried = 0;

	for (uint64_t seed = 1; seed <= 400; seed++) {
		struct cluster c;
		struct core core, fresh;
		struct kube_nodes kube;
		struct plan_world world = {.core = &core, .kube = &kube, .now_ns = 1};
		struct relocations moves = {0};
		struct error err = {""};

		draw_cluster(&c, seed, true);
		see_cluster(&c, &core);
		see_cluster(&c, &fresh);
		see_kube(&c, &kube);
		must(&c, plan_relocate(&world, c.objects, (size_t)c.n_pods, 1, NULL, NULL, &moves, &err) == 0,
			"%s", err.text);
		tried += moves.tried > 0;
		if (!moves.n && !moves.dropped) {
			_cleanup_free_ char *before = comparable_state(&fresh),
					    *after = comparable_state(&core);

			must(&c, strcmp(before, after) == 0,
				"a gang that was tried is still in the core: %.*s", 600,
				first_difference(before, after));
			compared += moves.tried && core.gangs.by_uid.count;
		}
		relocations_release(&moves);
		kube_nodes_release(&kube);
		core_release(&core);
		core_release(&fresh);
		release_cluster(&c);
	}
	print_message("# %u plans without a move of %u with one that was tried\n", compared, tried);
	assert_true(compared > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cordon_counts_in_all_sums),
		cmocka_unit_test(a_random_plan_keeps_its_promises),
		cmocka_unit_test(nothing_is_left_of_gangs_that_were_tried),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
