/* Pods that want their units in equal parts on several GPUs of one node (label aliyun.com/gpu-count). */
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
#include "base/error.h"
#include "core/placement/choose.h"
#include "core/registry/ledger.h"
#include "model-fixture.h"

/* ---- the request ---- */

static void add(struct request *request, const char *name, enum container_kind kind, const char *gpu_mem)
{
	assert_int_equal(request_add(request, name, kind, 0, gpu_mem, NULL, NULL), 0);
}

static void one_gpu_is_as_if_nothing_was_said(void **state)
{
	_cleanup_request_ struct request request = {0};

	add(&request, "a", CONTAINER_MAIN, "7");
	assert_int_equal(request_gpus(&request), 1);
	assert_int_equal(request_units_per_gpu(&request), 7);
	assert_int_equal(request_parse_gpus(&request, "1", NULL), 0);
	assert_int_equal(request_gpus(&request), 1);
	assert_int_equal(request_units_per_gpu(&request), 7);
}

static void every_gpu_carries_an_equal_part_of_the_effective_request(void **state)
{
	_cleanup_request_ struct request request = {0}, copy = {0};

	/* max(init 12, side 4 + init 4, side 4 + main 4) = 12 on 4 GPUs */
	add(&request, "i", CONTAINER_INIT, "12");
	add(&request, "side", CONTAINER_SIDECAR, "4");
	add(&request, "i2", CONTAINER_INIT, "4");
	add(&request, "a", CONTAINER_MAIN, "4");
	assert_int_equal(request_parse_gpus(&request, "4", NULL), 0);
	assert_int_equal(request.units, 12);
	assert_int_equal(request_units_per_gpu(&request), 3);
	assert_int_equal(request_copy(&request, &copy), 0);
	assert_int_equal(request_gpus(&copy), 4);
}

static void assert_label_refused(const char *label)
{
	_cleanup_request_ struct request request = {0};
	char expected[256];
	struct error err;

	add(&request, "a", CONTAINER_MAIN, "64");
	snprintf(expected, sizeof(expected),
		"label aliyun.com/gpu-count is \"%.40s\": must be a whole number from 1 to 64", label);
	assert_int_equal(request_parse_gpus(&request, label, &err), -EINVAL);
	assert_string_equal(err.text, expected);
	assert_int_equal(request_gpus(&request), 1);
}

static void the_label_is_a_plain_number_from_1_to_64(void **state)
{
	static const char *const wrong[] = {"", "0", "-1", "+2", " 2", "2 ", "02", "2.0", "2x", "0x2", "1e1",
		"two", "65", "256", "4294967298", "18446744073709551618",
		"222222222222222222222222222222222222222222222222222222222222222"};
	_cleanup_request_ struct request request = {0};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_label_refused(wrong[i]);
	add(&request, "a", CONTAINER_MAIN, "64");
	assert_int_equal(request_parse_gpus(&request, "64", NULL), 0);
	assert_int_equal(request_gpus(&request), 64);
	assert_int_equal(request_units_per_gpu(&request), 1);
}

static void the_units_of_each_container_must_divide(void **state)
{
	_cleanup_request_ struct request request = {0};
	struct error err;

	/* Together 6 would divide, and so does the pod's sum. */
	add(&request, "a", CONTAINER_MAIN, "3");
	add(&request, "b", CONTAINER_MAIN, "3");
	assert_int_equal(request_parse_gpus(&request, "2", &err), -EINVAL);
	assert_string_equal(err.text,
		"container \"a\": aliyun.com/gpu-mem is 3: must be a multiple of 2, the value of label aliyun.com/gpu-count");
	assert_int_equal(request_gpus(&request), 1);
	assert_int_equal(request_parse_gpus(&request, "3", &err), 0);
	assert_int_equal(request_units_per_gpu(&request), 2);
}

