#include <errno.h>
#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/json-names.h"
#include "kube/json.h"

/* Parses the text, an exact copy so that the sanitizers see one byte too far; the names joined by '|'. */
static int read_names(const char *text, char *ret_joined, bool *ret_copied)
{
	_cleanup_json_ struct json_object *object = NULL;
	_cleanup_json_names_ struct json_names names = {0};
	_cleanup_free_ char *copy = malloc(strlen(text));
	int r;

	memcpy(copy, text, strlen(text));
	r = json_parse_names(copy, strlen(text), "NodeNames", &object, &names, NULL);
	if (r < 0)
		return r;
	strcpy(ret_joined, names.names ? "" : "none");
	for (size_t i = 0; i < names.n; i++)
		sprintf(ret_joined + strlen(ret_joined), "%s|", names.names[i]);
	*ret_copied = names.text;
	assert_non_null(object);
	return 0;
}

static void assert_names(const char *text, const char *expected, bool expected_copied)
{
	char joined[500];
	bool copied;

	if (read_names(text, joined, &copied) < 0)
		fail_msg("not parsed: %s", text);
	assert_string_equal(joined, expected);
	assert_int_equal(copied, expected_copied);
}

static void plain_names_are_copied_out_of_the_text(void **state)
{
	assert_names("{\"NodeNames\":[\"a\",\"b-c.d\"]}", "a|b-c.d|", true);
	assert_names(" { \"Pod\" : {} , \"NodeNames\" : [ \"a\" , \"b\" ] , \"Nodes\":null } ", "a|b|", true);
	assert_names("{\"NodeNames\":[],\"x\":1}", "", true);
	assert_names("{\"NodeNames\":[\"\",\"a,b]\"]}", "|a,b]|", true);
}

static void other_names_are_read_as_json(void **state)
{
	assert_names("{\"NodeNames\":[\"\\u0061\",\"b\"]}", "a|b|", false);
	assert_names("{\"NodeNames\":[\"a\",null,7,\"b\"]}", "a|||b|", false);
	assert_names("{\"NodeNames\":[\"\xc3\xa4\"]}", "\xc3\xa4|", false);
	assert_names("{\"NodeNames\":[[\"a\"]]}", "|", false);
}

static void only_the_outermost_member_counts(void **state)
{
	assert_names("{\"Pod\":{\"NodeNames\":[\"no\"]},\"NodeNames\":[\"a\"]}", "a|", true);
	assert_names("{\"Pod\":{\"NodeNames\":[\"no\"]}}", "none", false);
	assert_names("{\"x\":\"NodeNames\",\"y\":[\"no\"]}", "none", false);
	assert_names("{\"x\":[\"NodeNames\",[\"no\"]],\"NodeNames\":[\"a\"]}", "a|", true);
	assert_names("{\"x\":\"{\",\"y\":\"\\\"}[\",\"NodeNames\":[\"a\"]}", "a|", false);
	assert_names("{\"NodeNames\":null}", "none", false);
	assert_names("{\"NodeNames\":{\"a\":[\"b\"]}}", "none", false);
	assert_names("{}", "none", false);
}

static void of_a_key_that_comes_twice_the_last_one_counts(void **state)
{
	assert_names("{\"NodeNames\":[\"a\"],\"NodeNames\":[\"b\"]}", "b|", false);
	assert_names("{\"NodeNames\":[\"a\"],\"NodeNames\":null}", "none", false);
	assert_names("{\"NodeNames\":[\"a\"],\"NodeNam\\u0065s\":[\"b\"]}", "b|", false);
	assert_names("{\"NodeNames\":[\"a\"],\"NodeNam\\u0065s\":[]}", "", false);
	assert_names("{\"NodeNam\\u0065s\":[\"b\"],\"NodeNames\":[\"a\"]}", "a|", false);
	assert_names("{\"NodeNames\":[1],\"NodeNames\":[\"b\"]}", "b|", true);
}

static void what_is_no_json_is_refused(void **state)
{
	static const char *const texts[] = {"", "{", "{\"NodeNames\":[\"a\"", "{\"NodeNames\":[\"a\"]",
		"{\"NodeNames\":[\"a\",]}", "{\"NodeNames\":[\"a\" \"b\"]}", "{\"NodeNames\":[\"a]}",
		"{\"NodeNames\":[\"a\"]}x", "x{\"NodeNames\":[\"a\"]}", "{,\"NodeNames\":[\"a\"]}",
		"{}\"NodeNames\":[\"a\"]", "{\"NodeNames\" [\"a\"]}", "{\"NodeNames\":[\"a\"}}",
		"{\"Pod\":\"\xff\",\"NodeNames\":[\"a\"]}", "{\"NodeNames\":[\"a\"],\"Pod\":}",
		"\"NodeNames\"", "{{\"NodeNames\":[\"a\"]}"};
	char joined[500];
	bool copied;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (read_names(texts[i], joined, &copied) != -EINVAL)
			fail_msg("accepted: %s", texts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_names_are_copied_out_of_the_text),
		cmocka_unit_test(other_names_are_read_as_json),
		cmocka_unit_test(only_the_outermost_member_counts),
		cmocka_unit_test(of_a_key_that_comes_twice_the_last_one_counts),
		cmocka_unit_test(what_is_no_json_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
