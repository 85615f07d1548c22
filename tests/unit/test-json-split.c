#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <json-c/json.h>

#include <stdio.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "kube/json.h"
#include "kube/json-split.h"

/* What was cut out, one object a line. */
struct pieces {
	struct strbuf text;
	int result; /* what the callback answers */
};

static int note_piece(void *userdata, const char *object, size_t len)
{
	struct pieces *pieces = userdata;

	assert_int_equal(strlen(object), len);
	strbuf_addf(&pieces->text, "%s\n", object);
	return pieces->result;
}

/* Feeds the text in chunks of this many bytes; the result of the end if all of it was taken. */
static int split(enum json_split_mode mode, const char *text, size_t chunk, size_t item_max,
	struct pieces *pieces, char *ret_rest, size_t rest_size)
{
	struct json_split splitter;
	size_t len = strlen(text), at = 0;
	int r = 0;

	json_split_init(&splitter, mode, item_max, note_piece, pieces);
	for (; at < len && r == 0; at += chunk)
		r = json_split_feed(&splitter, text + at, len - at < chunk ? len - at : chunk);
	if (r == 0)
		r = json_split_end(&splitter);
	if (ret_rest)
		snprintf(ret_rest, rest_size, "%s", json_split_rest(&splitter));
	json_split_release(&splitter);
	return r;
}

/* The same whatever the size of the chunks. */
static void assert_pieces(enum json_split_mode mode, const char *text, const char *expected, const char *rest)
{
	for (size_t chunk = 1; chunk <= strlen(text) + 1; chunk++) {
		struct pieces pieces = {0};
		char got_rest[512];

		strbuf_init(&pieces.text, 65536);
		assert_int_equal(split(mode, text, chunk, 4096, &pieces, got_rest, sizeof(got_rest)), 0);
		assert_string_equal(strbuf_cstr(&pieces.text), expected);
		if (rest)
			assert_string_equal(got_rest, rest);
		strbuf_release(&pieces.text);
	}
}

static int split_once(enum json_split_mode mode, const char *text, size_t item_max)
{
	struct pieces pieces = {0};
	int r;

	strbuf_init(&pieces.text, 65536);
	r = split(mode, text, strlen(text) + 1, item_max, &pieces, NULL, 0);
	strbuf_release(&pieces.text);
	return r;
}

static void a_list_is_cut_into_its_items_and_the_rest(void **state)
{
	assert_pieces(JSON_SPLIT_LIST,
		"{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"7\",\"continue\":\"abc\"},"
		"\"items\":[{\"a\":1},{\"b\":{\"c\":[1,2]}}]}\n",
		"{\"a\":1}\n{\"b\":{\"c\":[1,2]}}\n",
		"{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"7\",\"continue\":\"abc\"},"
		"\"items\":[]}");
}

static void metadata_after_the_items_is_kept(void **state)
{
	assert_pieces(JSON_SPLIT_LIST, " { \"items\" : [ {} , { } ] , \"metadata\" : {} } ", "{}\n{ }\n",
		"{ \"items\" : [] , \"metadata\" : {} }");
}

static void an_empty_list_and_one_that_is_null_have_no_items(void **state)
{
	assert_pieces(JSON_SPLIT_LIST, "{\"items\":[]}", "", "{\"items\":[]}");
	assert_pieces(JSON_SPLIT_LIST, "{\"items\":null}", "", "{\"items\":null}");
	assert_pieces(JSON_SPLIT_LIST, "{}", "", "{}");
}

static void brackets_and_quotes_within_strings_do_not_count(void **state)
{
	assert_pieces(JSON_SPLIT_LIST, "{\"items\":[{\"a\":\"}]\\\"{[\\\\\"},{\"b\":\"\\\\\\\"]\"}]}",
		"{\"a\":\"}]\\\"{[\\\\\"}\n{\"b\":\"\\\\\\\"]\"}\n", NULL);
}

