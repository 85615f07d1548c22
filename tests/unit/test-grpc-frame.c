/* Framing and texts of gRPC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "net/grpc-frame.h"

static void message_in_single_bytes_is_complete_with_its_last_one(void **state)
{
	static const uint8_t bytes[] = {0, 0, 0, 0, 3, 'a', 'b', 'c'};
	struct grpc_frame frame = {0};

	for (size_t i = 0; i < sizeof(bytes); i++) {
		assert_false(grpc_frame_complete(&frame));
		assert_int_equal(grpc_frame_feed(&frame, &bytes[i], 1, 100), GRPC_OK);
	}
	assert_true(grpc_frame_complete(&frame));
	assert_memory_equal(frame.body, "abc", 3);
	grpc_frame_release(&frame);
}

static void empty_message_is_complete_with_its_prefix(void **state)
{
	static const uint8_t bytes[GRPC_PREFIX_SIZE] = {0};
	struct grpc_frame frame = {0};

	assert_int_equal(grpc_frame_feed(&frame, bytes, sizeof(bytes), 100), GRPC_OK);
	assert_true(grpc_frame_complete(&frame));
	grpc_frame_release(&frame);
}

static void length_over_the_limit_is_refused_before_any_memory_is_taken(void **state)
{
	static const uint8_t bytes[] = {0, 0xff, 0xff, 0xff, 0xff, 1};
	struct grpc_frame frame = {0};

	assert_int_equal(grpc_frame_feed(&frame, bytes, sizeof(bytes), 100), GRPC_RESOURCE_EXHAUSTED);
	assert_null(frame.body);
	grpc_frame_release(&frame);
}

static void compressed_message_and_a_second_message_are_refused(void **state)
{
	static const uint8_t compressed[] = {1, 0, 0, 0, 0}, two[] = {0, 0, 0, 0, 1, 'a', 0};
	struct grpc_frame frame = {0};

	assert_int_equal(grpc_frame_feed(&frame, compressed, sizeof(compressed), 100), GRPC_UNIMPLEMENTED);
	grpc_frame_release(&frame);
	assert_int_equal(grpc_frame_feed(&frame, two, sizeof(two), 100), GRPC_INTERNAL);
	grpc_frame_release(&frame);
}

static void wrapped_message_has_a_big_endian_length(void **state)
{
	char message[300] = {0};
	size_t len;
	_cleanup_free_ uint8_t *wrapped = grpc_frame_wrap(message, sizeof(message), &len);

	assert_int_equal(len, 305);
	assert_memory_equal(wrapped, "\0\0\0\1\x2c", 5); /* 300 = 0x12c */
}

static void text_is_percent_encoded_and_comes_back(void **state)
{
	char encoded[3 * GRPC_TEXT_MAX + 1];

	grpc_text_encode("50% \xc3\xa4\n~", encoded);
	assert_string_equal(encoded, "50%25 %C3%A4%0A~");
	grpc_text_decode(encoded);
	assert_string_equal(encoded, "50% \xc3\xa4\n~");
}

static void malformed_encoding_is_left_as_it_is(void **state)
{
	char text[] = "%", text2[] = "%4", text3[] = "%zz%41%00x";

	grpc_text_decode(text);
	grpc_text_decode(text2);
	grpc_text_decode(text3);
	assert_string_equal(text, "%");
	assert_string_equal(text2, "%4");
	assert_string_equal(text3, "%zzA%00x");
}

static void long_text_is_cut(void **state)
{
	char text[GRPC_TEXT_MAX + 500], encoded[3 * GRPC_TEXT_MAX + 1];

	memset(text, '\n', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	grpc_text_encode(text, encoded);
	assert_int_equal(strlen(encoded), 3 * GRPC_TEXT_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(message_in_single_bytes_is_complete_with_its_last_one),
		cmocka_unit_test(empty_message_is_complete_with_its_prefix),
		cmocka_unit_test(length_over_the_limit_is_refused_before_any_memory_is_taken),
		cmocka_unit_test(compressed_message_and_a_second_message_are_refused),
		cmocka_unit_test(wrapped_message_has_a_big_endian_length),
		cmocka_unit_test(text_is_percent_encoded_and_comes_back),
		cmocka_unit_test(malformed_encoding_is_left_as_it_is),
		cmocka_unit_test(long_text_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
