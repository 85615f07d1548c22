/* The device ids that the kubelet counts with, and which of them it holds for pods that are over. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "agent-fixture.h"
#include "node/ids.h"
#include "node/inventory.h"
#include "node/pods.h"
#include "node/served.h"

static void two_gpus(struct inventory *inventory, uint32_t unit_mib)
{
	struct gpu gpus[2] = {{.facts = {.index = 0, .mib = 16384, .healthy = true}, .minor = 4},
		{.facts = {.index = 1, .mib = 16160, .healthy = true}, .minor = 7}};

	strcpy(gpus[0].facts.uuid, UUID_0);
	strcpy(gpus[1].facts.uuid, UUID_1);
	*inventory = (struct inventory){.unit_mib = unit_mib};
	assert_true(inventory_update(inventory, gpus, 2));
	assert_false(inventory_update(inventory, gpus, 2));
}

static size_t count_healthy(const struct device_ids *ids)
{
	size_t n = 0;

	for (size_t i = 0; i < ids->n; i++)
		n += ids->healthy[i];
	return n;
}

static const struct table nothing_spent;

static void sick_gpu_withdraws_as_many_free_ids_as_it_has_free_units(void **state)
{
	char *in_use[] = {"0-15", "0-14", "0-13"};
	struct device_ids ids = {0};
	struct inventory inventory;
	struct node_pods pods;
	struct served served;

	two_gpus(&inventory, 1024);
	inventory.gpus[0].facts.healthy = false;
	node_pods_init(&pods);
	served_init(&served);
	/* a pod of GPU 1 holds ids of GPU 0: they are tokens */
	assert_int_equal(served_add(&served, "u", "c", in_use, 3), 0);
	assert_int_equal(ids_build(IDS_OF_UNITS, &inventory, &pods, &served, &nothing_spent, &ids), 0);
	assert_int_equal(ids.n, 16 + 15);
	assert_int_equal(
		count_healthy(&ids), 15); /* all 16 units of GPU 0 are free: 13 of its ids, 3 others */
	for (size_t i = 13; i < 16; i++)
		assert_true(ids.healthy[i]);
	ids_release(&ids);
	served_release(&served);
	node_pods_release(&pods);
}

/* Of computing power a GPU has 100, whatever its size; what pods hold is in their placements. */
static void sick_gpu_withdraws_as_many_free_points_as_no_pod_holds(void **state)
{
	char *in_use[30], text[30][8];
	struct device_ids ids = {0};
	struct inventory inventory;
	struct pod_facts pod;
	struct node_pods pods;
	struct served served;

	two_gpus(&inventory, 1024);
	inventory.gpus[1].facts.healthy = false;
	node_pods_init(&pods);
	served_init(&served);
	for (int i = 0; i < 30; i++) {
		snprintf(text[i], sizeof(text[i]), "1-%d", i);
		in_use[i] = text[i];
	}
	fixture_pod(&pod, "u", "p");
	assert_int_equal(request_add(&pod.request, "c", CONTAINER_MAIN, 0, "2", "30", NULL), 0);
	pod.has_placement = true;
	pod.placement.unit_mib = 1024;
	assert_int_equal(placement_add(&pod.placement, "c", UUID_1, 2, 30), 0);
	assert_non_null(node_pods_put(&pods, &pod));
	assert_int_equal(served_add(&served, "u", "c", in_use, 30), 0);
	assert_int_equal(ids_held(IDS_OF_CORE, &pods, UUID_1), 30);
	assert_int_equal(ids_held(IDS_OF_CORE, &pods, UUID_0), 0);
	assert_int_equal(ids_build(IDS_OF_CORE, &inventory, &pods, &served, &nothing_spent, &ids), 0);
	assert_int_equal(ids.n, 200);
	assert_int_equal(count_healthy(&ids), 130);
	for (size_t i = 0; i < 130; i++)
		assert_true(ids.healthy[i]);
	ids_release(&ids);
	served_release(&served);
	node_pods_release(&pods);
}

