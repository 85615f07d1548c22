#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "base/cleanup.h"
#include "kube/json.h"

static void test_only_arrays_have_items(void **state)
{
	_cleanup_json_ struct json_object *array = json_object_new_array(),
					  *object = json_object_new_object();

	(void)state;
	assert_int_equal(json_append(array, json_object_new_string("a")), 0);
	assert_int_equal(json_count(array), 1);
	assert_string_equal(json_string(json_item(array, 0)), "a");
	assert_null(json_item(array, 1));
	assert_null(json_item(array, SIZE_MAX));
	assert_int_equal(json_set_text(object, "0", "a"), 0);
	assert_int_equal(json_count(object), 0);
	assert_null(json_item(object, 0));
	assert_int_equal(json_count(NULL), 0);
	assert_null(json_item(NULL, 0));
}

static void test_new_members_and_items_are_where_they_were_asked_for(void **state)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	struct json_object *list = json_set_array(root, "list");

	(void)state;
	assert_int_equal(json_set_text(json_set_object(root, "object"), "name", "x"), 0);
	assert_int_equal(json_set_text(json_append_object(list), "name", "y"), 0);
	assert_int_equal(json_append(list, json_object_new_int(3)), 0);
	assert_string_equal(json_text(root), "{\"list\":[{\"name\":\"y\"},3],\"object\":{\"name\":\"x\"}}");
}

static void test_numbers_that_json_cannot_have_become_the_largest(void **state)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();

	(void)state;
	assert_int_equal(json_set_number(root, "a", 7), 0);
	assert_int_equal(json_set_number(root, "b", UINT64_MAX), 0);
	assert_string_equal(json_text(root), "{\"a\":7,\"b\":9223372036854775807}");
}

/* What a json_object_new_*() returns when there is no memory is NULL. */
static void test_no_memory_is_an_error(void **state)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	struct json_object *list = json_set_array(root, "list");

	(void)state;
	assert_int_equal(json_append(list, NULL), -ENOMEM);
	assert_int_equal(json_append(NULL, json_object_new_int(3)), -ENOMEM);
	assert_int_equal(json_set(NULL, "a", json_object_new_int(3)), -ENOMEM);
	assert_null(json_append_object(NULL));
	assert_int_equal(json_set_text(root, "name", NULL), -ENOMEM);
	assert_string_equal(json_text(root), "{\"list\":[]}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_arrays_have_items),
		cmocka_unit_test(test_new_members_and_items_are_where_they_were_asked_for),
		cmocka_unit_test(test_numbers_that_json_cannot_have_become_the_largest),
		cmocka_unit_test(test_no_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
