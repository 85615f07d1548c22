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

#define HEAD "{\"history\":4,\"clock\":1000}"
#define NODE                                                                                                 \
	"{\"name\":\"n\",\"uid\":\"u-n\",\"mode\":1,\"unit\":1024,\"serving\":true,\"gpus\":["               \
	"{\"uuid\":\"GPU-0\",\"mib\":15360,\"units\":15,\"healthy\":true},"                                  \
	"{\"uuid\":\"GPU-1\",\"index\":1,\"mib\":8192,\"units\":8,\"healthy\":true}]}"
#define POD                                                                                                  \
	"{\"uid\":\"p\",\"namespace\":\"default\",\"name\":\"a\",\"pending\":true,\"request\":{"             \
	"\"containers\":[{\"name\":\"main\",\"kind\":2,\"units\":3,\"asked\":3}],"                           \
	"\"units\":3,\"asked\":3,\"instances\":1}}"
#define PLACED(uuid)                                                                                         \
	"{\"unit\":1024,\"containers\":[{\"name\":\"main\",\"gpus\":[{\"uuid\":\"" uuid "\",\"units\":3}]}]}"

/* A core that has read one node and may bind, and what filter does there: binpack, so GPU-1, which is the
 * smaller one. */
#define BEGINNING                                                                                            \
	HEAD, "{\"core\":{\"nodesListed\":true,\"podsListed\":true,\"following\":true}}",                    \
		"{\"node\":" NODE "}",                                                                       \
		"{\"ledger\":{\"generation\":1,\"capacity\":1,\"lowestPriority\":2147483647,\"nodesEver\":1}}"
#define OWNERSHIP "{\"event\":\"ownership\",\"ownership\":{\"owner\":1,\"validUntil\":99000000000000}}"
#define SEEN "{\"event\":\"pod-seen\",\"at\":20,\"pod\":" POD "}"
#define FILTER "{\"event\":\"filter\",\"at\":30,\"uid\":\"p\",\"number\":16,\"pod\":" POD "}"
#define ASKED "{\"told\":\"names\",\"text\":\"0\"}"
#define FITS "{\"gave\":\"filter\",\"uid\":\"p\",\"text\":\"\",\"number\":1,\"reasons\":{},\"names\":[\"n\"]}"
#define HOLD(uuid) "{\"gave\":\"hold\",\"uid\":\"p\",\"name\":\"n\",\"placement\":" PLACED(uuid) "}"
#define END "{\"end\":true}"

/* The first result that is not 0, and its sentence. */
static int feed(
	struct history_replay *history, const char *const *lines, size_t n, bool whole, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = history_replay_line(history, lines[i], strlen(lines[i]), err);
	return r == 0 && whole ? history_replay_end(history, err) : r;
}

#define FEED(history, lines, err) feed(history, lines, ARRAY_SIZE(lines), false, err)

