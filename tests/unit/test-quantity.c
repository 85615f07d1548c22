#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "model/quantity.h"

/* The rows follow apimachinery 0.34.1: resource.ParseQuantity() was asked for each of them. */
struct row {
	const char *text;
	int r;
	int64_t value;
};

static void check_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int64_t value = -7;
		int r = quantity_parse_count(rows[i].text, &value);

		if (r != rows[i].r || value != (r < 0 ? -7 : rows[i].value))
			fail_msg("\"%s\" gives %d, %lld", rows[i].text, r, (long long)value);
	}
}

static void quantity_reads_every_suffix(void **state)
{
	static const struct row rows[] = {
		{"3", 0, 3},
		{"3000000000n", 0, 3},
		{"3000000u", 0, 3},
		{"3000m", 0, 3},
		{"1k", 0, 1000},
		{"1M", 0, 1000000},
		{"1G", 0, 1000000000},
		{"1T", 0, 1000000000000},
		{"1P", 0, 1000000000000000},
		{"1E", 0, 1000000000000000000},
		{"1Ki", 0, 1024},
		{"1Mi", 0, 1 << 20},
		{"1Gi", 0, 1 << 30},
		{"1Ti", 0, INT64_C(1) << 40},
		{"1Pi", 0, INT64_C(1) << 50},
		{"1Ei", 0, INT64_C(1) << 60},
	};

	check_rows(rows, ARRAY_SIZE(rows));
}

static void quantity_tells_exa_from_exponent(void **state)
{
	static const struct row rows[] = {
		{"1E", 0, 1000000000000000000},
		{"1E3", 0, 1000},
		{"1e3", 0, 1000},
		{"1e+3", 0, 1000},
		{"1E+3", 0, 1000},
		{"1e-0", 0, 1},
		{"1000e-3", 0, 1},
		{"0.1e1", 0, 1},
		{"1e-3", -EILSEQ, 0},
		{"1e", -EINVAL, 0},
		{"1e+", -EINVAL, 0},
		{"1ee3", -EINVAL, 0},
		{"1e3.0", -EINVAL, 0},
		{"1Kie3", -EINVAL, 0},
		{"1e+-3", -EINVAL, 0},
	};

	check_rows(rows, ARRAY_SIZE(rows));
}

static void quantity_fraction_counts_only_if_the_result_is_whole(void **state)
{
	static const struct row rows[] = {
		{"3.0", 0, 3},
		{"3.0000000000000000000000000", 0, 3},
		{"5.", 0, 5},
		{"5.k", 0, 5000},
		{".5k", 0, 500},
		{"2000m", 0, 2},
		{"0.5Ki", 0, 512},
		{"0.25Ki", 0, 256},
		{"1.5Gi", 0, 1610612736},
		/* 2^-30 Gi: 21 significant digits, more than 64 bits hold */
		{"0.0000000009313225746154785156250Gi", 0, 1},
		/* 2^-60 Ei: 60 digits behind the point */
		{"0.000000000000000000867361737988403547205962240695953369140625Ei", 0, 1},
		{".5", -EILSEQ, 0},
		{"1500m", -EILSEQ, 0},
		{"3u", -EILSEQ, 0},
		{"0.3Ki", -EILSEQ, 0},
		{"0.00048828125Ki", -EILSEQ, 0},
		{"1e-1000000000000", -EILSEQ, 0},
	};

	check_rows(rows, ARRAY_SIZE(rows));
}

static void quantity_takes_a_missing_number_as_zero_like_the_api_server(void **state)
{
	static const struct row rows[] = {
		{"+", 0, 0},
		{"-", 0, 0},
		{".", 0, 0},
		{"k", 0, 0},
		{"+Ki", 0, 0},
		{"0", 0, 0},
		{"-0", 0, 0},
		{"0e40", 0, 0},
		{"0.000Ki", 0, 0},
	};

	check_rows(rows, ARRAY_SIZE(rows));
}

