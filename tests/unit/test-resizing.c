/* Requests for another size, by the API server's answers: what the pod counts as while its size is not
 * known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "core/events.h"
#include "core/registry/resize.h"
#include "core/resizing.h"
#include "model-fixture.h"

#define AGAIN_NS (20 * INT64_C(1000) * 1000 * 1000)

static struct core core;
static int64_t now_ns;

/* The request is the number of units. */
static int parse(void *userdata, const struct pod_facts *facts, struct placement *target, struct error *err)
{
	target->resizes++;
	return placement_resize(target, &facts->request, "main", (uint32_t)atoi(facts->resize), err);
}

static int write_yes(void *userdata, void *shown, const struct pod_facts *facts,
	const struct placement *target, bool same, struct resize_answer *ret_answer, struct error *err)
{
	ret_answer->text = strdup("yes");
	return 0;
}

static int write_no(void *userdata, void *shown, const struct pod_facts *facts, const struct error *why,
	struct resize_answer *ret_answer)
{
	ret_answer->text = strdup("no");
	return 0;
}

static int set_up(void **state)
{
	struct ownership ownership;
	_cleanup_node_facts_ struct node_facts node;

	core_init(&core, NULL);
	core.nodes_listed = core.pods_listed = core.following = true;
	core.resizings.ops = (struct resize_ops){
		.parse = parse, .write_yes = write_yes, .write_no = write_no};
	ownership_always(&ownership);
	core_set_ownership(&core, &ownership);
	now_ns = AGAIN_NS;
	fixture_node(&node, "n", GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	node.mode = GPU_MODE_CGPU;
	return core_see_node(&core, &node);
}

static int tear_down(void **state)
{
	size_t wrong = ledger_check(&core.ledger, NULL);

	core_release(&core);
	return wrong ? -1 : 0;
}

static uint32_t used(void)
{
	return ledger_node(&core.ledger, "n")->gpus[0].units_used;
}

/* The pod as the API server shows it: it got 4 units by its Binding, and 9 if `resizes`. */
static void make_pod(struct pod_facts *pod, uint32_t resizes, bool asks)
{
	fixture_pod(pod, "a", 4, "");
	fixture_bind(pod, "n", "GPU-n-0");
	pod->running = true;
	if (resizes)
		assert_int_equal(placement_resize(&pod->placement, &pod->request, "main", 9, NULL), 0);
	if (resizes)
		assert_int_equal(request_resize(&pod->request, &pod->placement), 0);
	pod->placement.resizes = resizes;
	pod->resize = asks ? strdup("9") : NULL;
}

static void show_pod(uint32_t resizes, bool asks)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	make_pod(&pod, resizes, asks);
	assert_int_equal(core_see_pod(&core, &pod, 0, now_ns), 0);
}

static struct resizing *next(enum resize_order order)
{
	struct resizing *resizing;

	now_ns += AGAIN_NS;
	core_tick_resizes(&core, now_ns);
	resizing = core_next_resize_order(&core);
	assert_non_null(resizing);
	assert_int_equal(resizing->order, order);
	return resizing;
}

/* 9 units are asked for, the PATCH was sent, and no answer has come. */
static struct resizing *send_without_answer(void)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	struct resizing *resizing;

	show_pod(0, true);
	core_resize_leads(&core, next(RESIZE_CHECK_LEADER), true, now_ns);
	resizing = next(RESIZE_LIST_NODE);
	make_pod(&pod, 0, true);
	core_resize_listed(&core, resizing, true, &pod, NULL, now_ns);
	core_resize_answered(&core, next(RESIZE_SEND), PATCH_UNKNOWN, "", now_ns);
	assert_int_equal(used(), 9);
	return next(RESIZE_SEND);
}

static void delete_by_force(void)
{
	assert_int_equal(core_pod_is_gone(&core, "a", true, now_ns), 0);
	assert_int_equal(used(), 9);
}

