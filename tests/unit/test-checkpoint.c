/* The kubelet's checkpoint, and the record that is rebuilt from it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/kubelet/checkpoint.h"
#include "node/served.h"
#include "kube/names.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"

static int parse(const char *text, struct served *served, struct error *err)
{
	served_init(served);
	return checkpoint_parse(text, strlen(text), RESOURCE_GPU_MEM, served, err);
}

static const char *const GOOD =
	"{\"Data\":{\"PodDeviceEntries\":["
	"{\"PodUID\":\"u1\",\"ContainerName\":\"c\",\"ResourceName\":\"aliyun.com/gpu-mem\","
	"\"DeviceIDs\":{\"-1\":[\"0-3\",\"0-1\"],\"0\":[\"1-2\"]},\"AllocResp\":\"\",\"Later\":{\"x\":[1]}},"
	"{\"PodUID\":\"u2\",\"ContainerName\":\"d\",\"ResourceName\":\"nvidia.com/gpu\","
	"\"DeviceIDs\":{\"-1\":[\"x\"]}},"
	"{\"PodUID\":7,\"ContainerName\":\"e\",\"ResourceName\":\"aliyun.com/gpu-mem\",\"DeviceIDs\":{}},"
	"{\"PodUID\":\"u3\",\"ContainerName\":\"f\",\"ResourceName\":\"aliyun.com/gpu-mem\","
	"\"DeviceIDs\":{\"-1\":[1,null,\"2-2\",{}],\"1\":\"no list\"}},17,null],"
	"\"RegisteredDevices\":{\"aliyun.com/gpu-mem\":[\"0-0\"]}},\"Checksum\":3411926117,\"New\":true}";

static void entries_of_our_resource_are_taken_and_the_rest_is_left(void **state)
{
	struct error err = {""};
	struct served served;
	const struct served_entry *entry;

	assert_int_equal(parse(GOOD, &served, &err), 0);
	entry = served_find(&served, "u1", "c");
	assert_non_null(entry);
	assert_int_equal(entry->n_ids, 3);
	assert_string_equal(entry->ids[0], "0-1");
	assert_string_equal(entry->ids[1], "0-3");
	assert_string_equal(entry->ids[2], "1-2");
	assert_null(served_find(&served, "u2", "d"));
	entry = served_find(&served, "u3", "f");
	assert_non_null(entry);
	assert_int_equal(entry->n_ids, 1);
	served_release(&served);
}

static void entries_of_another_resource_are_its_own_record(void **state)
{
	_cleanup_served_ struct served served;

	served_init(&served);
	assert_int_equal(checkpoint_parse(GOOD, strlen(GOOD), "nvidia.com/gpu", &served, NULL), 0);
	assert_non_null(served_find(&served, "u2", "d"));
	assert_null(served_find(&served, "u1", "c"));
}

static void kubelet_that_never_gave_anything_is_an_empty_record(void **state)
{
	struct error err = {""};
	struct served served;

	assert_int_equal(
		parse("{\"Data\":{\"PodDeviceEntries\":null,\"RegisteredDevices\":{}},\"Checksum\":1}",
			&served, &err),
		0);
	assert_true(list_empty(&served.entries));
}

static void what_is_no_checkpoint_is_refused_with_a_sentence(void **state)
{
	static const char *const bad[] = {"", "{", "[]", "null", "{}", "{\"Data\":1}", "{\"Data\":[]}",
		"{\"Data\":{\"PodDeviceEntries\":{}}}", "{\"Data\":{\"PodDeviceEntries\":[]}} x"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct error err = {""};
		struct served served;

		assert_int_equal(parse(bad[i], &served, &err), -EINVAL);
		assert_true(err.text[0] != '\0');
		assert_true(list_empty(&served.entries));
	}
}

static void checkpoint_cut_anywhere_never_crashes(void **state)
{
	for (size_t len = 0; len < strlen(GOOD); len++) {
		struct served served;
		/* Exactly that long, so that a sanitizer sees a read beyond the end. */
		_cleanup_free_ char *cut = malloc(len + 1);

		memcpy(cut, GOOD, len);
		cut[len] = '\0';
		served_init(&served);
		assert_int_equal(checkpoint_parse(cut, len, RESOURCE_GPU_MEM, &served, NULL), -EINVAL);
		served_release(&served);
	}
}

