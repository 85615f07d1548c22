#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/replay.h"

static int feed(struct replay *replay, const char *line, struct error *err)
{
	return replay_line(replay, line, strlen(line), err);
}

static void begin(struct replay *replay)
{
	replay_init(replay);
	assert_int_equal(feed(replay, "{\"history\":1,\"bestNodes\":16}", NULL), 0);
	assert_int_equal(
		feed(replay,
			"{\"restoreNode\":{\"name\":\"n\",\"uid\":\"u-n\",\"mode\":\"share\",\"policy\":"
			"\"binpack\",\"unit\":1024,\"serving\":true,\"cards\":["
			"{\"index\":0,\"uuid\":\"GPU-0\",\"units\":15,\"healthy\":true},"
			"{\"index\":1,\"uuid\":\"GPU-1\",\"units\":8,\"healthy\":true}]}}",
			NULL),
		0);
}

#define POD                                                                                                  \
	"{\"uid\":\"p\",\"namespace\":\"default\",\"name\":\"a\",\"pending\":true,\"containers\":["          \
	"{\"name\":\"main\",\"kind\":\"main\",\"index\":0,\"units\":3}]}"
#define HOLD_ON(uuid)                                                                                        \
	"{\"number\":3,\"event\":\"hold\",\"key\":\"p\",\"on\":\"n\",\"pod\":" POD                           \
	",\"placement\":{\"unit\":1024,\"containers\":{\"main\":[{\"uuid\":\"" uuid "\",\"units\":3}]}}}"

/* binpack: the GPU with the least free units that fits, so GPU-1 with 8. */
static void a_choice_that_comes_out_as_recorded_is_taken(void **state)
{
	_cleanup_replay_ struct replay replay;

	begin(&replay);
	assert_int_equal(feed(&replay, HOLD_ON("GPU-1"), NULL), 0);
	assert_int_equal(ledger_node(&replay.ledger, "n")->gpus[1].units_used, 3);
	assert_int_equal(replay.gpus, 1);
}

static void a_choice_that_comes_out_otherwise_is_told(void **state)
{
	_cleanup_replay_ struct replay replay;
	struct error err = {""};

	begin(&replay);
	assert_int_equal(feed(&replay, HOLD_ON("GPU-0"), &err), 1);
	assert_non_null(strstr(err.text, "recorded: GPU-0"));
	assert_non_null(strstr(err.text, "computed: GPU-1"));
}

static void an_answer_is_compared_with_what_filter_was_asked(void **state)
{
	static const char asked[] = "{\"number\":1,\"asked\":[\"n\",\"m\"],\"pod\":" POD "}";
	static const char right[] =
		"{\"number\":2,\"decision\":\"filter\",\"uid\":\"p\",\"fitting\":1,\"nodes\":[{\"name\":"
		"\"n\"}],\"reasons\":[{\"reason\":\"GPU node's agent is not serving\",\"nodes\":1}]}";
	static const char wrong[] = "{\"number\":2,\"decision\":\"filter\",\"uid\":\"p\",\"fitting\":1,"
				    "\"nodes\":[{\"name\":\"n\"}],"
				    "\"reasons\":[{\"reason\":\"no GPU is that large\",\"nodes\":1}]}";
	_cleanup_replay_ struct replay replay;
	struct error err = {""};

	begin(&replay);
	assert_int_equal(feed(&replay, asked, NULL), 0);
	assert_int_equal(feed(&replay, right, &err), 0);
	assert_int_equal(replay.answers, 1);
	assert_int_equal(replay.answers_not_computed, 0);
	/* One question has one answer; the next one may be its gang's. */
	assert_int_equal(feed(&replay, wrong, &err), 0);
	assert_int_equal(feed(&replay, asked, NULL), 0);
	assert_int_equal(feed(&replay, wrong, &err), 1);
	assert_non_null(strstr(err.text, "recorded: no GPU is that large"));
}

static void an_answer_about_nodes_that_were_only_counted_is_not_compared(void **state)
{
	_cleanup_replay_ struct replay replay;

	begin(&replay);
	assert_int_equal(feed(&replay, "{\"number\":1,\"asked\":4000,\"pod\":" POD "}", NULL), 0);
	assert_int_equal(
		feed(&replay, "{\"number\":2,\"decision\":\"filter\",\"uid\":\"p\",\"fitting\":77}", NULL),
		0);
	assert_int_equal(replay.answers_not_computed, 1);
}

/* A forged history, or one of another version: between question and answer the node goes. */
static void an_answer_is_compared_although_its_node_is_gone(void **state)
{
	_cleanup_replay_ struct replay replay;

	begin(&replay);
	assert_int_equal(feed(&replay, "{\"number\":1,\"asked\":[\"n\"],\"pod\":" POD "}", NULL), 0);
	assert_int_equal(
		feed(&replay, "{\"number\":2,\"event\":\"remove-node\",\"key\":\"n\",\"nodeUid\":\"u-n\"}",
			NULL),
		0);
	assert_null(ledger_node(&replay.ledger, "n"));
	assert_int_equal(feed(&replay,
				 "{\"number\":3,\"decision\":\"filter\",\"uid\":\"p\",\"fitting\":1,"
				 "\"nodes\":[{\"name\":\"n\"}],\"reasons\":[]}",
				 NULL),
		0);
}

/* What the agent lists became an orphan when the ledger was told, but has ended by the time of the picture.
 */
