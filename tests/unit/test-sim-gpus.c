#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "sim/libnvidia-ml/nvml-abi.h"
#include "sim/ration-sim/gpus.h"

#define UUID_A "GPU-00000000-0000-4000-8000-00000000000a"

static struct sim_state *parse_spec(const char *spec)
{
	struct sim_state *gpus = calloc(1, sizeof(*gpus));
	struct error err = {};

	assert_non_null(gpus);
	if (gpus_parse_spec(spec, gpus, &err) < 0)
		fail_msg("%s", err.text);
	return gpus;
}

static void assert_spec_refused(const char *spec, const char *reason)
{
	_cleanup_free_ struct sim_state *gpus = calloc(1, sizeof(*gpus));
	struct error err = {};

	assert_int_equal(gpus_parse_spec(spec, gpus, &err), -EINVAL);
	if (!strstr(err.text, reason))
		fail_msg("\"%s\": \"%s\" does not say \"%s\"", spec, err.text, reason);
	assert_int_equal(gpus->gpu_count, 0);
}

/* Reads text as a gpus.json. */
static int read_text(const char *text, struct sim_state *ret_gpus, struct error *err)
{
	char path[] = "/tmp/test-sim-gpus-XXXXXX";
	int fd = mkstemp(path), r;

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fs_write_atomic(path, 0600, text, strlen(text)), 0);
	r = gpus_read(path, ret_gpus, err);
	if (r == 0)
		r = gpus_complete(ret_gpus, err);
	unlink(path);
	return r;
}

static void assert_file_refused(const char *text, const char *reason)
{
	_cleanup_free_ struct sim_state *gpus = calloc(1, sizeof(*gpus));
	struct error err = {};

	assert_true(read_text(text, gpus, &err) < 0);
	if (!strstr(err.text, reason))
		fail_msg("%s\n\"%s\" does not say \"%s\"", text, err.text, reason);
}

static void spec_lists_counts_and_sizes_in_order(void **state)
{
	_cleanup_free_ struct sim_state *gpus = parse_spec("4x16160MiB+1x81559MiB");

	assert_int_equal(gpus->gpu_count, 5);
	assert_int_equal(gpus->gpus[0].memory_bytes, 16160ull << 20);
	assert_int_equal(gpus->gpus[3].memory_bytes, 16160ull << 20);
	assert_int_equal(gpus->gpus[4].memory_bytes, 81559ull << 20);
}

static void spec_without_a_count_is_one_gpu(void **state)
{
	_cleanup_free_ struct sim_state *gpus = parse_spec("16384MiB");

	assert_int_equal(gpus->gpu_count, 1);
}

static void spec_names_the_model_of_a_known_size(void **state)
{
	_cleanup_free_ struct sim_state *gpus = parse_spec(
		"16160MiB+16384MiB+15079MiB+40960MiB+81559MiB+143771MiB");

	assert_string_equal(gpus->gpus[0].name, "Tesla V100-SXM2-16GB");
	assert_string_equal(gpus->gpus[1].name, "Tesla V100-SXM2-16GB");
	assert_string_equal(gpus->gpus[2].name, "Tesla T4");
	assert_string_equal(gpus->gpus[3].name, "NVIDIA A100-SXM4-40GB");
	assert_string_equal(gpus->gpus[4].name, "NVIDIA H100 80GB HBM3");
	assert_string_equal(gpus->gpus[5].name, "NVIDIA H200");
}

static void spec_refuses_what_is_not_a_list_of_gpus(void **state)
{
	assert_spec_refused("", "MiB");
	assert_spec_refused("4", "MiB");
	assert_spec_refused("4x16GiB", "MiB");
	assert_spec_refused("4x16160MiBs", "MiB");
	assert_spec_refused("4x16160MiB+", "MiB");
	assert_spec_refused("+4x16160MiB", "MiB");
	assert_spec_refused("4x", "MiB");
	assert_spec_refused("x16160MiB", "number of GPUs");
	assert_spec_refused("0x16160MiB", "number of GPUs");
	assert_spec_refused("-1x16160MiB", "number of GPUs");
	assert_spec_refused("99999999999999999999x1MiB", "number of GPUs");
	assert_spec_refused("1x0MiB", "memory");
	assert_spec_refused("1x-5MiB", "memory");
	assert_spec_refused("1x99999999MiB", "memory");
	assert_spec_refused("1x1.5MiB", "memory");
}