static void tell(uint32_t units)
{
	_cleanup_node_facts_ struct node_facts node;
	struct held_pod *held;

	fixture_node(&node, "n", GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	node.mode = GPU_MODE_CGPU;
	memcpy(node.held.at, "1", sizeof("1"));
	assert_int_equal(held_add_pod(&node.held, "a", "default", "a", &held), 0);
	assert_int_equal(held_pod_add_gpu(held, "GPU-n-0", units, 0), 0);
	assert_int_equal(core_see_node(&core, &node), 0);
	assert_int_equal(used(), units);
}

static void a_pod_that_is_deleted_in_doubt_has_the_larger_size_until_its_node_tells(void **state)
{
	struct resizing *resizing = send_without_answer();

	delete_by_force();
	core_resize_answered(&core, resizing, PATCH_GONE, "", now_ns);
	assert_int_equal(used(), 9);
	assert_null(resizings_find(&core.resizings, "a"));
	tell(4);
}

static void so_has_one_that_the_list_no_longer_shows(void **state)
{
	struct resizing *resizing = send_without_answer();

	core_resize_answered(&core, resizing, PATCH_CONFLICT, "", now_ns);
	resizing = next(RESIZE_LIST_NODE);
	delete_by_force();
	core_resize_listed(&core, resizing, true, NULL, NULL, now_ns);
	assert_int_equal(used(), 9);
	assert_null(resizings_find(&core.resizings, "a"));
	tell(9);
}

/* The list is ahead of the watch, so it is asked for again until the watch tells the end, too. */
static void a_list_without_the_pod_decides_nothing(void **state)
{
	struct resizing *resizing = send_without_answer();

	core_resize_answered(&core, resizing, PATCH_CONFLICT, "", now_ns);
	core_resize_listed(&core, next(RESIZE_LIST_NODE), true, NULL, NULL, now_ns);
	assert_int_equal(used(), 9);
	resizing = next(RESIZE_LIST_NODE);
	delete_by_force();
	core_resize_listed(&core, resizing, true, NULL, NULL, now_ns);
	assert_null(resizings_find(&core.resizings, "a"));
}

static void a_list_with_the_pod_tells_that_it_was_not_applied(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	struct resizing *resizing = send_without_answer();

	core_resize_answered(&core, resizing, PATCH_CONFLICT, "", now_ns);
	make_pod(&pod, 0, true);
	core_resize_listed(&core, next(RESIZE_LIST_NODE), true, &pod, NULL, now_ns);
	assert_int_equal(used(), 4);
}

/* An API server that is busy has not looked at the PATCH that it was sent first either. */
static void a_busy_api_server_ends_no_doubt(void **state)
{
	struct resizing *resizing = send_without_answer();

	core_resize_answered(&core, resizing, PATCH_LATER, "", now_ns);
	assert_int_equal(used(), 9);
	core_resize_answered(&core, next(RESIZE_SEND), PATCH_APPLIED, "", now_ns);
	assert_int_equal(used(), 9);
	assert_null(resizings_find(&core.resizings, "a"));
}

/* The watch was interrupted: its new LIST shows both at once. */
static void a_pod_that_grew_and_failed_counts_as_it_was_last(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	show_pod(0, false);
	make_pod(&pod, 1, false);
	pod.finished = true;
	assert_int_equal(core_see_pod(&core, &pod, 0, now_ns), 0);
	assert_int_equal(used(), 9);
	tell(9);
}

#define CORE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CORE(a_pod_that_is_deleted_in_doubt_has_the_larger_size_until_its_node_tells),
		CORE(so_has_one_that_the_list_no_longer_shows),
		CORE(a_list_without_the_pod_decides_nothing),
		CORE(a_list_with_the_pod_tells_that_it_was_not_applied),
		CORE(a_busy_api_server_ends_no_doubt),
		CORE(a_pod_that_grew_and_failed_counts_as_it_was_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
