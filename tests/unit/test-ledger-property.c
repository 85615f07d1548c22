/* Random histories of a small cluster against the ledger.
 *
 * The truth is what the API server holds; the ledger sees it late, twice and in any order across objects, and
 * makes its own reservations meanwhile. After every step the test recounts everything by its own naive rules
 * ("expect" below), which share no code with the ledger.
 *
 * RATION_SEED (default 1) and RATION_HISTORIES (default 2000): history i uses the seed RATION_SEED + i.
 */
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
#include "core/registry/resize.h"
#include "model-fixture.h"

#define N_NODES 3
#define N_GPUS 3
#define N_PODS 24
#define N_STEPS 160
#define N_SHOWN 8
#define N_SIZES 4
#define N_NUMBERS (2 * N_GPUS) /* each GPU and its replacement */
#define NOWHERE (-1)
/* One node is isolated, with computing power: so many containers may be on a GPU at once. */
#define ISOLATED_NODE 2
#define ISOLATED_MAX 3

/* GPU numbers of one node; a pod is on as many as it asks for. */
typedef unsigned gpuset;
#define NO_GPUS 0u

/* How the API server shows a pod at one moment. NO_GPUS with a node: bound past the scheduler. */
struct snapshot {
	int node;
	gpuset gpus;
	int size; /* how often it was resized */
	bool finished, deleting, assigned, running, deleted;
};

enum expectation { EXPECT_NOTHING, EXPECT_HELD, EXPECT_RESERVED, EXPECT_BOUND, EXPECT_ORPHAN };
enum binding { BINDING_NONE, BINDING_SENT, BINDING_ACCEPTED, BINDING_REFUSED };

struct test_pod {
	char uid[16];
	uint32_t wanted;			    /* GPUs */
	uint32_t second_units, init_units;	    /* on each of them */
	uint32_t main_units[N_SIZES];		    /* likewise, by size: only they are changed */
	uint32_t main_core, second_core, init_core; /* percent; of pods on one GPU */
	int owner;
	struct snapshot shown[N_SHOWN]; /* the history of the truth; the last is the truth now */
	int n_shown, delivered;		/* how many of them the ledger has seen, newest first to count */
	enum binding binding;
	int binding_node;
	gpuset binding_gpus;
	/* what the ledger should say */
	enum expectation expect;
	int node;
	gpuset gpus;
	int64_t expires;  /* of an orphan 0 while its node lists it */
	int size, target; /* the size that the ledger knows; the one on its way, 0: none */
	enum binding patch;
	int patch_size;
	bool ended;
	bool seen_running;
	bool from_held; /* the ledger knows it from its node only, as one container */
	/* on its node */
	bool alive;	  /* containers run although it is deleted */
	bool agent_knows; /* that it is deleted */
};

struct test_gpu {
	uint32_t units;
	bool healthy;
	int number; /* its UUID; another number is another GPU */
};

struct test_node {
	bool exists;
	int uid;
	struct test_gpu gpus[N_GPUS];
	int reports; /* how often the agent has written held; 0: never */
	enum held_verdict held[N_PODS];
};

struct world {
	uint64_t random, seed;
	bool clean; /* only the ledger's own placements, no GPU shrinks or is replaced */
	struct ledger ledger;
	struct test_node truth[N_NODES], view[N_NODES]; /* as it is; as the ledger was told */
	struct test_pod pods[N_PODS];
	int n_pods;
	int64_t now;
};

static uint64_t draw(struct world *w, uint64_t below)
{
	uint64_t z = w->random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) % below;
}

static bool one_in(struct world *w, uint64_t n)
{
	return draw(w, n) == 0;
}

#define fail_history(w, ...)                                                                                 \
	do {                                                                                                 \
		print_error(                                                                                 \
			"failed with RATION_SEED=%llu RATION_HISTORIES=1\n", (unsigned long long)(w)->seed); \
		fail_msg(__VA_ARGS__);                                                                       \
	} while (0)

/* Names. */

static const char *node_name(int node, char buf[16])
{
	snprintf(buf, 16, "n%d", node);
	return buf;
}

static uint32_t count(gpuset gpus)
{
	return (uint32_t)__builtin_popcount(gpus);
}

static bool holds(gpuset gpus, int number)
{
	return gpus >> number & 1;
}

/* n different numbers below `below`. */
static gpuset draw_gpus(struct world *w, uint32_t n, uint64_t below)
{
	gpuset gpus = NO_GPUS;

	while (count(gpus) < n)
		gpus |= 1u << draw(w, below);
	return gpus;
}

static bool all_exist(gpuset gpus)
{
	return gpus != NO_GPUS && gpus < 1u << N_GPUS;
}

static const char *gpu_uuid(int node, int number, char buf[32])
{
	snprintf(buf, 32, "GPU-%d-%d", node, number);
	return buf;
}

/* On each of its GPUs. */
static uint32_t units_of(const struct test_pod *pod, uint32_t main_units)
{
	uint32_t running = main_units + pod->second_units;

	return running > pod->init_units ? running : pod->init_units;
}

static uint32_t pod_core(const struct test_pod *pod)
{
	uint32_t running = pod->main_core + pod->second_core;

	return running > pod->init_core ? running : pod->init_core;
}

/* The larger of what it has and of what is on its way. */
static uint32_t pod_units(const struct test_pod *pod)
{
	uint32_t now = pod->main_units[pod->size], then = pod->main_units[pod->target];

	return units_of(pod, pod->target && then > now ? then : now);
}

static uint32_t units_shown(const struct test_pod *pod, const struct snapshot *s)
{
	return units_of(pod, pod->main_units[s->size]);
}

static const struct snapshot *truth_of(const struct test_pod *pod)
{
	return &pod->shown[pod->n_shown - 1];
}

