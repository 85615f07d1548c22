/* What cannot be the state of a core is refused, with a sentence that names it. */
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
#include "core/events.h"
#include "state-fixture.h"

struct refused {
	const char *line, *sentence;
};

/* Each of them after these lines, which are right. */
static void all_are_refused(const char *before, const struct refused *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_strbuf_ struct strbuf text;

		strbuf_init(&text, 1 << 20);
		strbuf_addf(&text, "%s%s", before, cases[i].line);
		state_must_refuse(strbuf_cstr(&text), cases[i].sentence);
	}
}

#define WHO "\"facts\":{\"uid\":\"u\"}"
#define REQUEST                                                                                              \
	"\"facts\":{\"uid\":\"u\",\"request\":{\"containers\":[{\"name\":\"c\",\"units\":1}],\"units\":1}}"

static void nodes_that_cannot_be_are_refused(void **state)
{
	static const struct refused cases[] = {
		{"{\"node\":{\"uid\":\"u\"}}", "node: \"name\" is missing"},
		{"{\"node\":{\"name\":\"n\"}}", "node: node n is there twice"},
		{"{\"node\":{\"name\":\"m\",\"gpus\":[{\"uuid\":\"GPU-a\",\"mib\":1024}]}}",
			"node: node m has GPUs and no \"uid\""},
		{"{\"node\":{\"name\":\"m\",\"models\":\"A10\"}}", "node: node m has GPUs and no \"uid\""},
	};

	/* Only a pod names this node; that is a state. */
	all_are_refused("{\"node\":{\"name\":\"n\",\"unit\":1024}}\n", cases, ARRAY_SIZE(cases));
}

static void pods_that_cannot_wait_are_refused(void **state)
{
	static const struct refused cases[] = {
		{"{\"requeuePod\":{}}", "requeuePod: a pod without \"facts\""},
		{"{\"requeuePod\":{\"facts\":{}}}", "requeuePod: \"uid\" is missing"},
		{"{\"requeuePod\":{\"facts\":{\"uid\":\"x\"},\"backoff\":1000000000}}",
			"requeuePod: pod x is there twice"},
		{"{\"requeuePod\":{" WHO ",\"order\":2,\"backoff\":1000000000}}",
			"requeuePod: pod u came later than the last of all"},
		{"{\"requeuePod\":{" WHO "}}", "requeuePod: pod u has too short a back-off"},
		{"{\"requeuePod\":{" WHO ",\"backoff\":60000000001}}",
			"requeuePod: \"backoff\" is not a whole number from 0 to 60000000000"},
		{"{\"requeuePod\":{" WHO ",\"backoff\":1000000000,\"inVain\":1}}",
			"requeuePod: pod u was requeued in vain more often than requeued"},
		{"{\"requeuePod\":{" WHO ",\"backoff\":1000000000,\"hasPlace\":true}}",
			"requeuePod: pod u has a place of a gang and waits for none"},
		{"{\"requeuePod\":{" WHO ",\"backoff\":1000000000,\"room\":{\"waits\":true}}}",
			"requeuePod: pod u waits for room and asks for nothing"},
		{"{\"requeuePod\":{" REQUEST ",\"room\":{\"since\":-1}}}",
			"requeuePod: \"since\" is not a whole number from 0 to 2305843009213693951"},
		{"{\"requeue\":{\"reported\":1}}", "requeue: \"reported\" is neither true nor false"},
	};

	all_are_refused("{\"requeue\":{\"nextOrder\":2}}\n"
			"{\"requeuePod\":{\"facts\":{\"uid\":\"x\"},\"order\":1,\"backoff\":1000000000}}\n",
		cases, ARRAY_SIZE(cases));
}

static void leaders_that_cannot_be_are_refused(void **state)
{
	static const struct refused cases[] = {
		{"{\"ownership\":{\"owner\":3}}", "ownership: \"owner\" is not a whole number from 0 to 2"},
		{"{\"leadership\":{\"nodes\":[{}]}}", "leadership: \"name\" is missing"},
		{"{\"leadership\":{\"nodes\":[{\"name\":\"n\"}]}}", "leadership: node n was not listed"},
		{"{\"leadership\":{\"nodes\":[{\"name\":\"n\",\"listed\":1},{\"name\":\"n\",\"listed\":2}]}}",
			"leadership: node n is there twice"},
		{"{\"leadership\":{\"period\":4294967296}}",
			"leadership: \"period\" is not a whole number from 0 to 4294967295"},
	};

	all_are_refused("", cases, ARRAY_SIZE(cases));
}

