/* What is made of the answers of NVIDIA's management library: here each answer is the test's own. */
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
#include "nvml/abi.h"
#include "nvml/nvml.h"

static struct nvml_functions table;

/* Linked with --wrap: no library is opened. */
const struct nvml_functions *__wrap_nvml_table(const struct nvml *nvml);

const struct nvml_functions *__wrap_nvml_table(const struct nvml *nvml)
{
	return &table;
}

/* The device of "GPU-<n>" is its number and 1. */
static int by_uuid(const char *uuid, nvml_device *ret_device)
{
	*ret_device = (nvml_device)(uintptr_t)(atoi(uuid + strlen("GPU-")) + 1);
	return NVML_SUCCESS;
}

static size_t number_of(nvml_device device)
{
	return (uintptr_t)device - 1;
}

/* ---- processes ------------------------------------------------------------------------------------------
 */

static struct nvml_process_info computing[4], drawing[4];
static unsigned n_computing, n_drawing;
static int answer_about_drawing;

static int give(const struct nvml_process_info *from, unsigned n, unsigned *count, void *infos)
{
	assert_true(*count >= n);
	memcpy(infos, from, n * sizeof(*from));
	*count = n;
	return NVML_SUCCESS;
}

static int list_computing(nvml_device device, unsigned *count, void *infos)
{
	return give(computing, n_computing, count, infos);
}

static int list_drawing(nvml_device device, unsigned *count, void *infos)
{
	return answer_about_drawing ? answer_about_drawing : give(drawing, n_drawing, count, infos);
}

static int set_up(void **state)
{
	table = (struct nvml_functions){.device_by_uuid = by_uuid,
		.device_compute_processes = list_computing,
		.device_graphics_processes = list_drawing,
		.process_info_size = sizeof(struct nvml_process_info)};
	n_computing = n_drawing = 0;
	answer_about_drawing = NVML_SUCCESS;
	return 0;
}

static size_t read_processes(struct nvml_process list[NVML_MAX_PROCESSES])
{
	size_t count = 99;

	assert_int_equal(nvml_processes(NULL, "GPU-0", list, &count), 0);
	return count;
}

static void a_process_in_both_lists_counts_once_with_the_larger_number(void **state)
{
	static struct nvml_process list[NVML_MAX_PROCESSES];

	computing[n_computing++] = (struct nvml_process_info){.pid = 7, .bytes = 100};
	computing[n_computing++] = (struct nvml_process_info){.pid = 8, .bytes = 300};
	drawing[n_drawing++] = (struct nvml_process_info){.pid = 7, .bytes = 200};
	drawing[n_drawing++] = (struct nvml_process_info){.pid = 8, .bytes = 250};
	assert_int_equal(read_processes(list), 2);
	assert_int_equal(list[0].pid, 7);
	assert_int_equal(list[0].bytes, 200);
	assert_int_equal(list[1].pid, 8);
	assert_int_equal(list[1].bytes, 300);
}

static void a_process_that_only_draws_has_memory_too(void **state)
{
	static struct nvml_process list[NVML_MAX_PROCESSES];

	drawing[n_drawing++] = (struct nvml_process_info){.pid = 9, .bytes = 50};
	assert_int_equal(read_processes(list), 1);
	assert_int_equal(list[0].pid, 9);
	assert_int_equal(list[0].bytes, 50);
}

static void a_gpu_without_graphics_has_the_others(void **state)
{
	static struct nvml_process list[NVML_MAX_PROCESSES];

	computing[n_computing++] = (struct nvml_process_info){.pid = 7, .bytes = 100};
	answer_about_drawing = NVML_ERROR_NOT_SUPPORTED;
	assert_int_equal(read_processes(list), 1);
}

static void memory_that_the_driver_cannot_tell_is_left_out(void **state)
{
	static struct nvml_process list[NVML_MAX_PROCESSES];

	computing[n_computing++] = (struct nvml_process_info){.pid = 7, .bytes = NVML_VALUE_NOT_AVAILABLE};
	assert_int_equal(read_processes(list), 0);
}

/* ---- time -----------------------------------------------------------------------------------------------
 */

static struct nvml_process_sample samples[4];
static unsigned n_samples;

static int list_samples(
	nvml_device device, struct nvml_process_sample *to, unsigned *count, unsigned long long since)
{
	assert_true(*count >= n_samples);
	memcpy(to, samples, n_samples * sizeof(samples[0]));
	*count = n_samples;
	return NVML_SUCCESS;
}