static void held_of(const struct world *w, const struct test_node *node, int i, struct held *held)
{
	struct held_pod *pod;
	char uuid[32];

	snprintf(held->at, sizeof(held->at), "%d", node->reports);
	held->names_ended = true;
	for (int p = 0; p < w->n_pods; p++) {
		if (node->held[p] == HELD_ENDED && held_add_ended(held, w->pods[p].uid) < 0)
			abort();
		if (node->held[p] != HELD_LIVES)
			continue;
		if (held_add_pod(held, w->pods[p].uid, "default", w->pods[p].uid, &pod) < 0)
			abort();
		for (int gpu = 0; gpu < N_GPUS; gpu++)
			if (holds(truth_of(&w->pods[p])->gpus, gpu) &&
				held_pod_add_gpu(pod, gpu_uuid(i, gpu, uuid),
					units_shown(&w->pods[p], truth_of(&w->pods[p])),
					pod_core(&w->pods[p])) < 0)
				abort();
	}
}

static bool may_mix(const struct world *w)
{
	return w->seed % 3 == 0;
}

static void node_facts_of(
	const struct world *w, const struct test_node *node, int i, struct node_facts *ret_facts)
{
	uint32_t units[N_GPUS];
	char name[16];

	for (int c = 0; c < N_GPUS; c++)
		units[c] = node->gpus[c].units;
	fixture_node(
		ret_facts, node_name(i, name), i ? GPU_POLICY_BINPACK : GPU_POLICY_SPREAD, N_GPUS, units);
	if (i == ISOLATED_NODE) {
		ret_facts->mode = GPU_MODE_CORE_MEM;
		ret_facts->mixing = may_mix(w);
		ret_facts->instances_max = ISOLATED_MAX;
	}
	free(ret_facts->uid);
	if (asprintf(&ret_facts->uid, "uid-%d", node->uid) < 0)
		abort();
	if (i && !(ret_facts->models = strdup(i == ISOLATED_NODE ? "A,B" : node->uid % 2 ? "A" : "C")))
		abort();
	for (int c = 0; c < N_GPUS; c++) {
		gpu_uuid(i, node->gpus[c].number, ret_facts->gpus[c].uuid);
		ret_facts->gpus[c].healthy = node->gpus[c].healthy;
	}
	if (node->reports)
		held_of(w, node, i, &ret_facts->held);
}

/* uuids and names have room for every number. Returns how many. */
static size_t gpu_uuids(int node, gpuset gpus, char names[][32], const char **uuids)
{
	size_t n = 0;

	for (int number = 0; number < N_NUMBERS; number++)
		if (holds(gpus, number)) {
			uuids[n] = gpu_uuid(node, number, names[n]);
			n++;
		}
	return n;
}

static gpuset gpus_of(const struct placement *placement)
{
	gpuset gpus = NO_GPUS;
	int number;

	for (size_t i = 0; i < placement->containers[0].n_gpus; i++)
		if (sscanf(placement->containers[0].gpus[i].uuid, "GPU-%*d-%d", &number) == 1)
			gpus |= 1u << number;
	return gpus;
}

static void add_container(
	struct request *request, const char *name, enum container_kind kind, uint32_t units, uint32_t core)
{
	char text[16], percent[16];

	snprintf(text, sizeof(text), "%u", units);
	snprintf(percent, sizeof(percent), "%u", core);
	if (request_add(request, name, kind, 0, text, core ? percent : NULL, NULL) < 0)
		abort();
}

static void pod_facts_of(const struct test_pod *pod, const struct snapshot *s, struct pod_facts *ret_facts)
{
	char owner[16], node[16], names[N_NUMBERS][32];
	const char *uuids[N_NUMBERS];

	snprintf(owner, sizeof(owner), "owner%d", pod->owner);
	fixture_pod(ret_facts, pod->uid, 0, pod->owner ? owner : "");
	add_container(
		&ret_facts->request, "init", CONTAINER_INIT, pod->init_units * pod->wanted, pod->init_core);
	add_container(&ret_facts->request, "main", CONTAINER_MAIN, pod->main_units[s->size] * pod->wanted,
		pod->main_core);
	add_container(&ret_facts->request, "second", CONTAINER_MAIN, pod->second_units * pod->wanted,
		pod->second_core);
	if (request_set_gpus(&ret_facts->request, pod->wanted, NULL) < 0)
		abort();
	if (pod->owner && !(ret_facts->models = strdup(pod->owner == 1 ? "A" : "B,C")))
		abort();
	ret_facts->finished = s->finished;
	ret_facts->deleting = s->deleting;
	ret_facts->assigned = s->assigned;
	ret_facts->running = s->running;
	if (s->node != NOWHERE)
		fixture_bind_to(ret_facts, node_name(s->node, node),
			gpu_uuids(s->node, s->gpus, names, uuids), uuids);
	ret_facts->placement.resizes = (uint32_t)s->size;
	for (size_t i = 0; i < ret_facts->request.n_containers; i++)
		if (strcmp(ret_facts->request.containers[i].name, "main") == 0)
			ret_facts->request.containers[i].asked = pod->main_units[0] * pod->wanted;
	request_recompute(&ret_facts->request);
}

static const struct snapshot unbound = {.node = NOWHERE};

/* The naive recount. */

static uint32_t pod_instances(const struct test_pod *pod)
{
	return pod->from_held ? 1 : 1 + (pod->second_units > 0);
}

static bool view_has_gpu(const struct world *w, int node, int gpu)
{
	if (!w->view[node].exists)
		return false;
	for (int c = 0; c < N_GPUS; c++)
		if (w->view[node].gpus[c].number == gpu)
			return true;
	return false;
}

struct tally {
	uint32_t units, instances, core;
};

static bool occupies(const struct test_pod *pod, int node, const struct test_pod *without)
{
	return pod != without && pod->expect != EXPECT_NOTHING && pod->node == node;
}

