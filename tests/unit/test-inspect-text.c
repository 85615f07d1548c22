#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/inspect.h"
#include "cli/tabwriter.h"
#include "model-fixture.h"

/* The rules of Go's text/tabwriter, padding 2 (pkg.go.dev/text/tabwriter); blanks at line ends left out. */
static void assert_aligned(const char *text, const char *expected)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out, 4096);
	assert_int_equal(tabwriter_format(text, &out), 0);
	assert_string_equal(strbuf_cstr(&out), expected);
}

static void tabwriter_aligns_cells_of_neighbouring_lines(void **state)
{
	assert_aligned("a\tb\tc\n", "a  b  c\n");
	assert_aligned("a\tb\nlong\tb\n", "a     b\nlong  b\n");
	assert_aligned("a\tbbb\tc\naaa\tb\tc\n", "a    bbb  c\naaa  b    c\n");
}

static void tabwriter_starts_a_new_column_after_a_line_without_it(void **state)
{
	assert_aligned("a\tb\n\nlong\tb\n", "a  b\n\nlong  b\n");
	assert_aligned("a\tb\n-----------\nlong\tb\n", "a  b\n-----------\nlong  b\n");
	/* The middle line has a first column, but no second one. */
	assert_aligned("a\tbbbb\tc\naa\tb\naaa\tb\tc\n", "a    bbbb  c\naa   b\naaa  b  c\n");
}

static void tabwriter_text_after_the_last_tab_belongs_to_no_column(void **state)
{
	assert_aligned("NAME:\tx\nIPADDRESS:\ty\n", "NAME:       x\nIPADDRESS:  y\n");
	assert_aligned("a\tvery long tail\naa\tb\t\n", "a   very long tail\naa  b\n");
}

static void tabwriter_keeps_empty_cells_and_leaves_out_trailing_blanks(void **state)
{
	assert_aligned("a\t\tc\nb\tbb\tc\n", "a      c\nb  bb  c\n");
	assert_aligned("a\t15 \t\n", "a  15\n");
	assert_aligned("\t\t\n", "\n");
	assert_aligned("", "");
	assert_aligned("no newline", "no newline\n");
}

static void tabwriter_stops_at_the_limit_of_its_output(void **state)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out, 8);
	assert_int_equal(tabwriter_format("more than\teight\n", &out), -EMSGSIZE);
}

static void make(struct inspect *inspect, const char *name, const char *address)
{
	_cleanup_node_facts_ struct node_facts facts;
	_cleanup_pod_facts_ struct pod_facts pod = {0};

	fixture_node(&facts, name, GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	facts.address = strdup(address);
	inspect_init(inspect);
	assert_int_equal(inspect_add_node(inspect, &facts, &(struct node_capacity){0}), 0);
	fixture_pod(&pod, "p", 3, "");
	fixture_bind(&pod, name, facts.gpus[0].uuid);
	assert_int_equal(inspect_add_pod(inspect, &pod, NULL), 0);
	assert_int_equal(inspect_finish(inspect), 0);
}

static void summary_is_the_table_of_the_document(void **state)
{
	_cleanup_inspect_ struct inspect inspect;
	_cleanup_strbuf_ struct strbuf out;

	make(&inspect, "cn-zhangjiakou.192.168.66.139", "192.168.66.139");
	strbuf_init(&out, 65536);
	assert_int_equal(inspect_summary(&inspect, false, &out), 0);
	assert_string_equal(strbuf_cstr(&out),
		"NAME                           IPADDRESS       GPU0(Allocated/Total)  GPU Memory(GiB)\n"
		"cn-zhangjiakou.192.168.66.139  192.168.66.139  3/15                   3/15\n"
		"---------------------------------------------------------------------------\n"
		"Allocated/Total GPU Memory In Cluster:\n"
		"3/15 (20%)\n");
}

static void details_of_a_node_without_pods_have_a_line_of_ten_dashes(void **state)
{
	_cleanup_inspect_ struct inspect inspect;
	_cleanup_node_facts_ struct node_facts facts;
	_cleanup_strbuf_ struct strbuf out;

	fixture_node(&facts, "n", GPU_POLICY_BINPACK, 1, (const uint32_t[]){15});
	inspect_init(&inspect);
	inspect_add_node(&inspect, &facts, &(struct node_capacity){0});
	assert_int_equal(inspect_finish(&inspect), 0);
	strbuf_init(&out, 65536);
	assert_int_equal(inspect_details(&inspect, &out), 0);
	assert_string_equal(strbuf_cstr(&out), "\n"
					       "NAME:       n\n"
					       "IPADDRESS:  unknown\n"
					       "\n"
					       "NAME         NAMESPACE  GPU0(Allocated)\n"
					       "Allocated :  0 (0%)\n"
					       "Total :      15\n"
					       "----------\n"
					       "\n"
					       "\n"
					       "Allocated/Total GPU Memory In Cluster:  0/15 (0%)\n");
}

static void every_form_reports_an_output_that_is_too_small(void **state)
{
	_cleanup_inspect_ struct inspect inspect;
	_cleanup_strbuf_ struct strbuf out;

	make(&inspect, "n", "10.0.0.1");
	strbuf_init(&out, 16);
	assert_int_equal(inspect_summary(&inspect, true, &out), -EMSGSIZE);
	strbuf_clear(&out);
	assert_int_equal(inspect_details(&inspect, &out), -EMSGSIZE);
	strbuf_clear(&out);
	assert_int_equal(inspect_json(&inspect, &out), -EMSGSIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tabwriter_aligns_cells_of_neighbouring_lines),
		cmocka_unit_test(tabwriter_starts_a_new_column_after_a_line_without_it),
		cmocka_unit_test(tabwriter_text_after_the_last_tab_belongs_to_no_column),
		cmocka_unit_test(tabwriter_keeps_empty_cells_and_leaves_out_trailing_blanks),
		cmocka_unit_test(tabwriter_stops_at_the_limit_of_its_output),
		cmocka_unit_test(summary_is_the_table_of_the_document),
		cmocka_unit_test(details_of_a_node_without_pods_have_a_line_of_ten_dashes),
		cmocka_unit_test(every_form_reports_an_output_that_is_too_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
