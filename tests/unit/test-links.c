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
#include "core/placement/links.h"
#include "links-layouts.h"

typedef const char *const (*matrix)[8];

static struct links *links_of(matrix layout)
{
	struct links *links = links_new(8, NVLINK_GBPS);

	assert_non_null(links);
	for (size_t a = 0; a < 8; a++)
		for (size_t b = 0; b < 8; b++) {
			struct link link;

			assert_string_equal(layout[a][b], layout[b][a]);
			if (a == b)
				continue;
			assert_int_equal(link_parse(layout[a][b], &link), 0);
			links_set(links, a, b, link);
		}
	return links;
}

static uint64_t set_of(const char *digits)
{
	uint64_t set = 0;

	for (; *digits; digits++)
		set |= UINT64_C(1) << (*digits - '0');
	return set;
}

static void assert_plan(const struct links *links, const char *free_gpus, const char *near, size_t gpus,
	size_t pods, const char *part, const char *all)
{
	struct links_ask ask = {.free = set_of(free_gpus), .near = set_of(near), .gpus = gpus, .pods = pods};
	uint64_t got, together;

	assert_int_equal(links_plan_job(links, &ask, &got, &together), 0);
	assert_int_equal(got, set_of(part));
	assert_int_equal(together, set_of(all));
}

struct plan_row {
	const char *free_gpus, *near;
	size_t gpus, pods;
	const char *part, *all;
};

static void assert_plans(matrix layout, const struct plan_row *rows, size_t n)
{
	_cleanup_free_ struct links *links = links_of(layout);

	for (size_t i = 0; i < n; i++)
		assert_plan(links, rows[i].free_gpus, rows[i].near, rows[i].gpus, rows[i].pods, rows[i].part,
			rows[i].all);
}

/* ---- the score once more, in another way: every order of the GPUs is a ring ---- */

static uint32_t ring_from(const struct links *links, size_t first, size_t last, uint64_t left)
{
	uint32_t best = 0;

	if (!left)
		return links_between(links, last, first);
	for (size_t i = 0; i < links->n; i++) {
		uint32_t link, rest;

		if (!(left >> i & 1))
			continue;
		link = links_between(links, last, i);
		rest = ring_from(links, first, i, left & ~(UINT64_C(1) << i));
		if (rest < link)
			link = rest;
		if (link > best)
			best = link;
	}
	return best;
}

static struct links_score brute_score(const struct links *links, uint64_t set)
{
	struct links_score score = {0};
	size_t first = 0;

	if (__builtin_popcountll(set) < 2)
		return score;
	while (!(set >> first & 1))
		first++;
	score.ring = ring_from(links, first, first, set & ~(UINT64_C(1) << first));
	for (size_t a = 0; a < links->n; a++)
		for (size_t b = 0; b < a; b++)
			if ((set >> a & 1) && (set >> b & 1))
				score.sum += links_between(links, a, b);
	return score;
}

/* > 0: a is better; by position where nothing else tells. */
static int brute_compare(const struct links *links, uint64_t a, uint64_t b, uint64_t free_gpus)
{
	struct links_score mine[] = {brute_score(links, a), brute_score(links, free_gpus & ~a)};
	struct links_score others[] = {brute_score(links, b), brute_score(links, free_gpus & ~b)};

	for (size_t i = 0; i < 2; i++) {
		if (mine[i].ring != others[i].ring)
			return mine[i].ring > others[i].ring ? 1 : -1;
		if (mine[i].sum != others[i].sum)
			return mine[i].sum > others[i].sum ? 1 : -1;
	}
	for (size_t i = 0; i < links->n; i++)
		if ((a >> i & 1) != (b >> i & 1))
			return a >> i & 1 ? 1 : -1;
	return 0;
}

static uint64_t brute_best(const struct links *links, uint64_t free_gpus, size_t gpus)
{
	uint64_t best = 0;

	for (uint64_t set = 1; set < UINT64_C(1) << links->n; set++)
		if (!(set & ~free_gpus) && (size_t)__builtin_popcountll(set) == gpus &&
			(!best || brute_compare(links, set, best, free_gpus) > 0))
			best = set;
	return best;
}