/* What pods other than `without` occupy on a GPU of the node. */
static struct tally tally(const struct world *w, int node, int gpu, const struct test_pod *without)
{
	struct tally sum = {0};

	for (int i = 0; i < w->n_pods; i++) {
		const struct test_pod *pod = &w->pods[i];

		if (!occupies(pod, node, without) || !holds(pod->gpus, gpu))
			continue;
		sum.units += pod_units(pod);
		sum.instances += pod_instances(pod);
		sum.core += pod_core(pod);
	}
	return sum;
}

/* What they occupy on the node, but on none of the GPUs that it has now. */
static uint32_t stray_units(const struct world *w, int node, const struct test_pod *without)
{
	uint32_t units = 0;

	for (int i = 0; i < w->n_pods; i++) {
		const struct test_pod *pod = &w->pods[i];

		for (int number = 0; number < N_NUMBERS && occupies(pod, node, without); number++)
			if (holds(pod->gpus, number) && !view_has_gpu(w, node, number))
				units += pod_units(pod);
		if (occupies(pod, node, without) && pod->gpus == NO_GPUS)
			units += pod_units(pod) * pod->wanted;
	}
	return units;
}

/* Likewise the percentages: who asks for some is on one GPU. */
static uint32_t stray_core(const struct world *w, int node, const struct test_pod *without)
{
	uint32_t core = 0;

	for (int i = 0; i < w->n_pods; i++) {
		const struct test_pod *pod = &w->pods[i];
		bool placed = false;

		for (int number = 0; number < N_NUMBERS; number++)
			placed |= holds(pod->gpus, number) && view_has_gpu(w, node, number);
		if (occupies(pod, node, without) && !placed)
			core += pod_core(pod);
	}
	return core;
}

/* How many pods of the node ask for a percentage, or for memory only. */
static size_t count_kind(const struct world *w, int node, bool with_core, const struct test_pod *without)
{
	size_t n = 0;

	for (int i = 0; i < w->n_pods; i++)
		n += occupies(&w->pods[i], node, without) && (pod_core(&w->pods[i]) > 0) == with_core;
	return n;
}

/* On the GPU, and on the node as a whole. */
static bool core_fits(const struct world *w, const struct test_pod *pod, int node, const struct test_gpu *gpu,
	const struct test_pod *without)
{
	return tally(w, node, gpu->number, without).core + pod_core(pod) <= 100 || !pod_core(pod);
}

static bool node_has_core(
	const struct world *w, const struct test_pod *pod, int node, const struct test_pod *without)
{
	uint32_t free_all = 0;

	if (!pod_core(pod))
		return node != ISOLATED_NODE || may_mix(w) || !count_kind(w, node, true, without);
	if (node != ISOLATED_NODE || (!may_mix(w) && count_kind(w, node, false, without)))
		return false;
	for (int c = 0; c < N_GPUS; c++) {
		const struct test_gpu *gpu = &w->view[node].gpus[c];
		uint32_t used = tally(w, node, gpu->number, without).core;

		free_all += gpu->healthy && used < 100 ? 100 - used : 0;
	}
	return free_all >= pod_core(pod) + stray_core(w, node, without);
}

static uint32_t gpu_free(
	const struct world *w, int node, const struct test_gpu *gpu, const struct test_pod *without)
{
	uint32_t used = tally(w, node, gpu->number, without).units;

	return used < gpu->units ? gpu->units - used : 0;
}

/* What the kubelet counts of the node's pods beyond what they occupy. */
static uint32_t surplus_ids(const struct world *w, int node, const struct test_pod *without)
{
	int64_t ids = 0;

	for (int i = 0; i < w->n_pods; i++) {
		const struct test_pod *pod = &w->pods[i];

		if (occupies(pod, node, without) && !pod->from_held)
			ids += ((int64_t)units_of(pod, pod->main_units[0]) - pod_units(pod)) * pod->wanted;
	}
	return ids > 0 ? (uint32_t)ids : 0;
}

/* The main containers; the init container runs before them, alone. */
static uint32_t wanted_instances(const struct test_pod *pod)
{
	return 1 + (pod->second_units > 0);
}

static bool instances_fit(const struct world *w, const struct test_pod *pod, int node,
	const struct test_gpu *gpu, const struct test_pod *without)
{
	return node != ISOLATED_NODE ||
	       tally(w, node, gpu->number, without).instances + wanted_instances(pod) <= ISOLATED_MAX;
}

/* Would the pod fit on these GPUs, its own hold aside? */
static bool naive_fits(const struct world *w, const struct test_pod *pod, int node, gpuset gpus)
{
	const struct test_pod *without = pod->expect == EXPECT_HELD ? pod : NULL;
	uint32_t free_all = 0, with_room = 0;

	if (!w->view[node].exists || !node_has_core(w, pod, node, without))
		return false;
	for (int c = 0; c < N_GPUS; c++) {
		const struct test_gpu *gpu = &w->view[node].gpus[c];

		if (!gpu->healthy)
			continue;
		free_all += gpu_free(w, node, gpu, without);
		with_room += holds(gpus, gpu->number) && gpu_free(w, node, gpu, without) >= pod_units(pod) &&
			     core_fits(w, pod, node, gpu, without) &&
			     instances_fit(w, pod, node, gpu, without);
	}
	return with_room == count(gpus) && free_all >= pod_units(pod) * pod->wanted +
							       stray_units(w, node, without) +
							       surplus_ids(w, node, without);
}

