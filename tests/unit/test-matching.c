/* Which pod is this Allocate for? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent-fixture.h"
#include "node/matching.h"
#include "node/served.h"
#include "core/registry/ledger.h"
#include "core/registry/resize.h"

#define PODS_MAX 4

struct fixture {
	struct pod_facts facts[PODS_MAX];
	struct matching_pod pods[PODS_MAX];
	size_t n;
	struct served served;
	bool ask[PODS_MAX];
	struct matching found;
	struct error err;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	served_init(&f->served);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < f->n; i++)
		pod_facts_release(&f->facts[i]);
	served_release(&f->served);
	free(f);
	return 0;
}

/* A listed pod with one main container "c" of so many units on the GPU. */
static struct matching_pod *add(struct fixture *f, const char *uid, uint32_t units, const char *uuid)
{
	struct matching_pod *pod = &f->pods[f->n];

	fixture_pod(&f->facts[f->n], uid, uid);
	if (units)
		fixture_add(&f->facts[f->n], "c", CONTAINER_MAIN, units, uuid);
	*pod = (struct matching_pod){.namespace_ = "default", .name = uid, .facts = &f->facts[f->n]};
	f->n++;
	return pod;
}

static void serve(struct fixture *f, const char *uid, const char *container)
{
	char *ids[] = {"0-0"};

	assert_int_equal(served_add(&f->served, uid, container, ids, 1), 0);
}

static enum matching_verdict decide(struct fixture *f, size_t n_ids)
{
	f->err.text[0] = '\0';
	return matching_decide(f->pods, f->n, n_ids, &f->served, f->ask, &f->found, &f->err);
}

static void the_only_pod_without_devices_is_the_one(void **state)
{
	struct fixture *f = *state;

	add(f, "plain", 0, NULL);
	add(f, "served", 2, UUID_0)->lists_devices = true;
	add(f, "new", 2, UUID_1);
	serve(f, "served", "c");
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 2);
	assert_string_equal(f->found.container->name, "c");
	assert_true(f->found.placed);
}

static void containers_are_served_in_spec_order_with_init_containers_first(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *name;
		enum container_kind kind;
		uint32_t units;
	} order[] = {{"i1", CONTAINER_INIT, 7}, {"side", CONTAINER_SIDECAR, 1}, {"m1", CONTAINER_MAIN, 3},
		{"m2", CONTAINER_MAIN, 3}};

	fixture_pod(&f->facts[0], "u", "p");
	for (size_t i = 0; i < 4; i++)
		fixture_add(&f->facts[0], order[i].name, order[i].kind, order[i].units, UUID_0);
	f->pods[0] = (struct matching_pod){.namespace_ = "default", .name = "p", .facts = &f->facts[0]};
	f->n = 1;
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(decide(f, order[i].units), MATCHING_FOUND);
		assert_string_equal(f->found.container->name, order[i].name);
		serve(f, "u", order[i].name);
	}
}

static void unknown_pod_is_asked_for_before_anything_is_decided(void **state)
{
	struct fixture *f = *state;

	add(f, "known", 2, UUID_0);
	add(f, "unknown", 2, UUID_1)->facts = NULL;
	assert_int_equal(decide(f, 2), MATCHING_ASK);
	assert_false(f->ask[0]);
	assert_true(f->ask[1]);
	f->pods[1].fresh = true; /* asked: it does not exist */
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 0);
}

static void served_name_without_devices_is_another_pod_by_now(void **state)
{
	struct fixture *f = *state;

	add(f, "x-0", 2, UUID_0);
	serve(f, "x-0", "c");
	assert_int_equal(decide(f, 2), MATCHING_ASK);
	assert_true(f->ask[0]);
}

static void served_pod_that_has_its_devices_is_not_asked_for(void **state)
{
	struct fixture *f = *state;

	add(f, "old", 2, UUID_0)->lists_devices = true;
	add(f, "new", 2, UUID_0);
	serve(f, "old", "c");
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 1);
}

