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
#include "base/error.h"
#include "kube/fault-list.h"

#define FAULTY(id) "- deviceId: " id "\n  deviceType: gpu\n  healthy: false\n"

static void assert_status(const char *text, const char *expected)
{
	static struct fault_list list;
	_cleanup_free_ char *gpus = NULL;
	struct error err = {""};

	assert_int_equal(fault_list_from_device_status(text, &list, &err), 0);
	assert_string_equal(err.text, "");
	gpus = fault_list_gpus(&list);
	assert_string_equal(gpus, expected);
}

/* Nothing is taken over of a text that is refused, and the sentence says what is wrong. */
static void assert_status_refused(const char *text, const char *why)
{
	static struct fault_list list;
	struct error err = {""};

	list = (struct fault_list){.n = 77};
	assert_int_equal(fault_list_from_device_status(text, &list, &err), -EINVAL);
	if (!strstr(err.text, why))
		fail_msg("\"%s\" does not say \"%s\"", err.text, why);
	assert_int_equal(list.n, 77);
}

static void a_device_status_names_gpus_by_index_or_uuid(void **state)
{
	assert_status(FAULTY("0"), "0");
	assert_status(FAULTY("\"2\"") FAULTY("0"), "2,0");
	assert_status(FAULTY("GPU-0a1b"), "GPU-0a1b");
	assert_status("[{\"deviceId\": 1, \"deviceType\": \"gpu\", \"healthy\": false}]", "1");
}

static void a_device_status_keeps_the_reason_and_leaves_other_keys_alone(void **state)
{
	static struct fault_list list;

	assert_int_equal(
		fault_list_from_device_status(
			"- {deviceId: 3, deviceType: gpu, healthy: false, reason: fan, since: yesterday, more: {a: [b]}}",
			&list, NULL),
		0);
	assert_int_equal(list.n, 1);
	assert_int_equal(list.faults[0].index, 3);
	assert_string_equal(list.faults[0].reason, "fan");
}

static void healthy_gpus_and_other_devices_are_no_faults(void **state)
{
	assert_status("- {deviceId: 0, deviceType: gpu, healthy: true}\n" FAULTY("1"), "1");
	assert_status("- {deviceId: mlx5_0, deviceType: rdma, healthy: false}\n" FAULTY("1"), "1");
}

static void an_empty_device_status_names_no_gpu(void **state)
{
	assert_status("", "");
	assert_status("\n# nothing now\n", "");
	assert_status("[]", "");
}

static void a_malformed_device_status_is_refused_as_a_whole(void **state)
{
	assert_status_refused(FAULTY("0") "- {", "no valid YAML");
	assert_status_refused("deviceId: 0\ndeviceType: gpu\nhealthy: false\n", "not a list");
	assert_status_refused("0", "not a list");
	assert_status_refused("null", "not a list");
	assert_status_refused("- 0\n", "entry 1 is no mapping");
	assert_status_refused(FAULTY("0") "- {deviceType: gpu, healthy: false}", "entry 2: deviceId \"\" is");
	assert_status_refused(FAULTY("-1"), "deviceId \"-1\" is neither");
	assert_status_refused(FAULTY("00000000000000000000"), "is neither");
	assert_status_refused(FAULTY("4096"), "deviceId \"4096\" is neither");
	assert_status_refused(FAULTY("0x1/../"), "is neither");
	assert_status_refused(FAULTY("[0]"), "deviceId \"\" is neither");
	assert_status_refused("- {deviceId: 0, healthy: false}", "entry 1 has no deviceType");
	assert_status_refused("- {deviceId: 0, deviceType: gpu}", "healthy is neither true nor false");
	assert_status_refused(
		"- {deviceId: 0, deviceType: gpu, healthy: no}", "healthy is neither true nor false");
	assert_status_refused(
		"- {deviceId: 0, deviceType: gpu, healthy: \"false\"}", "neither true nor false");
	assert_status_refused(
		"- {deviceId: 0, deviceId: 1, deviceType: gpu, healthy: false}", "deviceId twice");
	assert_status_refused(FAULTY("0") FAULTY("1") FAULTY("0"), "entry 3 is about the same GPU");
	assert_status_refused(FAULTY("0") "- {deviceId: 0, deviceType: gpu, healthy: true}", "the same GPU");
	assert_status_refused(FAULTY("0") "---\n" FAULTY("1"), "after the end");
	assert_status_refused(FAULTY("0") "...\n:::\n- {", "after the end");
	assert_status_refused("- \"a\\0b\": 0\n", "entry 1 has no deviceType");
	assert_status_refused("- {deviceId: \"0\\0x\", deviceType: gpu, healthy: false}", "deviceId \"\"");
}