static void spec_allows_64_gpus_and_no_more(void **state)
{
	_cleanup_free_ struct sim_state *gpus = parse_spec("32x16160MiB+32x40960MiB");

	assert_int_equal(gpus->gpu_count, 64);
	assert_spec_refused("65x16160MiB", "number of GPUs");
	assert_spec_refused("64x16160MiB+1x16160MiB", "64");
}

static void complete_gives_each_gpu_its_own_uuid_bus_and_serial(void **state)
{
	_cleanup_free_ struct sim_state *gpus = parse_spec("64x16160MiB");
	struct error err = {};

	assert_int_equal(gpus_complete(gpus, &err), 0);
	assert_string_equal(gpus->gpus[0].bus_id, "00000000:00:09.0");
	for (int i = 0; i < 64; i++) {
		assert_int_equal(gpus->gpus[i].minor, i);
		assert_int_equal(strlen(gpus->gpus[i].uuid), 40);
		for (int k = 0; k < i; k++) {
			assert_string_not_equal(gpus->gpus[i].uuid, gpus->gpus[k].uuid);
			assert_string_not_equal(gpus->gpus[i].bus_id, gpus->gpus[k].bus_id);
			assert_string_not_equal(gpus->gpus[i].serial, gpus->gpus[k].serial);
		}
	}
}

static void complete_knows_the_generation_of_a_gpu(void **state)
{
	_cleanup_free_ struct sim_state *gpus = parse_spec("16160MiB+15079MiB+40960MiB+81559MiB+24564MiB");
	struct error err = {};

	assert_int_equal(gpus_complete(gpus, &err), 0);
	assert_int_equal(gpus->gpus[0].architecture, 5); /* Volta */
	assert_int_equal(gpus->gpus[1].architecture, 6); /* Turing */
	assert_int_equal(gpus->gpus[2].architecture, 7); /* Ampere */
	assert_int_equal(gpus->gpus[3].architecture, 9); /* Hopper */
	assert_int_equal(gpus->gpus[4].architecture, 8); /* Ada */
}

static void driver_version_decides_the_cuda_version(void **state)
{
	_cleanup_free_ struct sim_state *gpus = calloc(1, sizeof(*gpus));
	struct error err = {};

	assert_int_equal(gpus_set_driver(gpus, "515.105.01", &err), 0);
	assert_int_equal(gpus->cuda_version, 11070);
	assert_int_equal(gpus_set_driver(gpus, "450.102.04", &err), 0);
	assert_int_equal(gpus->cuda_version, 11000);
	assert_int_equal(gpus_set_driver(gpus, "580.65.06", &err), 0);
	assert_int_equal(gpus->cuda_version, 13000);
	assert_int_equal(gpus_set_driver(gpus, "615.71.09", &err), 0);
	assert_int_equal(gpus->cuda_version, 13040);
}

static void driver_version_cannot_leave_the_folder(void **state)
{
	static const char *const wrong[] = {"", "515", "../515.1", "515/1.2", "515..1", ".515.1", "515.1.",
		"515.x", "515.1111111111111111111"};
	_cleanup_free_ struct sim_state *gpus = calloc(1, sizeof(*gpus));

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct error err = {};

		assert_int_equal(gpus_set_driver(gpus, wrong[i], &err), -EINVAL);
		assert_non_null(strstr(err.text, "driver version"));
	}
}

static void file_needs_only_the_memory(void **state)
{
	_cleanup_free_ struct sim_state *gpus = calloc(1, sizeof(*gpus));
	struct error err = {};

	assert_int_equal(read_text("{\"gpus\":[{\"memoryMiB\":16384}]}", gpus, &err), 0);
	assert_string_equal(gpus->gpus[0].name, "Tesla V100-SXM2-16GB");
	assert_string_equal(gpus->driver_version, "515.105.01");
}

