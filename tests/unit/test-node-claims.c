/* What an allocated ResourceClaim gives on this node, and which containers use it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent-fixture.h"
#include "node/claims.h"
#include "node/pods.h"
#include "node/published.h"
#include "node/registry.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* Two GPUs of 16160 MiB, in the mode dra. */
static int registry_setup(void **state)
{
	struct node_registry *node = malloc(sizeof(*node));
	struct gpu gpus[2] = {
		{.facts = {.mib = 16160, .healthy = true}}, {.facts = {.mib = 16160, .index = 1}}};

	assert_non_null(node);
	strcpy(gpus[0].facts.uuid, UUID_0);
	strcpy(gpus[1].facts.uuid, UUID_1);
	node_registry_init(node, "n1");
	node->inventory.unit_mib = 1024;
	assert_true(inventory_update(&node->inventory, gpus, 2));
	node->in_force = GPU_MODE_DRA;
	*state = node;
	return 0;
}

static int registry_teardown(void **state)
{
	node_registry_release(*state);
	free(*state);
	return 0;
}

static struct claim_result result_of(const char *device, uint64_t memory, uint32_t cores)
{
	struct claim_result result = {.ours = true, .memory = memory, .cores = cores};

	strcpy(result.request, "gpu");
	strcpy(result.driver, "gpu.ration.dev");
	strcpy(result.pool, "n1");
	strcpy(result.device, device);
	strcpy(result.share_id, "s");
	return result;
}

#define DEVICE_0 "gpu-00000000-0000-0000-0000-000000000000"
#define DEVICE_1 "gpu-11111111-1111-1111-1111-111111111111"

static int decide(const struct node_registry *node, const char *uid, struct claim_result *results, size_t n,
	struct node_claim **ret_claim, struct error *err)
{
	struct claim claim = {.allocated = true, .results = results, .n_results = n};

	strcpy(claim.uid, uid);
	strcpy(claim.namespace_, "default");
	strcpy(claim.name, "slice");
	return node_claim_decide(node, &claim, SHARE_NATIVE, ret_claim, err);
}

/* A claim with this much of the first GPU, among those of the node. */
static struct node_claim *put(struct node_registry *node, const char *uid, uint64_t memory, uint32_t cores)
{
	struct claim_result result = result_of(DEVICE_0, memory, cores);
	struct node_claim *claim = NULL;

	assert_int_equal(decide(node, uid, &result, 1, &claim, NULL), 0);
	assert_int_equal(node_claims_put(node, claim), 0);
	return claim;
}

static void add_pod(
	struct node_registry *node, const char *uid, const char *claim, bool running, bool finished)
{
	struct pod_facts facts;
	struct node_pod *pod;

	fixture_pod(&facts, uid, uid);
	facts.running = running;
	facts.finished = finished;
	pod = node_pods_put(&node->pods, &facts);
	assert_non_null(pod);
	pod_facts_release(&facts);
	pod_shown_release(&pod->shown);
	pod->shown.claims = calloc(1, sizeof(*pod->shown.claims));
	assert_non_null(pod->shown.claims);
	pod->shown.n_claims = 1;
	pod->shown.claims[0].claim = strdup(claim);
	pod->shown.claims[0].container = strdup("main");
	node_claims_follow(node, pod);
}

static void add_asking_pod(struct node_registry *node, const char *uid, bool asks)
{
	struct container_spec *spec = calloc(1, sizeof(*spec));
	struct node_pod *pod;

	add_pod(node, uid, "slice", false, false);
	pod = node_pods_by_uid(&node->pods, uid);
	assert_non_null(spec);
	spec->name = strdup("main");
	spec->asks_for_no_limit = asks;
	pod->shown.containers = spec;
	pod->shown.n_containers = 1;
}

static void stand_in_is_a_pod_of_one_container_in_units_of_a_mebibyte(void **state)
{
	struct claim_result result = result_of(DEVICE_0, 3 * GIB, 30);
	struct node_claim *claim = NULL;
	const struct pod_facts *facts;

	strcpy(result.request, "gpu/large");
	assert_int_equal(decide(*state, "u1", &result, 1, &claim, NULL), 0);
	assert_string_equal(claim->devices[0].request, "gpu"); /* containers name no subrequest */
	assert_string_equal(claim->devices[0].uuid, UUID_0);
	facts = &claim->stand_in.facts;
	assert_string_equal(facts->uid, "u1");
	assert_string_equal(facts->name, "slice");
	assert_int_equal(facts->placement.unit_mib, 1);
	assert_int_equal(facts->placement.n_containers, 1);
	assert_int_equal(facts->placement.containers[0].n_gpus, 1);
	assert_int_equal(facts->placement.containers[0].gpus[0].units, 3072);
	assert_int_equal(facts->placement.containers[0].gpus[0].core, 30);
	assert_int_equal(facts->request.units, 3072);
	assert_true(facts->has_placement);
	node_claim_free(claim);
}