static void assert_best_of_all(matrix layout)
{
	_cleanup_free_ struct links *links = links_of(layout);
	/* All, all but a broken one, and what several small pods leave. */
	static const char *const frees[] = {
		"01234567", "1234567", "0124567", "012567", "123567", "0356", "27"};

	for (size_t i = 0; i < ARRAY_SIZE(frees); i++)
		for (size_t gpus = 1; gpus <= strlen(frees[i]); gpus++) {
			struct links_ask ask = {.free = set_of(frees[i]), .gpus = gpus};
			uint64_t part, all;

			assert_int_equal(links_plan_job(links, &ask, &part, &all), 0);
			assert_int_equal(part, all);
			assert_int_equal(part, brute_best(links, ask.free, gpus));
		}
}

static void links_best_set_is_the_exhaustive_optimum_on_published_layouts(void **state)
{
	assert_best_of_all(layout_dgx1_v100);
	assert_best_of_all(layout_dgx_a100);
	assert_best_of_all(layout_pcie_8);
}

static void links_score_is_that_of_every_ring_tried(void **state)
{
	static const matrix layouts[] = {layout_dgx1_v100, layout_dgx_a100, layout_pcie_8};

	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		_cleanup_free_ struct links *links = links_of(layouts[i]);

		for (uint64_t set = 1; set < 256; set++) {
			struct links_score ours = links_score(links, set), brute = brute_score(links, set);

			assert_int_equal(ours.ring, brute.ring);
			assert_int_equal(ours.sum, brute.sum);
		}
	}
}

/* By hand: the quad's pairs have 1+1+2+2+1+2 links, its best ring 0-3-2-1 has two of one link. */
static void links_score_of_a_quad_of_dgx1(void **state)
{
	_cleanup_free_ struct links *links = links_of(layout_dgx1_v100);
	struct links_score quad = links_score(links, set_of("0123")), pair = links_score(links, set_of("03"));

	assert_int_equal(quad.sum, 9 * 25);
	assert_int_equal(quad.ring, 25);
	assert_int_equal(pair.ring, 50);
	assert_int_equal(pair.sum, 50);
	assert_int_equal(links_score(links, set_of("5")).sum, 0);
	assert_int_equal(links_score(links, set_of("05")).ring, 6);
}

static void links_dgx1_gives_quads_to_two_pods_of_four(void **state)
{
	static const struct plan_row rows[] = {
		{"01234567", "", 4, 1, "0123", "0123"},
		{"4567", "", 4, 1, "4567", "4567"},
		{"01234567", "", 4, 2, "0123", "01234567"},
		{"4567", "0123", 4, 1, "4567", "4567"},
	};

	assert_plans(layout_dgx1_v100, rows, ARRAY_SIZE(rows));
}

static void links_dgx1_gives_all_of_eight(void **state)
{
	static const struct plan_row rows[] = {
		{"01234567", "", 8, 1, "01234567", "01234567"},
	};

	assert_plans(layout_dgx1_v100, rows, ARRAY_SIZE(rows));
}

/* A quad and three are left: one pod of four gets the quad, the other one waits. */
static void links_dgx1_with_a_broken_gpu_still_gives_a_quad(void **state)
{
	static const struct plan_row rows[] = {
		{"0134567", "", 4, 1, "4567", "4567"},
		{"0134567", "", 4, 2, "4567", "4567"},
	};

	assert_plans(layout_dgx1_v100, rows, ARRAY_SIZE(rows));
}

/* The pods of a job are neighbours: the second one takes the rest of its quad, although others are as good by
 * themselves. */
static void links_second_pod_of_a_job_is_near_the_first(void **state)
{
	static const struct plan_row rows[] = {
		{"01234567", "", 2, 2, "03", "0123"},
		{"124567", "03", 2, 1, "12", "12"},
		{"01234567", "", 2, 4, "03", "01234567"},
	};

	assert_plans(layout_dgx1_v100, rows, ARRAY_SIZE(rows));
}