static void nobody_waiting_is_refused_after_all_were_asked(void **state)
{
	struct fixture *f = *state;

	add(f, "served", 2, UUID_0)->lists_devices = true;
	add(f, "finished", 2, UUID_0);
	f->facts[1].finished = true;
	add(f, "plain", 0, NULL);
	serve(f, "served", "c");
	assert_int_equal(decide(f, 2), MATCHING_ASK);
	assert_true(f->ask[1]); /* the kubelet does not list pods that have ended: it is another one by now */
	assert_false(f->ask[0] || f->ask[2]);
	f->pods[1].fresh = true;
	assert_int_equal(decide(f, 2), MATCHING_ASK);
	assert_true(f->ask[0]);
	assert_false(f->ask[1] || f->ask[2]);
	for (size_t i = 0; i < 3; i++)
		f->pods[i].fresh = true;
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "no pod on its list waits"));
}

static void empty_list_is_refused(void **state)
{
	assert_int_equal(decide(*state, 2), MATCHING_REFUSED);
}

static void another_number_than_the_container_asks_is_refused(void **state)
{
	struct fixture *f = *state;

	add(f, "p", 3, UUID_0);
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "asks for 3 units, but the kubelet gives 2"));
}

static void pod_without_placement_is_asked_for_once_and_then_found_unplaced(void **state)
{
	struct fixture *f = *state;

	add(f, "p", 3, NULL);
	assert_int_equal(decide(f, 3), MATCHING_ASK);
	assert_true(f->ask[0]);
	f->pods[0].fresh = true;
	assert_int_equal(decide(f, 3), MATCHING_FOUND);
	assert_false(f->found.placed);
}

static void static_pod_is_refused(void **state)
{
	struct fixture *f = *state;

	add(f, "p", 3, UUID_0)->is_static = true;
	assert_int_equal(decide(f, 3), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "static pods"));
}

static void of_several_the_one_that_is_not_going_and_asks_that_number_is_taken(void **state)
{
	struct fixture *f = *state;

	add(f, "going", 2, UUID_0);
	f->facts[0].deleting = true;
	add(f, "granted", 2, UUID_0)->has_grant = true;
	add(f, "larger", 3, UUID_0);
	add(f, "right", 2, UUID_1);
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 3);
}

static void several_with_the_same_placement_are_as_good_as_one(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 2, UUID_1);
	add(f, "b", 2, UUID_1);
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
}

static void several_with_different_placements_are_refused_by_name(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 2, UUID_0);
	add(f, "b", 2, UUID_1);
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "default/a and default/b"));
}

/* Names that come back. PodResources has no uid, and each watch lags as it likes. Found by the simulation. */

static void pod_whose_name_may_return_is_asked_for_before_it_is_taken(void **state)
{
	struct fixture *f = *state;

	add(f, "x-0", 2, UUID_0)->may_return = true;
	assert_int_equal(decide(f, 2), MATCHING_ASK);
	assert_true(f->ask[0]);
	f->pods[0].fresh = true;
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	f->pods[0].unanswered = true;
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "does not say whether"));
}

static void listed_pod_that_has_devices_we_never_gave_is_not_the_new_one_of_its_name(void **state)
{
	struct fixture *f = *state;

	add(f, "x-0", 2, UUID_0)->lists_devices = true; /* the kubelet still lists the old x-0 */
	add(f, "y", 2, UUID_1);
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 1);
}

static void devices_we_never_gave_are_a_gap_in_our_record_if_nobody_else_waits(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 2, UUID_0)->lists_devices = true;
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 0);
	assert_false(f->found.anew);
}

static void record_of_a_predecessor_of_the_same_name_is_forgotten(void **state)
{
	struct fixture *f = *state;

	add(f, "x-0", 2, UUID_0);
	add(f, "old", 2, UUID_1)->lists_devices = true;
	serve(f, "x-0", "c"); /* it was the old x-0's call, but the API server had the new one already */
	serve(f, "old", "c");
	f->pods[0].fresh = f->pods[1].fresh = true;
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 0);
	assert_true(f->found.anew);
	assert_string_equal(f->found.container->name, "c");
}

