/* Facts that are written into an archive and read again are the same, and what is wrong in a text is named.
 */
#include <errno.h>
#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "kube/json-archive.h"
#include "kube/json.h"
#include "model/facts-archive.h"

typedef void (*archive_fn)(struct archive *archive, void *value);

static void archive_pod(struct archive *archive, void *value)
{
	archive_pod_facts(archive, value);
}

static void archive_node(struct archive *archive, void *value)
{
	archive_node_facts(archive, value);
}

static char *written(archive_fn fn, void *value)
{
	struct archive archive;
	struct strbuf out;

	strbuf_init(&out, 1 << 20);
	archive_to_write(&archive, &json_archive, &out);
	archive_begin(&archive);
	fn(&archive, value);
	archive_end(&archive);
	assert_int_equal(archive.failed, 0);
	return strbuf_take(&out);
}

/* Returns what archive.failed is; the sentence goes to ret_text. */
static int read_back(archive_fn fn, const char *text, void *value, char ret_text[512])
{
	_cleanup_json_ struct json_object *object = NULL;
	struct archive archive;

	assert_int_equal(json_parse(text, strlen(text), &object, NULL), 0);
	archive_to_read(&archive, &json_archive, object);
	fn(&archive, value);
	memcpy(ret_text, archive.error.text, sizeof(archive.error.text));
	return archive.failed;
}

static const char pod_text[] =
	"{\"uid\":\"u1\",\"namespace\":\"default\",\"name\":\"a\\nb\",\"owner\":\"o\",\"node\":\"n1\",\"priority\":-7,"
	"\"deleting\":true,\"gangBound\":true,\"started\":17,\"resize\":\"{}\",\"gang\":\"g\",\"gangMin\":2,"
	"\"labels\":\"a=b\\n\",\"models\":\"A10,T4\",\"request\":{\"containers\":[{\"name\":\"c\",\"kind\":2,\"units\":3,\"asked\":4,"
	"\"core\":30},{\"name\":\"d\",\"kind\":2,\"index\":1,\"units\":1,\"asked\":1}],\"units\":4,\"asked\":5,"
	"\"core\":30,\"instances\":2,\"gpus\":2,\"unit\":1024,\"group\":\"default/job\",\"groupPods\":2},"
	"\"placement\":{\"unit\":1024,\"resizes\":1,\"containers\":[{\"name\":\"c\",\"gpus\":[{\"uuid\":\"GPU-1\","
	"\"units\":3,\"core\":30}]},{\"name\":\"d\",\"gpus\":[{\"uuid\":\"GPU-1\",\"units\":1}]}],"
	"\"visible\":[\"GPU-1\",\"GPU-2\"]}}";

static void a_pod_is_read_as_it_was_written(void **state)
{
	_cleanup_pod_facts_ struct pod_facts facts = {0};
	_cleanup_free_ char *again = NULL;
	char why[512];

	assert_int_equal(read_back(archive_pod, pod_text, &facts, why), 0);
	assert_string_equal(facts.name, "a\nb");
	assert_int_equal(facts.priority, -7);
	assert_true(facts.deleting && facts.gang_bound && facts.has_placement);
	assert_int_equal(facts.request.containers[1].index, 1);
	assert_string_equal(facts.placement.visible[1], "GPU-2");
	again = written(archive_pod, &facts);
	assert_string_equal(again, pod_text);
}

static void a_node_is_read_as_it_was_written(void **state)
{
	static const char text[] =
		"{\"name\":\"n1\",\"uid\":\"u\",\"address\":\"10.0.0.1\",\"mode\":4,\"policy\":1,\"unit\":1024,"
		"\"instancesMax\":20,\"mixing\":true,\"serving\":true,\"models\":\"T4\",\"gpus\":[{\"uuid\":\"GPU-1\",\"mib\":16160,"
		"\"healthy\":true,\"model\":\"T4\",\"links\":[\"?\",\"NV2\"]},{\"uuid\":\"GPU-2\",\"index\":1,"
		"\"mib\":16160,\"reason\":\"Xid 79\",\"nvlinkGBps\":50,\"links\":[\"NV2\",\"?\"]}],"
		"\"held\":{\"at\":\"t\",\"namesEnded\":true,\"pods\":[{\"uid\":\"x\",\"namespace\":\"s\",\"name\":\"p\","
		"\"instances\":1,\"gpus\":[{\"uuid\":\"GPU-1\",\"units\":2}]}],\"ended\":[\"y\"]}}";
	_cleanup_free_ struct node_facts *facts = calloc(1, sizeof(*facts));
	_cleanup_free_ char *again = NULL;
	char why[512];

	node_facts_init(facts);
	assert_int_equal(read_back(archive_node, text, facts, why), 0);
	assert_int_equal(facts->n_gpus, 2);
	assert_int_equal(facts->details[0].links[1].lanes, 2);
	assert_string_equal(facts->held.ended[0], "y");
	again = written(archive_node, facts);
	assert_string_equal(again, text);
	node_facts_release(facts);
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"{}", "\"uid\" is missing"},
		{"{\"uid\":1}", "\"uid\" is not a string"},
		{"{\"uid\":\"u\",\"priority\":2147483648}",
			"\"priority\" is not a whole number from -2147483648 to 2147483647"},
		{"{\"uid\":\"u\",\"deleting\":1}", "\"deleting\" is neither true nor false"},
		{"{\"uid\":\"u\",\"request\":{\"containers\":{}}}", "\"containers\" is not a list"},
		{"{\"uid\":\"u\",\"request\":{\"containers\":[{\"name\":\"c\",\"kind\":3}]}}",
			"\"kind\" is not a whole number from 0 to 2"},
		{"{\"uid\":\"u\",\"placement\":{\"containers\":[{\"name\":\"c\",\"gpus\":[{\"units\":1}]}]}}",
			"a share of a GPU without \"uuid\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_pod_facts_ struct pod_facts facts = {0};
		char why[512];

		assert_int_equal(read_back(archive_pod, cases[i].text, &facts, why), -EINVAL);
		assert_string_equal(why, cases[i].why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pod_is_read_as_it_was_written),
		cmocka_unit_test(a_node_is_read_as_it_was_written),
		cmocka_unit_test(what_is_wrong_is_named),
	};

	return cmocka_run_group_tests_name("archive", tests, NULL, NULL);
}