static void computing_power_is_not_spread_over_gpus(void **state)
{
	_cleanup_request_ struct request request = {0};
	struct error err;

	assert_int_equal(request_add(&request, "a", CONTAINER_MAIN, 0, "4", "30", NULL), 0);
	assert_int_equal(request_parse_gpus(&request, "2", &err), -EINVAL);
	assert_string_equal(err.text,
		"container \"a\": aliyun.com/gpu-core.percentage is 30: is not possible together with label aliyun.com/gpu-count");
	assert_int_equal(request_parse_gpus(&request, "1", &err), 0);
}

static void amounts_beyond_all_gpus_are_not_asked_to_divide(void **state)
{
	_cleanup_request_ struct request request = {0};
	_cleanup_node_facts_ struct node_facts facts = {0};
	struct ledger ledger;

	add(&request, "a", CONTAINER_MAIN, "9223372036854775807");
	assert_int_equal(request_parse_gpus(&request, "2", NULL), 0);
	ledger_init(&ledger);
	fixture_node(&facts, "n", GPU_POLICY_BINPACK, 2, (const uint32_t[]){1024, 1024});
	assert_int_equal(ledger_set_node(&ledger, &facts), 0);
	assert_int_equal(placement_choose(ledger_node(&ledger, "n"), &request, "", NULL), REJECT_TOO_LARGE);
	ledger_release(&ledger);
}

static void containers_times_gpus_are_limited(void **state)
{
	_cleanup_request_ struct request request = {0};
	struct error err;
	char name[16];

	for (int i = 0; i < 9; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		add(&request, name, CONTAINER_MAIN, "4032");
	}
	/* 9 x 56 = 504, 9 x 64 = 576 > 512 */
	assert_int_equal(request_parse_gpus(&request, "56", &err), 0);
	assert_int_equal(request_parse_gpus(&request, "64", &err), -E2BIG);
	assert_string_equal(err.text,
		"label aliyun.com/gpu-count is 64: with 9 containers that ask for aliyun.com/gpu-mem at most 56 are possible");
	assert_int_equal(request_gpus(&request), 56);
}

/* ---- the choice ---- */

struct world {
	struct ledger ledger;
	struct node_facts node;
};

static void world_open(struct world *w, enum gpu_policy policy, size_t n_gpus, const uint32_t *units)
{
	ledger_init(&w->ledger);
	fixture_node(&w->node, "n", policy, n_gpus, units);
	assert_int_equal(ledger_set_node(&w->ledger, &w->node), 0);
}

static void world_close(struct world *w)
{
	ledger_release(&w->ledger);
	node_facts_release(&w->node);
}

static void wish(struct pod_facts *ret_pod, const char *uid, uint32_t units, uint32_t gpus, const char *owner)
{
	fixture_pod(ret_pod, uid, units, owner);
	assert_int_equal(request_set_gpus(&ret_pod->request, gpus, NULL), 0);
}

static void occupy(struct world *w, const char *uid, uint32_t units, const char *owner, size_t gpus,
	const char *const *uuids)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	wish(&pod, uid, units, (uint32_t)gpus, owner);
	fixture_bind_to(&pod, "n", gpus, uuids);
	assert_int_equal(ledger_set_pod(&w->ledger, &pod), 0);
}

#define OCCUPY(w, uid, units, owner, ...)                                                                    \
	occupy(w, uid, units, owner, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                 \
		(const char *[]){__VA_ARGS__})

/* The GPUs' numbers in the placement, "0,2", or the reason. */
static const char *chosen(
	struct world *w, uint32_t units, uint32_t gpus, const char *owner, char *buf, size_t size)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};
	size_t len = 0;
	int r;

	wish(&pod, "asking", units, gpus, owner);
	r = placement_choose(ledger_node(&w->ledger, "n"), &pod.request, owner, &placement);
	assert_true(r >= 0);
	if (r != FITS)
		return reject_reason_text((enum reject_reason)r, &pod.request, buf, size);
	assert_true(placement_matches(&placement, &pod.request));
	for (size_t i = 0; i < placement.containers[0].n_gpus; i++)
		len += (size_t)snprintf(buf + len, size - len, "%s%s", i ? "," : "",
			placement.containers[0].gpus[i].uuid + strlen("GPU-n-"));
	return buf;
}