/* Totals */

static enum matching_verdict check(struct fixture *f)
{
	struct gpu_facts gpus[2] = {{.mib = 16160}, {.mib = 16160}};

	strcpy(gpus[0].uuid, UUID_0);
	strcpy(gpus[1].uuid, UUID_1);
	return matching_check_totals(f->pods, f->n, &f->found, &f->served, gpus, 2, 1024, f->ask, &f->err);
}

/* It was placed when the node counted in units of 2 GiB: 5 of those are 10, and with 6 more the GPU of 15 is
 * too full. */
static void units_of_another_size_are_converted_before_they_are_summed(void **state)
{
	struct fixture *f = *state;

	add(f, "old", 5, UUID_0)->has_grant = true;
	f->facts[0].placement.unit_mib = 2048;
	add(f, "new", 6, UUID_0);
	f->pods[0].fresh = f->pods[1].fresh = true;
	f->found = (struct matching){.pod = 1};
	assert_int_equal(check(f), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "has 15 units, with this pod its pods would hold 16"));
	f->facts[1].placement.containers[0].gpus[0].units = 5;
	assert_int_equal(check(f), MATCHING_FOUND);
}

/* Found by the simulation: without its checkpoint the kubelet asks anew for containers that do not run, of
 * whatever pod. */
static void call_that_may_be_of_either_of_two_pods_that_lost_their_devices_is_refused(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 0, NULL)->fresh = true;
	fixture_add(&f->facts[0], "init", CONTAINER_INIT, 2, UUID_0);
	fixture_add(&f->facts[0], "main", CONTAINER_MAIN, 4, UUID_0);
	add(f, "b", 2, UUID_1)->fresh = true;
	serve(f, "a", "init"); /* anew; its main container runs, and is not asked for */
	serve(f, "b", "c");
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "default/a and default/b"));
	assert_int_equal(decide(f, 4), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 0);
	assert_string_equal(f->found.container->name, "main");
}

/* "a" was asked for first; its main container runs, so the kubelet does not ask for that. */
static void a_container_that_runs_is_not_asked_for(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 0, NULL)->runs = 2;
	fixture_add(&f->facts[0], "init", CONTAINER_INIT, 3, UUID_0);
	fixture_add(&f->facts[0], "main", CONTAINER_MAIN, 3, UUID_0);
	serve(f, "a", "init");
	add(f, "b", 3, UUID_1);
	assert_int_equal(decide(f, 3), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 1);
}

/* Its status is old: the container runs. */
static void a_pod_that_had_its_turn_is_not_meant(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 3, UUID_0)->has_grant = true;
	add(f, "b", 3, UUID_1)->has_grant = true;
	f->facts[0].running = f->facts[1].running = true;
	assert_int_equal(decide(f, 3), MATCHING_REFUSED);
	f->pods[0].had_turn = true;
	assert_int_equal(decide(f, 3), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 1);
}

static void of_pods_without_devices_a_new_one_is_meant_first(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 3, UUID_0)->has_grant = true;
	f->facts[0].running = true;
	add(f, "new", 3, UUID_1);
	assert_int_equal(decide(f, 3), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 1);
}

/* A container ended while the kubelet was away. */
static void an_old_status_is_doubted_for_the_only_container_that_can_be_meant(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 3, UUID_0)->runs = 1;
	add(f, "b", 4, UUID_1)->runs = 1;
	f->pods[0].fresh = f->pods[1].fresh = true;
	assert_int_equal(decide(f, 4), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 1);
	assert_string_equal(f->found.container->name, "c");
	add(f, "d", 4, UUID_0)->runs = 1;
	f->pods[2].fresh = true;
	assert_int_equal(decide(f, 4), MATCHING_REFUSED);
}

/* Found by the simulation, seed 598596: "x-0" was created again, and the kubelet still lists the pod before
 * it, which runs. The call is for "lost": the kubelet has lost its devices. */