static void file_values_win_over_the_models(void **state)
{
	_cleanup_free_ struct sim_state *gpus = calloc(1, sizeof(*gpus));
	struct error err = {};

	assert_int_equal(
		read_text(
			"{\"driverVersion\":\"450.102.04\",\"gpus\":[{\"model\":\"Tesla "
			"X\",\"temperatureC\":41,"
			"\"idleUsedMiB\":334,\"powerW\":59,\"numaNode\":1,\"mig\":\"enabled\",\"uuid\":\"" UUID_A
			"\",\"computeMode\":\"prohibited\",\"memoryMiB\":16384}]}",
			gpus, &err),
		0);
	assert_string_equal(gpus->gpus[0].name, "Tesla X");
	assert_string_equal(gpus->gpus[0].uuid, UUID_A);
	assert_int_equal(gpus->gpus[0].temperature_c, 41);
	assert_int_equal(gpus->gpus[0].idle_used_bytes, 334ull << 20);
	assert_int_equal(gpus->gpus[0].power_mw, 59000);
	assert_int_equal(gpus->gpus[0].numa_node, 1);
	assert_int_equal(gpus->gpus[0].mig, SIM_MIG_ENABLED);
	assert_int_equal(gpus->gpus[0].compute_mode, NVML_COMPUTEMODE_PROHIBITED);
	assert_string_equal(gpus->driver_version, "450.102.04");
}

static void file_errors_name_the_gpu_and_the_key(void **state)
{
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":1},{\"memoryMiB\":\"1\"}]}", "GPU 1: \"memoryMiB\"");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":0}]}", "\"memoryMiB\" must be 1 to");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":-1}]}", "\"memoryMiB\" must be 1 to");
	assert_file_refused(
		"{\"gpus\":[{\"memoryMiB\":99999999999999999999999}]}", "\"memoryMiB\" must be 1 to");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":1.5}]}", "whole number");
	assert_file_refused("{\"gpus\":[{}]}", "\"memoryMiB\" is missing");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":1,\"memory\":2}]}", "GPU 0: unknown key \"memory\"");
	assert_file_refused("{\"gpu\":[]}", "unknown key \"gpu\"");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":1,\"uuid\":5}]}", "\"uuid\" must be a string");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":1,\"uuid\":\"GPU-1\"}]}", "GPU-xxxxxxxx");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":1,\"busId\":\"9\"}]}", "00000000:00:09.0");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":1,\"model\":\"a\\nb\"}]}", "\"model\"");
	assert_file_refused(
		"{\"gpus\":[{\"memoryMiB\":1,\"mig\":\"maybe\"}]}", "\"mig\" cannot be \"maybe\"");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":5,\"idleUsedMiB\":6}]}", "more than \"memoryMiB\"");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":5,\"links\":[1]}]}", "\"links\" names GPU 1");
	assert_file_refused("{\"driverVersion\":515,\"gpus\":[{\"memoryMiB\":5}]}", "driverVersion");
}

static void file_that_is_not_a_list_of_gpus_is_refused(void **state)
{
	assert_file_refused("", "not JSON");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":1}]", "not JSON");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":1}]} x", "not JSON");
	assert_file_refused("[]", "must be an object");
	assert_file_refused("null", "must be an object");
	assert_file_refused("{}", "\"gpus\" is missing");
	assert_file_refused("{\"gpus\":{}}", "\"gpus\" must be a list");
	assert_file_refused("{\"gpus\":[]}", "0 GPUs");
	assert_file_refused("{\"gpus\":[7]}", "GPU 0: must be an object");
}

static void file_of_65_gpus_is_refused(void **state)
{
	char text[2048] = "{\"gpus\":[{\"memoryMiB\":1}";

	for (int i = 1; i < 65; i++)
		strcat(text, ",{\"memoryMiB\":1}");
	strcat(text, "]}");
	assert_file_refused(text, "65 GPUs");
}

static void file_larger_than_the_limit_is_refused(void **state)
{
	_cleanup_free_ char *text = malloc(GPUS_FILE_MAX + 2);

	memset(text, ' ', GPUS_FILE_MAX + 1);
	text[GPUS_FILE_MAX + 1] = '\0';
	assert_file_refused(text, "larger than");
}

static void gpus_cannot_share_an_identity(void **state)
{
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":1,\"uuid\":\"" UUID_A
			    "\"},{\"memoryMiB\":2,\"uuid\":\"" UUID_A "\"}]}",
		"GPUs 0 and 1 have the same \"uuid\"");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":1,\"busId\":\"00000000:00:0A.0\"},{\"memoryMiB\":2}]}",
		"the same \"busId\"");
	assert_file_refused(
		"{\"gpus\":[{\"memoryMiB\":1,\"serial\":\"1\"},{\"memoryMiB\":2,\"serial\":\"1\"}]}",
		"the same \"serial\"");
	assert_file_refused("{\"gpus\":[{\"memoryMiB\":1,\"links\":[1]},{\"memoryMiB\":2}]}",
		"GPU 0 has 1 links to GPU 1, which has 0 back");
}