static void binpack_takes_the_fullest_gpus_that_fit(void **state)
{
	struct world w;
	char buf[64];

	world_open(&w, GPU_POLICY_BINPACK, 4, (const uint32_t[]){15, 15, 15, 15});
	assert_string_equal(chosen(&w, 4, 2, "", buf, sizeof(buf)), "0,1");
	OCCUPY(&w, "a", 3, "", "GPU-n-3");
	OCCUPY(&w, "b", 9, "", "GPU-n-2");
	/* free: 15 15 6 12 */
	assert_string_equal(chosen(&w, 12, 2, "", buf, sizeof(buf)), "2,3");
	assert_string_equal(chosen(&w, 14, 2, "", buf, sizeof(buf)), "0,3");
	assert_string_equal(chosen(&w, 26, 2, "", buf, sizeof(buf)), "0,1");
	assert_string_equal(chosen(&w, 24, 4, "", buf, sizeof(buf)), "0,1,2,3");
	assert_string_equal(chosen(&w, 28, 4, "", buf, sizeof(buf)), "no 4 GPUs have 7 units free");
	world_close(&w);
}

static void spread_takes_gpus_without_the_owners_pods_then_the_emptiest(void **state)
{
	struct world w;
	char buf[64];

	world_open(&w, GPU_POLICY_SPREAD, 4, (const uint32_t[]){15, 15, 15, 15});
	OCCUPY(&w, "a", 2, "job", "GPU-n-0", "GPU-n-2");
	OCCUPY(&w, "b", 9, "other", "GPU-n-1");
	/* free: 14 6 14 15; pods of job: 1 0 1 0 */
	assert_string_equal(chosen(&w, 2, 2, "job", buf, sizeof(buf)), "1,3");
	assert_string_equal(chosen(&w, 3, 3, "job", buf, sizeof(buf)), "0,1,3");
	assert_string_equal(chosen(&w, 2, 2, "third", buf, sizeof(buf)), "0,3");
	world_close(&w);
}

static void gpus_are_named_by_index_whatever_made_them_the_best(void **state)
{
	struct world w;
	char buf[64];

	world_open(&w, GPU_POLICY_BINPACK, 3, (const uint32_t[]){8, 8, 8});
	for (int i = 0; i < 3; i++)
		w.node.gpus[i].index = 2 - i;
	assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
	OCCUPY(&w, "a", 4, "", "GPU-n-0");
	/* GPU-n-0, of index 2, is the fullest; the next by index is GPU-n-2. */
	assert_string_equal(chosen(&w, 4, 2, "", buf, sizeof(buf)), "2,0");
	world_close(&w);
}

static void a_node_says_why_it_has_not_so_many_gpus(void **state)
{
	struct world w;
	char buf[64];

	world_open(&w, GPU_POLICY_BINPACK, 3, (const uint32_t[]){15, 15, 79});
	assert_string_equal(chosen(&w, 4, 4, "", buf, sizeof(buf)), "GPU node has fewer than 4 GPUs");
	assert_string_equal(chosen(&w, 32, 2, "", buf, sizeof(buf)), "no 2 GPUs are that large");
	assert_string_equal(chosen(&w, 30, 2, "", buf, sizeof(buf)), "0,1");
	OCCUPY(&w, "a", 28, "", "GPU-n-0", "GPU-n-1");
	assert_string_equal(chosen(&w, 4, 2, "", buf, sizeof(buf)), "no 2 GPUs have 2 units free");
	assert_string_equal(chosen(&w, 2, 2, "", buf, sizeof(buf)), "0,1");
	world_close(&w);
}

static void sick_gpus_are_not_among_the_gpus(void **state)
{
	struct world w;
	char buf[64];

	world_open(&w, GPU_POLICY_BINPACK, 3, (const uint32_t[]){8, 8, 8});
	w.node.gpus[1].healthy = false;
	assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
	assert_string_equal(chosen(&w, 4, 2, "", buf, sizeof(buf)), "0,2");
	assert_string_equal(chosen(&w, 3, 3, "", buf, sizeof(buf)), "no 3 GPUs have 1 units free");
	world_close(&w);
}

