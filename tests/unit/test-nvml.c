#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "nvml/nvml.h"
#include "nvml/watch.h"

#define SECOND INT64_C(1000000000)

/* Three simulated GPUs of two sizes, made anew for each test by the real ration-sim. */
struct fixture {
	char dir[64], library[128];
};

static int sim(const struct fixture *f, const char *arguments)
{
	char line[512];

	snprintf(line, sizeof(line), "%s/sim/ration-sim %.*s %s %s >/dev/null", getenv("RATION_BUILD"),
		(int)strcspn(arguments, " "), arguments, f->dir,
		arguments[strcspn(arguments, " ")] ? strchr(arguments, ' ') + 1 : "");
	return system(line);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/test-nvml-XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	snprintf(f->library, sizeof(f->library), "%s/lib/libnvidia-ml.so.1", f->dir);
	*state = f;
	return sim(f, "up --gpus 2x16160MiB+1x40960MiB");
}

static int tear_down(void **state)
{
	int r = sim(*state, "down");

	free(*state);
	return r;
}

static struct nvml *open_nvml(const struct fixture *f)
{
	struct nvml *nvml = NULL;
	struct error err = {};

	if (nvml_open(&nvml, f->library, &err) < 0)
		fail_msg("%s", err.text);
	return nvml;
}

static struct nvml_inventory *read_inventory(struct nvml *nvml)
{
	struct nvml_inventory *inventory = calloc(1, sizeof(*inventory));
	struct error err = {};

	if (nvml_inventory(nvml, inventory, &err) < 0)
		fail_msg("%s", err.text);
	return inventory;
}

static struct nvml_watch *open_watch(struct nvml *nvml, const struct nvml_inventory *inventory)
{
	struct nvml_watch *watch = NULL;
	struct nvml_change changes[NVML_MAX_GPUS];
	struct error err = {};

	assert_int_equal(nvml_watch_open(&watch, nvml, inventory, &err), 0);
	assert_int_equal(nvml_watch_poll(watch, 0, changes, NVML_MAX_GPUS), 0);
	return watch;
}