static void a_picture_of_a_node_brings_no_orphans(void **state)
{
	_cleanup_replay_ struct replay replay;

	begin(&replay);
	assert_int_equal(feed(&replay,
				 "{\"restoreNode\":{\"name\":\"m\",\"uid\":\"u-m\",\"mode\":\"share\","
				 "\"policy\":\"spread\",\"unit\":1024,\"serving\":true,\"cards\":["
				 "{\"index\":0,\"uuid\":\"GPU-m\",\"units\":15,\"healthy\":true}],"
				 "\"held\":{\"at\":\"2026-05-04T03:02:01.000001Z\",\"ended\":[],\"pods\":[{"
				 "\"uid\":\"g\","
				 "\"namespace\":\"default\",\"name\":\"g\",\"cards\":{\"GPU-m\":{\"units\":9,"
				 "\"core\":0}}}]}}}",
				 NULL),
		0);
	assert_int_equal(ledger_node(&replay.ledger, "m")->gpus[0].units_used, 0);
	assert_null(ledger_pod(&replay.ledger, "g"));
}

/* Each a history of a real scheduler: what this version decides otherwise is a change of behaviour. */
static void replay_whole_file(const char *path)
{
	_cleanup_replay_ struct replay replay;
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	ssize_t len;

	assert_non_null(file);
	replay_init(&replay);
	while ((len = getline(&line, &size, file)) >= 0) {
		struct error err = {""};

		if (replay_line(&replay, line, (size_t)len, &err) != 0)
			fail_msg("%s: %s", path, err.text);
	}
	assert_true(replay.answers > 0);
	assert_true(replay.gpus > 0);
	assert_int_equal(ledger_check(&replay.ledger, NULL), 0);
}

static void recorded_histories_of_real_runs_come_out_as_recorded(void **state)
{
	const char *source = getenv("RATION_SOURCE");
	char path[1024], folder[512];
	struct dirent *entry;
	int n = 0;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%s/tests/histories", source ? source : ".");
	dir = opendir(folder);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (strstr(entry->d_name, ".jsonl")) {
			snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
			replay_whole_file(path);
			n++;
		}
	closedir(dir);
	assert_true(n > 0);
}

#define PLAN(nodes, placed)                                                                                  \
	"{\"number\":2,\"plan\":\"default/g\",\"needed\":1,\"placed\":" placed ",\"nodes\":[" nodes          \
	"],\"seats\":[{\"in\":0,\"pod\":" POD "}]}"

/* Alone the pod would get GPU-1: so it does as the only one of its gang. */
static void a_plan_of_a_gang_is_made_again(void **state)
{
	_cleanup_replay_ struct replay replay;
	struct error err = {""};

	begin(&replay);
	assert_int_equal(feed(&replay, PLAN("[\"n\"]", "0"), &err), 1);
	assert_non_null(strstr(err.text, "plan of gang default/g: recorded: 0 pods have room; computed: 1"));
	assert_int_equal(feed(&replay, PLAN("[\"other\"]", "0"), &err), 0);
	assert_int_equal(feed(&replay, PLAN("[\"n\"]", "1"), &err), 0);
	assert_int_equal(feed(&replay, HOLD_ON("GPU-0"), &err), 1);
	assert_non_null(strstr(err.text, "computed: GPU-1"));
}

static void what_a_gang_holds_by_a_plan_whose_nodes_were_only_counted_is_not_compared(void **state)
{
	_cleanup_replay_ struct replay replay;
	struct error err = {""};

	begin(&replay);
	assert_int_equal(feed(&replay, PLAN("4000", "1"), &err), 0);
	assert_int_equal(replay.plans_not_computed, 1);
	assert_int_equal(feed(&replay, HOLD_ON("GPU-0"), &err), 0);
	assert_int_equal(replay.gpus, 0);
}

static void a_plan_that_is_none_is_refused(void **state)
{
	static const char *const plans[] = {
		"{\"plan\":\"g\",\"seats\":[{\"pod\":" POD "}]}",
		"{\"plan\":\"g\",\"needed\":1,\"seats\":[{\"in\":0,\"pod\":" POD "}]}",
		"{\"plan\":\"g\",\"needed\":1,\"seats\":[{}]}",
		"{\"plan\":\"g\",\"needed\":1,\"seats\":[{\"pod\":" POD "},{\"pod\":" POD "}]}",
		"{\"plan\":\"g\",\"needed\":1,\"seats\":[{\"pod\":{\"uid\":\"p\",\"containers\":[]}}]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(plans); i++) {
		_cleanup_replay_ struct replay replay;
		struct error err = {""};

		begin(&replay);
		assert_int_equal(feed(&replay, plans[i], &err), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_choice_that_comes_out_as_recorded_is_taken),
		cmocka_unit_test(a_choice_that_comes_out_otherwise_is_told),
		cmocka_unit_test(an_answer_is_compared_with_what_filter_was_asked),
		cmocka_unit_test(an_answer_about_nodes_that_were_only_counted_is_not_compared),
		cmocka_unit_test(an_answer_is_compared_although_its_node_is_gone),
		cmocka_unit_test(a_picture_of_a_node_brings_no_orphans),
		cmocka_unit_test(recorded_histories_of_real_runs_come_out_as_recorded),
		cmocka_unit_test(a_plan_of_a_gang_is_made_again),
		cmocka_unit_test(what_a_gang_holds_by_a_plan_whose_nodes_were_only_counted_is_not_compared),
		cmocka_unit_test(a_plan_that_is_none_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
