/* The page of metrics: what Prometheus' text format (0.0.4) demands of a writer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/metrics.h"

static void assert_page(struct metrics *metrics, const char *expected)
{
	char *page = metrics_take(metrics);

	assert_string_equal(page, expected);
	free(page);
}

static void sample_with_label(const char *value, const char *expected)
{
	struct metric_label label = {"l", value};
	struct metrics metrics;

	metrics_init(&metrics);
	metrics.name = "m";
	metrics_count(&metrics, &label, 1, 1);
	assert_page(&metrics, expected);
}

static void family_says_help_and_type_before_its_samples(void **state)
{
	struct metrics metrics;

	metrics_init(&metrics);
	metrics_one(&metrics, "a_total", "counter", "Some.", UINT64_MAX);
	assert_page(&metrics, "# HELP a_total Some.\n# TYPE a_total counter\na_total 18446744073709551615\n");
}

static void label_values_are_escaped(void **state)
{
	sample_with_label("a\"b\\c\nd", "m{l=\"a\\\"b\\\\c\\nd\"} 1\n");
	sample_with_label("\"} 7\nevil 1\n", "m{l=\"\\\"} 7\\nevil 1\\n\"} 1\n");
}

static void what_is_no_utf8_becomes_a_replacement_character(void **state)
{
	sample_with_label("gr\xc3\xbcn", "m{l=\"gr\xc3\xbcn\"} 1\n");
	sample_with_label("\xf0\x9f\x98\x80", "m{l=\"\xf0\x9f\x98\x80\"} 1\n");
	sample_with_label("\xff"
			  "a",
		"m{l=\"\xef\xbf\xbd"
		"a\"} 1\n");
	/* Cut off, over-long, a surrogate, over U+10FFFF: one for each byte. */
	sample_with_label("\xc3", "m{l=\"\xef\xbf\xbd\"} 1\n");
	sample_with_label("\xc0\xaf", "m{l=\"\xef\xbf\xbd\xef\xbf\xbd\"} 1\n");
	sample_with_label("\xed\xa0\x80", "m{l=\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"} 1\n");
	sample_with_label(
		"\xf4\x90\x80\x80", "m{l=\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"} 1\n");
}

static void histogram_is_cumulative_and_sums_seconds(void **state)
{
	struct histogram histogram = {0};
	struct metrics metrics;
	char *page;

	histogram_observe(&histogram, 50000);	    /* the bound belongs to its bucket */
	histogram_observe(&histogram, 50001);	    /* the next */
	histogram_observe(&histogram, 20000000000); /* over all of them */
	histogram_observe(&histogram, -5);	    /* a clock that went back */
	metrics_init(&metrics);
	metrics_family(&metrics, "h", "histogram", "H.");
	metrics_histogram(&metrics, &histogram);
	page = metrics_take(&metrics);
	assert_non_null(strstr(page, "h_bucket{le=\"0.00005\"} 2\nh_bucket{le=\"0.0001\"} 3\n"));
	assert_non_null(strstr(page, "h_bucket{le=\"10\"} 3\nh_bucket{le=\"+Inf\"} 4\n"));
	assert_non_null(strstr(page, "h_sum 20.000100001\nh_count 4\n"));
	free(page);
}

static void page_over_its_limit_is_no_page(void **state)
{
	struct metrics metrics;
	char *value = malloc(9 << 20);
	struct metric_label label = {"l", value};

	memset(value, 'x', (9 << 20) - 1);
	value[(9 << 20) - 1] = '\0';
	metrics_init(&metrics);
	metrics.name = "m";
	metrics_count(&metrics, &label, 1, 1);
	assert_null(metrics_take(&metrics));
	metrics_release(&metrics);
	free(value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(family_says_help_and_type_before_its_samples),
		cmocka_unit_test(label_values_are_escaped),
		cmocka_unit_test(what_is_no_utf8_becomes_a_replacement_character),
		cmocka_unit_test(histogram_is_cumulative_and_sums_seconds),
		cmocka_unit_test(page_over_its_limit_is_no_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