static void devices_on_one_gpu_are_added_up(void **state)
{
	struct claim_result results[] = {result_of(DEVICE_0, GIB, 10), result_of(DEVICE_1, 2 * GIB, 0),
		result_of(DEVICE_0, 3 * GIB, 20)};
	struct node_claim *claim = NULL;
	const struct container_placement *placed;

	assert_int_equal(decide(*state, "u1", results, 3, &claim, NULL), 0);
	assert_int_equal(claim->n_devices, 3);
	placed = &claim->stand_in.facts.placement.containers[0];
	assert_int_equal(placed->n_gpus, 2);
	assert_int_equal(container_share(placed, UUID_0)->units, 4096);
	assert_int_equal(container_share(placed, UUID_0)->core, 30);
	assert_int_equal(container_share(placed, UUID_1)->units, 2048);
	assert_int_equal(container_share(placed, UUID_1)->core, 0);
	node_claim_free(claim);
}

static void assert_refused(struct node_registry *node, struct claim_result *result, const char *words)
{
	struct node_claim *claim = NULL;
	struct error err = {""};

	assert_int_equal(decide(node, "u1", result, 1, &claim, &err), -EINVAL);
	assert_null(claim);
	assert_non_null(strstr(err.text, words));
	assert_non_null(strstr(err.text, "ResourceClaim default/slice: "));
}

static void what_cannot_be_given_is_refused_by_name(void **state)
{
	struct claim_result result = result_of("gpu-other", GIB, 0);

	assert_refused(*state, &result, "GPU gpu-other is not on this node");
	result = result_of(DEVICE_0, GIB, 0);
	strcpy(result.pool, "n2");
	assert_refused(*state, &result, "in the pool n2, not on this node");
	result = result_of(DEVICE_0, GIB, 0);
	result.ours = false;
	strcpy(result.driver, "gpu.nvidia.com");
	assert_refused(*state, &result, "of gpu.nvidia.com");
	result = result_of(DEVICE_0, GIB + 1, 0);
	assert_refused(*state, &result, "not whole MiB");
	result = result_of(DEVICE_0, 16161 * MIB, 0);
	assert_refused(*state, &result, "16161 MiB of memory are allocated on GPU 0, which has 16160");
	result = result_of(DEVICE_0, 0, 0);
	assert_refused(*state, &result, "0 MiB");
	result = result_of(DEVICE_0, GIB, 101);
	assert_refused(*state, &result, "101 percent");
	result = result_of(DEVICE_0, GIB, 0);
	result.admin_access = true;
	assert_refused(*state, &result, "admin access");
}

static void all_of_a_gpu_can_be_given(void **state)
{
	struct claim_result result = result_of(DEVICE_0, 16160 * MIB, 100);
	struct node_claim *claim = NULL;

	assert_int_equal(decide(*state, "u1", &result, 1, &claim, NULL), 0);
	assert_int_equal(node_claim_fits(*state, claim, NULL), 0);
	node_claim_free(claim);
}

static void unhealthy_gpu_is_refused_to_new_claims_only(void **state)
{
	struct node_registry *node = *state;
	struct claim_result result = result_of(DEVICE_0, GIB, 0);
	struct node_claim *claim = NULL;

	put(node, "u2", GIB, 0);
	assert_true(inventory_driver_says(&node->inventory, UUID_0, "Xid 79"));
	assert_refused(node, &result, "Xid 79");
	assert_int_equal(decide(node, "u2", &result, 1, &claim, NULL), 0);
	node_claim_free(claim);
}