static void written_file_reads_back_as_the_same_gpus(void **state)
{
	_cleanup_free_ struct sim_state *gpus = parse_spec("2x16160MiB+1x143771MiB");
	_cleanup_free_ struct sim_state *again = calloc(1, sizeof(*again));
	char path[] = "/tmp/test-sim-gpus-XXXXXX";
	struct error err = {};
	int fd = mkstemp(path);

	close(fd);
	gpus->gpus[0].link_count = gpus->gpus[1].link_count = 2;
	gpus->gpus[0].links[0] = gpus->gpus[0].links[1] = 1;
	assert_int_equal(gpus_complete(gpus, &err), 0);
	assert_int_equal(gpus_write(path, gpus, &err), 0);
	assert_int_equal(gpus_read(path, again, &err), 0);
	assert_int_equal(gpus_complete(again, &err), 0);
	assert_memory_equal(gpus, again, sizeof(*gpus));
	unlink(path);
}

static void adopted_gpus_keep_their_uuid_if_the_size_is_the_same(void **state)
{
	_cleanup_free_ struct sim_state *old = parse_spec("2x16160MiB+1x40960MiB");
	_cleanup_free_ struct sim_state *new = parse_spec("1x16160MiB+2x40960MiB+1x16160MiB");
	struct error err = {};

	assert_int_equal(gpus_complete(old, &err), 0);
	gpus_adopt(new, old, true);
	assert_string_equal(new->gpus[0].uuid, old->gpus[0].uuid);
	assert_string_equal(new->gpus[1].uuid, "");
	assert_string_equal(new->gpus[2].uuid, old->gpus[2].uuid);
	assert_string_equal(new->gpus[3].uuid, "");
	assert_int_equal(gpus_complete(new, &err), 0);
}

static void links_to_a_gpu_that_is_gone_are_gone(void **state)
{
	_cleanup_free_ struct sim_state *old = parse_spec("3x16160MiB");
	_cleanup_free_ struct sim_state *new = parse_spec("2x16160MiB");
	struct error err = {};

	old->gpus[0].link_count = 2;
	old->gpus[0].links[0] = 2;
	old->gpus[0].links[1] = 1;
	old->gpus[1].link_count = old->gpus[2].link_count = 1;
	assert_int_equal(gpus_complete(old, &err), 0);
	gpus_adopt(new, old, true);
	assert_int_equal(new->gpus[0].link_count, 1);
	assert_int_equal(new->gpus[0].links[0], 1);
	assert_int_equal(gpus_complete(new, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec_lists_counts_and_sizes_in_order),
		cmocka_unit_test(spec_without_a_count_is_one_gpu),
		cmocka_unit_test(spec_names_the_model_of_a_known_size),
		cmocka_unit_test(spec_refuses_what_is_not_a_list_of_gpus),
		cmocka_unit_test(spec_allows_64_gpus_and_no_more),
		cmocka_unit_test(complete_gives_each_gpu_its_own_uuid_bus_and_serial),
		cmocka_unit_test(complete_knows_the_generation_of_a_gpu),
		cmocka_unit_test(driver_version_decides_the_cuda_version),
		cmocka_unit_test(driver_version_cannot_leave_the_folder),
		cmocka_unit_test(file_needs_only_the_memory),
		cmocka_unit_test(file_values_win_over_the_models),
		cmocka_unit_test(file_errors_name_the_gpu_and_the_key),
		cmocka_unit_test(file_that_is_not_a_list_of_gpus_is_refused),
		cmocka_unit_test(file_of_65_gpus_is_refused),
		cmocka_unit_test(file_larger_than_the_limit_is_refused),
		cmocka_unit_test(gpus_cannot_share_an_identity),
		cmocka_unit_test(written_file_reads_back_as_the_same_gpus),
		cmocka_unit_test(adopted_gpus_keep_their_uuid_if_the_size_is_the_same),
		cmocka_unit_test(links_to_a_gpu_that_is_gone_are_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