static void what_comes_out_as_recorded_is_taken(void **state)
{
	static const char *const lines[] = {
		BEGINNING, OWNERSHIP, SEEN, FILTER, ASKED, FITS, HOLD("GPU-1"), END};
	_cleanup_history_replay_ struct history_replay history;
	struct error err = {""};

	assert_int_equal(history_replay_init(&history), 0);
	if (FEED(&history, lines, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(history.events, 3);
	assert_int_equal(history.outputs, 2);
	assert_int_equal(ledger_node(&history.replay.core.ledger, "n")->gpus[1].units_used, 3);
}

static void what_the_watch_of_nodes_has_told_is_taken(void **state)
{
	static const char *const lines[] = {
		HEAD, "{\"core\":{\"nodesTold\":7}}", "{\"event\":\"nodes-told\",\"number\":9}", END};
	_cleanup_history_replay_ struct history_replay history;
	struct error err = {""};

	assert_int_equal(history_replay_init(&history), 0);
	assert_int_equal(FEED(&history, lines, &err), 0);
	assert_int_equal(history.replay.core.ledger.nodes_told_ns, 9);
}

static void without_its_line_end_a_line_is_the_same(void **state)
{
	static const char *const lines[] = {HEAD "\r\n", "{\"core\":{}}\n", "{\"event\":\"tick\",\"at\":7}\n",
		"{\"event\":\"tick\",\"at\":8}\r\n", END "\n"};
	_cleanup_history_replay_ struct history_replay history;
	struct error err = {""};

	assert_int_equal(history_replay_init(&history), 0);
	if (FEED(&history, lines, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(history.events, 2);
}

/* Decisions that differ, and the words that tell of it. */
static void a_decision_that_comes_out_otherwise_is_told(void **state)
{
	static const struct {
		const char *lines[3];
		const char *words[2];
	} cases[] = {
		{{FITS, HOLD("GPU-0")}, {"recorded: {\"gave\":\"hold\"", "\"uuid\":\"GPU-1\""}},
		{{"{\"gave\":\"filter\",\"uid\":\"p\",\"text\":\"\",\"number\":2,\"reasons\":{},\"names\":[\"n\"]}",
			 HOLD("GPU-1")},
			{"\"number\":2",
				"computed: {\"gave\":\"filter\",\"uid\":\"p\",\"text\":\"\",\"number\":1"}},
		{{FITS}, {"recorded: nothing", "computed: {\"gave\":\"hold\""}},
		{{NULL}, {"recorded: nothing", "computed: {\"gave\":\"filter\""}},
		{{FITS, HOLD("GPU-1"), "{\"gave\":\"requeue\",\"uid\":\"p\"}"},
			{"recorded: {\"gave\":\"requeue\",\"uid\":\"p\"}", "computed: nothing"}},
		{{HOLD("GPU-1"), FITS}, {"recorded: {\"gave\":\"hold\"", "computed: {\"gave\":\"filter\""}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *lines[16] = {BEGINNING, OWNERSHIP, SEEN, FILTER, ASKED};
		_cleanup_history_replay_ struct history_replay history;
		struct error err = {""};
		size_t n = 8;

		for (size_t k = 0; k < 3 && cases[i].lines[k]; k++)
			lines[n++] = cases[i].lines[k];
		lines[n++] = END;
		assert_int_equal(history_replay_init(&history), 0);
		assert_int_equal(feed(&history, lines, n, false, &err), 1);
		assert_non_null(strstr(err.text, "event 3 at 1970-01-01T00:00:00Z, filter of a: "));
		for (size_t k = 0; k < 2; k++)
			if (!strstr(err.text, cases[i].words[k]))
				fail_msg("case %zu: \"%s\" is not in \"%s\"", i, cases[i].words[k], err.text);
	}
}

/* The state at the end, with one line that is not that of the core. */
static void a_state_that_comes_out_otherwise_is_told(void **state)
{
	static const char *const ends[] = {"{\"core\":{\"nodesListed\":true}}", "{\"what\":1}"};

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		const char *lines[] = {HEAD, "{\"core\":{}}", "{\"event\":\"tick\",\"at\":7}", END, ends[i]};
		_cleanup_history_replay_ struct history_replay history;
		struct error err = {""};

		assert_int_equal(history_replay_init(&history), 0);
		assert_int_equal(feed(&history, lines, ARRAY_SIZE(lines), true, &err), 1);
		assert_ptr_equal(strstr(err.text, "the state at the end: recorded: {\""), err.text);
	}
}

/* What a long line has in common with the other one is left out. */
static void of_a_long_line_the_part_is_told_that_differs(void **state)
{
	char gave[2048], text[1024];
	const char *lines[] = {BEGINNING, OWNERSHIP, SEEN, FILTER, ASKED, gave, END};
	_cleanup_history_replay_ struct history_replay history;
	struct error err = {""};

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	snprintf(gave, sizeof(gave),
		"{\"gave\":\"filter\",\"uid\":\"p\",\"text\":\"\",\"number\":1,\"reasons\":{},\"names\":[\"n\"],\"more\":\"%s\"}",
		text);
	assert_int_equal(history_replay_init(&history), 0);
	assert_int_equal(FEED(&history, lines, &err), 1);
	assert_non_null(strstr(err.text, "\"names\":[\"n\"],\"more\":\"xxx"));
	assert_non_null(strstr(err.text, "computed: {\"gave\":\"filter\""));
	assert_true(strlen(err.text) < 500);
}

/* An answer of the caller is given again: without it the core asks about no node. */
static void an_answer_of_the_caller_is_given_again(void **state)
{
	static const char *const lines[] = {BEGINNING, OWNERSHIP, SEEN, FILTER,
		"{\"told\":\"names\",\"text\":\"\"}",
		"{\"gave\":\"filter\",\"uid\":\"p\",\"text\":\"\",\"outcome\":1,\"reasons\":{}}", END};
	_cleanup_history_replay_ struct history_replay history;
	struct error err = {""};

	assert_int_equal(history_replay_init(&history), 0);
	if (FEED(&history, lines, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(ledger_node(&history.replay.core.ledger, "n")->gpus[1].units_used, 0);
}

/* Lines after the beginning, and the sentence. */
static void what_is_no_history_is_refused_with_a_sentence(void **state)
{
	static const struct {
		const char *lines[3];
		const char *words;
	} cases[] = {
		{{"{\"event\":"}, "line 5: "},
		{{"[]"}, "line 5: a line of a state that names nothing known"},
		{{"{\"node\":" NODE "}"}, "line 5: node: "},
		{{"{\"order\":{\"node\":\"m\",\"pods\":[]}}"}, "line 5: order: "},
		{{"{\"gave\":\"filter\"}"}, "line 5: a decision without an event"},
		{{ASKED}, "line 5: an answer without an event"},
		{{"{\"event\":\"sleep\"}"}, "\"event\" is \"sleep\", which this version does not know"},
		{{"{\"event\":\"tick\",\"at\":-1}"}, "\"at\" is not a whole number from 0"},
		{{"{\"event\":\"tick\"}", "{\"told\":\"a lie\"}"}, "\"told\" is \"a lie\""},
		{{"{\"event\":\"tick\"}", "{\"node\":" NODE "}"},
			"line 6: neither an event nor what belongs to one"},
		/* What cannot have happened in this state is told with its time. */
		{{"{\"event\":\"node-seen\"}", END},
			"event 1 at 1970-01-01T00:00:00Z, node-seen: an event node-seen that lacks"},
		{{"{\"event\":\"group-seen\",\"name\":\"g\",\"group\":{\"min\":2}}", END},
			"an event group-seen that lacks something"},
		{{"{\"event\":\"bind-listed\",\"at\":5,\"bind\":3}", END},
			"bind 3 does not wait for bind-listed"},
		{{"{\"event\":\"bind\",\"at\":9,\"name\":\"a\",\"uid\":\"p\",\"namespace\":\"default\",\"text\":\"n\"}",
			 "{\"event\":\"binding-answered\",\"bind\":1}", END},
			""},
		{{"{\"event\":\"binding-answered\",\"bind\":1,\"outcome\":77}", END}, "that lacks something"},
		{{"{\"event\":\"resize-answered\",\"uid\":\"p\"}", END},
			"the resize of pod p does not wait for resize-answered"},
		{{"{\"event\":\"eviction-answered\",\"uid\":\"p\"}", END},
			"the eviction for pod p does not wait for eviction-answered"},
		{{"{\"event\":\"policy-gone\",\"namespace\":\"x\",\"uid\":\"p\"}", END},
			"namespace x has no ResourcePolicies"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *lines[8] = {BEGINNING};
		_cleanup_history_replay_ struct history_replay history;
		struct error err = {""};
		size_t n = 4;

		for (size_t k = 0; k < 3 && cases[i].lines[k]; k++)
			lines[n++] = cases[i].lines[k];
		assert_int_equal(history_replay_init(&history), 0);
		if (*cases[i].words)
			assert_int_equal(feed(&history, lines, n, false, &err), -EINVAL);
		else
			assert_int_not_equal(feed(&history, lines, n, false, &err), 0);
		if (!strstr(err.text, cases[i].words))
			fail_msg("case %zu: \"%s\" is not in \"%s\"", i, cases[i].words, err.text);
	}
}

static void a_history_without_a_beginning_or_an_end_is_none(void **state)
{
	static const char *const cut[] = {HEAD, "{\"core\":{}}", "{\"event\":\"tick\"}"};
	static const char *const firsts[] = {"{}", "{\"history\":1}", "{\"history\":2}"};

	for (size_t n = 0; n <= ARRAY_SIZE(cut); n++) {
		_cleanup_history_replay_ struct history_replay history;
		struct error err = {""};

		assert_int_equal(history_replay_init(&history), 0);
		assert_int_equal(feed(&history, cut, n, true, &err), -EINVAL);
		assert_non_null(strstr(err.text, n ? "it ends in the middle" : "it is empty"));
	}
	for (size_t i = 0; i < ARRAY_SIZE(firsts); i++) {
		_cleanup_history_replay_ struct history_replay history;
		struct error err = {""};

		assert_int_equal(history_replay_init(&history), 0);
		assert_int_equal(feed(&history, &firsts[i], 1, false, &err), -EINVAL);
		assert_non_null(
			strstr(err.text, "line 1: the first line is not that of a history of version 4"));
	}
}

/* Whoever writes a file can write many answers for one event. */
static void too_many_answers_for_one_event_are_refused(void **state)
{
	static const char *const lines[] = {HEAD, "{\"event\":\"tick\"}"};
	static const char *const answer = ASKED;
	_cleanup_history_replay_ struct history_replay history;
	struct error err = {""};

	assert_int_equal(history_replay_init(&history), 0);
	assert_int_equal(FEED(&history, lines, &err), 0);
	for (int i = 0; i < REPLAY_ANSWERS_MAX; i++)
		assert_int_equal(feed(&history, &answer, 1, false, &err), 0);
	assert_int_equal(feed(&history, &answer, 1, false, &err), -EINVAL);
	assert_non_null(strstr(err.text, "too many answers to one event"));
}

/* Each a history of a real scheduler: what this version decides otherwise is a change of behaviour. */
static void replay_whole_file(const char *path)
{
	_cleanup_history_replay_ struct history_replay history;
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	struct error err = {""};
	size_t size = 0;
	ssize_t len;

	assert_non_null(file);
	assert_int_equal(history_replay_init(&history), 0);
	while ((len = getline(&line, &size, file)) >= 0)
		if (history_replay_line(&history, line, (size_t)len, &err) != 0)
			fail_msg("%s: %s", path, err.text);
	if (history_replay_end(&history, &err) != 0)
		fail_msg("%s: %s", path, err.text);
	assert_true(history.events > 20);
	assert_true(history.outputs > 10);
	assert_int_equal(ledger_check(&history.replay.core.ledger, NULL), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_comes_out_as_recorded_is_taken),
		cmocka_unit_test(what_the_watch_of_nodes_has_told_is_taken),
		cmocka_unit_test(without_its_line_end_a_line_is_the_same),
		cmocka_unit_test(a_decision_that_comes_out_otherwise_is_told),
		cmocka_unit_test(a_state_that_comes_out_otherwise_is_told),
		cmocka_unit_test(of_a_long_line_the_part_is_told_that_differs),
		cmocka_unit_test(an_answer_of_the_caller_is_given_again),
		cmocka_unit_test(what_is_no_history_is_refused_with_a_sentence),
		cmocka_unit_test(a_history_without_a_beginning_or_an_end_is_none),
		cmocka_unit_test(too_many_answers_for_one_event_are_refused),
		cmocka_unit_test(recorded_histories_of_real_runs_come_out_as_recorded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