/* The name of unit `unit` of GPU 0 when these ids are in use and those are spent. */
static const char *name_of(unsigned int unit, const char *in_use, const char *const *spent)
{
	static char name[DEVICE_ID_SIZE];
	char *used[] = {(char *)in_use};
	struct device_ids ids = {0};
	struct inventory inventory;
	struct node_pods pods;
	struct served served;
	struct table table;

	two_gpus(&inventory, 1024);
	node_pods_init(&pods);
	served_init(&served);
	table_init(&table);
	if (in_use)
		assert_int_equal(served_add(&served, "u", "c", used, 1), 0);
	for (; spent && *spent; spent++)
		assert_int_equal(table_set(&table, *spent, &table), 0);
	assert_int_equal(ids_build(IDS_OF_UNITS, &inventory, &pods, &served, &table, &ids), 0);
	assert_int_equal(ids.n, 16 + 15);
	strcpy(name, ids.ids[unit]);
	ids_release(&ids);
	table_release(&table);
	served_release(&served);
	node_pods_release(&pods);
	return name;
}

static void unit_whose_id_is_spent_has_another_name(void **state)
{
	const char *const once[] = {"0-3", NULL}, *const twice[] = {"0-3", "0-3.1", NULL};

	assert_string_equal(name_of(3, NULL, NULL), "0-3");
	assert_string_equal(name_of(3, NULL, once), "0-3.1");
	assert_string_equal(name_of(4, NULL, once), "0-4");
	assert_string_equal(name_of(3, NULL, twice), "0-3.2");
	assert_int_equal(ids_gpu("0-3.2"), 0);
}

static void unit_in_use_keeps_its_name(void **state)
{
	const char *const spent[] = {"0-3", NULL}, *const other[] = {"0-3.1", NULL};

	assert_string_equal(name_of(3, "0-3.1", NULL), "0-3.1");
	assert_string_equal(name_of(3, "0-3.1", spent), "0-3.1");
	assert_string_equal(name_of(3, "0-3", other), "0-3");
	assert_string_equal(name_of(3, "0-3", spent), "0-3.1"); /* by one who is over */
}

static void spent_are_the_ids_of_pods_that_are_over_and_of_nobody_else(void **state)
{
	char *of_gone[] = {"0-1", "0-2"}, *of_finished[] = {"0-3"}, *of_living[] = {"0-2", "0-4"};
	struct pod_facts finished, living;
	struct node_pods pods;
	struct served served;
	struct table spent;

	node_pods_init(&pods);
	served_init(&served);
	table_init(&spent);
	fixture_pod(&finished, "finished", "finished");
	finished.finished = true;
	fixture_pod(&living, "living", "living");
	assert_non_null(node_pods_put(&pods, &finished));
	assert_non_null(node_pods_put(&pods, &living));
	assert_int_equal(served_add(&served, "living", "c", of_living, 2), 0);
	assert_int_equal(served_add(&served, "gone", "c", of_gone, 2), 0);
	assert_int_equal(served_add(&served, "finished", "c", of_finished, 1), 0);
	assert_int_equal(spent_find(&served, &pods, NULL, NULL, &spent), 0);
	assert_int_equal(spent.count, 2);
	assert_non_null(table_get(&spent, "0-1"));
	assert_non_null(table_get(&spent, "0-3"));
	table_release(&spent);
	served_release(&served);
	node_pods_release(&pods);
}

static void id_names_its_gpu_or_nothing(void **state)
{
	assert_int_equal(ids_gpu("7-12"), 7);
	assert_int_equal(ids_gpu("7"), -EINVAL);
	assert_int_equal(ids_gpu("-1"), -EINVAL);
	assert_int_equal(ids_gpu(""), -EINVAL);
	assert_int_equal(ids_gpu("99999999999999999999-1"), -EINVAL);
}

/* Modes */

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sick_gpu_withdraws_as_many_free_ids_as_it_has_free_units),
		cmocka_unit_test(sick_gpu_withdraws_as_many_free_points_as_no_pod_holds),
		cmocka_unit_test(unit_whose_id_is_spent_has_another_name),
		cmocka_unit_test(unit_in_use_keeps_its_name),
		cmocka_unit_test(spent_are_the_ids_of_pods_that_are_over_and_of_nobody_else),
		cmocka_unit_test(id_names_its_gpu_or_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