static void parameters_that_cannot_be_met_are_refused(void **state)
{
	struct claim_result result = result_of(DEVICE_0, GIB, 0);
	struct claim_config config = {.values = {.has_policy = true, .policy = SHARE_SOFT}};
	struct claim claim = {
		.allocated = true, .results = &result, .n_results = 1, .configs = &config, .n_configs = 1};
	struct node_claim *decided = NULL;
	struct error err = {""};

	assert_int_equal(node_claim_decide(*state, &claim, SHARE_NATIVE, &decided, &err), -EINVAL);
	assert_non_null(strstr(err.text, "policy 4 (soft), and this node follows 5 (native)"));
	assert_int_equal(node_claim_decide(*state, &claim, SHARE_SOFT, &decided, &err), 0);
	node_claim_free(decided);
	config = (struct claim_config){.values = {.weight = 7}};
	assert_int_equal(node_claim_decide(*state, &claim, SHARE_SOFT, &decided, &err), 0);
	assert_int_equal(power_facts_find(decided->stand_in.shown.power, decided->stand_in.shown.n_power,
				 CLAIM_CONTAINER)
				 ->weight,
		7);
	node_claim_free(decided);
}

/* A limit is given up only if its class allows it and every container that uses the claim asks for it. */
static void limit_is_given_up_when_all_containers_ask_and_the_class_allows(void **state)
{
	struct node_registry *node = *state;
	struct claim_result results[] = {result_of(DEVICE_0, GIB, 0), result_of(DEVICE_1, GIB, 0)};
	struct claim_config config = {.from_class = true, .has_allow_disable = true};
	struct claim claim = {.name = "slice",
		.namespace_ = "default",
		.allocated = true,
		.results = results,
		.n_results = 2,
		.configs = &config,
		.n_configs = 1};
	char named[1][CLAIM_REQUEST_SIZE] = {"other"};

	config.values.allow_disable = true;
	strcpy(results[1].request, "other");
	for (int round = 0; round < 4; round++) {
		bool class_allows = round != 1, first_asks = round != 2, second_asks = round != 3;
		struct node_claim *decided = NULL;

		config.requests = class_allows ? NULL
					       : named; /* then only one of two requests is allowed to */
		config.n_requests = class_allows ? 0 : 1;
		add_asking_pod(node, "p1", first_asks);
		add_asking_pod(node, "p2", second_asks);
		assert_int_equal(node_claim_decide(node, &claim, SHARE_NATIVE, &decided, NULL), 0);
		node_claim_settle(node, decided);
		assert_false(decided->unlimited); /* no container is known */
		node_claims_meet(node, decided);
		node_claim_settle(node, decided);
		assert_int_equal(decided->unlimited, round == 0);
		assert_int_equal(node_pod_asks_for_no_limit(&decided->stand_in, CLAIM_CONTAINER), round == 0);
		node_claim_free(decided);
	}
}

static void claims_together_have_at_most_the_gpu(void **state)
{
	struct node_registry *node = *state;
	struct claim_result result = result_of(DEVICE_0, 6 * GIB, 40);
	struct node_claim *claim = NULL;
	struct error err = {""};

	put(node, "u2", 10 * GIB - 224 * MIB, 60); /* 10016 MiB: 6144 more are 16160 */
	assert_int_equal(decide(node, "u1", &result, 1, &claim, NULL), 0);
	assert_int_equal(node_claim_fits(node, claim, NULL), 0);
	node_claims_remove(node, "u2");
	put(node, "u2", 10 * GIB - 223 * MIB, 60);
	assert_int_equal(node_claim_fits(node, claim, &err), -EAGAIN);
	assert_non_null(strstr(err.text, "16161 of 16160 MiB"));
	node_claims_remove(node, "u2");
	put(node, "u2", GIB, 61);
	assert_int_equal(node_claim_fits(node, claim, &err), -EAGAIN);
	assert_non_null(strstr(err.text, "101 of 100 percent"));
	node_claim_free(claim);
}

