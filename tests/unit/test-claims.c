/* Which claim holds how much of which GPU, and how kubectl inspect cgpu counts it. */
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
#include "cli/claims.h"
#include "cli/inspect.h"
#include "model-fixture.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

/* A slice of the node `pool` with GPUs of 16160 MiB; gpu-1 is GPU-<pool>-1. */
static void add_slice(struct claims *claims, const char *pool, const char *name, int64_t generation,
	int64_t slices, size_t first, size_t n)
{
	struct device_slice slice = {.generation = generation, .pool_slices = slices};

	snprintf(slice.name, sizeof(slice.name), "%s", name);
	snprintf(slice.driver, sizeof(slice.driver), "gpu.ration.dev");
	snprintf(slice.pool, sizeof(slice.pool), "%s", pool);
	snprintf(slice.node, sizeof(slice.node), "%s", pool);
	slice.devices = calloc(n, sizeof(*slice.devices));
	slice.n_devices = n;
	for (size_t i = 0; i < n; i++) {
		struct slice_device *device = &slice.devices[i];

		snprintf(device->name, sizeof(device->name), "gpu-%zu", first + i);
		device->shared = true;
		device->memory = (struct device_capacity){.present = true, .value = 16160 * MIB};
		device->attributes = calloc(1, sizeof(*device->attributes));
		device->n_attributes = 1;
		strcpy(device->attributes[0].name, "uuid");
		snprintf(device->attributes[0].text, sizeof(device->attributes[0].text), "GPU-%s-%zu", pool,
			first + i);
	}
	assert_int_equal(claims_take_slice(claims, &slice), 0);
	assert_null(slice.devices);
}

/* A claim of the namespace "team" for `bytes` of this device, used by the pods of a list that ends with NULL.
 */
static void add_claim(struct claims *claims, const char *name, const char *pool, const char *device,
	uint64_t bytes, const char *const *pods)
{
	struct claim claim = {.allocated = true};
	size_t n = 0;

	while (pods[n])
		n++;
	snprintf(claim.name, sizeof(claim.name), "%s", name);
	snprintf(claim.uid, sizeof(claim.uid), "uid-%s", name);
	strcpy(claim.namespace_, "team");
	claim.results = calloc(1, sizeof(*claim.results));
	claim.n_results = 1;
	claim.results[0] = (struct claim_result){
		.request = "gpu", .ours = true, .memory = bytes, .cores = 30};
	strcpy(claim.results[0].driver, "gpu.ration.dev");
	snprintf(claim.results[0].pool, CLAIM_NAME_SIZE, "%s", pool);
	snprintf(claim.results[0].device, CLAIM_LABEL_SIZE, "%s", device);
	claim.pods = calloc(n + 1, sizeof(*claim.pods));
	claim.n_pods = n;
	for (size_t i = 0; i < n; i++) {
		snprintf(claim.pods[i].name, CLAIM_NAME_SIZE, "%s", pods[i]);
		snprintf(claim.pods[i].uid, CLAIM_UID_SIZE, "uid-%s", pods[i]);
	}
	assert_int_equal(claims_take_claim(claims, &claim), 0);
	assert_null(claim.pods);
}

#define PODS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_PODS ((const char *const[]){NULL})

static void the_shares_of_a_device_are_summed(void **state)
{
	_cleanup_claims_ struct claims claims;

	claims_init(&claims);
	add_claim(&claims, "b", "n", "gpu-1", 3 * GIB, PODS("p"));
	add_claim(&claims, "a", "n", "gpu-1", 2 * GIB, PODS("q"));
	add_claim(&claims, "gone", "n", "gpu-7", GIB, PODS("r"));
	add_slice(&claims, "n", "s", 1, 1, 0, 2);
	assert_int_equal(claims_finish(&claims), 0);
	assert_int_equal(claims.n_devices, 2);
	assert_true(claims.devices[0].memory == 0 && claims.devices[0].n_shares == 0);
	assert_true(claims.devices[1].memory == 5 * GIB && claims.devices[1].cores == 60);
	assert_int_equal(claims.n_shares, 3);
	assert_string_equal(claims.shares[0].claim->name, "a");
	assert_ptr_equal(claims.shares[0].device, &claims.devices[1]);
	assert_null(claims.shares[2].device);
	assert_string_equal(claims_node(&claims.shares[2]), "n");
}