static void an_oversized_device_status_is_refused(void **state)
{
	_cleanup_free_ char *long_text = malloc(FAULT_LIST_TEXT_MAX + 2), *many = calloc(1, 64 * 200);

	assert_true(long_text && many);
	memset(long_text, '#', FAULT_LIST_TEXT_MAX + 1);
	long_text[FAULT_LIST_TEXT_MAX + 1] = '\0';
	assert_status_refused(long_text, "longer than 65536 bytes");
	for (int i = 0; i < 129; i++)
		sprintf(many + strlen(many), "- {deviceId: %d, deviceType: gpu, healthy: false}\n", i);
	assert_status_refused(many, "more than 128 entries");
}

/* Each alias of the next level is nine of the one before: 9^9 entries, were they copied. */
static void aliases_do_not_multiply(void **state)
{
	char text[2048] = "- &a0 {deviceId: 0, deviceType: gpu, healthy: false}\n";

	for (int i = 1; i < 10; i++) {
		sprintf(text + strlen(text), "- &a%d [", i);
		for (int k = 0; k < 9; k++)
			sprintf(text + strlen(text), "%s*a%d", k ? "," : "", i - 1);
		strcat(text, "]\n");
	}
	assert_status_refused(text, "entry 2 is no mapping");
}

static void assert_gpus(const char *text, const char *expected)
{
	static struct fault_list list;
	_cleanup_free_ char *gpus = NULL;
	struct error err = {""};

	if (fault_list_from_gpus(text, NULL, &list, &err) < 0)
		fail_msg("\"%s\": %s", text, err.text);
	gpus = fault_list_gpus(&list);
	assert_string_equal(gpus, expected);
}

static void assert_gpus_refused(const char *text, const char *why)
{
	static struct fault_list list;
	struct error err = {""};

	list = (struct fault_list){.n = 77};
	assert_int_equal(fault_list_from_gpus(text, NULL, &list, &err), -EINVAL);
	if (!strstr(err.text, why))
		fail_msg("\"%s\" does not say \"%s\"", err.text, why);
	assert_int_equal(list.n, 77);
}

static void a_list_of_gpus_is_read_with_and_without_blanks(void **state)
{
	assert_gpus("0", "0");
	assert_gpus("0,2", "0,2");
	assert_gpus(" 0 , 2\n", "0,2");
	assert_gpus("1,GPU-0a1b", "1,GPU-0a1b");
	assert_gpus("", "");
	assert_gpus(" \n", "");
}

static void a_malformed_list_of_gpus_is_refused_as_a_whole(void **state)
{
	assert_gpus_refused("0,", "nothing between two commas");
	assert_gpus_refused(",", "nothing between two commas");
	assert_gpus_refused("0, ,2", "nothing between two commas");
	assert_gpus_refused("0;2", "\"0;2\" is neither");
	assert_gpus_refused("0 2", "\"0 2\" is neither");
	assert_gpus_refused("-1", "\"-1\" is neither");
	assert_gpus_refused("0,9999999999999", "is neither");
	assert_gpus_refused("0,0", "GPU 0 is there twice");
	assert_gpus_refused("GPU-a,1,GPU-a", "GPU GPU-a is there twice");
}