static void new_pod_of_a_name_that_may_return_is_not_taken_beside_one_that_lost_its_devices(void **state)
{
	struct fixture *f = *state;

	add(f, "x-0", 2, UUID_0)->may_return = true;
	add(f, "lost", 2, UUID_1);
	serve(f, "lost", "c");
	f->pods[0].fresh = f->pods[1].fresh = true;
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "default/x-0 and default/lost"));
	/* No other pod can have this name: it is listed because it has its turn. */
	f->pods[0].may_return = false;
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 0);
	assert_true(f->found.alone);
	/* It may have ended while the kubelet was away. */
	f->pods[0].may_return = true;
	f->pods[1].runs = 1;
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
	f->pods[1].lists_devices = true;
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 0);
	f->pods[1].lists_devices = false;
	f->pods[1].had_turn = true;
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	f->pods[1].had_turn = false;
	f->pods[1].runs = 0;
	/* Both pods would get the same. */
	strcpy(f->facts[1].placement.containers[0].gpus[0].uuid, UUID_0);
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_false(f->found.alone);
}

/* Found by the simulation likewise: the kubelet does not know yet that "going" is deleted, and starts it. */
static void new_pod_of_a_name_that_may_return_is_not_taken_beside_one_that_is_deleted(void **state)
{
	struct fixture *f = *state;

	add(f, "x-0", 2, UUID_0)->may_return = true;
	add(f, "going", 2, UUID_1)->may_return = true;
	f->facts[1].deleting = true;
	f->pods[0].fresh = f->pods[1].fresh = true;
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
	f->facts[1].deleting = false;
	f->pods[1].lists_devices = true; /* given to the pod before it */
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 0);
	assert_true(f->found.alone);
}

/* By the word of the container runtime: the kubelet does not ask for what runs. */
static void a_new_pod_of_a_name_that_may_return_is_taken_beside_pods_that_surely_run(void **state)
{
	struct fixture *f = *state;

	add(f, "x-0", 2, UUID_0)->may_return = true;
	add(f, "lost", 2, UUID_1)->runs = 1;
	add(f, "old", 2, UUID_1);
	serve(f, "lost", "c");
	serve(f, "old", "c"); /* it runs, and its status does not say it yet */
	for (size_t i = 0; i < 3; i++)
		f->pods[i].fresh = true;
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
	f->pods[1].runs_now = 1;
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "default/x-0 and default/old"));
	f->pods[2].runs_now = 1;
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 0);
	assert_true(f->found.alone);
}

/* What runs may be an earlier pod of that name, deleted by force. The kubelet may ask for the present one. */
static void a_pod_that_surely_runs_is_excluded_only_if_it_is_certain_that_it_is_the_listed_one(void **state)
{
	struct fixture *f = *state;

	add(f, "x-0", 2, UUID_0)->may_return = true;
	add(f, "y-0", 2, UUID_1)->may_return = true;
	f->pods[0].fresh = true;
	f->pods[1].runs = f->pods[1].runs_now = 1;
	assert_int_equal(decide(f, 2), MATCHING_ASK);
	assert_true(f->ask[1] && !f->ask[0]);
	f->pods[1].fresh = f->pods[1].unanswered = true;
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
	f->pods[1].unanswered = false;
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 0);
	/* This name does not come again. */
	f->pods[1].fresh = f->pods[1].may_return = false;
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 0);
}

/* All run by their status, and one of them has ended. */
static void of_pods_that_run_the_one_that_does_not_by_the_runtime_is_meant(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < 3; i++) {
		add(f, (const char *[]){"a", "b", "d"}[i], 2, i % 2 ? UUID_1 : UUID_0)->runs = 1;
		f->pods[i].fresh = true;
	}
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
	f->pods[0].runs_now = f->pods[2].runs_now = 1;
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 1);
}