static void only_the_items_of_the_list_itself_are_items(void **state)
{
	assert_pieces(JSON_SPLIT_LIST,
		"{\"metadata\":{\"items\":[{\"x\":1}]},\"a\":\"items\",\"xitems\":[{}],\"itemsx\":[{}],"
		"\"items\":[{\"items\":[{\"y\":1}]}]}",
		"{\"items\":[{\"y\":1}]}\n",
		"{\"metadata\":{\"items\":[{\"x\":1}]},\"a\":\"items\",\"xitems\":[{}],\"itemsx\":[{}],"
		"\"items\":[]}");
}

static void a_watch_is_cut_into_its_events(void **state)
{
	assert_pieces(JSON_SPLIT_STREAM,
		"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"DELETED\"}{\"a\":1}\r\n\n",
		"{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"DELETED\"}\n{\"a\":1}\n", NULL);
	assert_pieces(JSON_SPLIT_STREAM, "", "", NULL);
}

static void managed_fields_are_left_out(void **state)
{
	assert_pieces(JSON_SPLIT_LIST,
		"{\"items\":[{\"metadata\":{\"uid\":\"u\",\"managedFields\":[{\"f:a\":{\"k:{\\\"x\\\":1}\":[]"
		"}}],\"z\":1}},{\"metadata\":{\"managedFields\" : [ 1 ]},\"spec\":[2]}]}",
		"{\"metadata\":{\"uid\":\"u\",\"managedFields\":[],\"z\":1}}\n"
		"{\"metadata\":{\"managedFields\" : []},\"spec\":[2]}\n",
		NULL);
	assert_pieces(JSON_SPLIT_STREAM,
		"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"managedFields\":[{\"a\":[]}]}}}",
		"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"managedFields\":[]}}}\n", NULL);
}

static int note_only(void *userdata, const char *object, size_t len)
{
	return strbuf_add(userdata, object, len);
}

static void what_the_caller_has_no_use_for_is_left_out_to_its_depth(void **state)
{
	static const char *const keys[] = {"managedFields", "env", "images", NULL};
	static const char text[] = "{\"items\":[{\"images\":[{\"a\":\"]}\\\"\"}],\"s\":{\"c\":[{\"env\" : "
				   "{\"x\":[1]},\"deep\":{\"env\":[2]},\"env\":\"text\",\"v\":\"env\"}]},"
				   "\"imagesX\":[3],\"image\":[4]}]}";

	for (size_t chunk = 1; chunk <= sizeof(text); chunk++) {
		_cleanup_strbuf_ struct strbuf got;
		struct json_split splitter;

		strbuf_init(&got, 4096);
		json_split_init(&splitter, JSON_SPLIT_LIST, 4096, note_only, &got);
		json_split_leave_out(&splitter, keys, 4);
		for (size_t at = 0; at < strlen(text); at += chunk)
			assert_int_equal(json_split_feed(&splitter, text + at,
						 strlen(text) - at < chunk ? strlen(text) - at : chunk),
				0);
		assert_string_equal(strbuf_cstr(&got),
			"{\"images\":[],\"s\":{\"c\":[{\"env\" : {},\"deep\":{\"env\":[2]},\"env\":\"text\","
			"\"v\":\"env\"}]},\"imagesX\":[3],\"image\":[4]}");
		json_split_release(&splitter);
	}
}

static void labels_called_managed_fields_are_kept(void **state)
{
	assert_pieces(JSON_SPLIT_LIST,
		"{\"items\":[{\"metadata\":{\"labels\":{\"managedFields\":\"x\"},\"a\":\"managedFields\","
		"\"b\":[1]}}]}",
		"{\"metadata\":{\"labels\":{\"managedFields\":\"x\"},\"a\":\"managedFields\",\"b\":[1]}}\n",
		NULL);
}