static void assert_open_fails(const char *path, int error, const char *text)
{
	struct nvml *nvml = NULL;
	struct error err = {};

	assert_int_equal(nvml_open(&nvml, path, &err), -error);
	assert_null(nvml);
	if (!strstr(err.text, text))
		fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static void open_says_that_the_library_is_missing(void **state)
{
	assert_open_fails(
		"/nonexistent/libnvidia-ml.so.1", ENOENT, "cannot load the NVIDIA driver's library");
}

static void open_refuses_another_library(void **state)
{
	assert_open_fails("libm.so.6", ELIBBAD, "has no nvmlInit_v2");
}

static void open_refuses_what_is_no_library(void **state)
{
	assert_open_fails("/etc/passwd", ELIBBAD, "cannot load");
}

static void open_says_that_there_is_no_driver(void **state)
{
	const struct fixture *f = *state;
	char state_file[128];

	snprintf(state_file, sizeof(state_file), "%s/state/cards", f->dir);
	assert_int_equal(unlink(state_file), 0);
	assert_open_fails(f->library, ENODEV, "the NVIDIA driver is not loaded");
}

static void open_says_that_library_and_driver_differ(void **state)
{
	const struct fixture *f = *state;
	char state_file[128];

	snprintf(state_file, sizeof(state_file), "%s/state/cards", f->dir);
	assert_int_equal(truncate(state_file, 100), 0);
	assert_open_fails(f->library, ELIBBAD, "differ in version");
}

static void close_of_nothing_is_nothing(void **state)
{
	assert_null(nvml_close(NULL));
	assert_null(nvml_watch_close(NULL));
}

static void inventory_describes_every_gpu(void **state)
{
	_cleanup_nvml_ struct nvml *nvml = open_nvml(*state);
	_cleanup_free_ struct nvml_inventory *inventory = read_inventory(nvml);

	assert_string_equal(inventory->driver_version, "515.105.01");
	assert_int_equal(inventory->cuda_major, 11);
	assert_int_equal(inventory->cuda_minor, 7);
	assert_int_equal(inventory->count, 3);
	assert_int_equal(inventory->unreachable, 0);
	assert_int_equal(inventory->gpus[0].memory_mib, 16160);
	assert_int_equal(inventory->gpus[2].memory_mib, 40960);
	assert_string_equal(inventory->gpus[0].name, "Tesla V100-SXM2-16GB");
	assert_string_equal(inventory->gpus[0].bus_id, "00000000:00:09.0");
	assert_string_equal(inventory->gpus[2].bus_id, "00000000:00:0B.0");
	assert_int_equal(inventory->gpus[1].minor, 1);
	assert_int_equal(inventory->gpus[1].index, 1);
	assert_int_equal(inventory->gpus[0].numa_node, -1);
	assert_false(inventory->gpus[2].mig_enabled);
	assert_int_equal(inventory->gpus[0].compute_mode, NVML_COMPUTE_DEFAULT);
	assert_int_equal(strlen(inventory->gpus[0].uuid), 40);
}

static void inventory_tells_mig_numa_and_compute_mode(void **state)
{
	const struct fixture *f = *state;
	char line[512];

	snprintf(line, sizeof(line),
		"sed -i '0,/\"mig\":\"unsupported\"/s//\"mig\":\"enabled\"/; "
		"0,/\"numaNode\":-1/s//\"numaNode\":1/; "
		"0,/\"computeMode\":\"default\"/s//\"computeMode\":\"prohibited\"/' %s/gpus.json",
		f->dir);
	assert_int_equal(system(line), 0);
	assert_int_equal(sim(f, "up"), 0);

	_cleanup_nvml_ struct nvml *nvml = open_nvml(f);
	_cleanup_free_ struct nvml_inventory *inventory = read_inventory(nvml);

	assert_true(inventory->gpus[0].mig_enabled);
	assert_int_equal(inventory->gpus[0].numa_node, 1);
	assert_int_equal(inventory->gpus[0].compute_mode, NVML_COMPUTE_PROHIBITED);
	assert_false(inventory->gpus[1].mig_enabled);
}

static void inventory_counts_a_lost_gpu_and_shows_the_others(void **state)
{
	_cleanup_nvml_ struct nvml *nvml = open_nvml(*state);

	assert_int_equal(sim(*state, "fault 1 lost"), 0);
	_cleanup_free_ struct nvml_inventory *inventory = read_inventory(nvml);

	assert_int_equal(inventory->count, 2);
	assert_int_equal(inventory->unreachable, 1);
	assert_int_equal(inventory->gpus[1].index, 2);
	assert_int_equal(inventory->gpus[1].minor, 2);
}

static void critical_xid_makes_one_gpu_unhealthy_until_the_driver_is_content(void **state)
{
	_cleanup_nvml_ struct nvml *nvml = open_nvml(*state);
	_cleanup_free_ struct nvml_inventory *inventory = read_inventory(nvml);
	_cleanup_nvml_watch_ struct nvml_watch *watch = open_watch(nvml, inventory);
	struct nvml_change change = {};

	assert_int_equal(sim(*state, "fault 2 xid 63"), 0);
	assert_int_equal(nvml_watch_poll(watch, SECOND, &change, 1), 1);
	assert_int_equal(change.gpu, 2);
	assert_false(change.healthy);
	assert_string_equal(change.reason, "Xid 63");
	assert_int_equal(nvml_watch_poll(watch, 2 * SECOND, &change, 1), 0);
	assert_int_equal(sim(*state, "fault 2 heal"), 0);
	assert_int_equal(nvml_watch_poll(watch, 3 * SECOND, &change, 1), 1);
	assert_int_equal(change.gpu, 2);
	assert_true(change.healthy);
	assert_string_equal(change.reason, "");
}

static void xids_of_programs_leave_the_gpu_healthy(void **state)
{
	_cleanup_nvml_ struct nvml *nvml = open_nvml(*state);
	_cleanup_free_ struct nvml_inventory *inventory = read_inventory(nvml);
	_cleanup_nvml_watch_ struct nvml_watch *watch = open_watch(nvml, inventory);
	struct nvml_change change;

	assert_int_equal(sim(*state, "fault 0 xid 13"), 0);
	assert_int_equal(sim(*state, "fault 0 xid 31"), 0);
	assert_int_equal(sim(*state, "fault 0 xid 43"), 0);
	assert_int_equal(sim(*state, "fault 0 xid 45"), 0);
	assert_int_equal(sim(*state, "fault 0 xid 68"), 0);
	assert_int_equal(sim(*state, "fault 0 xid 109"), 0);
	assert_int_equal(nvml_watch_poll(watch, SECOND, &change, 1), 0);
	assert_true(nvml_xid_is_critical(79));
	assert_true(nvml_xid_is_critical(48));
}

static void ecc_error_makes_the_gpu_unhealthy(void **state)
{
	_cleanup_nvml_ struct nvml *nvml = open_nvml(*state);
	_cleanup_free_ struct nvml_inventory *inventory = read_inventory(nvml);
	_cleanup_nvml_watch_ struct nvml_watch *watch = open_watch(nvml, inventory);
	struct nvml_change change = {};

	assert_int_equal(sim(*state, "fault 0 ecc"), 0);
	assert_int_equal(nvml_watch_poll(watch, SECOND, &change, 1), 1);
	assert_string_equal(change.reason, "uncorrectable ECC error");
}

static void lost_gpu_is_met_again_after_the_library_is_restarted(void **state)
{
	_cleanup_nvml_ struct nvml *nvml = open_nvml(*state);
	_cleanup_free_ struct nvml_inventory *inventory = read_inventory(nvml);
	_cleanup_nvml_watch_ struct nvml_watch *watch = open_watch(nvml, inventory);
	struct nvml_change changes[3] = {};

	assert_int_equal(sim(*state, "fault 1 lost"), 0);
	assert_int_equal(nvml_watch_poll(watch, SECOND, changes, 3), 1);
	assert_int_equal(changes[0].gpu, 1);
	assert_false(changes[0].healthy);
	/* Others are still watched, before and after the restart. */
	assert_int_equal(nvml_watch_poll(watch, 2 * SECOND, changes, 3), 0);
	assert_int_equal(nvml_watch_poll(watch, 8 * SECOND, changes, 3), 0);
	assert_int_equal(sim(*state, "fault 0 xid 79"), 0);
	assert_int_equal(nvml_watch_poll(watch, 9 * SECOND, changes, 3), 1);
	assert_int_equal(changes[0].gpu, 0);
	assert_int_equal(sim(*state, "fault 1 heal"), 0);
	assert_int_equal(nvml_watch_poll(watch, 60 * SECOND, changes, 3), 1);
	assert_int_equal(changes[0].gpu, 1);
	assert_true(changes[0].healthy);
}

static void gpus_of_a_replaced_driver_are_lost_until_they_are_back(void **state)
{
	_cleanup_nvml_ struct nvml *nvml = open_nvml(*state);
	_cleanup_free_ struct nvml_inventory *inventory = read_inventory(nvml);
	_cleanup_nvml_watch_ struct nvml_watch *watch = open_watch(nvml, inventory);
	struct nvml_change changes[3] = {};

	/* The last GPU goes, the first two stay, under a new state. */
	assert_int_equal(sim(*state, "up --gpus 2x16160MiB"), 0);
	assert_int_equal(nvml_watch_poll(watch, SECOND, changes, 3), 3);
	assert_int_equal(nvml_watch_poll(watch, 2 * SECOND, changes, 3), 0);
	assert_int_equal(nvml_watch_poll(watch, 10 * SECOND, changes, 3), 2);
	assert_true(changes[0].healthy && changes[1].healthy);
	assert_int_equal(changes[1].gpu, 1);
}

static void changes_that_do_not_fit_come_with_the_next_poll(void **state)
{
	_cleanup_nvml_ struct nvml *nvml = open_nvml(*state);
	_cleanup_free_ struct nvml_inventory *inventory = read_inventory(nvml);
	_cleanup_nvml_watch_ struct nvml_watch *watch = open_watch(nvml, inventory);
	struct nvml_change change = {};

	assert_int_equal(sim(*state, "fault 0 lost"), 0);
	assert_int_equal(sim(*state, "fault 2 lost"), 0);
	assert_int_equal(nvml_watch_poll(watch, SECOND, &change, 1), 1);
	assert_int_equal(change.gpu, 0);
	assert_int_equal(nvml_watch_poll(watch, SECOND, &change, 1), 1);
	assert_int_equal(change.gpu, 2);
	assert_int_equal(nvml_watch_poll(watch, SECOND, &change, 1), 0);
}

static void polling_does_not_wait_for_events(void **state)
{
	_cleanup_nvml_ struct nvml *nvml = open_nvml(*state);
	_cleanup_free_ struct nvml_inventory *inventory = read_inventory(nvml);
	_cleanup_nvml_watch_ struct nvml_watch *watch = open_watch(nvml, inventory);
	struct nvml_change change;
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < 10; i++)
		assert_int_equal(nvml_watch_poll(watch, i * SECOND, &change, 1), 0);
	clock_gettime(CLOCK_MONOTONIC, &to);
	/* Ten calls with the shortest wait of the simulated library, 100 ms, would take a second. */
	assert_true(to.tv_sec - from.tv_sec + (to.tv_nsec - from.tv_nsec) / 1e9 < 0.9);
}