static int busy_gpu(nvml_device device, struct nvml_utilization_rates *ret_rates)
{
	*ret_rates = (struct nvml_utilization_rates){.gpu = 101};
	return NVML_SUCCESS;
}

/* Process 7 has samples of all three periods, process 8 of one: it used the GPU for a third of 90 percent. */
static void a_mean_is_over_the_periods_of_the_busiest_process(void **state)
{
	static struct nvml_process_use list[NVML_MAX_PROCESSES];
	unsigned gpu = 0;
	uint64_t since = 0;
	size_t count = 0;

	table.device_process_utilization = list_samples;
	table.device_utilization = busy_gpu;
	n_samples = 0;
	for (unsigned i = 0; i < 3; i++)
		samples[n_samples++] = (struct nvml_process_sample){
			.pid = 7, .time_us = i + 1, .sm_percent = 10 * i};
	samples[n_samples++] = (struct nvml_process_sample){.pid = 8, .time_us = 2, .sm_percent = 90};
	assert_int_equal(nvml_utilization(NULL, "GPU-0", &since, &gpu, list, &count), 0);
	assert_int_equal(gpu, 100);
	assert_int_equal(count, 2);
	assert_int_equal(list[0].pid, 7);
	assert_int_equal(list[0].percent, 10);
	assert_int_equal(list[1].pid, 8);
	assert_int_equal(list[1].percent, 30);
}

/* ---- links ----------------------------------------------------------------------------------------------
 */

/* Of each GPU: the bus of the GPU at the other end of each link, 0: none; and whether the link is up. */
static unsigned other_end[2][4];
static bool is_down[2][4];

static int state_of(nvml_device device, unsigned link, unsigned *ret_active)
{
	if (link >= 4 || !other_end[number_of(device)][link])
		return NVML_ERROR_NOT_SUPPORTED;
	*ret_active = !is_down[number_of(device)][link];
	return NVML_SUCCESS;
}

static int remote_of(nvml_device device, unsigned link, struct nvml_pci_info *ret_info)
{
	*ret_info = (struct nvml_pci_info){.bus = other_end[number_of(device)][link]};
	return NVML_SUCCESS;
}

/* GPU 0 is on bus 1, GPU 1 on bus 2. */
static uint8_t links_between(void)
{
	_cleanup_free_ struct nvml_inventory *inventory = calloc(1, sizeof(*inventory));
	_cleanup_free_ struct nvml_links *links = calloc(1, sizeof(*links));

	table.link_state = state_of;
	table.link_remote_pci = remote_of;
	inventory->count = 2;
	for (unsigned i = 0; i < 2; i++) {
		snprintf(inventory->gpus[i].uuid, sizeof(inventory->gpus[i].uuid), "GPU-%u", i);
		snprintf(inventory->gpus[i].bus_id, sizeof(inventory->gpus[i].bus_id), "00000000:%02x:00.0",
			i + 1);
	}
	nvml_links(NULL, inventory, links);
	assert_int_equal(links->between[0][1].nvlinks, links->between[1][0].nvlinks);
	return links->between[0][1].nvlinks;
}

static void links_count_where_both_ends_say_so(void **state)
{
	memset(is_down, 0, sizeof(is_down));
	memcpy(other_end, (unsigned[2][4]){{2, 2, 2}, {1, 1}}, sizeof(other_end));
	assert_int_equal(links_between(), 2);
}

static void a_link_that_is_down_does_not_count(void **state)
{
	memset(is_down, 0, sizeof(is_down));
	memcpy(other_end, (unsigned[2][4]){{2, 2}, {1, 1}}, sizeof(other_end));
	assert_int_equal(links_between(), 2);
	is_down[0][1] = is_down[1][1] = true;
	assert_int_equal(links_between(), 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_process_in_both_lists_counts_once_with_the_larger_number, set_up),
		cmocka_unit_test_setup(a_process_that_only_draws_has_memory_too, set_up),
		cmocka_unit_test_setup(a_gpu_without_graphics_has_the_others, set_up),
		cmocka_unit_test_setup(memory_that_the_driver_cannot_tell_is_left_out, set_up),
		cmocka_unit_test_setup(a_mean_is_over_the_periods_of_the_busiest_process, set_up),
		cmocka_unit_test_setup(links_count_where_both_ends_say_so, set_up),
		cmocka_unit_test_setup(a_link_that_is_down_does_not_count, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