static void managed_fields_deeper_than_any_parser_likes_do_not_hide_the_object(void **state)
{
	struct pieces pieces = {0};
	struct strbuf text;

	strbuf_init(&pieces.text, 4096);
	strbuf_init(&text, 65536);
	strbuf_adds(&text, "{\"items\":[{\"metadata\":{\"managedFields\":[");
	for (int i = 0; i < 1000; i++)
		strbuf_adds(&text, "{\"a\":");
	strbuf_adds(&text, "1");
	for (int i = 0; i < 1000; i++)
		strbuf_adds(&text, "}");
	strbuf_adds(&text, "]}}]}");
	assert_int_equal(split(JSON_SPLIT_LIST, strbuf_cstr(&text), 100, 65536, &pieces, NULL, 0), 0);
	assert_string_equal(strbuf_cstr(&pieces.text), "{\"metadata\":{\"managedFields\":[]}}\n");
	strbuf_release(&text);
	strbuf_release(&pieces.text);
}

static void what_has_another_form_is_refused(void **state)
{
	static const char *const lists[] = {"[]", "x", "{}{}", "{}x", "{\"items\":[1]}", "{\"items\":[[]]}",
		"{\"items\":[{}{}]}", "{\"items\":[,{}]}", "{\"items\":[{},]}", "{\"items\":[{},,{}]}",
		"<html>no</html>"};
	static const char *const streams[] = {"[]", "x", "{},{}", "\"a\"", "Not Found"};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		assert_int_equal(split_once(JSON_SPLIT_LIST, lists[i], 4096), -EBADMSG);
	for (size_t i = 0; i < ARRAY_SIZE(streams); i++)
		assert_int_equal(split_once(JSON_SPLIT_STREAM, streams[i], 4096), -EBADMSG);
}

static void what_ends_in_the_middle_is_noticed_at_every_byte(void **state)
{
	static const char text[] = "{\"items\":[{\"a\":\"b\"},{}],\"c\":{}}";

	for (size_t len = 0; len + 1 < sizeof(text); len++) {
		char part[sizeof(text)];

		memcpy(part, text, len);
		part[len] = 0;
		assert_int_equal(split_once(JSON_SPLIT_LIST, part, 4096), -EBADMSG);
	}
	assert_int_equal(split_once(JSON_SPLIT_LIST, text, 4096), 0);
	assert_int_equal(split_once(JSON_SPLIT_STREAM, "{\"type\":\"ADD", 4096), -EBADMSG);
}

static void an_object_over_the_limit_is_refused_and_one_at_it_is_not(void **state)
{
	assert_int_equal(split_once(JSON_SPLIT_STREAM, "{\"a\":\"1234\"}", 12), 0);
	assert_int_equal(split_once(JSON_SPLIT_STREAM, "{\"a\":\"12345\"}", 12), -EMSGSIZE);
	/* Bytes that are left out count too: they must not be a way around. */
	assert_int_equal(
		split_once(JSON_SPLIT_LIST, "{\"items\":[{\"managedFields\":[1,2,3,4,5,6,7,8,9]}]}", 30),
		-EMSGSIZE);
}

static void a_rest_without_end_is_refused(void **state)
{
	struct strbuf text;

	strbuf_init(&text, 200000);
	strbuf_adds(&text, "{\"metadata\":\"");
	for (int i = 0; i < 100000; i++)
		strbuf_adds(&text, "a");
	assert_int_equal(split_once(JSON_SPLIT_LIST, strbuf_cstr(&text), 4096), -EMSGSIZE);
	strbuf_release(&text);
}

static void what_the_callback_answers_ends_the_feeding(void **state)
{
	struct pieces pieces = {.result = -ECANCELED};

	strbuf_init(&pieces.text, 4096);
	assert_int_equal(
		split(JSON_SPLIT_STREAM, "{\"a\":1}{\"b\":2}", 100, 4096, &pieces, NULL, 0), -ECANCELED);
	assert_string_equal(strbuf_cstr(&pieces.text), "{\"a\":1}\n");
	strbuf_release(&pieces.text);
}