/* Else the mean would be of all the time before, also that in which it did nothing. */
static void who_begins_is_asked_about_from_now_on(void **state)
{
	_cleanup_nvml_ struct nvml *nvml = open_nvml(*state);
	_cleanup_free_ struct nvml_inventory *inventory = read_inventory(nvml);
	_cleanup_free_ struct nvml_process_use *uses = calloc(NVML_MAX_PROCESSES, sizeof(*uses));
	uint64_t now_us = (uint64_t)realtime_ns() / 1000;
	/* Never asked before; and by a clock that was set back since. */
	uint64_t since[] = {0, now_us + UINT64_C(3600000000)};

	for (size_t i = 0; i < ARRAY_SIZE(since); i++) {
		unsigned of_gpu;
		size_t count;

		assert_int_equal(
			nvml_utilization(nvml, inventory->gpus[0].uuid, &since[i], &of_gpu, uses, &count), 0);
		assert_int_equal(count, 0);
		assert_in_range(since[i], now_us - 170000, (uint64_t)realtime_ns() / 1000);
	}
}

static void library_of_an_old_driver_lacks_what_it_lacks_and_works(void **state)
{
	struct nvml_change change = {};
	struct error err = {};
	char path[512];

	snprintf(path, sizeof(path), "%s/tests/unit/nvml-old.so", getenv("RATION_BUILD"));

	_cleanup_nvml_ struct nvml *nvml = NULL;

	if (nvml_open(&nvml, path, &err) < 0)
		fail_msg("%s", err.text);
	_cleanup_free_ struct nvml_inventory *inventory = read_inventory(nvml);

	assert_int_equal(inventory->cuda_major, 11);
	assert_int_equal(inventory->cuda_minor, 0);
	assert_int_equal(inventory->count, 1);
	assert_int_equal(inventory->gpus[0].minor, 7);
	assert_int_equal(inventory->gpus[0].memory_mib, 0); /* shared with the host */
	assert_int_equal(inventory->gpus[0].numa_node, -1);
	assert_false(inventory->gpus[0].mig_enabled);
	assert_int_equal(strlen(inventory->gpus[0].bus_id), 31);

	_cleanup_nvml_watch_ struct nvml_watch *watch = NULL;

	assert_int_equal(nvml_watch_open(&watch, nvml, inventory, &err), 0);
	assert_int_equal(nvml_watch_poll(watch, SECOND, &change, 1), 1);
	assert_string_equal(change.reason, "Xid 62");
	/* This driver cannot say that all is well again. */
	for (int i = 2; i < 100; i++)
		assert_int_equal(nvml_watch_poll(watch, i * SECOND, &change, 1), 0);
}