#define BIND "\"uid\":\"u\",\"namespace\":\"s\",\"name\":\"p\",\"node\":\"n\""

static void binds_that_cannot_be_are_refused(void **state)
{
	static const struct refused cases[] = {
		{"{\"bind\":{\"number\":3}}", "bind: \"uid\" is missing"},
		{"{\"bind\":{" BIND "}}", "bind: a bind without \"number\""},
		{"{\"bind\":{\"number\":1," BIND "}}", "bind: bind 1 is there twice"},
		{"{\"bind\":{\"number\":4," BIND "}}", "bind: bind 4 came later than the last of all"},
		{"{\"bind\":{\"number\":3,\"where\":6," BIND "}}",
			"bind: \"where\" is not a whole number from 0 to 5"},
		{"{\"bind\":{\"number\":3,\"where\":3,\"order\":2," BIND "}}",
			"bind: bind 3 cannot be where it is"},
		{"{\"bind\":{\"number\":3,\"where\":3,\"order\":3," BIND "}}",
			"bind: bind 3 cannot be where it is"},
		{"{\"bind\":{\"number\":3,\"where\":4," BIND "}}", "bind: bind 3 cannot be where it is"},
		{"{\"bind\":{\"number\":3,\"where\":5,\"order\":3," BIND "}}",
			"bind: bind 3 cannot be where it is"},
		{"{\"bind\":{\"number\":3,\"text\":true," BIND "}}", "bind: bind 3 cannot be where it is"},
		{"{\"bindOrders\":{\"of\":[{\"bind\":1}]}}",
			"bindOrders: bind 1 has no order, or is not there"},
		{"{\"bindOrders\":{\"of\":[{\"bind\":3}]}}",
			"bindOrders: bind 3 has no order, or is not there"},
		{"{\"bindOrders\":{\"of\":[{\"bind\":2},{\"bind\":2}]}}",
			"bindOrders: bind 2 has no order, or is not there"},
		{"{\"bindOrders\":{\"of\":[1]}}", "bindOrders: bind 0 has no order, or is not there"},
	};

	all_are_refused("{\"binds\":{\"begun\":3}}\n"
			"{\"bind\":{\"number\":1," BIND "}}\n"
			"{\"bind\":{\"number\":2,\"where\":3,\"order\":2,\"text\":true," BIND "}}\n",
		cases, ARRAY_SIZE(cases));
}

#define RESIZE(uid)                                                                                          \
	"\"uid\":\"" uid "\",\"namespace\":\"s\",\"name\":\"p\",\"node\":\"n\",\"backoff\":200000000"

static void resizes_that_cannot_be_are_refused(void **state)
{
	static const struct refused cases[] = {
		{"{\"resizing\":{\"uid\":\"u\",\"namespace\":\"s\",\"name\":\"p\",\"node\":\"n\"}}",
			"resizing: pod u has no back-off"},
		{"{\"resizing\":{" RESIZE("x") "}}", "resizing: pod x is there twice"},
		{"{\"resizing\":{" RESIZE("u") ",\"stopped\":true}}",
			"resizing: pod u has an answer to no request"},
		{"{\"resizing\":{" RESIZE("u") ",\"answer\":{\"text\":true}}}",
			"resizing: pod u has an answer to no request"},
		{"{\"resizing\":{" RESIZE("u") ",\"busy\":true,\"order\":2}}",
			"resizing: pod u is sent no answer"},
		{"{\"resizing\":{" RESIZE("u") ",\"busy\":true,\"order\":3}}",
			"resizing: pod u has stopped, and has not"},
		{"{\"resizing\":{" RESIZE("u") ",\"order\":4}}",
			"resizing: \"order\" is not a whole number from 0 to 3"},
		{"{\"resizeOrders\":{\"of\":[\"u\"]}}", "resizeOrders: pod u has no order, or is not there"},
		{"{\"resizeOrders\":{\"of\":[\"x\"]}}", "resizeOrders: pod x has no order, or is not there"},
		{"{\"resizeOrders\":{\"of\":[\"y\",\"y\"]}}",
			"resizeOrders: pod y has no order, or is not there"},
		{"{\"resizeOrders\":{\"of\":[1]}}", "resizeOrders: an item of a list is not a string"},
	};

	all_are_refused("{\"resizing\":{" RESIZE("x") "}}\n"
						      "{\"resizing\":{" RESIZE("y") ",\"busy\":true}}\n",
		cases, ARRAY_SIZE(cases));
}