/* As of_pods_without_devices_a_new_one_is_meant_first, under a name that may return. */
static void new_pod_of_a_name_that_may_return_is_not_meant_first(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 3, UUID_0)->has_grant = true;
	add(f, "x-0", 3, UUID_1)->may_return = true;
	f->pods[1].fresh = true;
	assert_int_equal(decide(f, 3), MATCHING_REFUSED);
	f->facts[0].running = f->pods[0].had_turn = true;
	assert_int_equal(decide(f, 3), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 1);
}

/* Found by the simulation, seed 497912: both containers of "b" ended while the kubelet was away. Its first
 * one has its devices again. */
static void an_old_status_is_doubted_for_the_other_containers_of_a_pod_that_has_devices(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 1, UUID_0)->runs = 1;
	serve(f, "a", "c");
	add(f, "b", 2, UUID_1)->runs = 3;
	fixture_add(&f->facts[1], "d", CONTAINER_MAIN, 1, UUID_1);
	serve(f, "b", "c");
	f->pods[1].lists_devices = true;
	f->pods[0].fresh = f->pods[1].fresh = true;
	assert_int_equal(decide(f, 1), MATCHING_REFUSED);
	/* The call for its first container was for "b" (turn_took()). */
	f->pods[0].had_turn = true;
	assert_int_equal(decide(f, 1), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 1);
	assert_string_equal(f->found.container->name, "d");
	assert_false(f->found.anew);
	assert_int_equal(decide(f, 2), MATCHING_REFUSED); /* it has that one */
}

/* Of whole GPUs each container has its own. */
static void add_whole(struct fixture *f, const char *uid)
{
	static const char *const names[] = {"side", "main"}, *const gpus[] = {UUID_0, UUID_1};
	struct pod_facts *facts = &f->facts[f->n];

	add(f, uid, 0, NULL)->fresh = true;
	facts->has_placement = true;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(request_add_whole(&facts->request, names[i],
					 i ? CONTAINER_MAIN : CONTAINER_SIDECAR, 0, "1", NULL),
			0);
		assert_int_equal(placement_add(&facts->placement, names[i], gpus[i], 1, 0), 0);
	}
}

/* Found by the simulation: its sidecar runs and is not asked for, its main container had crashed. */
static void container_of_whole_gpus_is_not_guessed_once_its_devices_are_lost(void **state)
{
	struct fixture *f = *state;

	add_whole(f, "a");
	assert_int_equal(decide(f, 1), MATCHING_FOUND);
	assert_string_equal(f->found.container->name, "side");
	serve(f, "a", "side");
	f->pods[0].lists_devices = true;
	assert_int_equal(decide(f, 1), MATCHING_FOUND);
	assert_string_equal(f->found.container->name, "main");
	serve(f, "a", "main");
	f->pods[0].lists_devices = false;
	assert_int_equal(decide(f, 1), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "which of its containers"));
}

/* Found by the simulation: the kubelet was restarted without its record between the calls for two containers.
 * It asks for the first one again, which got the GPUs of the second. */
static void container_of_whole_gpus_is_not_guessed_for_a_pod_served_in_part_that_lost_its_devices(
	void **state)
{
	struct fixture *f = *state;

	add_whole(f, "a");
	serve(f, "a", "side");
	assert_int_equal(decide(f, 1), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "which of its containers"));
}

/* The same after a start of the agent, which then remembers nothing of it either. */
static void container_of_whole_gpus_is_not_guessed_for_a_pod_that_has_its_file(void **state)
{
	struct fixture *f = *state;

	add_whole(f, "a");
	f->pods[0].has_grant = true;
	assert_int_equal(decide(f, 1), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "which of its containers"));
}

/* Found by the simulation. The kubelet still lists the predecessor of "b" with its devices; "a" was served
 * under its predecessor's name. */
static void pod_without_devices_goes_before_one_whose_predecessor_has_them(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 2, UUID_0)->fresh = true;
	add(f, "b", 2, UUID_1)->fresh = true;
	f->pods[1].lists_devices = true;
	serve(f, "a", "c");
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 0);
	assert_true(f->found.anew);
}

