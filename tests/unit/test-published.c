/* The GPUs of a node as the devices of a ResourceSlice: nothing in them that the API server would refuse. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "node/published.h"

#define MIB (UINT64_C(1) << 20)

static struct inventory *inventory_of(const char *uuid, uint64_t mib, uint32_t unit_mib)
{
	struct inventory *inventory = calloc(1, sizeof(*inventory));
	struct gpu gpu = {.facts = {.index = 3, .healthy = true, .mib = mib},
		.bus_id = "00000000:3B:09.0",
		.numa_node = 1,
		.compute_major = 8,
		.compute_minor = 9};

	assert_non_null(inventory);
	inventory->unit_mib = unit_mib;
	inventory->cuda_major = 12;
	inventory->cuda_minor = 4;
	strcpy(inventory->driver_version, "535.104.05");
	strcpy(gpu.facts.uuid, uuid);
	strcpy(gpu.details.model, "NVIDIA L4");
	assert_true(inventory_update(inventory, &gpu, 1));
	return inventory;
}

static void name_is_the_uuid_in_lower_case(void **state)
{
	char name[PUBLISHED_NAME_SIZE], longest[PUBLISHED_NAME_SIZE + 1];

	assert_int_equal(published_name("GPU-AB12-cd", name), 0);
	assert_string_equal(name, "gpu-ab12-cd");
	memset(longest, 'a', sizeof(longest));
	longest[PUBLISHED_NAME_SIZE] = '\0';
	assert_int_equal(published_name(longest, name), -EINVAL);
	longest[PUBLISHED_NAME_SIZE - 1] = '\0'; /* 63 characters, as many as a DNS label may have */
	assert_int_equal(published_name(longest, name), 0);
}

static void name_that_is_no_dns_label_is_refused(void **state)
{
	static const char *const names[] = {"", "-GPU", "GPU-", "GPU_1", "GPU.1", "GPU 1"};
	char name[PUBLISHED_NAME_SIZE];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(published_name(names[i], name), -EINVAL);
}

/* semver.org: three numbers, none with a leading zero. */
static void versions_become_semantic_versions(void **state)
{
	static const struct {
		const char *text, *version;
	} rows[] = {{"535.104.05", "535.104.5"}, {"550.54.15", "550.54.15"}, {"570.86", "570.86.0"},
		{"580", "580.0.0"}, {"418.87.01.2", "418.87.1"}, {"550.54.15-custom", "550.54.15"},
		{"550.", "550.0.0"}, {"550.x", "550.0.0"}, {"", ""}, {"v550", ""}, {"-1.2", ""}};
	char version[PUBLISHED_TEXT_SIZE];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		published_version(rows[i].text, version);
		assert_string_equal(version, rows[i].version);
	}
}

static void device_has_whole_units_and_the_words_of_the_driver(void **state)
{
	struct published_device devices[NODE_GPUS_MAX];
	struct inventory *inventory = inventory_of("GPU-1", 23034, 1024);

	assert_int_equal(published_devices(inventory, devices), 1);
	assert_string_equal(devices[0].name, "gpu-1");
	assert_true(devices[0].bytes == 22 * 1024 * MIB); /* 23034 / 1024 is 22.5 */
	assert_true(devices[0].unit_bytes == 1024 * MIB);
	assert_string_equal(devices[0].product, "NVIDIA L4");
	assert_string_equal(devices[0].architecture, "Ada Lovelace");
	assert_string_equal(devices[0].compute_capability, "8.9.0");
	assert_string_equal(devices[0].driver_version, "535.104.5");
	assert_string_equal(devices[0].cuda_version, "12.4.0");
	assert_string_equal(devices[0].bus_id, "0000:3b:09.0");
	free(inventory);
}

static void what_the_driver_does_not_say_is_left_empty(void **state)
{
	struct published_device devices[NODE_GPUS_MAX];
	struct inventory *inventory = inventory_of("GPU-1", 2048, 128);

	inventory->cuda_major = 0;
	inventory->gpus[0].compute_major = inventory->gpus[0].compute_minor = 0;
	inventory->gpus[0].bus_id[0] = inventory->driver_version[0] = '\0';
	assert_int_equal(published_devices(inventory, devices), 1);
	assert_string_equal(devices[0].architecture, "");
	assert_string_equal(devices[0].compute_capability, "");
	assert_string_equal(devices[0].driver_version, "");
	assert_string_equal(devices[0].cuda_version, "");
	assert_string_equal(devices[0].bus_id, "");
	free(inventory);
}

static void gpu_under_one_unit_is_left_out(void **state)
{
	struct published_device devices[NODE_GPUS_MAX];
	struct inventory *inventory = inventory_of("GPU-1", 1023, 1024);

	assert_int_equal(published_devices(inventory, devices), 0);
	free(inventory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name_is_the_uuid_in_lower_case),
		cmocka_unit_test(name_that_is_no_dns_label_is_refused),
		cmocka_unit_test(versions_become_semantic_versions),
		cmocka_unit_test(device_has_whole_units_and_the_words_of_the_driver),
		cmocka_unit_test(what_the_driver_does_not_say_is_left_empty),
		cmocka_unit_test(gpu_under_one_unit_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