static void failed_load_leaves_the_record_and_a_missing_file_empties_it(void **state)
{
	char path[] = "/tmp/test-checkpoint-XXXXXX";
	int fd = mkstemp(path);
	char *ids[] = {"0-0"};
	struct error err = {""};
	struct served served;

	served_init(&served);
	served_add(&served, "u", "c", ids, 1);
	assert_int_equal(write(fd, "{", 1), 1);
	close(fd);
	assert_int_equal(checkpoint_load(path, RESOURCE_GPU_MEM, &served, &err), -EINVAL);
	assert_non_null(strstr(err.text, path));
	assert_non_null(served_find(&served, "u", "c"));
	unlink(path);
	assert_int_equal(checkpoint_load(path, RESOURCE_GPU_MEM, &served, &err), 0);
	assert_null(served_find(&served, "u", "c"));
}

static void record_finds_a_set_of_ids_in_any_order_and_the_latest_of_equal_ones(void **state)
{
	char *ids[] = {"0-1", "0-2"}, *swapped[] = {"0-2", "0-1"}, *fewer[] = {"0-1"};
	struct served served;

	served_init(&served);
	served_add(&served, "old", "c", ids, 2);
	served_add(&served, "new", "c", ids, 2);
	assert_string_equal(served_find_ids(&served, NULL, swapped, 2)->uid, "new");
	/* both may be alive, and PreStartContainer has to prepare both */
	assert_string_equal(
		served_find_ids(&served, served_find_ids(&served, NULL, swapped, 2), swapped, 2)->uid, "old");
	assert_null(served_find_ids(&served, NULL, fewer, 1));
	served_remove_pod(&served, "new");
	served_remove_pod(&served, "new");
	assert_string_equal(served_find_ids(&served, NULL, swapped, 2)->uid, "old");
	served_release(&served);
}

static void serving_a_container_again_replaces_its_entry(void **state)
{
	char *first[] = {"0-1"}, *second[] = {"0-2"};
	struct served served;

	served_init(&served);
	served_add(&served, "u", "c", first, 1);
	served_add(&served, "u", "c", second, 1);
	assert_null(served_find_ids(&served, NULL, first, 1));
	assert_string_equal(served_find(&served, "u", "c")->ids[0], "0-2");
	served_release(&served);
}

/* By protoc: {cdi_devices {name: "ration.dev/grant=u9.main"}}; one with an environment, an annotation,
 * another plugin's device and "ration.dev/grant=u1.c"; and {envs {key: "NVIDIA_VISIBLE_DEVICES" value:
 * "GPU-1,GPU-2"} devices
 * {...}}. */
#define ANSWER_OF_U9 "KhoKGHJhdGlvbi5kZXYvZ3JhbnQ9dTkubWFpbg=="
#define ANSWER_OF_U1                                                                                           \
	"Ch4KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBHZvaWQiBgoBYRIBYioSChBudmlkaWEuY29tL2dwdT0wKhcKFXJhdGlvbi5kZXYv" \
	"Z3JhbnQ9dTEuYw=="
#define ANSWER_WITHOUT_CDI                                                                                   \
	"CiUKFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSC0dQVS0xLEdQVS0yGiAKDC9kZXYvbnZpZGlhMBIML2Rldi9udmlkaWEwGgJydw=="

static const struct served_entry *parse_answer(const char *answer, struct served *served)
{
	char text[2048];

	snprintf(text, sizeof(text),
		"{\"Data\":{\"PodDeviceEntries\":[{\"PodUID\":\"u1\",\"ContainerName\":\"c\","
		"\"ResourceName\":\"aliyun.com/gpu-mem\",\"DeviceIDs\":{\"-1\":[\"0-3\"]},\"AllocResp\":%s}]}}",
		answer);
	assert_int_equal(parse(text, served, NULL), 0);
	return served_find(served, "u1", "c");
}