/* With claims of which each has next to nothing. */
static void gpu_and_node_have_at_most_so_many_claims(void **state)
{
	struct node_registry *node = *state;
	struct claim_result results[] = {result_of(DEVICE_1, MIB, 0), result_of(DEVICE_0, MIB, 0)};
	struct node_claim *on_both = NULL, *on_second = NULL, *known;
	struct error err = {""};
	char uid[32];

	assert_int_equal(decide(node, "b", results, 2, &on_both, NULL), 0);
	assert_int_equal(decide(node, "s", results, 1, &on_second, NULL), 0);
	for (int i = 0; i < 256; i++) {
		assert_int_equal(node_claim_fits(node, on_both, NULL), 0);
		snprintf(uid, sizeof(uid), "u%d", i);
		known = put(node, uid, MIB, 0);
	}
	assert_int_equal(node_claim_fits(node, on_both, &err), -EAGAIN);
	assert_non_null(strstr(err.text, "has 256 prepared claims, and takes no more than 256"));
	assert_non_null(strstr(err.text, UUID_0));
	/* The other GPU has room; and a claim that is prepared again is not one more. */
	assert_int_equal(node_claim_fits(node, on_second, NULL), 0);
	assert_int_equal(node_claim_fits(node, known, NULL), 0);
	node_claims_remove(node, "u7");
	assert_int_equal(node_claim_fits(node, on_both, NULL), 0);
	/* Claims whose records could not be read have no GPU, and count for the node. */
	for (int i = 256; i < 1024; i++) {
		assert_int_equal(node_claim_fits(node, on_both, NULL), 0);
		snprintf(uid, sizeof(uid), "u%d", i);
		assert_int_equal(node_claims_put(node, node_claim_new(uid, "?", "?")), 0);
	}
	assert_int_equal(node_claims_put(node, node_claim_new("u7", "?", "?")), 0);
	assert_int_equal(node_claim_fits(node, on_second, &err), -EAGAIN);
	assert_non_null(strstr(err.text, "the node has 1024 prepared claims, and takes no more than 1024"));
	assert_int_equal(node_claim_fits(node, known, NULL), 0);
	node_claim_free(on_both);
	node_claim_free(on_second);
}

/* A pod that is prepared again is not counted beside itself. */
static void claim_is_not_counted_beside_itself(void **state)
{
	struct node_registry *node = *state;
	struct node_claim *claim = put(node, "u1", 10 * GIB, 60);

	assert_int_equal(node_claim_fits(node, claim, NULL), 0);
}

static void assert_order(const struct node_registry *node, const char *first, const char *second)
{
	struct published_device devices[NODE_GPUS_MAX];
	size_t n = published_devices(&node->inventory, devices);

	published_sort(node, devices, n);
	assert_int_equal(n, 2);
	assert_string_equal(devices[0].gpu->facts.uuid, first);
	assert_string_equal(devices[1].gpu->facts.uuid, second);
}

static void spread_lists_the_gpu_with_the_most_free_memory_first(void **state)
{
	struct node_registry *node = *state;
	struct claim_result result = result_of(DEVICE_1, 3 * GIB, 0);
	struct node_claim *claim = NULL;

	put(node, "u1", GIB, 0);
	put(node, "u2", GIB, 0);
	assert_int_equal(node_claims_mib(node, UUID_0), 2048);
	assert_order(node, UUID_0, UUID_1); /* binpack */
	node->placement = GPU_POLICY_SPREAD;
	assert_order(node, UUID_1, UUID_0);
	assert_int_equal(decide(node, "u3", &result, 1, &claim, NULL), 0);
	assert_int_equal(node_claims_put(node, claim), 0);
	assert_order(node, UUID_0, UUID_1);
	put(node, "u4", GIB, 0); /* equal ones by index */
	assert_order(node, UUID_0, UUID_1);
	put(node, "u5", GIB, 0);
	assert_order(node, UUID_1, UUID_0);
}

static void container_has_one_claim_only(void **state)
{
	struct node_registry *node = *state;
	struct node_claim *first = put(node, "u1", GIB, 0), *second = put(node, "u2", GIB, 0);
	struct error err = {""};

	assert_int_equal(node_claim_use(first, "pod", "a"), 0);
	assert_int_equal(node_claim_use(second, "pod", "b"), 0);
	assert_int_equal(node_claim_use(second, "other", "a"), 0);
	snprintf(second->name, sizeof(second->name), "another");
	assert_int_equal(node_claim_fits(node, second, &err), 0);
	assert_int_equal(node_claim_use(second, "pod", "a"), 0);
	assert_int_equal(node_claim_fits(node, second, &err), -EBUSY);
	assert_non_null(strstr(err.text, "container a"));
	/* The first one was deleted, and the second one was made under its name. */
	snprintf(second->name, sizeof(second->name), "%s", first->name);
	assert_int_equal(node_claim_fits(node, second, &err), 0);
}