/* Without the job the second pod would not care. */
static void links_pcie_keeps_switches_and_processors_whole(void **state)
{
	static const struct plan_row rows[] = {
		{"01234567", "", 2, 1, "01", "01"},
		{"01234567", "", 1, 1, "0", "0"},
		{"1234567", "", 1, 1, "1", "1"},
		{"1234567", "", 2, 1, "23", "23"},
		{"1234567", "", 4, 1, "4567", "4567"},
		{"234567", "", 2, 2, "45", "4567"},
	};

	assert_plans(layout_pcie_8, rows, ARRAY_SIZE(rows));
}

/* Sixteen GPUs, all alike: 12,870 sets of eight, the lowest of which it is. */
static void links_sixteen_gpus_are_compared_all(void **state)
{
	_cleanup_free_ struct links *links = links_new(16, NVLINK_GBPS);
	struct links_ask ask = {.free = 0xffff, .gpus = 8, .pods = 1};
	uint64_t part, all;

	for (size_t a = 0; a < 16; a++)
		for (size_t b = 0; b < a; b++)
			links_set(links, a, b, (struct link){LINK_NVLINK, 6});
	assert_int_equal(links_plan_job(links, &ask, &part, &all), 0);
	assert_int_equal(part, 0xff);
	ask.gpus = 4;
	ask.pods = 4;
	assert_int_equal(links_plan_job(links, &ask, &part, &all), 0);
	assert_int_equal(part, 0xf);
	assert_int_equal(all, 0xffff);
	assert_int_equal(links_score(links, 0xffff).ring, 150);
}

/* Two islands of twenty: more than can be compared, and still nobody is given both. */
static void links_of_more_gpus_than_can_be_compared_stay_on_an_island(void **state)
{
	_cleanup_free_ struct links *links = links_new(40, NVLINK_GBPS);
	struct links_ask ask = {.free = (UINT64_C(1) << 40) - 1, .gpus = 10, .pods = 1};
	uint64_t part, all;

	for (size_t a = 0; a < 40; a++)
		for (size_t b = 0; b < a; b++)
			links_set(links, a, b,
				a % 2 == b % 2 ? (struct link){LINK_NVLINK, 12} : (struct link){LINK_SYS, 0});
	ask.free &= ~UINT64_C(1);
	assert_int_equal(links_plan_job(links, &ask, &part, &all), 0);
	assert_int_equal(__builtin_popcountll(part), 10);
	assert_true((part & UINT64_C(0x5555555555555555)) == 0 || (part & UINT64_C(0xaaaaaaaaaaaaaaaa)) == 0);
	assert_int_equal(part & ~ask.free, 0);
}

static void links_unknown_gives_the_lowest_gpus(void **state)
{
	assert_plan(NULL, "23567", "", 2, 1, "23", "23");
}

static void links_refuses_what_cannot_be(void **state)
{
	struct links_ask ask = {.free = 7, .gpus = 4, .pods = 1};
	uint64_t part = 99, all = 99;

	assert_int_equal(links_plan_job(NULL, &ask, &part, &all), -ENOSPC);
	ask.gpus = 0;
	assert_int_equal(links_plan_job(NULL, &ask, &part, &all), -EINVAL);
	assert_int_equal(part, 99);
	assert_int_equal(all, 99);
}

static void link_text_is_read_back(void **state)
{
	static const char *const texts[] = {"?", "SYS", "NODE", "PHB", "PXB", "PIX", "NV1", "NV12", "NV99"};
	uint32_t before = 0;
	char buf[LINK_TEXT_SIZE];
	struct link link;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(link_parse(texts[i], &link), 0);
		assert_string_equal(link_text(link, buf), texts[i]);
		assert_true(link_gbps(link, NVLINK_GBPS) >= before);
		before = link_gbps(link, NVLINK_GBPS);
	}
}