static void check_node(const struct world *w, int i)
{
	char name[16], uuid[32];
	const struct node_ledger *node = ledger_node(&w->ledger, node_name(i, name));
	uint32_t stray = stray_units(w, i, NULL);

	if (!node) {
		if (w->view[i].exists || stray)
			fail_history(w, "%s is missing", name);
		return;
	}
	if (node->unplaced_units != stray)
		fail_history(w, "%s: unplaced %u, not %u", name, node->unplaced_units, stray);
	if (node->unplaced_core != stray_core(w, i, NULL))
		fail_history(w, "%s: unplaced %u percent, not %u", name, node->unplaced_core,
			stray_core(w, i, NULL));
	if (node->with_core != count_kind(w, i, true, NULL) ||
		node->without_core != count_kind(w, i, false, NULL))
		fail_history(w, "%s: %zu pods with a percentage and %zu without", name, node->with_core,
			node->without_core);
	if (node->facts.n_gpus != (w->view[i].exists ? N_GPUS : 0))
		fail_history(w, "%s: %zu cards", name, node->facts.n_gpus);
	if (node->recounts)
		fail_history(w, "%s: a sum had to be repaired", name);
	for (size_t c = 0; c < node->facts.n_gpus; c++) {
		const struct gpu_ledger *gpu = &node->gpus[c];
		struct tally sum = tally(w, i, w->view[i].gpus[c].number, NULL);

		if (strcmp(gpu->facts.uuid, gpu_uuid(i, w->view[i].gpus[c].number, uuid)) != 0)
			fail_history(w, "%s: card %s, not %s", name, gpu->facts.uuid, uuid);
		if (gpu->core_used != sum.core)
			fail_history(w, "%s %s: %u percent, not %u", name, uuid, gpu->core_used, sum.core);
		if (gpu->units_used != sum.units || gpu->instances != sum.instances)
			fail_history(w, "%s %s: %u units in %u containers, not %u in %u", name, uuid,
				gpu->units_used, gpu->instances, sum.units, sum.instances);
	}
}

/* Of the truth, not of the ledger: what really is bound. */
static void check_no_gpu_is_over(const struct world *w)
{
	uint32_t used[N_NODES][N_GPUS] = {0}, instances[N_GPUS] = {0};
	size_t over;

	ledger_check(&w->ledger, &over);
	if (over)
		fail_history(w, "%zu cards are over their total in the ledger", over);
	for (int i = 0; i < w->n_pods; i++) {
		const struct snapshot *s = &w->pods[i].shown[w->pods[i].n_shown - 1];

		if (s->node == NOWHERE || s->finished || (s->deleted && !w->pods[i].alive))
			continue;
		for (int gpu = 0; gpu < N_GPUS; gpu++) {
			used[s->node][gpu] += holds(s->gpus, gpu) ? units_shown(&w->pods[i], s) : 0;
			if (used[s->node][gpu] > w->truth[s->node].gpus[gpu].units)
				fail_history(w, "node %d card %d is over its total", s->node, gpu);
			if (s->node != ISOLATED_NODE || s->deleted || !holds(s->gpus, gpu))
				continue;
			instances[gpu] += wanted_instances(&w->pods[i]);
			if (instances[gpu] > ISOLATED_MAX)
				fail_history(w, "card %d has %u containers", gpu, instances[gpu]);
		}
	}
}

static void check_all(const struct world *w)
{
	size_t wrong = ledger_check(&w->ledger, NULL);

	if (wrong)
		fail_history(w, "ledger_check: %zu sums differ", wrong);
	for (int i = 0; i < N_NODES; i++)
		check_node(w, i);
	if (w->clean)
		check_no_gpu_is_over(w);
}

/* What happens in the cluster. */

static void change(struct test_pod *pod, struct snapshot now)
{
	/* The first entries are the interesting ones; the last must be the truth. */
	if (pod->n_shown == N_SHOWN)
		pod->n_shown--;
	pod->shown[pod->n_shown++] = now;
	if (pod->delivered == N_SHOWN)
		pod->delivered--;
}

static void create_pod(struct world *w)
{
	struct test_pod *pod = &w->pods[w->n_pods];

	if (w->n_pods == N_PODS)
		return;
	*pod = (struct test_pod){.shown = {unbound}, .n_shown = 1, .node = NOWHERE};
	snprintf(pod->uid, sizeof(pod->uid), "pod%d", w->n_pods++);
	pod->wanted = one_in(w, 3) ? 1 + (uint32_t)draw(w, N_GPUS) : 1;
	pod->main_units[0] = 1 + (uint32_t)draw(w, 6);
	pod->second_units = one_in(w, 3) ? 1 + (uint32_t)draw(w, 4) : 0;
	pod->init_units = one_in(w, 3) ? 1 + (uint32_t)draw(w, 9) : 0;
	pod->owner = (int)draw(w, 3);
	if (pod->wanted > 1 || one_in(w, 2))
		return;
	pod->main_core = 5 + 5 * (uint32_t)draw(w, 12);
	pod->second_core = pod->second_units ? 5 * (uint32_t)draw(w, 8) : 0;
	pod->init_core = pod->init_units ? 5 * (uint32_t)draw(w, 15) : 0;
}

static void change_pod(struct world *w, struct test_pod *pod)
{
	struct snapshot s = *truth_of(pod);

	if (s.deleted)
		return;
	switch (draw(w, w->clean ? 4 : 5)) {
	case 0:
		s.finished |= s.node != NOWHERE;
		break;
	case 1:
		s.deleted = true;
		pod->alive = s.running && !s.finished && all_exist(s.gpus);
		break;
	case 2:
		s.deleting = true;
		break;
	case 3:
		s.assigned |= s.node != NOWHERE;
		s.running = s.node != NOWHERE && !s.finished && !one_in(w, 4);
		break;
	case 4: /* bound by somebody else, with or without a placement, perhaps on GPUs that are not there */
		if (s.node != NOWHERE || s.finished)
			return;
		s.node = (int)draw(w, N_NODES);
		s.gpus = one_in(w, 5) ? NO_GPUS : draw_gpus(w, pod->wanted, N_GPUS + 1);
		break;
	}
	change(pod, s);
}

