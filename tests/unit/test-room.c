#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "node/room.h"
#include "base/cleanup.h"
#include "model-fixture.h"

/* One GPU of 15 units; pod "new" with 6 of them; orphans and others as each test says. */
struct world {
	struct gpu_facts gpu;
	struct held orphans;
	struct pod_facts pod, other;
	const struct pod_facts *others[1];
	struct room room;
	struct error err;
};

static void place(struct pod_facts *pod, const char *uid, uint32_t units)
{
	fixture_pod(pod, uid, units, "");
	fixture_bind(pod, "n", "GPU-n-0");
}

static int world_setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->gpu = (struct gpu_facts){.uuid = "GPU-n-0", .mib = 15 * 1024};
	place(&w->pod, "new", 6);
	place(&w->other, "other", 5);
	w->others[0] = &w->other;
	w->room = (struct room){
		.gpus = &w->gpu, .n_gpus = 1, .unit_mib = 1024, .orphans = &w->orphans, .others = w->others};
	*state = w;
	return 0;
}

static int world_teardown(void **state)
{
	struct world *w = *state;

	held_release(&w->orphans);
	pod_facts_release(&w->pod);
	pod_facts_release(&w->other);
	free(w);
	return 0;
}

static void add_orphan(struct world *w, const char *uid, const char *gpu, uint32_t units, uint32_t core)
{
	struct held_pod *pod;

	assert_int_equal(held_add_pod(&w->orphans, uid, "default", uid, &pod), 0);
	assert_int_equal(held_pod_add_gpu(pod, gpu, units, core), 0);
}

static void a_pod_waits_for_an_orphan_beside_which_it_does_not_fit(void **state)
{
	struct world *w = *state;

	add_orphan(w, "old", "GPU-n-0", 10, 0);
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), -EBUSY);
	assert_non_null(strstr(w->err.text, "default/new"));
	assert_non_null(strstr(w->err.text, "GPU-n-0"));
	assert_non_null(strstr(w->err.text, "default/old (uid old)"));
}

static void a_pod_that_fits_beside_an_orphan_starts(void **state)
{
	struct world *w = *state;

	add_orphan(w, "old", "GPU-n-0", 9, 0);
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), 0);
}

static void an_orphan_on_another_gpu_is_in_nobodys_way(void **state)
{
	struct world *w = *state;

	add_orphan(w, "old", "GPU-n-1", 15, 0);
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), 0);
}

static void two_orphans_count_together(void **state)
{
	struct world *w = *state;

	add_orphan(w, "old", "GPU-n-0", 5, 0);
	add_orphan(w, "older", "GPU-n-0", 5, 0);
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), -EBUSY);
}

static void pods_that_have_started_count_beside_an_orphan(void **state)
{
	struct world *w = *state;

	add_orphan(w, "old", "GPU-n-0", 5, 0);
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), 0);
	w->room.n_others = 1;
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), -EBUSY);
}

/* A GPU that has become smaller: they would wait for each other for ever. */
static void pods_do_not_wait_for_pods_that_the_api_server_has(void **state)
{
	struct world *w = *state;

	w->gpu.mib = 8 * 1024;
	w->room.n_others = 1;
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), 0);
	w->room.behind = true;
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), -EBUSY);
}

/* The Binding of a scheduler that is gone came late, and Allocate did not count a pod that a restarted
 * kubelet had not listed yet. */
static void a_pod_does_not_start_beside_pods_that_leave_too_little(void **state)
{
	struct world *w = *state;

	w->gpu.mib = 8 * 1024;
	w->room.n_others = 1;
	w->room.first = true;
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), -EBUSY);
	assert_non_null(strstr(w->err.text, "default/new"));
	assert_non_null(strstr(w->err.text, "delete it"));
	w->room.first = false;
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), 0);
}

static void a_pod_does_not_wait_for_itself(void **state)
{
	struct world *w = *state;

	add_orphan(w, "new", "GPU-n-0", 15, 0);
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), 0);
}

static void the_percentage_counts_as_well(void **state)
{
	struct world *w = *state;

	w->pod.request.core = w->pod.request.containers[0].core = 40;
	w->pod.placement.containers[0].gpus[0].core = 40;
	add_orphan(w, "old", "GPU-n-0", 1, 60);
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), 0);
	add_orphan(w, "older", "GPU-n-0", 1, 5);
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), -EBUSY);
}

static void sums_of_forged_numbers_do_not_overflow(void **state)
{
	struct world *w = *state;

	add_orphan(w, "old", "GPU-n-0", UINT32_MAX, 0);
	add_orphan(w, "older", "GPU-n-0", UINT32_MAX, UINT32_MAX);
	assert_int_equal(room_check(&w->room, &w->pod, &w->err), -EBUSY);
}

#define room_test(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		room_test(a_pod_waits_for_an_orphan_beside_which_it_does_not_fit),
		room_test(a_pod_that_fits_beside_an_orphan_starts),
		room_test(an_orphan_on_another_gpu_is_in_nobodys_way),
		room_test(two_orphans_count_together),
		room_test(pods_that_have_started_count_beside_an_orphan),
		room_test(pods_do_not_wait_for_pods_that_the_api_server_has),
		room_test(a_pod_does_not_start_beside_pods_that_leave_too_little),
		room_test(a_pod_does_not_wait_for_itself),
		room_test(the_percentage_counts_as_well),
		room_test(sums_of_forged_numbers_do_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
