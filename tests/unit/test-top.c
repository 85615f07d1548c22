#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/strbuf.h"
#include "cli/top-page.h"
#include "cli/top-table.h"

#define WHO "{namespace=\"ns\",pod=\"p\",container=\"c\",gpu=\"1\",UUID=\"GPU-1\"}"

static void what_is_said_of_a_container_is_found(void **state)
{
	struct top_sample sample;

	top_sample_init(&sample);
	assert_int_equal(top_sample_add(&sample, "n1",
				 "# HELP x\n"
				 "ration_gpu_memory_bytes{gpu=\"1\",UUID=\"GPU-1\",modelName=\"T "
				 "\\\"4\\\"\"} 17179869184\n"
				 "ration_container_limit_bytes" WHO " 2147483648\n"
				 "ration_container_core_share_ratio" WHO " 0.300000\n"
				 "ration_container_core_started_seconds_total" WHO " 12.500000000\n"),
		0);
	assert_int_equal(sample.n_gpus, 1);
	assert_string_equal(sample.gpus[0]->model, "T \"4\"");
	assert_int_equal(sample.gpus[0]->index, 1);
	assert_int_equal(sample.gpus[0]->memory_bytes, UINT64_C(17179869184));
	assert_int_equal(sample.n_holders, 1);
	assert_string_equal(sample.holders[0]->container, "c");
	assert_int_equal(sample.holders[0]->limit_bytes, UINT64_C(2147483648));
	assert_true(sample.holders[0]->share == 0.3);
	assert_true(sample.holders[0]->started.known && sample.holders[0]->started.s == 12.5);
	assert_false(sample.holders[0]->used.known || sample.holders[0]->waited.known);
	top_sample_release(&sample);
}

static void lines_that_are_not_understood_are_left_out(void **state)
{
	static const char *const lines[] = {"", "\n\n", "ration_container_limit_bytes",
		"ration_container_limit_bytes{", "ration_container_limit_bytes{gpu",
		"ration_container_limit_bytes{gpu=\"1", "ration_container_limit_bytes" WHO,
		"ration_container_limit_bytes" WHO " ", "ration_container_limit_bytes" WHO " NaN",
		"ration_container_limit_bytes" WHO " -1", "ration_container_limit_bytes" WHO " 1e300",
		"ration_container_limit_bytes" WHO " 1x", "ration_container_limit_bytesx" WHO " 1",
		"ration_container_limit_bytes{gpu=\"\\", "{}", "}"};
	struct top_sample sample;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		top_sample_init(&sample);
		assert_int_equal(top_sample_add(&sample, "", lines[i]), 0);
		assert_int_equal(sample.n_holders, 0);
		top_sample_release(&sample);
	}
}

/* Any bytes in the place of some: nothing is read that is not there (under the sanitizer). */
static void no_page_does_harm(void **state)
{
	static const char page[] = "ration_gpu_used_bytes{gpu=\"1\",UUID=\"GPU-1\",modelName=\"T\\n4\"} 1\n"
				   "ration_container_used_bytes" WHO " 5\n"
				   "ration_container_core_rate_ratio" WHO " 0.3\n";
	uint32_t seed = 3;

	for (int round = 0; round < 20000; round++) {
		struct top_sample sample;
		struct strbuf out;
		char *copy = strdup(page);

		top_sample_init(&sample);
		strbuf_init(&out, 1 << 20);
		for (int i = 0; i < 1 + round % 6; i++) {
			seed = seed * 1664525 + 1013904223;
			copy[(seed >> 16) % (sizeof(page) - 1)] = (char)(seed >> 8);
		}
		assert_int_equal(top_sample_add(&sample, "n", copy), 0);
		top_sample_sort(&sample);
		assert_int_equal(top_table(&sample, &sample, round % 2, &out), 0);
		for (size_t i = 0; i < out.len; i++)
			assert_true(out.data[i] == '\n' || (out.data[i] >= ' ' && out.data[i] < 0x7f));
		free(copy);
		strbuf_release(&out);
		top_sample_release(&sample);
	}
}

static void thousands_of_containers_are_found_again(void **state)
{
	struct top_sample sample;

	top_sample_init(&sample);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 3000; i++) {
			char line[200];

			snprintf(line, sizeof(line),
				"ration_container_limit_bytes{namespace=\"n\",pod=\"p%d\",container=\"c\",gpu=\"0\","
				"UUID=\"u\"} %d\n",
				i, i + round);
			assert_int_equal(top_sample_add(&sample, "", line), 0);
		}
	assert_int_equal(sample.n_holders, 3000);
	top_sample_sort(&sample);
	assert_string_equal(sample.holders[9]->pod, "p9");
	assert_string_equal(sample.holders[10]->pod, "p10");
	assert_int_equal(sample.holders[10]->limit_bytes, 11);
	top_sample_release(&sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_of_a_container_is_found),
		cmocka_unit_test(lines_that_are_not_understood_are_left_out),
		cmocka_unit_test(no_page_does_harm),
		cmocka_unit_test(thousands_of_containers_are_found_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