/* A GPU's processes by each of the layouts that drivers have had. */
static void entries_of_32_bytes_are_read_as_such(void **state)
{
	static const unsigned numbers[] = {0, 1, 24, 25, 26, 100, NVML_MAX_PROCESSES};
	_cleanup_free_ struct nvml_process *list = calloc(NVML_MAX_PROCESSES, sizeof(*list));
	_cleanup_nvml_ struct nvml *nvml = NULL;
	struct error err = {};
	char path[512], number[16];
	size_t count;

	snprintf(path, sizeof(path), "%s/tests/unit/nvml-wide.so", getenv("RATION_BUILD"));
	if (nvml_open(&nvml, path, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		snprintf(number, sizeof(number), "%u", numbers[i]);
		setenv("NVML_WIDE_PROCESSES", number, 1);
		assert_int_equal(nvml_processes(nvml, "GPU-old", list, &count), 0);
		assert_int_equal(count, numbers[i]);
		for (unsigned k = 0; k < count; k++) {
			assert_int_equal(list[k].pid, 1000 + k);
			assert_int_equal(list[k].bytes, (k + 1ull) << 20);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_says_that_the_library_is_missing),
		cmocka_unit_test(open_refuses_another_library),
		cmocka_unit_test(open_refuses_what_is_no_library),
		cmocka_unit_test_setup_teardown(open_says_that_there_is_no_driver, set_up, tear_down),
		cmocka_unit_test_setup_teardown(open_says_that_library_and_driver_differ, set_up, tear_down),
		cmocka_unit_test(close_of_nothing_is_nothing),
		cmocka_unit_test(library_of_an_old_driver_lacks_what_it_lacks_and_works),
		cmocka_unit_test(entries_of_32_bytes_are_read_as_such),
		cmocka_unit_test_setup_teardown(inventory_describes_every_gpu, set_up, tear_down),
		cmocka_unit_test_setup_teardown(inventory_tells_mig_numa_and_compute_mode, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			inventory_counts_a_lost_gpu_and_shows_the_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			critical_xid_makes_one_gpu_unhealthy_until_the_driver_is_content, set_up, tear_down),
		cmocka_unit_test_setup_teardown(xids_of_programs_leave_the_gpu_healthy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ecc_error_makes_the_gpu_unhealthy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			lost_gpu_is_met_again_after_the_library_is_restarted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			gpus_of_a_replaced_driver_are_lost_until_they_are_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			changes_that_do_not_fit_come_with_the_next_poll, set_up, tear_down),
		cmocka_unit_test_setup_teardown(polling_does_not_wait_for_events, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_begins_is_asked_about_from_now_on, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