static void a_number_is_written_to_its_last_digit(void **state)
{
	static const struct {
		int64_t value;
		const char *text;
	} cases[] = {{0, "0"}, {7, "7"}, {-7, "-7"}, {1000, "1000"}, {INT64_MAX, "9223372036854775807"},
		{INT64_MIN, "-9223372036854775808"}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_strbuf_ struct strbuf out;

		strbuf_init(&out, 100);
		json_add_number(&out, cases[i].value);
		assert_string_equal(strbuf_cstr(&out), cases[i].text);
	}
}

static void a_text_is_read_back_as_it_was_written(void **state)
{
	static const char *const texts[] = {
		"", "gpu-node-1", "a\"b", "back\\slash", "\x01\n\t", "\x7f", "K\xc3\xa4rtchen", "a/b"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_strbuf_ struct strbuf out;
		_cleanup_json_ struct json_object *array = NULL;

		strbuf_init(&out, 100);
		strbuf_adds(&out, "[");
		json_add_string(&out, texts[i]);
		strbuf_adds(&out, "]");
		assert_int_equal(json_parse(strbuf_cstr(&out), out.len, &array, NULL), 0);
		assert_string_equal(json_string(json_object_array_get_idx(array, 0)), texts[i]);
	}
}

/* Every byte at every place of a word and of what is left of one: escaped or not, it is what it was. */
static void each_byte_is_read_back_wherever_it_stands(void **state)
{
	for (int byte = 1; byte < 0x80; byte++)
		for (size_t at = 0; at < 13; at++) {
			_cleanup_json_ struct json_object *array = NULL;
			_cleanup_strbuf_ struct strbuf out;
			char text[] = "gpu-node-0001", expected[40];

			text[at] = (char)byte;
			strbuf_init(&out, 100);
			strbuf_adds(&out, "[");
			json_add_string(&out, text);
			strbuf_adds(&out, "]");
			snprintf(expected, sizeof(expected), "[\"%s\"]", text);
			if (byte >= ' ' && byte != '"' && byte != '\\' && byte != 0x7f)
				assert_string_equal(strbuf_cstr(&out), expected);
			assert_int_equal(json_parse(strbuf_cstr(&out), out.len, &array, NULL), 0);
			assert_string_equal(json_string(json_object_array_get_idx(array, 0)), text);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_is_written_to_its_last_digit),
		cmocka_unit_test(a_text_is_read_back_as_it_was_written),
		cmocka_unit_test(each_byte_is_read_back_wherever_it_stands),
		cmocka_unit_test(a_list_is_cut_into_its_items_and_the_rest),
		cmocka_unit_test(metadata_after_the_items_is_kept),
		cmocka_unit_test(an_empty_list_and_one_that_is_null_have_no_items),
		cmocka_unit_test(brackets_and_quotes_within_strings_do_not_count),
		cmocka_unit_test(only_the_items_of_the_list_itself_are_items),
		cmocka_unit_test(a_watch_is_cut_into_its_events),
		cmocka_unit_test(managed_fields_are_left_out),
		cmocka_unit_test(what_the_caller_has_no_use_for_is_left_out_to_its_depth),
		cmocka_unit_test(labels_called_managed_fields_are_kept),
		cmocka_unit_test(managed_fields_deeper_than_any_parser_likes_do_not_hide_the_object),
		cmocka_unit_test(what_has_another_form_is_refused),
		cmocka_unit_test(what_ends_in_the_middle_is_noticed_at_every_byte),
		cmocka_unit_test(an_object_over_the_limit_is_refused_and_one_at_it_is_not),
		cmocka_unit_test(a_rest_without_end_is_refused),
		cmocka_unit_test(what_the_callback_answers_ends_the_feeding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
