/* The table and the JSON of `ration top`: sums of a GPU, and rates between two samples. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "cli/top-claims.h"
#include "cli/top-page.h"
#include "cli/top-table.h"
#include "model/claim.h"

#include <json-c/json.h>

/* A page of a node: GPU 0, of 16 GiB, and a line for each container there. */
static void add_node(struct top_sample *sample, const char *node, const char *lines)
{
	assert_int_equal(
		top_sample_add(sample, node,
			"ration_gpu_memory_bytes{gpu=\"0\",UUID=\"GPU-0\",modelName=\"T4\"} 17179869184\n"),
		0);
	assert_int_equal(top_sample_add(sample, node, lines), 0);
}

#define OF(pod) "{namespace=\"ns\",pod=\"" pod "\",container=\"c\",gpu=\"0\",UUID=\"GPU-0\"} "
#define LIMIT(pod, bytes) "ration_container_limit_bytes" OF(pod) bytes "\n"
#define SHARE(pod, part) "ration_container_core_share_ratio" OF(pod) part "\n"
#define RATE(pod, part) "ration_container_core_rate_ratio" OF(pod) part "\n"
#define STARTED(pod, seconds) "ration_container_core_started_seconds_total" OF(pod) seconds "\n"

static struct json_object *member(struct json_object *object, const char *key)
{
	return json_object_object_get(object, key);
}

static struct json_object *gpu_of(struct json_object *document, size_t i)
{
	return json_object_array_get_idx(member(document, "cards"), i);
}

/* Two nodes may have GPUs of one UUID: machines that were cloned, or simulated ones. */
static void a_gpu_has_the_containers_of_its_own_node(void **state)
{
	struct top_sample sample;
	struct json_object *document;

	top_sample_init(&sample);
	add_node(&sample, "n1", LIMIT("a", "1000"));
	add_node(&sample, "n2", LIMIT("b", "70") LIMIT("d", "30"));
	top_sample_sort(&sample);
	document = top_json(&sample, &sample, false);
	assert_int_equal(json_object_get_int(member(gpu_of(document, 0), "grantedBytes")), 1000);
	assert_int_equal(json_object_array_length(member(gpu_of(document, 0), "holders")), 1);
	assert_int_equal(json_object_get_int(member(gpu_of(document, 1), "grantedBytes")), 100);
	assert_int_equal(json_object_array_length(member(gpu_of(document, 1), "holders")), 2);
	json_object_put(document);
	top_sample_release(&sample);
}

/* The part of the time between two samples that pod a used, "" if it is not known. */
static const char *used_between(const char *first, const char *second)
{
	static char text[32];
	struct top_sample before, now;
	struct json_object *document, *used;

	top_sample_init(&before);
	top_sample_init(&now);
	now.at_ns = 10 * INT64_C(1000000000);
	add_node(&before, "n", first);
	add_node(&now, "n", second);
	document = top_json(&before, &now, false);
	used = member(json_object_array_get_idx(member(gpu_of(document, 0), "holders"), 0), "coreUsed");
	snprintf(text, sizeof(text), "%s", used ? json_object_get_string(used) : "");
	json_object_put(document);
	top_sample_release(&before);
	top_sample_release(&now);
	return text;
}

static void a_rate_is_what_a_counter_grew_by_in_a_second(void **state)
{
	const char *rest = LIMIT("a", "1") SHARE("a", "0.5") RATE("a", "0.5");
	char first[1024], second[1024];

	snprintf(first, sizeof(first), "%s%s", rest, STARTED("a", "12"));
	snprintf(second, sizeof(second), "%s%s", rest, STARTED("a", "14"));
	assert_string_equal(used_between(first, second), "0.2000");
	assert_string_equal(used_between(first, first), "0.0000");
}

/* The pages were made 4 s apart, and the second one arrived 10 s after the first. The arrival counts if a
 * page has no valid clock. */
static void a_rate_is_over_the_time_between_the_making_of_the_pages(void **state)
{
	const char *rest = LIMIT("a", "1") SHARE("a", "0.5") RATE("a", "0.5");
	static const char *const clocks[] = {"\nration_clock_seconds 104.5\n", "",
		"\nration_clock_seconds 104x\n", "\nration_clock_seconds -104.5\n",
		"\nration_clock_seconds NaN\n", "\nration_clock_seconds\n"};
	char first[1024], second[1024];

	snprintf(first, sizeof(first), "\nration_clock_seconds 100.5\n%s%s", rest, STARTED("a", "12"));
	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		snprintf(second, sizeof(second), "%s%s%s", clocks[i], rest, STARTED("a", "14"));
		assert_string_equal(used_between(first, second), i == 0 ? "0.5000" : "0.2000");
	}
	snprintf(second, sizeof(second), "%s%s", rest, STARTED("a", "10"));
	assert_string_equal(used_between(second, first), "0.2000");
}

