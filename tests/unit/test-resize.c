/* Another size for a pod that runs: the book counts what may be true. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"
#include "core/registry/resize.h"
#include "model-fixture.h"

static struct ledger ledger;

static int set_up(void **state)
{
	_cleanup_node_facts_ struct node_facts node;

	ledger_init(&ledger);
	fixture_node(&node, "n", GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	node.mode = GPU_MODE_CGPU;
	return ledger_set_node(&ledger, &node);
}

static int tear_down(void **state)
{
	size_t wrong = ledger_check(&ledger, NULL);

	ledger_release(&ledger);
	return wrong ? -1 : 0;
}

static void run(const char *uid, uint32_t units, const char *gpu)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	fixture_pod(&pod, uid, units, "");
	fixture_bind(&pod, "n", gpu);
	assert_int_equal(ledger_set_pod(&ledger, &pod), 0);
}

static uint32_t used(int gpu)
{
	return ledger_node(&ledger, "n")->gpus[gpu].units_used;
}

static int resize(const char *uid, uint32_t units, struct error *err)
{
	const struct ledger_pod *pod = ledger_pod(&ledger, uid);
	_cleanup_placement_ struct placement target = {0};

	assert_int_equal(placement_copy(&pod->placement, &target), 0);
	assert_int_equal(placement_resize(&target, &pod->facts.request, "main", units, NULL), 0);
	target.resizes++;
	return ledger_resize(&ledger, uid, &target, err);
}

/* As the watch shows the pod of one container after that many resizes. */
static void show(const char *uid, uint32_t units, uint32_t resizes, const char *gpu)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	fixture_pod(&pod, uid, units, "");
	fixture_bind(&pod, "n", gpu);
	pod.placement.resizes = resizes;
	assert_int_equal(ledger_set_pod(&ledger, &pod), 0);
}

static void growth_counts_at_once_and_stays_when_it_is_confirmed(void **state)
{
	run("a", 4, "GPU-n-0");
	assert_int_equal(resize("a", 9, NULL), 0);
	assert_int_equal(used(0), 9);
	ledger_resize_confirm(&ledger, "a");
	assert_int_equal(used(0), 9);
	ledger_resize_release(&ledger, "a"); /* too late */
	assert_int_equal(used(0), 9);
	assert_int_equal(ledger_pod(&ledger, "a")->placement.resizes, 1);
}

static void what_is_given_back_is_free_only_when_that_is_certain(void **state)
{
	run("a", 9, "GPU-n-0");
	assert_int_equal(resize("a", 4, NULL), 0);
	assert_int_equal(used(0), 9);
	ledger_resize_confirm(&ledger, "a");
	assert_int_equal(used(0), 4);
}

/* The kubelet counts the device ids of the spec, which are ids of the pod's own GPU. While that GPU is sick,
 * it gives none of them to another pod anyway. */