static void link_text_that_is_none_is_refused(void **state)
{
	static const char *const texts[] = {"", "X", "NV", "NV0", "NV100", "NV-1", "nv2", "PIX ", "NV2x"};
	struct link link;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(link_parse(texts[i], &link), -EINVAL);
}

/* Each set of free GPUs of each layout, for a pod alone and for one whose job has a GPU already. */
static void links_memo_says_what_is_computed_and_computes_it_once_for_nodes_that_are_alike(void **state)
{
	matrix layouts[] = {layout_dgx1_v100, layout_dgx_a100, layout_pcie_8};
	struct links_memo *memo = links_memo_new();
	struct links *links[2 * ARRAY_SIZE(layouts)];
	size_t once = 0;

	for (size_t k = 0; k < ARRAY_SIZE(links); k++)
		links[k] = links_of(layouts[k / 2]);
	for (uint64_t free_gpus = 0; free_gpus < 256; free_gpus++)
		for (size_t k = 0; k < ARRAY_SIZE(links); k++) {
			struct links_ask ask = {
				.free = free_gpus, .near = free_gpus & 1 ? 0 : 1, .gpus = 2, .pods = 2};
			struct links_score got = links_memo_plan_score(memo, links[k], &ask);
			uint64_t part = 0, all;

			links_plan_job(links[k], &ask, &part, &all);
			assert_int_equal(links_compare(got, links_score(links[k], part | ask.near)), 0);
			once += k % 2 == 0;
		}
	assert_int_equal(links_memo_computed(memo), once);
	links_memo_free(memo);
	for (size_t k = 0; k < ARRAY_SIZE(links); k++)
		free(links[k]);
}

/* Found by the simulation. The worst part is 0 and 1, whatever the others are; of those 2 and 4, 3 and 5 have
 * the largest sum (2 + 9 NVLinks), though their worst is less than that of 2 and 3, 4 and 5 (3 + 3). */
static void links_sum_is_that_of_all_parts_beside_the_worst(void **state)
{
	static const struct {
		size_t a, b;
		uint8_t lanes;
	} rows[] = {{0, 1, 1}, {2, 3, 3}, {4, 5, 3}, {2, 4, 2}, {3, 5, 9}};
	_cleanup_free_ struct links *links = links_new(6, NVLINK_GBPS);

	assert_non_null(links);
	for (size_t a = 0; a < 6; a++)
		for (size_t b = 0; b < a; b++)
			links_set(links, a, b, (struct link){.kind = LINK_SYS});
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		links_set(links, rows[i].a, rows[i].b,
			(struct link){.kind = LINK_NVLINK, .lanes = rows[i].lanes});
	assert_plan(links, "012345", "", 2, 3, "35", "012345");
	/* For those two pods alone the worst is theirs. */
	assert_plan(links, "2345", "", 2, 2, "23", "2345");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_best_set_is_the_exhaustive_optimum_on_published_layouts),
		cmocka_unit_test(links_score_is_that_of_every_ring_tried),
		cmocka_unit_test(links_score_of_a_quad_of_dgx1),
		cmocka_unit_test(links_dgx1_gives_quads_to_two_pods_of_four),
		cmocka_unit_test(links_dgx1_gives_all_of_eight),
		cmocka_unit_test(links_dgx1_with_a_broken_gpu_still_gives_a_quad),
		cmocka_unit_test(links_second_pod_of_a_job_is_near_the_first),
		cmocka_unit_test(links_pcie_keeps_switches_and_processors_whole),
		cmocka_unit_test(links_sum_is_that_of_all_parts_beside_the_worst),
		cmocka_unit_test(links_sixteen_gpus_are_compared_all),
		cmocka_unit_test(links_of_more_gpus_than_can_be_compared_stay_on_an_island),
		cmocka_unit_test(links_unknown_gives_the_lowest_gpus),
		cmocka_unit_test(links_refuses_what_cannot_be),
		cmocka_unit_test(
			links_memo_says_what_is_computed_and_computes_it_once_for_nodes_that_are_alike),
		cmocka_unit_test(link_text_is_read_back),
		cmocka_unit_test(link_text_that_is_none_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