static void admin_access_takes_nothing_from_a_device(void **state)
{
	_cleanup_claims_ struct claims claims;

	claims_init(&claims);
	add_slice(&claims, "n", "s", 1, 1, 0, 1);
	add_claim(&claims, "watch", "n", "gpu-0", 3 * GIB, PODS("p"));
	claims.claims[0].results[0].admin_access = true;
	assert_int_equal(claims_finish(&claims), 0);
	assert_true(claims.devices[0].memory == 0 && claims.devices[0].n_shares == 0);
	assert_ptr_equal(claims.shares[0].device, &claims.devices[0]);
}

static void only_the_newest_generation_of_a_pool_counts(void **state)
{
	_cleanup_claims_ struct claims claims;

	claims_init(&claims);
	add_slice(&claims, "n", "old", 4, 1, 0, 8);
	add_slice(&claims, "n", "new-b", 5, 2, 1, 1);
	add_slice(&claims, "n", "new-a", 5, 2, 0, 1);
	add_slice(&claims, "m", "half", 1, 2, 0, 1);
	assert_int_equal(claims_finish(&claims), 0);
	assert_int_equal(claims.n_devices, 3);
	assert_string_equal(claims.devices[1].device->name, "gpu-0");
	assert_string_equal(claims.devices[2].device->name, "gpu-1");
	assert_true(claims_pool_is_complete(&claims, "n"));
	assert_false(claims_pool_is_complete(&claims, "m"));
	assert_false(claims_pool_is_complete(&claims, "unknown"));
}

static void other_drivers_are_left_out(void **state)
{
	struct device_slice slice = {
		.driver = "nic.example.com", .devices = calloc(1, sizeof(*slice.devices))};
	struct claim claim = {.results = calloc(1, sizeof(*claim.results)), .n_results = 1};
	_cleanup_claims_ struct claims claims;

	claims_init(&claims);
	assert_int_equal(claims_take_slice(&claims, &slice), 0);
	assert_int_equal(claims_take_claim(&claims, &claim), 0);
	assert_int_equal(claims.n_slices + claims.n_claims, 0);
	assert_null(claim.results);
}

/* ---- in the tables ---- */

static void add_node(struct inspect *inspect, const char *name, size_t n_gpus)
{
	const uint32_t units[NODE_GPUS_MAX] = {1, 1, 1, 1};
	_cleanup_node_facts_ struct node_facts facts;

	fixture_node(&facts, name, GPU_POLICY_BINPACK, n_gpus, units);
	facts.mode = GPU_MODE_DRA;
	facts.unit_mib = 1024;
	for (size_t i = 0; i < n_gpus; i++)
		facts.gpus[i].mib = 16160;
	assert_int_equal(inspect_add_node(inspect, &facts, &(struct node_capacity){0}), 0);
}

static void inspect_counts_claims_in_units_of_the_node(void **state)
{
	_cleanup_inspect_ struct inspect inspect;
	_cleanup_claims_ struct claims claims;

	inspect_init(&inspect);
	claims_init(&claims);
	add_node(&inspect, "n", 2);
	add_slice(&claims, "n", "s", 1, 1, 0, 2);
	add_claim(&claims, "a", "n", "gpu-0", 3 * GIB, PODS("p"));
	add_claim(&claims, "b", "n", "gpu-0", 2 * GIB + 1, PODS("q"));
	add_claim(&claims, "whole", "n", "gpu-1", 16160 * MIB, PODS("r"));
	add_claim(&claims, "elsewhere", "m", "gpu-1", GIB, PODS("s"));
	assert_int_equal(claims_finish(&claims), 0);
	assert_int_equal(inspect_add_claims(&inspect, &claims), 0);
	assert_int_equal(inspect_finish(&inspect), 0);
	assert_int_equal(inspect.nodes[0]->gpus[0].allocated, 6);
	/* 15.78 of 15 units, but no more than the GPU has */
	assert_int_equal(inspect.nodes[0]->gpus[1].allocated, 15);
	assert_int_equal(inspect.nodes[0]->gpus[1].total, 15);
	assert_int_equal(inspect.nodes[0]->allocated, 21);
	assert_int_equal(inspect.nodes[0]->n_pods, 3);
	assert_string_equal(inspect.nodes[0]->pods[0].name, "p");
	assert_int_equal(inspect.nodes[0]->pods[0].units[0], 3);
	assert_int_equal(inspect.nodes[0]->pods[1].units[0], 3);
	assert_int_equal(inspect.nodes[0]->pods[2].units[1], 15);
	assert_false(inspect_has_pending(&inspect));
}