static void the_ids_of_a_pod_made_smaller_on_a_sick_gpu_take_nothing_from_the_others(void **state)
{
	_cleanup_node_facts_ struct node_facts node;
	_cleanup_pod_facts_ struct pod_facts large;

	run("a", 9, "GPU-n-1");
	fixture_node(&node, "n", GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	node.mode = GPU_MODE_CGPU;
	node.gpus[1].healthy = false;
	assert_int_equal(ledger_set_node(&ledger, &node), 0);
	assert_int_equal(resize("a", 4, NULL), 0);
	ledger_resize_confirm(&ledger, "a");
	fixture_pod(&large, "b", 15, "");
	assert_int_equal(ledger_choose(&ledger, "n", &large, NULL), FITS);
	/* When the GPU is well again, 15 + 11 units are free, but the kubelet has only 15 + 6 ids. */
	node.gpus[1].healthy = true;
	assert_int_equal(ledger_set_node(&ledger, &node), 0);
	assert_int_equal(node_free_units(ledger_node(&ledger, "n")), 21);
}

static void a_refused_resize_leaves_the_pod_as_it_was(void **state)
{
	run("a", 4, "GPU-n-0");
	assert_int_equal(resize("a", 9, NULL), 0);
	ledger_resize_release(&ledger, "a");
	assert_int_equal(used(0), 4);
	assert_int_equal(ledger_pod(&ledger, "a")->placement.resizes, 0);
	assert_int_equal(resize("a", 5, NULL), 0);
}

static void only_one_is_under_way(void **state)
{
	run("a", 4, "GPU-n-0");
	assert_int_equal(resize("a", 9, NULL), 0);
	assert_int_equal(resize("a", 5, NULL), -EBUSY);
}

static void there_must_be_room_on_the_pods_own_gpu(void **state)
{
	struct error err = {""};

	run("a", 4, "GPU-n-0");
	run("b", 8, "GPU-n-0");
	assert_int_equal(resize("a", 8, &err), -ENOSPC);
	assert_string_equal(err.text, "4 more units are needed on GPU 0, which has 3 units free");
	assert_int_equal(used(0), 12);
	assert_int_equal(resize("a", 7, NULL), 0);
}

static void gpus_kept_for_a_nominated_pod_are_not_taken(void **state)
{
	_cleanup_pod_facts_ struct pod_facts waiting;
	_cleanup_placement_ struct placement placement;

	run("a", 4, "GPU-n-0");
	fixture_pod(&waiting, "w", 8, "");
	waiting.priority = 5;
	fixture_place(&placement, &waiting.request, "GPU-n-0");
	assert_int_equal(ledger_nominate(&ledger, &waiting, "n", &placement, NOMINATION_LASTS), 0);
	assert_int_equal(resize("a", 8, NULL), -ENOSPC);
	assert_int_equal(resize("a", 7, NULL), 0);
}

static void a_share_node_gives_no_other_sizes(void **state)
{
	_cleanup_node_facts_ struct node_facts node;
	struct error err = {""};

	fixture_node(&node, "n", GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	assert_int_equal(ledger_set_node(&ledger, &node), 0);
	run("a", 4, "GPU-n-0");
	assert_int_equal(resize("a", 3, &err), -EOPNOTSUPP);
	assert_non_null(strstr(err.text, "on cgpu and core_mem nodes only"));
}

static void the_watch_tells_the_outcome_and_older_news_are_known_as_such(void **state)
{
	run("a", 4, "GPU-n-0");
	assert_int_equal(resize("a", 9, NULL), 0);
	show("a", 4, 0, "GPU-n-0"); /* from before */
	assert_int_equal(used(0), 9);
	show("a", 6, 1, "GPU-n-0"); /* somebody else was faster, with another size */
	assert_int_equal(used(0), 6);
	ledger_resize_confirm(&ledger, "a");
	assert_int_equal(used(0), 6);
	show("a", 2, 2, "GPU-n-0");
	show("a", 6, 1, "GPU-n-0");
	show("a", 4, 0, "GPU-n-0");
	assert_int_equal(used(0), 2);
}

static void another_gpu_or_another_container_is_no_resize(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	run("a", 4, "GPU-n-0");
	show("a", 2, 1, "GPU-n-1");
	assert_int_equal(used(0), 4);
	assert_int_equal(used(1), 0);
	fixture_pod(&pod, "a", 0, "");
	assert_int_equal(request_add(&pod.request, "other", CONTAINER_MAIN, 0, "2", NULL, NULL), 0);
	fixture_bind(&pod, "n", "GPU-n-0");
	pod.placement.resizes = 1;
	assert_int_equal(ledger_set_pod(&ledger, &pod), 0);
	assert_int_equal(used(0), 4);
}

static void a_pod_seen_only_after_its_resize_counts_as_it_is(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	_cleanup_placement_ struct placement placement;

	/* Reserved by us at its first size; when the watch shows it, another has resized it. */
	fixture_pod(&pod, "a", 4, "");
	fixture_place(&placement, &pod.request, "GPU-n-0");
	assert_int_equal(ledger_reserve(&ledger, &pod, "n", &placement), 0);
	show("a", 11, 1, "GPU-n-0");
	assert_int_equal(used(0), 11);
	ledger_confirm(&ledger, "a");
	assert_int_equal(used(0), 11);
	show("b", 13, 5, "GPU-n-1");
	assert_int_equal(used(1), 13);
}

/* max(init 6, 2 + 3) is 6; with main 5 it is 8, with main 1 again 6. */
static void an_init_containers_need_stays_the_least(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	fixture_pod(&pod, "a", 0, "");
	assert_int_equal(request_add(&pod.request, "init", CONTAINER_INIT, 0, "6", NULL, NULL), 0);
	assert_int_equal(request_add(&pod.request, "main", CONTAINER_MAIN, 0, "2", NULL, NULL), 0);
	assert_int_equal(request_add(&pod.request, "second", CONTAINER_MAIN, 1, "3", NULL, NULL), 0);
	fixture_bind(&pod, "n", "GPU-n-0");
	assert_int_equal(ledger_set_pod(&ledger, &pod), 0);
	assert_int_equal(used(0), 6);
	assert_int_equal(resize("a", 5, NULL), 0);
	ledger_resize_confirm(&ledger, "a");
	assert_int_equal(used(0), 8);
	assert_int_equal(resize("a", 1, NULL), 0);
	ledger_resize_confirm(&ledger, "a");
	assert_int_equal(used(0), 6);
	/* The kubelet counts what the spec says. */
	assert_int_equal(request_find(&ledger_pod(&ledger, "a")->facts.request, "main")->asked, 2);
	assert_int_equal(request_find(&ledger_pod(&ledger, "a")->facts.request, "main")->units, 1);
}

static void a_pod_that_goes_takes_its_resize_with_it(void **state)
{
	run("a", 4, "GPU-n-0");
	assert_int_equal(resize("a", 9, NULL), 0);
	ledger_remove_pod(&ledger, "a");
	assert_int_equal(used(0), 0);
	ledger_resize_confirm(&ledger, "a");
	ledger_resize_release(&ledger, "a");
	assert_int_equal(used(0), 0);
}

static void an_orphan_has_the_size_that_it_may_have(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;

	fixture_pod(&pod, "a", 4, "");
	fixture_bind(&pod, "n", "GPU-n-0");
	pod.running = true;
	assert_int_equal(ledger_set_pod(&ledger, &pod), 0);
	assert_int_equal(resize("a", 9, NULL), 0);
	ledger_delete_pod(&ledger, "a", 100);
	assert_int_equal(used(0), 9);
	ledger_resize_release(&ledger, "a");
	assert_int_equal(used(0), 4);
}

/* The container of a deleted pod had `from` units and a PATCH for `to` was under way. The node tells that it
 * has `told`. */
static void expect_that_the_node_is_believed(const char *container, const char *from, uint32_t to,
	uint32_t told, void (*answer)(struct ledger *, const char *))
{
	_cleanup_node_facts_ struct node_facts node;
	_cleanup_pod_facts_ struct pod_facts pod;
	_cleanup_placement_ struct placement target = {0};
	struct held_pod *held;

	fixture_pod(&pod, "a", 0, "");
	assert_int_equal(request_add(&pod.request, container, CONTAINER_MAIN, 0, from, NULL, NULL), 0);
	fixture_bind(&pod, "n", "GPU-n-0");
	assert_int_equal(ledger_set_pod(&ledger, &pod), 0);
	assert_int_equal(placement_copy(&ledger_pod(&ledger, "a")->placement, &target), 0);
	assert_int_equal(placement_resize(&target, &pod.request, container, to, NULL), 0);
	target.resizes++;
	assert_int_equal(ledger_resize(&ledger, "a", &target, NULL), 0);

	fixture_node(&node, "n", GPU_POLICY_BINPACK, 2, (const uint32_t[]){15, 15});
	node.mode = GPU_MODE_CGPU;
	snprintf(node.held.at, sizeof(node.held.at), "1");
	assert_int_equal(held_add_pod(&node.held, "a", "default", "a", &held), 0);
	assert_int_equal(held_pod_add_gpu(held, "GPU-n-0", told, 0), 0);
	assert_int_equal(ledger_set_node(&ledger, &node), 0);
	ledger_delete_pod(&ledger, "a", 100);
	assert_int_equal(used(0), told);
	answer(&ledger, "a");
	assert_int_equal(used(0), told);
	ledger_remove_pod(&ledger, "a");
}

/* Nothing that the API server answers after that changes what the containers have: also if the node tells the
 * size that the ledger counts already, and if the container is called as the one by which the ledger
 * remembers such a size. */
static void a_late_answer_changes_no_size_that_the_node_has_told(void **state)
{
	static const struct {
		const char *from;
		uint32_t to, told;
	} sizes[] = {{"4", 9, 6}, {"4", 9, 4}, {"4", 9, 9}, {"9", 4, 9}, {"9", 4, 4}};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (size_t k = 0; k < 2; k++) {
			const char *name = k ? "held" : "main";

			expect_that_the_node_is_believed(
				name, sizes[i].from, sizes[i].to, sizes[i].told, ledger_resize_confirm);
			expect_that_the_node_is_believed(
				name, sizes[i].from, sizes[i].to, sizes[i].told, ledger_resize_release);
		}
	}
}

static void sizes_that_cannot_be_are_refused_with_a_sentence(void **state)
{
	_cleanup_pod_facts_ struct pod_facts pod;
	struct error err = {""};

	fixture_pod(&pod, "a", 4, "");
	assert_int_equal(request_set_gpus(&pod.request, 2, NULL), 0);
	fixture_bind_to(&pod, "n", 2, (const char *const[]){"GPU-n-0", "GPU-n-1"});
	assert_int_equal(placement_resize(&pod.placement, &pod.request, "nobody", 3, &err), -EINVAL);
	assert_string_equal(err.text, "container \"nobody\" asks for no aliyun.com/gpu-mem");
	assert_int_equal(placement_resize(&pod.placement, &pod.request, "main", 0, &err), -EINVAL);
	assert_int_equal(placement_resize(&pod.placement, &pod.request, "main", 5, &err), -EINVAL);
	assert_string_equal(
		err.text, "container main: 5 units cannot be divided by 2, the number of its GPUs");
	assert_int_equal(placement_resize(&pod.placement, &pod.request, "main", 6, &err), 0);
	assert_int_equal(pod.placement.containers[0].gpus[1].units, 3);
	assert_int_equal(request_resize(&pod.request, &pod.placement), 0);
	assert_int_equal(pod.request.units, 6);
}

#define LEDGER(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		LEDGER(growth_counts_at_once_and_stays_when_it_is_confirmed),
		LEDGER(what_is_given_back_is_free_only_when_that_is_certain),
		LEDGER(the_ids_of_a_pod_made_smaller_on_a_sick_gpu_take_nothing_from_the_others),
		LEDGER(a_refused_resize_leaves_the_pod_as_it_was),
		LEDGER(only_one_is_under_way),
		LEDGER(there_must_be_room_on_the_pods_own_gpu),
		LEDGER(gpus_kept_for_a_nominated_pod_are_not_taken),
		LEDGER(a_share_node_gives_no_other_sizes),
		LEDGER(the_watch_tells_the_outcome_and_older_news_are_known_as_such),
		LEDGER(another_gpu_or_another_container_is_no_resize),
		LEDGER(a_pod_seen_only_after_its_resize_counts_as_it_is),
		LEDGER(an_init_containers_need_stays_the_least),
		LEDGER(a_pod_that_goes_takes_its_resize_with_it),
		LEDGER(an_orphan_has_the_size_that_it_may_have),
		LEDGER(a_late_answer_changes_no_size_that_the_node_has_told),
		LEDGER(sizes_that_cannot_be_are_refused_with_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
