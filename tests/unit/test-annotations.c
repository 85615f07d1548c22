/* How many bytes annotations have, and what a Binding adds at most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "base/cleanup.h"
#include "core/registry/ledger.h"
#include "core/registry/node-ledger.h"
#include "kube/annotations.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "model-fixture.h"

static void the_size_is_that_of_keys_and_values(void **state)
{
	_cleanup_json_ struct json_object *annotations = json_tokener_parse(
		"{\"key\":\"value\",\"null\":null,\"ä\":\"\\u00e4\\n\"}");
	_cleanup_json_ struct json_object *none = json_tokener_parse("[\"key\"]");

	(void)state;
	assert_int_equal(annotations_size(annotations), 3 + 5 + 2 + 3);
	assert_int_equal(annotations_size(none), 0);
	assert_int_equal(annotations_size(NULL), 0);
}

static void the_size_with_changes_is_that_after_a_merge_patch(void **state)
{
	_cleanup_json_ struct json_object *annotations = json_tokener_parse(
		"{\"kept\":\"1234\",\"replaced\":\"12\",\"removed\":\"123\"}");
	_cleanup_json_ struct json_object *changes = json_tokener_parse(
		"{\"replaced\":\"12345\",\"removed\":null,\"never there\":null,\"new\":\"\"}");

	(void)state;
	assert_int_equal(annotations_size_with(annotations, changes), 8 + 8 + 5 + 3);
	assert_int_equal(annotations_size_with(annotations, NULL), annotations_size(annotations));
	assert_int_equal(annotations_size_with(NULL, changes), 8 + 5 + 3);
}

/* Names of containers have 63 characters at most, UUIDs of GPUs 40. */
static void add_container(struct request *request, size_t i, bool whole, uint32_t gpus)
{
	char name[64], quantity[16];

	snprintf(name, sizeof(name), "%063zu", i);
	snprintf(quantity, sizeof(quantity), "%u", whole ? gpus : 1000000 * gpus);
	if (whole)
		assert_int_equal(request_add_whole(request, name, CONTAINER_MAIN, (int)i, quantity, NULL), 0);
	else
		assert_int_equal(request_add(request, name, CONTAINER_MAIN, (int)i, quantity,
					 gpus > 1 ? NULL : "100", NULL),
			0);
}

static void place(const struct node_ledger *node, const struct request *request, uint32_t gpus,
	struct placement *placement)
{
	placement_init(placement);
	placement->unit_mib = 1024;
	for (size_t i = 0; i < request->n_containers; i++)
		for (uint32_t k = 0; k < gpus; k++)
			assert_int_equal(placement_add(placement, request->containers[i].name,
						 node->gpus[k].facts.uuid, request->whole ? 1 : 1000000,
						 request->containers[i].core),
				0);
	for (size_t k = 0; request->whole && k < NODE_GPUS_MAX; k++)
		assert_int_equal(placement_add_visible(placement, node->gpus[k].facts.uuid), 0);
}

static void check_binding(const struct node_ledger *node, size_t containers, bool whole, uint32_t gpus)
{
	_cleanup_request_ struct request request = {0};
	_cleanup_placement_ struct placement placement;
	_cleanup_json_ struct json_object *annotations = NULL;

	for (size_t i = 0; i < containers; i++)
		add_container(&request, i, whole, gpus);
	if (!whole && gpus > 1)
		assert_int_equal(request_set_gpus(&request, gpus, NULL), 0);
	place(node, &request, gpus, &placement);
	annotations = placement_annotations(&placement, &request, node, INT64_MAX);
	assert_non_null(annotations);
	/* The record and the mark of a gang, whose name is a label's value, come with them. */
	assert_true(annotations_size(annotations) + 300 < binding_annotations_max(&request));
}

static void a_binding_never_adds_more_than_its_maximum(void **state)
{
	_cleanup_node_facts_ struct node_facts facts;
	uint32_t units[NODE_GPUS_MAX];
	struct ledger ledger;
	const struct node_ledger *node;

	(void)state;
	for (size_t i = 0; i < NODE_GPUS_MAX; i++)
		units[i] = 1000000;
	fixture_node(&facts, "123e4567-e89b-12d3-a456-426614174", GPU_POLICY_BINPACK, NODE_GPUS_MAX, units);
	ledger_init(&ledger);
	assert_int_equal(ledger_set_node(&ledger, &facts), 0);
	node = ledger_node(&ledger, facts.name);
	for (size_t containers = 1; containers <= 8; containers++) {
		check_binding(node, containers, false, 1);
		check_binding(node, containers, false, 2);
		check_binding(node, containers, false, 64);
		check_binding(node, containers, true, 1);
		check_binding(node, containers, true, 8);
	}
	ledger_release(&ledger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_size_is_that_of_keys_and_values),
		cmocka_unit_test(the_size_with_changes_is_that_after_a_merge_patch),
		cmocka_unit_test(a_binding_never_adds_more_than_its_maximum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