static void quantity_refuses_what_is_no_quantity(void **state)
{
	static const char *const texts[] = {"", " 3", "3 ", "3\n", "0x10", "1_000", "--1", "+-1", "1K", "1kk",
		"1i", "1.1.M", "1+1.0M", "0.1mi", "1 Ki", "\xd9\xa3", "1\xc2\xb5", "NaN", "inf", "1,5"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		check_rows(&(struct row){texts[i], -EINVAL, 0}, 1);
}

static void quantity_refuses_negative_numbers(void **state)
{
	static const struct row rows[] = {
		{"-1", -EDOM, 0},
		{"-5m", -EDOM, 0},
		{"-.5", -EDOM, 0},
		{"-1e40", -EDOM, 0},
	};

	check_rows(rows, ARRAY_SIZE(rows));
}

static void quantity_ends_at_int64_max(void **state)
{
	static const struct row rows[] = {
		{"9223372036854775807", 0, INT64_MAX},
		{"9223372036854775807000m", 0, INT64_MAX},
		{"9223372036854775808", -ERANGE, 0},
		{"9223372036854775807.5", -EILSEQ, 0},
		{"9E", 0, 9000000000000000000},
		{"10E", -ERANGE, 0},
		{"7Ei", 0, 8070450532247928832},
		{"8Ei", -ERANGE, 0},
		{"7.99Ei", -EILSEQ, 0},
		{"12345678901234567890123456789", -ERANGE, 0},
		{"1e40", -ERANGE, 0},
		{"1e99999999999", -ERANGE, 0},
		/* 10^19 Ei with a half: far too large, whole or not */
		{"10000000000000000000.5Ei", -ERANGE, 0},
	};

	check_rows(rows, ARRAY_SIZE(rows));
}

static void quantity_of_a_hundred_thousand_digits_is_read(void **state)
{
	_cleanup_free_ char *text = malloc(200003);

	memset(text, '0', 200002);
	text[200002] = '\0';
	text[99999] = '3';
	text[100000] = '.';
	check_rows(&(struct row){text, 0, 3}, 1);
	text[200001] = '1';
	check_rows(&(struct row){text, -EILSEQ, 0}, 1);
	memset(text, '9', 200002);
	check_rows(&(struct row){text, -ERANGE, 0}, 1);
}

static void thousandths_are_rounded_up_and_never_out_of_range(void **state)
{
	static const struct row rows[] = {
		{"0", 0, 0},
		{"100m", 0, 100},
		{"1.5", 0, 1500},
		{"2", 0, 2000},
		{"1Gi", 0, 1073741824000},
		{"0.1Ki", 0, 102400},
		{"1n", 0, 1},
		{"1500u", 0, 2},
		{"1.0001", 0, 1001},
		{"8Ei", 0, INT64_MAX},
		{"1e30", 0, INT64_MAX},
		{"1e-30", 0, 1},
		{"-1", -EDOM, 0},
		{"x", -EINVAL, 0},
		{"", -EINVAL, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int64_t value = -7;
		int r = quantity_parse_milli(rows[i].text, &value);

		if (r != rows[i].r || value != (r < 0 ? -7 : rows[i].value))
			fail_msg("\"%s\" gives %d, %lld", rows[i].text, r, (long long)value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantity_reads_every_suffix),
		cmocka_unit_test(quantity_tells_exa_from_exponent),
		cmocka_unit_test(quantity_fraction_counts_only_if_the_result_is_whole),
		cmocka_unit_test(quantity_takes_a_missing_number_as_zero_like_the_api_server),
		cmocka_unit_test(quantity_refuses_what_is_no_quantity),
		cmocka_unit_test(quantity_refuses_negative_numbers),
		cmocka_unit_test(quantity_ends_at_int64_max),
		cmocka_unit_test(quantity_of_a_hundred_thousand_digits_is_read),
		cmocka_unit_test(thousandths_are_rounded_up_and_never_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