static void all_containers_are_on_all_gpus_with_their_own_part(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	add(&pod.request, "init", CONTAINER_INIT, "10");
	add(&pod.request, "a", CONTAINER_MAIN, "4");
	add(&pod.request, "b", CONTAINER_MAIN, "2");
	assert_int_equal(request_set_gpus(&pod.request, 2, NULL), 0);
	assert_int_equal(placement_choose(ledger_node(&w.ledger, "n"), &pod.request, "", &placement), FITS);
	assert_int_equal(placement.n_containers, 3);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(placement_find(&placement, "init")->gpus[i].units, 5);
		assert_int_equal(placement_find(&placement, "a")->gpus[i].units, 2);
		assert_int_equal(placement_find(&placement, "b")->gpus[i].units, 1);
	}
	/* The pod occupies what its init container needs, on each GPU its half. */
	assert_int_equal(placement_units_on(&placement, &pod.request, "GPU-n-0"), 5);
	assert_int_equal(placement_units_on(&placement, &pod.request, "GPU-n-1"), 5);
	assert_int_equal(placement_units_on(&placement, &pod.request, "GPU-n-2"), 0);
	world_close(&w);
}

/* ---- what matches ---- */

static void placement_matches_exactly_m_gpus_with_equal_parts(void **state)
{
	_cleanup_request_ struct request request = {0};
	_cleanup_placement_ struct placement right = {0}, order = {0}, uneven = {0}, one = {0}, three = {0},
					     others = {0}, fewer = {0}, core = {0};

	add(&request, "a", CONTAINER_MAIN, "4");
	add(&request, "b", CONTAINER_MAIN, "2");
	assert_int_equal(request_set_gpus(&request, 2, NULL), 0);
	fixture_place_on(&right, &request, 2, (const char *[]){"GPU-1", "GPU-2"});
	assert_true(placement_matches(&right, &request));
	placement_add(&order, "a", "GPU-1", 2, 0);
	placement_add(&order, "a", "GPU-2", 2, 0);
	placement_add(&order, "b", "GPU-2", 1, 0);
	placement_add(&order, "b", "GPU-1", 1, 0);
	assert_true(placement_matches(&order, &request));
	placement_add(&uneven, "a", "GPU-1", 3, 0);
	placement_add(&uneven, "a", "GPU-2", 1, 0);
	placement_add(&uneven, "b", "GPU-1", 1, 0);
	placement_add(&uneven, "b", "GPU-2", 1, 0);
	assert_false(placement_matches(&uneven, &request));
	placement_add(&one, "a", "GPU-1", 4, 0);
	placement_add(&one, "b", "GPU-1", 2, 0);
	assert_false(placement_matches(&one, &request));
	fixture_place_on(&three, &request, 3, (const char *[]){"GPU-1", "GPU-2", "GPU-3"});
	assert_false(placement_matches(&three, &request));
	placement_add(&others, "a", "GPU-1", 2, 0);
	placement_add(&others, "a", "GPU-2", 2, 0);
	placement_add(&others, "b", "GPU-1", 1, 0);
	placement_add(&others, "b", "GPU-3", 1, 0);
	assert_false(placement_matches(&others, &request));
	placement_add(&fewer, "a", "GPU-1", 2, 0);
	placement_add(&fewer, "a", "GPU-2", 2, 0);
	placement_add(&fewer, "b", "GPU-1", 2, 0);
	assert_false(placement_matches(&fewer, &request));
	placement_add(&core, "a", "GPU-1", 2, 5);
	placement_add(&core, "a", "GPU-2", 2, 0);
	placement_add(&core, "b", "GPU-1", 1, 0);
	placement_add(&core, "b", "GPU-2", 1, 0);
	assert_false(placement_matches(&core, &request));
}

/* ---- the ledger ---- */

static uint32_t used(struct world *w, int gpu)
{
	return ledger_node(&w->ledger, "n")->gpus[gpu].units_used;
}