/* Another scheduler has resized it, behind our back. */
static void resize_foreign(struct world *w, struct test_pod *pod)
{
	struct snapshot s = *truth_of(pod);

	if (w->clean || s.node == NOWHERE || s.gpus == NO_GPUS || s.finished || s.deleted ||
		s.size + 1 >= N_SIZES || pod->patch)
		return;
	pod->main_units[++s.size] = 1 + (uint32_t)draw(w, 9);
	change(pod, s);
}

static void change_node(struct world *w, int i)
{
	struct test_node *node = &w->truth[i];
	struct test_gpu *gpu = &node->gpus[draw(w, N_GPUS)], swapped;

	switch (draw(w, w->clean ? 3 : 5)) {
	case 0:
		node->exists = !node->exists;
		node->uid += node->exists;
		break;
	case 1:
		gpu->healthy = !gpu->healthy;
		break;
	case 2: /* renumbered */
		if (w->clean)
			return;
		swapped = node->gpus[0];
		node->gpus[0] = *gpu;
		*gpu = swapped;
		break;
	case 3:
		gpu->units = 1 + (uint32_t)draw(w, 15);
		break;
	case 4: /* replaced by another GPU, or put back */
		gpu->number = gpu->number < N_GPUS ? gpu->number + N_GPUS : gpu->number - N_GPUS;
		break;
	}
}

/* The agent tells what it has found out about the deletions that it knows of; it may be behind or ahead of
 * the ledger. A pod that the ledger never saw bound is left out: its rules are those of orphan tests. */
static void report(struct world *w, int i, bool all)
{
	struct test_node *node = &w->truth[i];

	node->reports++;
	for (int p = 0; p < w->n_pods; p++) {
		struct test_pod *pod = &w->pods[p];
		const struct snapshot *s = truth_of(pod);
		bool told = pod->delivered == pod->n_shown;

		if (!s->deleted || s->node != i || !all_exist(s->gpus) ||
			!(told || pod->expect == EXPECT_BOUND))
			continue;
		pod->agent_knows |= all || !one_in(w, 3);
		if (pod->agent_knows)
			node->held[p] = pod->alive ? HELD_LIVES : HELD_ENDED;
	}
}

static void expect_held(struct world *w, int i)
{
	for (int p = 0; p < w->n_pods; p++) {
		enum held_verdict verdict = w->truth[i].exists ? w->truth[i].held[p] : HELD_UNKNOWN;
		struct test_pod *pod = &w->pods[p];
		bool told = truth_of(pod)->deleted && pod->delivered == pod->n_shown;

		if (verdict == HELD_LIVES && pod->expect == EXPECT_NOTHING && told) {
			pod->expect = EXPECT_ORPHAN;
			pod->from_held = true;
			pod->node = truth_of(pod)->node;
			pod->gpus = truth_of(pod)->gpus;
			pod->size = truth_of(pod)->size;
			pod->target = 0;
			pod->expires = 0;
		}
		if (pod->expect != EXPECT_ORPHAN || pod->node != i)
			continue;
		if (verdict == HELD_LIVES)
			pod->expires = 0;
		else if (verdict == HELD_ENDED || pod->expires == 0)
			pod->expect = EXPECT_NOTHING;
	}
}

static void deliver_node(struct world *w, int i)
{
	_cleanup_node_facts_ struct node_facts facts;
	char name[16];

	node_facts_of(w, &w->truth[i], i, &facts);
	node_name(i, name);
	if (w->truth[i].exists) {
		assert_int_equal(ledger_set_node(&w->ledger, &facts), 0);
		ledger_remove_node(&w->ledger, name, "uid-of-an-earlier-one");
	} else {
		if (w->view[i].exists)
			snprintf(facts.uid, strlen(facts.uid) + 1, "uid-%d", w->view[i].uid);
		ledger_remove_node(&w->ledger, name, facts.uid);
	}
	expect_held(w, i);
	w->view[i] = w->truth[i];
}

/* The rules of ledger.h in the test's own words. */
static void expect_shown(struct test_pod *pod, const struct snapshot *s)
{
	if (pod->ended)
		return;
	pod->seen_running = s->running;
	if (s->finished) {
		pod->ended = true;
		pod->expect = EXPECT_NOTHING;
	} else if (s->node != NOWHERE && pod->expect != EXPECT_BOUND) {
		pod->expect = EXPECT_BOUND;
		pod->node = s->node;
		pod->gpus = s->gpus;
		pod->size = s->size;
	} else if (s->size > pod->size) {
		pod->size = s->size;
		pod->target = 0;
	}
}

/* The ledger does not count the pod any more. Its containers have ended by then: the kubelet is faster, and
 * what the agent says is not that old. Where it is otherwise, the agent's total is the last line. */
static void end_of_patience(struct world *w, struct test_pod *pod)
{
	int node = truth_of(pod)->node;

	pod->expect = EXPECT_NOTHING;
	pod->alive = false;
	if (node != NOWHERE && w->truth[node].held[pod - w->pods] == HELD_LIVES)
		w->truth[node].held[pod - w->pods] = HELD_ENDED;
}

/* The rules of orphans. */
static void expect_deleted(struct world *w, struct test_pod *pod, int64_t expires)
{
	enum held_verdict verdict = HELD_UNKNOWN;

	ledger_delete_pod(&w->ledger, pod->uid, expires);
	pod->ended = false;
	if (pod->expect == EXPECT_BOUND && w->view[pod->node].exists)
		verdict = w->view[pod->node].held[pod - w->pods];
	if (pod->expect == EXPECT_BOUND &&
		(verdict == HELD_LIVES || (pod->seen_running && verdict == HELD_UNKNOWN))) {
		pod->expect = EXPECT_ORPHAN;
		pod->expires = verdict == HELD_LIVES ? 0 : expires;
		return;
	}
	end_of_patience(w, pod);
}