static void answer_for_another_container_is_kept_and_ones_own_says_nothing(void **state)
{
	struct served served;
	const struct served_entry *entry = parse_answer("\"" ANSWER_OF_U9 "\"", &served);

	assert_string_equal(entry->device, "u9.main");
	assert_null(entry->gpus);
	served_release(&served);
	entry = parse_answer("\"" ANSWER_OF_U1 "\"", &served);
	assert_null(entry->device);
	assert_null(entry->gpus);
	served_release(&served);
}

static void answer_without_a_cdi_device_has_the_gpus_in_its_variable(void **state)
{
	struct served served;
	const struct served_entry *entry = parse_answer("\"" ANSWER_WITHOUT_CDI "\"", &served);

	assert_null(entry->device);
	assert_string_equal(entry->gpus, "GPU-1,GPU-2");
	served_release(&served);
}

static void answer_that_cannot_be_read_leaves_the_entry_without_one(void **state)
{
	static const char *const bad[] = {"null", "7", "\"\"", "\"!\"", "\"Kho\"", "{}",
		"\"KhoKGHJhdGlvbi5kZXYvZ3JhbnQ9dTkubWFp\"", "\"//////////8=\""};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct served served;
		const struct served_entry *entry = parse_answer(bad[i], &served);

		assert_non_null(entry);
		assert_null(entry->device);
		assert_null(entry->gpus);
		served_release(&served);
	}
}

static void replace(const char *path, const char *text)
{
	assert_int_equal(fs_write_atomic(path, 0600, text, strlen(text)), 0);
}

static void file_is_read_again_when_it_was_written_again(void **state)
{
	char path[] = "/tmp/test-checkpoint-XXXXXX";
	int fd = mkstemp(path);
	struct checkpoint_cache cache = {.known = false};
	struct error err = {""};

	served_init(&cache.served);
	close(fd);
	replace(path, GOOD);
	assert_int_equal(checkpoint_look(&cache, path, &err), 0);
	assert_non_null(served_find(&cache.served, "u1", "c"));
	assert_int_equal(checkpoint_look(&cache, path, &err), 0);
	assert_non_null(served_find(&cache.served, "u1", "c"));
	replace(path, "{\"Data\":{\"PodDeviceEntries\":null}}");
	assert_int_equal(checkpoint_look(&cache, path, &err), 0);
	assert_null(served_find(&cache.served, "u1", "c"));
	replace(path, "{");
	assert_int_equal(checkpoint_look(&cache, path, &err), -EINVAL);
	assert_int_equal(checkpoint_look(&cache, path, &err), -EINVAL); /* not the earlier content */
	unlink(path);
	assert_int_equal(checkpoint_look(&cache, path, &err), -ENOENT);
	assert_non_null(strstr(err.text, path));
	served_release(&cache.served);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_of_our_resource_are_taken_and_the_rest_is_left),
		cmocka_unit_test(entries_of_another_resource_are_its_own_record),
		cmocka_unit_test(kubelet_that_never_gave_anything_is_an_empty_record),
		cmocka_unit_test(what_is_no_checkpoint_is_refused_with_a_sentence),
		cmocka_unit_test(checkpoint_cut_anywhere_never_crashes),
		cmocka_unit_test(failed_load_leaves_the_record_and_a_missing_file_empties_it),
		cmocka_unit_test(record_finds_a_set_of_ids_in_any_order_and_the_latest_of_equal_ones),
		cmocka_unit_test(serving_a_container_again_replaces_its_entry),
		cmocka_unit_test(answer_for_another_container_is_kept_and_ones_own_says_nothing),
		cmocka_unit_test(answer_without_a_cdi_device_has_the_gpus_in_its_variable),
		cmocka_unit_test(answer_that_cannot_be_read_leaves_the_entry_without_one),
		cmocka_unit_test(file_is_read_again_when_it_was_written_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