static void each_gpu_of_a_pod_holds_its_part_until_the_end(void **state)
{
	const struct node_ledger *node;
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 3, (const uint32_t[]){15, 15, 15});
	OCCUPY(&w, "a", 8, "", "GPU-n-0", "GPU-n-2");
	node = ledger_node(&w.ledger, "n");
	assert_int_equal(used(&w, 0), 4);
	assert_int_equal(used(&w, 1), 0);
	assert_int_equal(used(&w, 2), 4);
	assert_int_equal(node->gpus[0].instances, 1);
	assert_int_equal(node->gpus[2].instances, 1);
	assert_int_equal(node->unplaced_units, 0);
	assert_int_equal(ledger_check(&w.ledger, NULL), 0);
	ledger_remove_pod(&w.ledger, "a");
	assert_int_equal(used(&w, 0) + used(&w, 2), 0);
	world_close(&w);
}

static void a_part_on_a_gpu_that_is_gone_counts_against_the_node(void **state)
{
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	OCCUPY(&w, "a", 8, "", "GPU-n-0", "GPU-gone");
	assert_int_equal(used(&w, 0), 4);
	assert_int_equal(ledger_node(&w.ledger, "n")->unplaced_units, 4);
	memcpy(w.node.gpus[1].uuid, "GPU-gone", sizeof("GPU-gone"));
	assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
	assert_int_equal(used(&w, 1), 4);
	assert_int_equal(ledger_node(&w.ledger, "n")->unplaced_units, 0);
	assert_int_equal(ledger_check(&w.ledger, NULL), 0);
	world_close(&w);
}

static void a_hold_needs_room_on_all_its_gpus(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	OCCUPY(&w, "a", 12, "", "GPU-n-1");
	wish(&pod, "p", 8, 2, "");
	fixture_place_on(&placement, &pod.request, 2, (const char *[]){"GPU-n-0", "GPU-n-1"});
	assert_int_equal(ledger_hold(&w.ledger, &pod, "n", &placement, 1), -ENOSPC);
	ledger_remove_pod(&w.ledger, "a");
	assert_int_equal(ledger_hold(&w.ledger, &pod, "n", &placement, 1), 0);
	assert_int_equal(used(&w, 0), 4);
	assert_int_equal(used(&w, 1), 4);
	world_close(&w);
}

static void another_label_ends_the_hold_for_the_old_one(void **state)
{
	_cleanup_pod_facts_ struct pod_facts two = {0}, four = {0};
	_cleanup_placement_ struct placement on_two = {0}, on_four = {0};
	const char *uuids[] = {"GPU-n-0", "GPU-n-1", "GPU-n-2", "GPU-n-3"};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 4, (const uint32_t[]){15, 15, 15, 15});
	wish(&two, "p", 8, 2, "");
	wish(&four, "p", 8, 4, "");
	fixture_place_on(&on_two, &two.request, 2, uuids);
	fixture_place_on(&on_four, &four.request, 4, uuids);
	assert_int_equal(ledger_set_pod(&w.ledger, &two), 0);
	assert_int_equal(ledger_hold(&w.ledger, &two, "n", &on_two, 1), 0);
	assert_int_equal(ledger_set_pod(&w.ledger, &four), 0);
	assert_int_equal(ledger_pod(&w.ledger, "p")->occupancy, OCCUPANCY_WAITING);
	assert_int_equal(used(&w, 0), 0);
	/* kube-scheduler may know the label before our watch does. */
	assert_int_equal(ledger_set_pod(&w.ledger, &two), 0);
	assert_int_equal(ledger_reserve(&w.ledger, &four, "n", &on_four), 0);
	assert_int_equal(used(&w, 0), 2);
	assert_int_equal(used(&w, 3), 2);
	/* A Binding on its way stays what it is. */
	assert_int_equal(ledger_set_pod(&w.ledger, &two), 0);
	assert_int_equal(used(&w, 3), 2);
	assert_int_equal(ledger_check(&w.ledger, NULL), 0);
	world_close(&w);
}