/* The next state, a later one (some were skipped by a new LIST), or an older one again. Nothing follows the
 * deletion. */
static void deliver_pod(struct world *w, struct test_pod *pod)
{
	_cleanup_pod_facts_ struct pod_facts facts = {0};
	int which;

	if (pod->delivered == pod->n_shown && truth_of(pod)->deleted)
		return;
	which = (int)draw(w, (uint64_t)pod->n_shown);
	if (one_in(w, 2))
		which = pod->delivered < pod->n_shown ? pod->delivered : pod->n_shown - 1;
	if (which >= pod->delivered)
		pod->delivered = which + 1;
	if (pod->shown[which].deleted) {
		expect_deleted(w, pod, w->now + 1 + (int64_t)draw(w, 30));
		return;
	}
	pod_facts_of(pod, &pod->shown[which], &facts);
	assert_int_equal(ledger_set_pod(&w->ledger, &facts), 0);
	expect_shown(pod, &pod->shown[which]);
}

/* The scheduler. It may ask for a pod that is bound, finished or gone without its knowledge. */

static void check_choice(struct world *w, const struct test_pod *pod, int node, int r, gpuset chosen)
{
	bool fits = false;

	for (gpuset gpus = 1; gpus < 1u << N_NUMBERS; gpus++)
		fits |= count(gpus) == pod->wanted && naive_fits(w, pod, node, gpus);
	if (fits != (r == FITS))
		fail_history(w, "%s on node %d: answer %d, fits %d", pod->uid, node, r, fits);
	if (r == FITS && (count(chosen) != pod->wanted || !naive_fits(w, pod, node, chosen)))
		fail_history(w, "%s was given node %d cards %#x without room", pod->uid, node, chosen);
}

static int expected_claim(const struct world *w, const struct test_pod *pod, int node, gpuset gpus)
{
	if (pod->expect == EXPECT_ORPHAN) /* one container "held" is not what the pod asked for */
		return pod->from_held ? -EINVAL : -EBUSY;
	if (pod->ended || pod->expect == EXPECT_RESERVED || pod->expect == EXPECT_BOUND)
		return -EBUSY;
	if (!w->view[node].exists)
		return -ENOENT;
	return naive_fits(w, pod, node, gpus) ? 0 : -ENOSPC;
}

static void claim(struct world *w, struct test_pod *pod, int node, gpuset gpus, bool reserve)
{
	_cleanup_pod_facts_ struct pod_facts facts = {0};
	_cleanup_placement_ struct placement placement = {0};
	int expected = expected_claim(w, pod, node, gpus), r;
	int64_t expires = w->now + 1 + (int64_t)draw(w, 30);
	char name[16], names[N_NUMBERS][32];
	const char *uuids[N_NUMBERS];
	size_t n = gpu_uuids(node, gpus, names, uuids);

	pod_facts_of(pod, &unbound, &facts);
	fixture_place_on(&placement, &facts.request, n, uuids);
	node_name(node, name);
	if (reserve)
		r = ledger_reserve(&w->ledger, &facts, name, &placement);
	else
		r = ledger_hold(&w->ledger, &facts, name, &placement, expires);
	if (r != expected)
		fail_history(w, "%s on %s cards %#x: %d, not %d", pod->uid, name, gpus, r, expected);
	if (r < 0)
		return;
	pod->expect = reserve ? EXPECT_RESERVED : EXPECT_HELD;
	pod->node = node;
	pod->gpus = gpus;
	pod->expires = expires;
	if (reserve) {
		pod->binding = BINDING_SENT;
		pod->binding_node = node;
		pod->binding_gpus = gpus;
	}
}

static void schedule(struct world *w, struct test_pod *pod)
{
	_cleanup_pod_facts_ struct pod_facts facts = {0};
	_cleanup_placement_ struct placement placement = {0};
	int node = (int)draw(w, N_NODES), r;
	gpuset gpus = draw_gpus(w, pod->wanted, N_GPUS), chosen;
	char name[16];

	if (pod->binding != BINDING_NONE)
		return;
	/* Asked for as it was made, whatever became of it meanwhile. */
	if (pod->expect == EXPECT_NOTHING)
		pod->size = pod->target = 0;
	pod_facts_of(pod, &unbound, &facts);
	r = ledger_choose(&w->ledger, node_name(node, name), &facts, &placement);
	chosen = r == FITS ? gpus_of(&placement) : NO_GPUS;
	if (pod->expect == EXPECT_NOTHING || pod->expect == EXPECT_HELD)
		check_choice(w, pod, node, r, chosen);
	/* Mostly what was chosen; sometimes GPUs that nobody proposed. */
	if (r == FITS && !one_in(w, 4))
		gpus = chosen;
	claim(w, pod, node, gpus, one_in(w, 2));
}

static void binding_arrives(struct test_pod *pod)
{
	struct snapshot s = *truth_of(pod);

	if (pod->binding != BINDING_SENT)
		return;
	pod->binding = BINDING_REFUSED;
	if (s.node != NOWHERE || s.deleted || s.deleting)
		return;
	pod->binding = BINDING_ACCEPTED;
	s.node = pod->binding_node;
	s.gpus = pod->binding_gpus;
	change(pod, s);
}

static void binding_answered(struct world *w, struct test_pod *pod)
{
	if (pod->binding != BINDING_ACCEPTED && pod->binding != BINDING_REFUSED)
		return;
	for (int twice = one_in(w, 4); twice >= 0; twice--)
		if (pod->binding == BINDING_ACCEPTED)
			ledger_confirm(&w->ledger, pod->uid);
		else
			ledger_release_reservation(&w->ledger, pod->uid);
	if (pod->expect == EXPECT_RESERVED)
		pod->expect = pod->binding == BINDING_ACCEPTED ? EXPECT_BOUND : EXPECT_NOTHING;
	pod->binding = BINDING_NONE;
}