static void containers_are_found_by_the_claims_that_their_pods_name(void **state)
{
	struct node_registry *node = *state;
	struct node_claim *claim = put(node, "u1", GIB, 0);
	char text[NODE_CLAIM_TEXT_SIZE];

	add_pod(node, "p1", "slice", false, false);
	add_pod(node, "p2", "another", false, false);
	add_pod(node, "p3", "slice", false, true);
	assert_ptr_equal(node_claims_of(node, "p1", "main"), claim);
	assert_ptr_equal(node_claims_of(node, "p1", NULL), claim);
	assert_null(node_claims_of(node, "p1", "sidecar"));
	assert_null(node_claims_of(node, "p2", "main"));
	assert_null(node_claims_of(node, "p3", "main"));
	assert_string_equal(node_claims_reader(node, "u1")->facts.uid, "p1");
	node_claims_describe(node, "u1", "claim", text);
	assert_string_equal(text, "ResourceClaim slice");
	node_claims_describe(node, "p1", "main", text);
	assert_string_equal(text, "container main");
	node_pods_remove(&node->pods, "p1"); /* by force: its containers may run on */
	assert_ptr_equal(node_claims_of(node, "p1", "main"), claim);
	assert_null(node_claims_reader(node, "u1"));
}

static void pod_with_two_claims_has_no_only_one(void **state)
{
	struct node_registry *node = *state;

	assert_int_equal(node_claim_use(put(node, "u1", GIB, 0), "p", "a"), 0);
	assert_int_equal(node_claim_use(put(node, "u2", GIB, 0), "p", "b"), 0);
	assert_null(node_claims_of(node, "p", NULL));
	assert_string_equal(node_claims_of(node, "p", "b")->uid, "u2");
}

/* A claim that many pods have used one after the other. */
static void users_of_pods_that_are_gone_make_room(void **state)
{
	struct node_registry *node = *state;
	struct node_claim *claim = put(node, "u1", GIB, 0);
	char uid[32];

	add_pod(node, "p0", "slice", false, false);
	for (size_t i = 1; i < CLAIM_USERS_MAX; i++) {
		snprintf(uid, sizeof(uid), "gone%zu", i);
		assert_int_equal(node_claim_use(claim, uid, "main"), 0);
	}
	assert_int_equal(node_claim_use(claim, "more", "main"), -E2BIG);
	add_pod(node, "p1", "slice", false, false);
	assert_int_equal(claim->n_users, 2);
	assert_ptr_equal(node_claims_of(node, "p0", "main"), claim);
	assert_ptr_equal(node_claims_of(node, "p1", "main"), claim);
}

static void claims_and_pods_that_wait_for_theirs_hold_the_mode(void **state)
{
	struct node_registry *node = *state;

	assert_int_equal(node_registry_count_holders(node), 0);
	add_pod(node, "p1", "slice", false, false);
	assert_int_equal(node_registry_count_holders(node), 1);
	put(node, "u1", GIB, 0);
	assert_int_equal(node_registry_count_holders(node), 2);
	add_pod(node, "p1", "slice", true,
		false); /* its claims are prepared: those of ration count themselves */
	assert_int_equal(node_registry_count_holders(node), 1);
	node_claims_remove(node, "u1");
	assert_int_equal(node_registry_count_holders(node), 0);
	add_pod(node, "p2", "slice", false, false);
	node->in_force = GPU_MODE_CGPU; /* there, a claim is of another driver */
	assert_int_equal(node_registry_count_holders(node), 0);
}

#define claim_test(f) cmocka_unit_test_setup_teardown(f, registry_setup, registry_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		claim_test(stand_in_is_a_pod_of_one_container_in_units_of_a_mebibyte),
		claim_test(devices_on_one_gpu_are_added_up),
		claim_test(what_cannot_be_given_is_refused_by_name),
		claim_test(all_of_a_gpu_can_be_given),
		claim_test(unhealthy_gpu_is_refused_to_new_claims_only),
		claim_test(parameters_that_cannot_be_met_are_refused),
		claim_test(limit_is_given_up_when_all_containers_ask_and_the_class_allows),
		claim_test(claims_together_have_at_most_the_gpu),
		claim_test(gpu_and_node_have_at_most_so_many_claims),
		claim_test(claim_is_not_counted_beside_itself),
		claim_test(spread_lists_the_gpu_with_the_most_free_memory_first),
		claim_test(container_has_one_claim_only),
		claim_test(containers_are_found_by_the_claims_that_their_pods_name),
		claim_test(pod_with_two_claims_has_no_only_one),
		claim_test(users_of_pods_that_are_gone_make_room),
		claim_test(claims_and_pods_that_wait_for_theirs_hold_the_mode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