static void second_container_is_served_beside_a_pod_that_has_its_devices(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 2, UUID_0)->fresh = true;
	fixture_add(&f->facts[0], "d", CONTAINER_MAIN, 2, UUID_0);
	add(f, "b", 2, UUID_1)->fresh = true;
	serve(f, "a", "c");
	f->pods[0].lists_devices = f->pods[1].lists_devices = true;
	serve(f, "b", "c");
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 0);
	assert_string_equal(f->found.container->name, "d");
}

/* Found by the simulation: a late event of its predecessor had taken the name from the pod that has the
 * devices, whose limit, which was to become smaller, was not looked at. */
static void devices_under_a_name_that_was_served_none_are_asked_about_before_gpus_are_counted(void **state)
{
	struct fixture *f = *state;

	add(f, "before", 2, UUID_0)->lists_devices = true;
	add(f, "new", 1, UUID_0)->fresh = true;
	f->found.pod = 1;
	assert_int_equal(check(f), MATCHING_FOUND); /* its name was drawn: our record lacks something */
	f->pods[0].may_return = true;
	assert_int_equal(check(f), MATCHING_ASK);
	assert_true(f->ask[0]);
	assert_false(f->ask[1]);
	f->pods[0].fresh = true; /* it is the one: the kubelet has not heard yet that another one ended */
	assert_int_equal(check(f), MATCHING_FOUND);
	add(f, "after", 15, UUID_0)->lists_devices = true;
	serve(f, "after", "c");
	f->pods[0] = f->pods[2]; /* or it is another, that was served */
	f->pods[0].fresh = true;
	f->n = 2;
	assert_int_equal(check(f), MATCHING_REFUSED); /* 15 + 1 of 15 */
	pod_facts_release(&f->facts[2]);
}

static void gpu_may_be_filled_to_its_last_unit(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 10, UUID_0)->lists_devices = true;
	add(f, "b", 5, UUID_0);
	serve(f, "a", "c");
	assert_int_equal(decide(f, 5), MATCHING_FOUND);
	assert_int_equal(check(f), MATCHING_FOUND); /* 16160 MiB are 15 units */
}

/* Found by the simulation: the kubelet has lost its checkpoint, the agent was started anew. */
static void a_pod_with_a_grant_counts_although_nobody_remembers_that_it_was_served(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 10, UUID_0)->has_grant = true;
	add(f, "b", 6, UUID_0);
	f->found.pod = 1;
	assert_int_equal(check(f), MATCHING_ASK);
	assert_true(f->ask[0]);
	f->pods[0].has_grant = false;
	assert_int_equal(check(f), MATCHING_FOUND);
}

static void one_unit_too_many_asks_about_the_others_and_is_then_refused(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 10, UUID_0)->lists_devices = true;
	add(f, "b", 6, UUID_0);
	serve(f, "a", "c");
	assert_int_equal(decide(f, 6), MATCHING_FOUND);
	assert_int_equal(check(f), MATCHING_ASK);
	assert_true(f->ask[0]);
	assert_false(f->ask[1]);
	f->pods[0].fresh = true;
	assert_int_equal(check(f), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, "has 15 units, with this pod its pods would hold 16"));
}

static void give(struct fixture *f, size_t i, uint32_t units)
{
	f->facts[i].placement.containers[0].gpus[0].units = units;
	f->facts[i].placement.resizes++;
	assert_int_equal(request_resize(&f->facts[i].request, &f->facts[i].placement), 0);
}

static void a_gpu_is_filled_by_what_resized_pods_have_now(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 5, UUID_0)->lists_devices = true;
	add(f, "b", 5, UUID_0);
	serve(f, "a", "c");
	give(f, 0, 11);
	f->pods[0].fresh = true;
	assert_int_equal(decide(f, 5), MATCHING_FOUND);
	assert_int_equal(check(f), MATCHING_REFUSED);
	give(f, 0, 10);
	assert_int_equal(check(f), MATCHING_FOUND);
}