#define POLICY(uid) "\"uid\":\"" uid "\",\"namespace\":\"s\",\"name\":\"p\""
#define POD "\"facts\":{\"uid\":\"u\",\"namespace\":\"s\",\"name\":\"p\",\"labels\":\"a=b\\n\"}"
#define NOWHERE ",\"unit\":-1,\"claim\":-1,\"given\":-1"

static const char space_with_policy[] =
	"{\"policies\":{\"begun\":2}}\n"
	"{\"policyNode\":{\"name\":\"n\"}}\n"
	"{\"policySpace\":{\"name\":\"s\",\"round\":1}}\n"
	"{\"policySpace\":{\"name\":\"t\",\"round\":1}}\n"
	"{\"policy\":{\"space\":\"s\",\"serial\":1," POLICY(
		"q") ",\"requirements\":[{\"key\":\"a\",\"values\":[\"b\"]}],"
		     "\"keys\":[\"a\"],\"units\":[{}]}}\n"
		     "{\"policyPod\":{\"space\":\"s\",\"facts\":{\"uid\":\"x\",\"namespace\":\"s\",\"name\":\"p\"}" NOWHERE
		     "}}\n";

static void policies_that_cannot_be_are_refused(void **state)
{
	static const struct refused cases[] = {
		{"{\"policyNode\":{\"name\":\"n\"}}", "policyNode: node n is there twice"},
		{"{\"policySpace\":{\"name\":\"s\"}}", "policySpace: namespace s is there twice"},
		{"{\"policySpace\":{\"name\":\"r\"}}", "policySpace: namespace r without \"round\""},
		{"{\"policySpace\":{\"name\":\"r\",\"nextGone\":256}}",
			"policySpace: \"nextGone\" is not a whole number from 0 to 255"},
		{"{\"policySpace\":{\"name\":\"r\",\"gone\":[\"0123456789012345678901234567890123456789\"]}}",
			"policySpace: a uid in \"gone\" is too long"},
		{"{\"policy\":{\"space\":\"r\"}}", "policy: namespace r is not there"},
		{"{\"policy\":{\"space\":\"s\",\"serial\":2," POLICY("q") ",\"units\":[{}]}}",
			"policy: policy q is there twice"},
		{"{\"policy\":{\"space\":\"t\",\"serial\":1," POLICY("r") ",\"units\":[{}]}}",
			"policy: policy r has a serial that it cannot have"},
		{"{\"policy\":{\"space\":\"s\",\"serial\":3," POLICY("r") ",\"units\":[{}]}}",
			"policy: policy r has a serial that it cannot have"},
		{"{\"policy\":{\"space\":\"s\",\"serial\":2," POLICY("r") "}}",
			"policy: policy r has no units"},
		{"{\"policy\":{\"space\":\"s\",\"serial\":2," POLICY(
			 "r") ",\"units\":[{\"podLabels\":[{\"key\":\"k\"}]}]}}",
			"policy: \"value\" is missing"},
		{"{\"policy\":{\"space\":\"s\",\"serial\":2," POLICY("r") ",\"keys\":[1]}}",
			"policy: an item of a list is not a string"},
		{"{\"policy\":{\"space\":\"s\",\"serial\":2," POLICY(
			 "r") ",\"timeout\":9223372036854775807}}",
			"policy: \"timeout\" is not a whole number from 0 to 2305843009213693951"},
	};

	all_are_refused(space_with_policy, cases, ARRAY_SIZE(cases));
}