static void what_was_noted_counts_while_the_list_is_the_one_it_was_noted_for(void **state)
{
	static const char notes[] =
		"{\"gpus\":\"0,2\",\"cards\":{\"0\":{\"uuid\":\"GPU-a\",\"reason\":\"fan\"}}}";
	static struct fault_list list;

	assert_int_equal(fault_list_from_gpus("0,2", notes, &list, NULL), 0);
	assert_string_equal(list.faults[0].uuid, "GPU-a");
	assert_string_equal(list.faults[0].reason, "fan");
	assert_true(fault_is_about(&list.faults[0], 5, "GPU-a"));
	assert_false(fault_is_about(&list.faults[0], 0, "GPU-b"));
	assert_true(fault_is_about(&list.faults[1], 2, "GPU-c"));
	/* Somebody has written another list: his 0 is what he sees as 0. */
	assert_int_equal(fault_list_from_gpus("0", notes, &list, NULL), 0);
	assert_true(fault_is_about(&list.faults[0], 0, "GPU-b"));
	assert_false(fault_is_about(&list.faults[0], 5, "GPU-a"));
}

static void notes_are_read_as_they_were_written(void **state)
{
	static struct fault_list list, again;
	_cleanup_free_ char *gpus = NULL, *notes = NULL;

	list = (struct fault_list){.n = 3,
		.faults = {{.index = 1, .uuid = "GPU-b", .reason = "Xid \"79\""},
			{.index = -1, .uuid = "GPU-x"}, {.index = 7}}};
	gpus = fault_list_gpus(&list);
	notes = fault_list_notes(&list);
	assert_string_equal(gpus, "1,GPU-x,7");
	assert_int_equal(fault_list_from_gpus(gpus, notes, &again, NULL), 0);
	assert_int_equal(again.n, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(again.faults[i].index, list.faults[i].index);
		assert_string_equal(again.faults[i].uuid, list.faults[i].uuid);
		assert_string_equal(again.faults[i].reason, list.faults[i].reason);
	}
}

static void bad_notes_are_none(void **state)
{
	static const char *const bad[] = {"", "{", "[]", "{\"gpus\":\"0\",\"cards\":[]}",
		"{\"gpus\":\"0\",\"cards\":{\"0\":{\"uuid\":\"../x\"}}}", "{\"gpus\":0,\"cards\":{}}"};
	static struct fault_list list;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(fault_list_from_gpus("0", bad[i], &list, NULL), 0);
		assert_true(fault_is_about(&list.faults[0], 0, "GPU-a"));
		assert_string_equal(list.faults[0].reason, "");
	}
}

static void a_reason_is_one_line_of_whole_characters(void **state)
{
	char reason[GPU_REASON_SIZE], text[400] = "";

	fault_reason_copy(reason, "a\nb\x1b[2J\x7f");
	assert_string_equal(reason, "a b [2J ");
	/* 80 characters of two bytes: 159 bytes have room for 79. */
	for (int i = 0; i < 80; i++)
		strcat(text, "\xc3\xa4");
	fault_reason_copy(reason, text);
	assert_int_equal(strlen(reason), 158);
	text[159 - 1] = '\0';
	fault_reason_copy(reason, text);
	assert_int_equal(strlen(reason), 158);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_status_names_gpus_by_index_or_uuid),
		cmocka_unit_test(a_device_status_keeps_the_reason_and_leaves_other_keys_alone),
		cmocka_unit_test(healthy_gpus_and_other_devices_are_no_faults),
		cmocka_unit_test(an_empty_device_status_names_no_gpu),
		cmocka_unit_test(a_malformed_device_status_is_refused_as_a_whole),
		cmocka_unit_test(an_oversized_device_status_is_refused),
		cmocka_unit_test(aliases_do_not_multiply),
		cmocka_unit_test(a_list_of_gpus_is_read_with_and_without_blanks),
		cmocka_unit_test(a_malformed_list_of_gpus_is_refused_as_a_whole),
		cmocka_unit_test(what_was_noted_counts_while_the_list_is_the_one_it_was_noted_for),
		cmocka_unit_test(notes_are_read_as_they_were_written),
		cmocka_unit_test(bad_notes_are_none),
		cmocka_unit_test(a_reason_is_one_line_of_whole_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