static int expected_resize(const struct world *w, const struct test_pod *pod, uint32_t before)
{
	uint32_t more = pod_units(pod) - before, free_all = 0;

	if (pod->node != ISOLATED_NODE || !w->view[pod->node].exists)
		return -EOPNOTSUPP;
	for (int c = 0; c < N_GPUS && more; c++) {
		const struct test_gpu *gpu = &w->view[pod->node].gpus[c];

		free_all += gpu->healthy ? gpu_free(w, pod->node, gpu, NULL) : 0;
		if (holds(pod->gpus, gpu->number) &&
			(!gpu->healthy || gpu_free(w, pod->node, gpu, NULL) < more))
			return -ENOSPC;
	}
	return !more || free_all >= more * pod->wanted + stray_units(w, pod->node, NULL) ? 0 : -ENOSPC;
}

/* The scheduler gives a pod that it sees bound another size. */
static void resize(struct world *w, struct test_pod *pod)
{
	const struct ledger_pod *known = ledger_pod(&w->ledger, pod->uid);
	_cleanup_placement_ struct placement target = {0};
	struct test_pod larger;
	uint32_t before, units;
	int expected, r;

	if (pod->expect != EXPECT_BOUND || pod->ended || pod->size + 1 >= N_SIZES || pod->patch ||
		pod->target || pod->size != truth_of(pod)->size || !all_exist(pod->gpus) ||
		!known->has_placement)
		return;
	for (int c = 0; c < N_NUMBERS; c++)
		if (holds(pod->gpus, c) && !view_has_gpu(w, pod->node, c) && w->view[pod->node].exists)
			return;
	units = 1 + (uint32_t)draw(w, 9);
	assert_int_equal(placement_copy(&known->placement, &target), 0);
	assert_int_equal(
		placement_resize(&target, &known->facts.request, "main", units * pod->wanted, NULL), 0);
	target.resizes++;
	before = pod_units(pod);
	pod->target = pod->size + 1;
	pod->main_units[pod->target] = units;
	larger = *pod;
	pod->target = 0; /* room is counted without the growth itself */
	expected = expected_resize(w, &larger, before);
	r = ledger_resize(&w->ledger, pod->uid, &target, NULL);
	if (r != expected)
		fail_history(w, "%s to %u units: %d, not %d", pod->uid, units, r, expected);
	if (r < 0)
		return;
	pod->target = pod->patch_size = pod->size + 1;
	pod->patch = BINDING_SENT;
	if (ledger_resize(&w->ledger, pod->uid, &target, NULL) != -EBUSY)
		fail_history(w, "%s: two resizes at once", pod->uid);
}

/* Where the pod was changed since, the resourceVersion is another. */
static void patch_arrives(struct test_pod *pod)
{
	struct snapshot s = *truth_of(pod);

	if (pod->patch != BINDING_SENT)
		return;
	pod->patch = BINDING_REFUSED;
	if (s.deleted || s.size + 1 != pod->patch_size)
		return;
	pod->patch = BINDING_ACCEPTED;
	s.size++;
	change(pod, s);
}

static void patch_answered(struct world *w, struct test_pod *pod)
{
	if (pod->patch != BINDING_ACCEPTED && pod->patch != BINDING_REFUSED)
		return;
	for (int twice = one_in(w, 4); twice >= 0; twice--)
		if (pod->patch == BINDING_ACCEPTED)
			ledger_resize_confirm(&w->ledger, pod->uid);
		else
			ledger_resize_release(&w->ledger, pod->uid);
	if (pod->target && pod->patch == BINDING_ACCEPTED)
		pod->size = pod->target;
	pod->target = 0;
	pod->patch = BINDING_NONE;
}

static void resize_step(struct world *w, struct test_pod *pod)
{
	switch (draw(w, 4)) {
	case 0:
		resize(w, pod);
		break;
	case 1:
		patch_arrives(pod);
		break;
	case 2:
		patch_answered(w, pod);
		break;
	case 3:
		resize_foreign(w, pod);
		break;
	}
}

static void expire(struct world *w, int64_t now)
{
	size_t expected = 0, n;

	w->now = now;
	for (int i = 0; i < w->n_pods; i++)
		if (w->pods[i].expect == EXPECT_HELD && w->pods[i].expires <= now) {
			w->pods[i].expect = EXPECT_NOTHING;
			expected++;
		}
	for (int i = 0; i < w->n_pods; i++)
		if (w->pods[i].expect == EXPECT_ORPHAN && w->pods[i].expires && w->pods[i].expires <= now) {
			end_of_patience(w, &w->pods[i]);
			expected++;
		}
	w->ledger.nodes_told_ns = now;
	n = ledger_expire(&w->ledger, now);
	if (n != expected)
		fail_history(w, "%zu holds expired, not %zu", n, expected);
}

static void drop_hold(struct world *w, struct test_pod *pod)
{
	ledger_drop_hold(&w->ledger, pod->uid);
	if (pod->expect == EXPECT_HELD)
		pod->expect = EXPECT_NOTHING;
}

static void step(struct world *w)
{
	struct test_pod *pod = w->n_pods ? &w->pods[draw(w, (uint64_t)w->n_pods)] : NULL;
	uint64_t what = draw(w, 100);

	if (!pod || what < 15)
		create_pod(w);
	else if (what < 22)
		resize_step(w, pod);
	else if (what < 42)
		schedule(w, pod);
	else if (what < 52)
		binding_arrives(pod);
	else if (what < 62)
		binding_answered(w, pod);
	else if (what < 80)
		deliver_pod(w, pod);
	else if (what < 90)
		change_pod(w, pod);
	else if (what < 92)
		change_node(w, (int)draw(w, N_NODES));
	else if (what < 96)
		deliver_node(w, (int)draw(w, N_NODES));
	else if (what < 97)
		report(w, (int)draw(w, N_NODES), false);
	else if (what < 98)
		pod->alive = false;
	else if (what < 99)
		expire(w, w->now + 1 + (int64_t)draw(w, 20));
	else
		drop_hold(w, pod);
}