/* A kubelet that was restarted asks again for a container of a pod that was resized before. */
static void the_kubelet_counts_what_the_spec_says(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 5, UUID_0);
	give(f, 0, 2);
	assert_int_equal(decide(f, 5), MATCHING_FOUND);
	assert_string_equal(f->found.container->name, "c");
	assert_int_equal(decide(f, 2), MATCHING_REFUSED);
}

static void pods_that_are_over_or_elsewhere_or_not_served_do_not_count(void **state)
{
	struct fixture *f = *state;

	add(f, "over", 15, UUID_0)->lists_devices = true;
	add(f, "other", 15, UUID_1)->lists_devices = true;
	add(f, "b", 15, UUID_0);
	f->facts[0].finished = true;
	serve(f, "over", "c");
	serve(f, "other", "c");
	assert_int_equal(decide(f, 15), MATCHING_FOUND);
	assert_int_equal(f->found.pod, 2);
	assert_int_equal(check(f), MATCHING_FOUND);
}

/* A listed pod with these units in equal parts on both GPUs: an init container and a smaller main one. */
static void add_on_both(struct fixture *f, const char *uid, uint32_t init_units, uint32_t main_units)
{
	struct pod_facts *facts = &f->facts[f->n];
	const char *uuids[] = {UUID_0, UUID_1};

	add(f, uid, 0, NULL);
	fixture_add(facts, "i", CONTAINER_INIT, init_units, NULL);
	fixture_add(facts, "c", CONTAINER_MAIN, main_units, NULL);
	assert_int_equal(request_set_gpus(&facts->request, 2, NULL), 0);
	facts->has_placement = true;
	for (size_t k = 0; k < 2; k++) {
		assert_int_equal(placement_add(&facts->placement, "i", uuids[k], init_units / 2, 0), 0);
		assert_int_equal(placement_add(&facts->placement, "c", uuids[k], main_units / 2, 0), 0);
	}
}

static void a_pod_on_two_gpus_takes_half_of_its_need_from_each(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 9, UUID_1)->lists_devices = true;
	serve(f, "a", "c");
	f->pods[0].fresh = true;
	/* 9 + 12 / 2 = 15 of 15 */
	add_on_both(f, "b", 12, 4);
	assert_int_equal(decide(f, 12), MATCHING_FOUND);
	assert_string_equal(f->found.container->name, "i");
	assert_int_equal(check(f), MATCHING_FOUND);
}

static void a_pod_on_two_gpus_is_refused_for_either_of_them(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 9, UUID_1)->lists_devices = true;
	serve(f, "a", "c");
	f->pods[0].fresh = true;
	add_on_both(f, "b", 14, 4);
	assert_int_equal(decide(f, 14), MATCHING_FOUND);
	assert_int_equal(check(f), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text, UUID_1 " has 15 units, with this pod its pods would hold 16"));
}

/* It gets this percentage of its GPU, as its spec asks. */
static void give_core(struct fixture *f, size_t i, uint32_t core)
{
	struct pod_facts *facts = &f->facts[i];

	facts->request.containers[0].core = core;
	facts->placement.containers[0].gpus[0].core = core;
	request_recompute(&facts->request);
}