static void the_placement_of_a_bound_pod_wins_over_what_was_reserved(void **state)
{
	_cleanup_pod_facts_ struct pod_facts two = {0}, one = {0};
	_cleanup_placement_ struct placement on_two = {0};
	struct world w;

	world_open(&w, GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	wish(&two, "p", 8, 2, "");
	fixture_place_on(&on_two, &two.request, 2, (const char *[]){"GPU-n-0", "GPU-n-1"});
	assert_int_equal(ledger_reserve(&w.ledger, &two, "n", &on_two), 0);
	wish(&one, "p", 8, 1, "");
	fixture_bind(&one, "n", "GPU-n-1");
	assert_int_equal(ledger_set_pod(&w.ledger, &one), 0);
	assert_int_equal(used(&w, 0), 0);
	assert_int_equal(used(&w, 1), 8);
	/* Bound is bound: a later label changes nothing. */
	assert_int_equal(ledger_set_pod(&w.ledger, &two), 0);
	assert_int_equal(used(&w, 1), 8);
	assert_int_equal(ledger_check(&w.ledger, NULL), 0);
	world_close(&w);
}

/* ---- random nodes against a recount by every subset ---- */

#define GPUS 5

struct draw {
	uint64_t state;
};

static uint32_t draw(struct draw *d, uint32_t below)
{
	d->state = d->state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((d->state >> 33) % below);
}

struct gpu {
	uint32_t total, used, owned;
	bool healthy;
};

/* All subsets of m GPUs, compared GPU by GPU from the best on: the order of ration's documents, written
 * down without sorting. */
static bool gpu_before(const struct gpu *gpus, int a, int b, enum gpu_policy policy)
{
	uint32_t fa = gpus[a].total - gpus[a].used, fb = gpus[b].total - gpus[b].used;

	if (policy == GPU_POLICY_SPREAD && gpus[a].owned != gpus[b].owned)
		return gpus[a].owned < gpus[b].owned;
	if (fa != fb)
		return policy == GPU_POLICY_SPREAD ? fa > fb : fa < fb;
	return a < b;
}

static int bits(unsigned set)
{
	return __builtin_popcount(set);
}

/* The subset of which no GPU could be exchanged for a better one outside it; 0 if none has room. */
static unsigned best_subset(const struct gpu *gpus, int n, int m, uint32_t part, enum gpu_policy policy)
{
	unsigned room = 0;

	for (int i = 0; i < n; i++)
		if (gpus[i].healthy && gpus[i].total >= gpus[i].used + part)
			room |= 1u << i;
	for (unsigned set = 1; set < 1u << n; set++) {
		bool best = bits(set) == m && (set & room) == set;

		for (int in = 0; in < n && best; in++)
			for (int out = 0; out < n && best; out++)
				if ((set >> in & 1) && (room & ~set) >> out & 1)
					best = gpu_before(gpus, in, out, policy);
		if (best)
			return set;
	}
	return 0;
}

static void fill(struct draw *d, struct world *w, struct gpu *gpus, int n)
{
	const char *uuids[GPUS];
	char names[GPUS][32], uid[32];

	for (int pod = 0; pod < 4; pod++) {
		int m = 1 + (int)draw(d, (uint32_t)n), k = 0, left = n;
		uint32_t part = 1 + draw(d, 4);
		bool mine = draw(d, 2);

		for (int i = 0; i < n && k < m; i++, left--) {
			if ((int)draw(d, (uint32_t)left) >= m - k)
				continue;
			snprintf(names[k], sizeof(names[k]), "GPU-n-%d", i);
			uuids[k] = names[k];
			k++;
			gpus[i].used += part;
			gpus[i].owned += mine;
		}
		snprintf(uid, sizeof(uid), "old%d", pod);
		occupy(w, uid, part * (uint32_t)m, mine ? "job" : "other", (size_t)m, uuids);
	}
}

static void check_choice(struct world *w, const struct gpu *gpus, int n, int m, uint32_t part, uint64_t seed)
{
	_cleanup_pod_facts_ struct pod_facts pod = {0};
	_cleanup_placement_ struct placement placement = {0};
	unsigned expected = best_subset(gpus, n, m, part, w->node.policy), got = 0;
	int r;

	wish(&pod, "asking", part * (uint32_t)m, (uint32_t)m, "job");
	r = placement_choose(ledger_node(&w->ledger, "n"), &pod.request, "job", &placement);
	for (size_t i = 0; r == FITS && i < placement.containers[0].n_gpus; i++) {
		assert_int_equal(placement.containers[0].gpus[i].units, part);
		got |= 1u << atoi(placement.containers[0].gpus[i].uuid + strlen("GPU-n-"));
	}
	if (got != expected || bits(got) != (expected ? m : 0))
		fail_msg("seed %llu: %d of %d cards, %u units each: set %#x, not %#x",
			(unsigned long long)seed, m, n, part, got, expected);
	if (r == FITS && ledger_hold(&w->ledger, &pod, "n", &placement, 1) < 0)
		fail_msg("seed %llu: the chosen cards have no room", (unsigned long long)seed);
	for (int i = 0; i < n; i++)
		assert_int_equal(used(w, i), gpus[i].used + ((got >> i & 1) ? part : 0));
}

static void the_chosen_gpus_are_the_best_of_all_subsets(void **state)
{
	for (uint64_t seed = 1; seed <= 20000; seed++) {
		struct draw d = {.state = seed};
		struct gpu gpus[GPUS] = {0};
		uint32_t units[GPUS];
		struct world w;
		int n = 1 + (int)draw(&d, GPUS);

		for (int i = 0; i < n; i++) {
			/* Pods that are there already never take a GPU over its total here. */
			units[i] = gpus[i].total = 16 + draw(&d, 8);
			gpus[i].healthy = draw(&d, 8) > 0;
		}
		world_open(&w, draw(&d, 2) ? GPU_POLICY_SPREAD : GPU_POLICY_BINPACK, (size_t)n, units);
		for (int i = 0; i < n; i++)
			w.node.gpus[i].healthy = gpus[i].healthy;
		assert_int_equal(ledger_set_node(&w.ledger, &w.node), 0);
		fill(&d, &w, gpus, n);
		check_choice(&w, gpus, n, 1 + (int)draw(&d, (uint32_t)n), 1 + draw(&d, 20), seed);
		world_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_gpu_is_as_if_nothing_was_said),
		cmocka_unit_test(every_gpu_carries_an_equal_part_of_the_effective_request),
		cmocka_unit_test(the_label_is_a_plain_number_from_1_to_64),
		cmocka_unit_test(the_units_of_each_container_must_divide),
		cmocka_unit_test(computing_power_is_not_spread_over_gpus),
		cmocka_unit_test(amounts_beyond_all_gpus_are_not_asked_to_divide),
		cmocka_unit_test(containers_times_gpus_are_limited),
		cmocka_unit_test(binpack_takes_the_fullest_gpus_that_fit),
		cmocka_unit_test(spread_takes_gpus_without_the_owners_pods_then_the_emptiest),
		cmocka_unit_test(gpus_are_named_by_index_whatever_made_them_the_best),
		cmocka_unit_test(a_node_says_why_it_has_not_so_many_gpus),
		cmocka_unit_test(sick_gpus_are_not_among_the_gpus),
		cmocka_unit_test(all_containers_are_on_all_gpus_with_their_own_part),
		cmocka_unit_test(placement_matches_exactly_m_gpus_with_equal_parts),
		cmocka_unit_test(each_gpu_of_a_pod_holds_its_part_until_the_end),
		cmocka_unit_test(a_part_on_a_gpu_that_is_gone_counts_against_the_node),
		cmocka_unit_test(a_hold_needs_room_on_all_its_gpus),
		cmocka_unit_test(another_label_ends_the_hold_for_the_old_one),
		cmocka_unit_test(the_placement_of_a_bound_pod_wins_over_what_was_reserved),
		cmocka_unit_test(the_chosen_gpus_are_the_best_of_all_subsets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