/* The end: everything is delivered, then a second ledger is fed with nothing but the final state. */

static void deliver_everything(struct world *w)
{
	for (int i = 0; i < N_NODES; i++)
		deliver_node(w, i);
	for (int i = 0; i < w->n_pods; i++) {
		binding_arrives(&w->pods[i]);
		binding_answered(w, &w->pods[i]);
		patch_arrives(&w->pods[i]);
		patch_answered(w, &w->pods[i]);
		while (w->pods[i].delivered < w->pods[i].n_shown) {
			deliver_pod(w, &w->pods[i]);
			check_all(w);
		}
	}
	for (int i = 0; i < w->n_pods; i++)
		w->pods[i].alive = false;
	for (int i = 0; i < N_NODES; i++) {
		report(w, i, true);
		deliver_node(w, i);
		check_all(w);
	}
	expire(w, INT64_MAX);
	check_all(w);
}

static void compare_pods(const struct world *w, const struct ledger_pod *a, const struct ledger_pod *b)
{
	const char *uid = a ? a->facts.uid : b->facts.uid;

	if (!a || !b)
		fail_history(w, "%s is known to one ledger only", uid);
	if (a->occupancy != b->occupancy || !a->node != !b->node ||
		(a->node && strcmp(a->node, b->node) != 0))
		fail_history(w, "%s: %d and %d", uid, a->occupancy, b->occupancy);
	if (a->has_placement != b->has_placement ||
		(a->has_placement && !placement_equal(&a->placement, &b->placement)))
		fail_history(w, "%s: other placement", uid);
	if (a->facts.finished != b->facts.finished || a->facts.deleting != b->facts.deleting ||
		a->facts.assigned != b->facts.assigned)
		fail_history(w, "%s: other facts", uid);
}

static void compare_nodes(const struct world *w, const struct ledger *fresh, int i)
{
	char name[16];
	const struct node_ledger *a = ledger_node(&w->ledger, node_name(i, name)),
				 *b = ledger_node(fresh, name);

	if (!a != !b)
		fail_history(w, "%s is known to one ledger only", name);
	if (!a)
		return;
	if (a->unplaced_units != b->unplaced_units || a->facts.n_gpus != b->facts.n_gpus)
		fail_history(w, "%s: %u and %u unplaced", name, a->unplaced_units, b->unplaced_units);
	for (size_t c = 0; c < a->facts.n_gpus; c++)
		if (memcmp(&a->gpus[c], &b->gpus[c], sizeof(a->gpus[c])) != 0)
			fail_history(w, "%s: card %zu differs", name, c);
}

static void compare_with_a_fresh_ledger(struct world *w)
{
	struct ledger fresh;

	ledger_init(&fresh);
	for (int i = w->n_pods - 1; i >= 0; i--) {
		_cleanup_pod_facts_ struct pod_facts facts = {0};

		if (truth_of(&w->pods[i])->deleted)
			continue;
		pod_facts_of(&w->pods[i], truth_of(&w->pods[i]), &facts);
		assert_int_equal(ledger_set_pod(&fresh, &facts), 0);
	}
	for (int i = 0; i < N_NODES; i++) {
		_cleanup_node_facts_ struct node_facts facts;

		node_facts_of(w, &w->truth[i], i, &facts);
		if (w->truth[i].exists)
			assert_int_equal(ledger_set_node(&fresh, &facts), 0);
	}
	for (int i = 0; i < N_NODES; i++)
		compare_nodes(w, &fresh, i);
	for (int i = 0; i < w->n_pods; i++)
		if (!truth_of(&w->pods[i])->deleted)
			compare_pods(w, ledger_pod(&w->ledger, w->pods[i].uid),
				ledger_pod(&fresh, w->pods[i].uid));
	if (!demand_equal(&w->ledger.demand, &fresh.demand))
		fail_history(w, "the demand for GPU models is another one");
	if (w->ledger.pods.count != fresh.pods.count)
		fail_history(w, "%zu pods, not %zu", w->ledger.pods.count, fresh.pods.count);
	ledger_release(&fresh);
}

static void run_history(uint64_t seed, bool clean)
{
	struct world w = {.random = seed, .seed = seed, .clean = clean};

	ledger_init(&w.ledger);
	for (int i = 0; i < N_NODES; i++) {
		w.truth[i].exists = true;
		for (int c = 0; c < N_GPUS; c++)
			w.truth[i].gpus[c] = (struct test_gpu){
				.units = 4 + (uint32_t)draw(&w, 12), .healthy = true, .number = c};
		if (!one_in(&w, 4))
			deliver_node(&w, i);
	}
	for (int i = 0; i < N_STEPS; i++) {
		step(&w);
		check_all(&w);
	}
	deliver_everything(&w);
	compare_with_a_fresh_ledger(&w);
	ledger_release(&w.ledger);
}

static uint64_t number_from_environment(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void run_histories(bool clean)
{
	uint64_t seed = number_from_environment("RATION_SEED", 1);
	uint64_t n = number_from_environment("RATION_HISTORIES", 2000);

	for (uint64_t i = 0; i < n; i++)
		run_history(seed + i, clean);
}

static void ledger_alone_never_fills_a_gpu_over_its_total(void **state)
{
	run_histories(true);
}

static void ledger_agrees_with_a_recount_whatever_others_do(void **state)
{
	run_histories(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ledger_alone_never_fills_a_gpu_over_its_total),
		cmocka_unit_test(ledger_agrees_with_a_recount_whatever_others_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
