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

static void the_kubelets_record_completes_ours_and_takes_nothing_from_it(void **state)
{
	char *one[] = {"0-1"}, *two[] = {"0-2"}, *three[] = {"0-3"};
	struct served served, of_kubelet;

	served_init(&served);
	served_add(&served, "forgotten", "c", one, 1); /* its object is gone, its container runs */
	served_add(&served, "waits", "c", two, 1);
	served_set_waits(&served, "waits", "c", true);
	served_add(&served, "moved", "c", three, 1);
	served_init(&of_kubelet);
	served_add(&of_kubelet, "waits", "c", two, 1);
	served_add(&of_kubelet, "moved", "c", one, 1);
	served_add(&of_kubelet, "unknown", "c", three, 1);
	served_complete(&served, &of_kubelet);
	assert_true(served_has_started(&served, "forgotten"));
	assert_false(served_has_started(&served, "waits"));
	assert_string_equal(served_find_ids(&served, NULL, one, 1)->uid, "moved");
	assert_string_equal(served_find_ids(&served, NULL, three, 1)->uid, "unknown");
	assert_true(list_empty(&of_kubelet.entries));
	served_release(&served);
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
		cmocka_unit_test(the_kubelets_record_completes_ours_and_takes_nothing_from_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