/* Another container of the name: its counter began at 0, and what it grew by is not known. */
static void a_counter_that_began_anew_gives_no_rate(void **state)
{
	const char *rest = LIMIT("a", "1") SHARE("a", "0.5") RATE("a", "0.5");
	char first[1024], second[1024];

	snprintf(first, sizeof(first), "%s%s", rest, STARTED("a", "14"));
	snprintf(second, sizeof(second), "%s%s", rest, STARTED("a", "12"));
	assert_string_equal(used_between(first, second), "");
}

/* The agent was just started: its first page has no counter of this container yet. */
static void a_counter_that_one_page_lacks_gives_no_rate(void **state)
{
	const char *rest = LIMIT("a", "1") SHARE("a", "0.5") RATE("a", "0.5");
	char counted[1024];

	snprintf(counted, sizeof(counted), "%s%s", rest, STARTED("a", "2"));
	assert_string_equal(used_between(rest, counted), "");
	assert_string_equal(used_between(counted, rest), "");
}

static void note_claim(struct top_claims *claims, const char *name, size_t n_pods)
{
	struct claim_pod pods[] = {{.name = "web-0"}, {.name = "web-1"}};
	struct claim claim = {.namespace_ = "ns", .pods = pods, .n_pods = n_pods};

	snprintf(claim.name, sizeof(claim.name), "%s", name);
	assert_int_equal(top_claims_note(claims, &claim), 0);
}

#define OF_CLAIM(name)                                                                                       \
	"ration_container_limit_bytes{namespace=\"ns\",pod=\"" name                                          \
	"\",container=\"claim\",gpu=\"0\",UUID=\"GPU-0\"} 3221225472\n"

/* On the node n1, which is in mode dra. On n2, a container has the name by chance. */
static void a_claim_is_shown_with_the_pods_that_use_it(void **state)
{
	struct top_claims claims;
	struct top_sample sample;
	struct json_object *document, *holders;
	struct strbuf out;

	top_claims_init(&claims);
	top_sample_init(&sample);
	strbuf_init(&out, 65536);
	add_node(&sample, "n1", OF_CLAIM("both") OF_CLAIM("free") OF_CLAIM("one") OF_CLAIM("unread"));
	add_node(&sample, "n2", OF_CLAIM("one"));
	note_claim(&claims, "one", 2);
	note_claim(&claims, "one", 1);
	note_claim(&claims, "both", 2);
	note_claim(&claims, "free", 0);
	top_claims_apply(&claims, &sample, "n1");
	top_sample_sort(&sample);
	assert_int_equal(top_table(&sample, &sample, false, &out), 0);
	assert_string_equal(strbuf_cstr(&out),
		"NODE  GPU  MEMORY      CORE  USED  WAITED  POD\n"
		"n1    0    -/16384MiB  -     -     -       T4\n"
		"n1    0    -/3072MiB   -     -     -         ns/web-0, web-1 (claim both)\n"
		"n1    0    -/3072MiB   -     -     -         ns/(claim free)\n"
		"n1    0    -/3072MiB   -     -     -         ns/web-0 (claim one)\n"
		"n1    0    -/3072MiB   -     -     -         ns/(claim unread)\n"
		"n2    0    -/16384MiB  -     -     -       T4\n"
		"n2    0    -/3072MiB   -     -     -         ns/one/claim\n");
	document = top_json(&sample, &sample, false);
	holders = member(gpu_of(document, 0), "holders");
	assert_string_equal(
		json_object_to_json_string_ext(member(json_object_array_get_idx(holders, 0), "pods"), 0),
		"[\"web-0\",\"web-1\"]");
	assert_string_equal(
		json_object_get_string(member(json_object_array_get_idx(holders, 1), "claim")), "free");
	assert_int_equal(json_object_array_length(member(json_object_array_get_idx(holders, 1), "pods")), 0);
	holders = member(gpu_of(document, 1), "holders");
	assert_null(member(json_object_array_get_idx(holders, 0), "claim"));
	json_object_put(document);
	strbuf_release(&out);
	top_sample_release(&sample);
	top_claims_release(&claims);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gpu_has_the_containers_of_its_own_node),
		cmocka_unit_test(a_rate_is_what_a_counter_grew_by_in_a_second),
		cmocka_unit_test(a_rate_is_over_the_time_between_the_making_of_the_pages),
		cmocka_unit_test(a_counter_that_began_anew_gives_no_rate),
		cmocka_unit_test(a_counter_that_one_page_lacks_gives_no_rate),
		cmocka_unit_test(a_claim_is_shown_with_the_pods_that_use_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