static void pods_of_policies_that_cannot_be_are_refused(void **state)
{
	static const struct refused cases[] = {
		{"{\"policyPod\":{\"space\":\"r\"}}", "policyPod: namespace r is not there"},
		{"{\"policyPod\":{\"space\":\"s\"}}", "policyPod: a pod without \"facts\""},
		{"{\"policyPod\":{\"space\":\"s\",\"facts\":{\"uid\":\"x\",\"namespace\":\"s\",\"name\":\"p\"}}}",
			"policyPod: pod x is there twice"},
		{"{\"policyPod\":{\"space\":\"s\"," POD NOWHERE ",\"claimSerial\":3}}",
			"policyPod: pod u knows a policy later than the last of all"},
		{"{\"policyPod\":{\"space\":\"s\"," POD NOWHERE ",\"round\":2}}",
			"policyPod: pod u was shown later than the last list"},
		{"{\"policyPod\":{\"space\":\"s\"," POD "}}", "policyPod: pod u is in no such unit"},
		{"{\"policyPod\":{\"space\":\"s\"," POD ",\"selected\":true,\"grouped\":true,\"unit\":1}}",
			"policyPod: pod u is in no such unit"},
		{"{\"policyPod\":{\"space\":\"s\"," POD NOWHERE
		 ",\"selected\":true,\"grouped\":true,\"counts\":true}}",
			"policyPod: pod u is in no such unit"},
		{"{\"policyPod\":{\"space\":\"s\"," POD NOWHERE ",\"grouped\":true}}",
			"policyPod: pod u is in no such unit"},
		{"{\"policyPod\":{\"space\":\"t\"," POD NOWHERE ",\"selected\":true}}",
			"policyPod: pod u is in no such unit"},
		{"{\"policyPod\":{\"space\":\"s\"," POD ",\"unit\":32}}",
			"policyPod: \"unit\" is not a whole number from -1 to 31"},
		{"{\"policyPod\":{\"space\":\"s\"," POD ",\"claim\":-2}}",
			"policyPod: \"claim\" is not a whole number from -1 to 31"},
		{"{\"policyPod\":{\"space\":\"s\"," POD ",\"since\":[{\"ns\":2305843009213693952}]}}",
			"policyPod: \"ns\" is not a whole number from 0 to 2305843009213693951"},
	};

	all_are_refused(space_with_policy, cases, ARRAY_SIZE(cases));
}

/* archive_list() says -E2BIG, other than the rest. */
static void lists_that_are_too_long_are_refused(void **state)
{
	_cleanup_strbuf_ struct strbuf text;
	struct error err = {""};
	struct core core;

	strbuf_init(&text, 1 << 16);
	strbuf_addf(&text, "%s{\"policy\":{\"space\":\"s\",\"serial\":2," POLICY("r") ",\"units\":[{}",
		space_with_policy);
	for (int i = 0; i < 32; i++)
		strbuf_adds(&text, ",{}");
	strbuf_adds(&text, "]}}");
	core_init(&core, NULL);
	assert_int_equal(state_read(&core, strbuf_cstr(&text), &err), -E2BIG);
	assert_string_equal(err.text, "policy: \"units\" has more than 32 items");
	core_release(&core);
}

static void a_pod_deleted_during_a_resize_is_not_refused(void **state)
{
	static const char lines[] =
		"{\"node\":{\"name\":\"n\",\"uid\":\"u\",\"mode\":1,\"unit\":1024,\"gpus\":[{\"uuid\":\"GPU-a\",\"mib\":10240,\"units\":10}]}}\n"
		"{\"pod\":{\"facts\":{\"uid\":\"r\",\"namespace\":\"s\",\"name\":\"r\",\"node\":\"n\",\"running\":true,\"request\":{\"containers\":[{\"name\":\"c\",\"units\":5}],\"units\":5,\"instances\":1}},"
		"\"state\":4,\"on\":\"n\",\"expires\":7,\"placement\":{\"unit\":1024,\"containers\":[{\"name\":\"c\",\"gpus\":[{\"uuid\":\"GPU-a\",\"units\":5}]}]},"
		"\"resize\":{\"before\":{\"unit\":1024,\"containers\":[{\"name\":\"c\",\"gpus\":[{\"uuid\":\"GPU-a\",\"units\":5}]}]},\"target\":{\"unit\":1024,\"containers\":[{\"name\":\"c\",\"gpus\":[{\"uuid\":\"GPU-a\",\"units\":4}]}]}}}}\n";
	_cleanup_free_ char *text = NULL;
	struct error err = {""};
	struct core core;

	core_init(&core, NULL);
	if (state_read(&core, lines, &err) < 0)
		fail_msg("%s", err.text);
	text = state_text(&core);
	assert_non_null(strstr(text, strchr(lines, '\n') + 1));
	core_release(&core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pod_deleted_during_a_resize_is_not_refused),
		cmocka_unit_test(nodes_that_cannot_be_are_refused),
		cmocka_unit_test(pods_that_cannot_wait_are_refused),
		cmocka_unit_test(leaders_that_cannot_be_are_refused),
		cmocka_unit_test(binds_that_cannot_be_are_refused),
		cmocka_unit_test(resizes_that_cannot_be_are_refused),
		cmocka_unit_test(policies_that_cannot_be_are_refused),
		cmocka_unit_test(pods_of_policies_that_cannot_be_are_refused),
		cmocka_unit_test(lists_that_are_too_long_are_refused),
	};

	return cmocka_run_group_tests_name("state-refused", tests, NULL, NULL);
}