static void a_gpu_has_100_percent_for_those_that_were_served(void **state)
{
	struct fixture *f = *state;

	add(f, "a", 2, UUID_0)->lists_devices = true;
	give_core(f, 0, 60);
	serve(f, "a", "c");
	add(f, "elsewhere", 2, UUID_1)->lists_devices = true;
	give_core(f, 1, 60);
	serve(f, "elsewhere", "c");
	add(f, "b", 2, UUID_0);
	give_core(f, 2, 40);
	assert_int_equal(decide(f, 2), MATCHING_FOUND);
	assert_int_equal(check(f), MATCHING_FOUND);
	give_core(f, 2, 45);
	assert_int_equal(check(f), MATCHING_ASK);
	assert_true(f->ask[0]);
	assert_false(f->ask[1]);
	f->pods[0].fresh = true;
	assert_int_equal(check(f), MATCHING_REFUSED);
	assert_non_null(strstr(f->err.text,
		UUID_0 " has 100 percent of computing power, with this pod its pods would hold 105"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_only_pod_without_devices_is_the_one),
		TEST(a_gpu_has_100_percent_for_those_that_were_served),
		TEST(containers_are_served_in_spec_order_with_init_containers_first),
		TEST(unknown_pod_is_asked_for_before_anything_is_decided),
		TEST(served_name_without_devices_is_another_pod_by_now),
		TEST(served_pod_that_has_its_devices_is_not_asked_for),
		TEST(nobody_waiting_is_refused_after_all_were_asked),
		TEST(empty_list_is_refused),
		TEST(another_number_than_the_container_asks_is_refused),
		TEST(pod_without_placement_is_asked_for_once_and_then_found_unplaced),
		TEST(static_pod_is_refused),
		TEST(of_several_the_one_that_is_not_going_and_asks_that_number_is_taken),
		TEST(several_with_the_same_placement_are_as_good_as_one),
		TEST(several_with_different_placements_are_refused_by_name),
		TEST(pod_whose_name_may_return_is_asked_for_before_it_is_taken),
		TEST(listed_pod_that_has_devices_we_never_gave_is_not_the_new_one_of_its_name),
		TEST(devices_we_never_gave_are_a_gap_in_our_record_if_nobody_else_waits),
		TEST(record_of_a_predecessor_of_the_same_name_is_forgotten),
		TEST(units_of_another_size_are_converted_before_they_are_summed),
		TEST(call_that_may_be_of_either_of_two_pods_that_lost_their_devices_is_refused),
		TEST(a_container_that_runs_is_not_asked_for),
		TEST(a_pod_that_had_its_turn_is_not_meant),
		TEST(of_pods_without_devices_a_new_one_is_meant_first),
		TEST(an_old_status_is_doubted_for_the_only_container_that_can_be_meant),
		TEST(an_old_status_is_doubted_for_the_other_containers_of_a_pod_that_has_devices),
		TEST(new_pod_of_a_name_that_may_return_is_not_taken_beside_one_that_lost_its_devices),
		TEST(new_pod_of_a_name_that_may_return_is_not_taken_beside_one_that_is_deleted),
		TEST(a_new_pod_of_a_name_that_may_return_is_taken_beside_pods_that_surely_run),
		TEST(a_pod_that_surely_runs_is_excluded_only_if_it_is_certain_that_it_is_the_listed_one),
		TEST(of_pods_that_run_the_one_that_does_not_by_the_runtime_is_meant),
		TEST(new_pod_of_a_name_that_may_return_is_not_meant_first),
		TEST(container_of_whole_gpus_is_not_guessed_once_its_devices_are_lost),
		TEST(container_of_whole_gpus_is_not_guessed_for_a_pod_served_in_part_that_lost_its_devices),
		TEST(container_of_whole_gpus_is_not_guessed_for_a_pod_that_has_its_file),
		TEST(pod_without_devices_goes_before_one_whose_predecessor_has_them),
		TEST(second_container_is_served_beside_a_pod_that_has_its_devices),
		TEST(devices_under_a_name_that_was_served_none_are_asked_about_before_gpus_are_counted),
		TEST(gpu_may_be_filled_to_its_last_unit),
		TEST(a_pod_with_a_grant_counts_although_nobody_remembers_that_it_was_served),
		TEST(one_unit_too_many_asks_about_the_others_and_is_then_refused),
		TEST(a_gpu_is_filled_by_what_resized_pods_have_now),
		TEST(the_kubelet_counts_what_the_spec_says),
		TEST(pods_that_are_over_or_elsewhere_or_not_served_do_not_count),
		TEST(a_pod_on_two_gpus_takes_half_of_its_need_from_each),
		TEST(a_pod_on_two_gpus_is_refused_for_either_of_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