/* Two halves of a unit are one unit of the GPU. */
static void inspect_sums_the_bytes_of_a_gpu(void **state)
{
	_cleanup_inspect_ struct inspect inspect;
	_cleanup_claims_ struct claims claims;

	inspect_init(&inspect);
	claims_init(&claims);
	add_node(&inspect, "n", 1);
	add_slice(&claims, "n", "s", 1, 1, 0, 1);
	add_claim(&claims, "a", "n", "gpu-0", GIB / 2, PODS("p"));
	add_claim(&claims, "b", "n", "gpu-0", GIB / 2, PODS("q"));
	assert_int_equal(claims_finish(&claims), 0);
	assert_int_equal(inspect_add_claims(&inspect, &claims), 0);
	assert_int_equal(inspect.nodes[0]->gpus[0].allocated, 1);
	assert_int_equal(inspect.nodes[0]->allocated, 1);
}

/* More than the GPU has must not look like a full GPU. */
static void inspect_shows_a_gpu_over_its_total(void **state)
{
	_cleanup_inspect_ struct inspect inspect;
	_cleanup_claims_ struct claims claims;

	inspect_init(&inspect);
	claims_init(&claims);
	add_node(&inspect, "n", 1);
	add_slice(&claims, "n", "s", 1, 1, 0, 1);
	add_claim(&claims, "a", "n", "gpu-0", 16160 * MIB, PODS("p"));
	add_claim(&claims, "b", "n", "gpu-0", 3 * GIB, PODS("q"));
	assert_int_equal(claims_finish(&claims), 0);
	assert_int_equal(inspect_add_claims(&inspect, &claims), 0);
	assert_int_equal(inspect.nodes[0]->gpus[0].allocated, 19);
}

static void inspect_counts_a_shared_claim_once(void **state)
{
	_cleanup_inspect_ struct inspect inspect;
	_cleanup_claims_ struct claims claims;
	const struct inspect_node *node;

	inspect_init(&inspect);
	claims_init(&claims);
	add_node(&inspect, "n", 1);
	add_slice(&claims, "n", "s", 1, 1, 0, 1);
	add_claim(&claims, "a", "n", "gpu-0", 3 * GIB, PODS("p", "q"));
	add_claim(&claims, "b", "n", "gpu-0", 2 * GIB, PODS("p"));
	add_claim(&claims, "c", "n", "gpu-0", GIB, NO_PODS);
	assert_int_equal(claims_finish(&claims), 0);
	assert_int_equal(inspect_add_claims(&inspect, &claims), 0);
	assert_int_equal(inspect_finish(&inspect), 0);
	node = inspect.nodes[0];
	assert_int_equal(node->gpus[0].allocated, 6);
	assert_int_equal(node->n_pods, 3);
	assert_string_equal(node->pods[0].name, "c");
	assert_true(node->pods[0].is_claim);
	assert_string_equal(node->pods[1].name, "p");
	assert_int_equal(node->pods[1].units[0], 5);
	assert_true(node->pods[1].shares_claim && !node->pods[1].is_claim);
	assert_int_equal(node->pods[1].n_claims, 2);
	assert_int_equal(node->pods[1].claims[1].cores, 30);
	assert_int_equal(node->pods[2].units[0], 3);
}

static void inspect_lists_claims_of_devices_that_are_gone_as_pending(void **state)
{
	_cleanup_inspect_ struct inspect inspect;
	_cleanup_claims_ struct claims claims;

	inspect_init(&inspect);
	claims_init(&claims);
	add_node(&inspect, "n", 1);
	add_slice(&claims, "n", "s", 1, 1, 0, 4);
	add_claim(&claims, "no-slice", "n", "gpu-9", 3 * GIB, PODS("p"));
	add_claim(&claims, "no-inventory", "n", "gpu-3", 2 * GIB, PODS("q"));
	assert_int_equal(claims_finish(&claims), 0);
	assert_int_equal(inspect_add_claims(&inspect, &claims), 0);
	assert_int_equal(inspect.nodes[0]->pending, 5);
	assert_int_equal(inspect.nodes[0]->allocated, 5);
	assert_true(inspect_has_pending(&inspect));
	assert_int_equal(inspect.nodes[0]->pods[0].claims[0].column, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_shares_of_a_device_are_summed),
		cmocka_unit_test(admin_access_takes_nothing_from_a_device),
		cmocka_unit_test(only_the_newest_generation_of_a_pool_counts),
		cmocka_unit_test(other_drivers_are_left_out),
		cmocka_unit_test(inspect_counts_claims_in_units_of_the_node),
		cmocka_unit_test(inspect_sums_the_bytes_of_a_gpu),
		cmocka_unit_test(inspect_shows_a_gpu_over_its_total),
		cmocka_unit_test(inspect_counts_a_shared_claim_once),
		cmocka_unit_test(inspect_lists_claims_of_devices_that_are_gone_as_pending),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
