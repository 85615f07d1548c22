/* The parser and the help of src/base/options.h, with a table that has every kind of row, and with the tables
 * of all programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/options.h"

enum colour { RED, GREEN };

struct values {
	bool loud;
	const char *text, *note, *name, *folder, *where, *more;
	uint32_t number, percent;
	enum colour colour;
	struct option_address listen;
	struct option_words words;
	struct shared {
		struct option_words flags;
	} shared;
	char **rest;
};

static const struct option_choice colours[] = {{"red", RED}, {"green", GREEN}, {0}};

static const struct option_row rows[] = {
	{"loud", 'l', NULL, OPTION_TO(FLAG, struct values, loud), .help = "make noise"},
	{"text", 't', "TEXT", OPTION_TO(TEXT, struct values, text), .help = "any text"},
	{"note", 0, "NOTE", OPTION_TO(TEXT, struct values, note), .min = 1, .max = 5, .help = "one line"},
	{"name", 0, "NAME", OPTION_TO(NAME, struct values, name), .suffix = "pod/", .help = "of a pod"},
	{"number", 'n', "N", OPTION_TO(NUMBER, struct values, number), .min = 2, .max = 10, .standard = "7",
		.help = "how many"},
	{"percent", 0, "PERCENT", OPTION_TO(NUMBER, struct values, percent), .min = 1, .max = 100,
		.suffix = "%", .help = "of the whole"},
	{"colour", 0, "COLOUR", OPTION_TO(CHOICE, struct values, colour), .choices = colours,
		.help = "of the line, in words that are many enough to need a second and even a third line of help"},
	{"folder", 0, "DIR", OPTION_TO(FOLDER, struct values, folder), .help = "where to look"},
	{"listen", 0, "ADDRESS:PORT", OPTION_TO(ADDRESS, struct values, listen), .max = 1,
		.standard = "127.0.0.1:80", .help = "where to listen"},
	{"word", 0, "WORD", OPTION_TO(WORDS, struct values, words), .max = 2, .help = "one more word"},
};
static const struct option_row flags[] = {
	{"server", 's', "URL", OPTION_TO(FORWARD, struct shared, flags), .help = "of the API"},
	{"insecure", 0, NULL, OPTION_TO(FORWARD, struct shared, flags), .help = "trust all"},
};
static const struct option_group group = {"Of another program", OPTION_ROWS(flags)};
static const struct option_row arguments[] = {
	{NULL, 0, "WHERE", OPTION_TO(NAME, struct values, where), .help = "a place"},
	{NULL, 0, "MORE", OPTION_TO(TEXT, struct values, more), .optional = true, .help = "more of it"},
};
static const struct option_row program_arguments[] = {
	{NULL, 0, "PROGRAM", OPTION_TO(REST, struct values, rest), .help = "what to run"},
};

static const struct option_table table = {.program = "some program",
	.usage = "WHERE [MORE] [OPTION]...",
	.summary = "Do something.\n\nOr nothing.",
	OPTION_ROWS(rows),
	OPTION_ARGUMENTS(arguments),
	.group = &group,
	.group_at = offsetof(struct values, shared),
	.version = "some"};
static const struct option_row needed[] = {
	{"mem", 'm', "AMOUNT", OPTION_TO(TEXT, struct values, text), .required = true, .help = "memory"},
};
static const struct option_table runner = {.program = "runner",
	.usage = "--mem AMOUNT -- PROGRAM",
	.summary = "Run.",
	OPTION_ROWS(needed),
	OPTION_ARGUMENTS(program_arguments),
	.usage_status = 125,
	.options_end_early = true};

#define WORDS_MAX 40

struct outcome {
	int status;
	char out[8192], err[1024];
};

static void text_of(FILE *file, char *ret_text, size_t size)
{
	rewind(file);
	ret_text[fread(ret_text, 1, size - 1, file)] = '\0';
	fclose(file);
}

/* The line is split at blanks; "@" stands for an empty word. The words live until the next call. */
static struct outcome parse(const struct option_table *of, const char *line, void *options)
{
	static char copy[1024];
	char *argv[WORDS_MAX + 2] = {(char *)"program"}, *rest = copy, *word;
	struct outcome outcome = {0};
	FILE *out = tmpfile(), *err = tmpfile(), *our_out = stdout, *our_err = stderr;
	static char *kept[WORDS_MAX + 2];
	int argc = 1;

	assert_true(out && err && strlen(line) < sizeof(copy));
	strcpy(copy, line);
	while ((word = strsep(&rest, " ")) && argc <= WORDS_MAX)
		if (*word)
			argv[argc++] = strcmp(word, "@") == 0 ? word + 1 : word;
	memcpy(kept, argv, sizeof(kept));
	stdout = out;
	stderr = err;
	outcome.status = options_parse(of, argc, kept, options);
	stdout = our_out;
	stderr = our_err;
	text_of(out, outcome.out, sizeof(outcome.out));
	text_of(err, outcome.err, sizeof(outcome.err));
	return outcome;
}

static void values_release(struct values *values)
{
	option_words_release(&values->words);
	option_words_release(&values->shared.flags);
}

static void accepts(const char *line, struct values *ret_values)
{
	struct outcome outcome;

	*ret_values = (struct values){0};
	outcome = parse(&table, line, ret_values);
	assert_string_equal(outcome.err, "");
	assert_int_equal(outcome.status, -1);
}

static void refuses_by(const struct option_table *of, const char *line, int status, const char *problem)
{
	_cleanup_(values_release) struct values values = {0};
	struct outcome outcome = parse(of, line, &values);
	char expected[1024];

	snprintf(expected, sizeof(expected), "%s: %s\nTry '%s --help' for more information.\n", of->program,
		problem, of->program);
	assert_string_equal(outcome.err, expected);
	assert_string_equal(outcome.out, "");
	assert_int_equal(outcome.status, status);
}

static void refuses(const char *line, const char *problem)
{
	refuses_by(&table, line, 2, problem);
}

/* ---- what is accepted ---- */

static void options_without_any_have_the_defaults(void **state)
{
	_cleanup_(values_release) struct values values;

	accepts("here", &values);
	assert_string_equal(values.where, "here");
	assert_int_equal(values.number, 7);
	assert_string_equal(values.listen.text, "127.0.0.1");
	assert_int_equal(values.listen.port, 80);
	assert_null(values.text);
	assert_null(values.more);
	assert_false(values.loud);
	assert_int_equal(values.colour, RED);
}

static void options_of_every_kind_reach_their_member(void **state)
{
	_cleanup_(values_release) struct values values;

	accepts("-l --text a --note b --name pod/p-1 -n 10 --percent 30% --colour green --folder /x "
		"--listen 0.0.0.0:0 --word u --word v -s http://x --insecure here more",
		&values);
	assert_true(values.loud);
	assert_string_equal(values.text, "a");
	assert_string_equal(values.note, "b");
	assert_string_equal(values.name, "p-1");
	assert_int_equal(values.number, 10);
	assert_int_equal(values.percent, 30);
	assert_int_equal(values.colour, GREEN);
	assert_string_equal(values.folder, "/x");
	assert_string_equal(values.listen.text, "0.0.0.0");
	assert_int_equal(values.listen.port, 0);
	assert_int_equal(values.words.n, 2);
	assert_string_equal(values.words.words[1], "v");
	assert_int_equal(values.shared.flags.n, 2);
	assert_string_equal(values.shared.flags.words[0], "--server=http://x");
	assert_string_equal(values.shared.flags.words[1], "--insecure");
	assert_string_equal(values.more, "more");
}

static void options_are_recognised_however_they_are_written(void **state)
{
	static const char *const lines[] = {"--text=a=b here", "--text a=b here", "--te a=b here",
		"--te=a=b here", "-t a=b here", "-ta=b here", "here --text=a=b", "-lta=b -- here"};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		_cleanup_(values_release) struct values values;

		accepts(lines[i], &values);
		assert_string_equal(values.text, "a=b");
		assert_string_equal(values.where, "here");
	}
}

static void options_given_twice_count_the_last_time(void **state)
{
	_cleanup_(values_release) struct values values;

	accepts("--number 3 --number 4 --loud --loud here", &values);
	assert_int_equal(values.number, 4);
	assert_true(values.loud);
}

static void options_end_at_two_hyphens(void **state)
{
	_cleanup_(values_release) struct values values;

	accepts("-- here --text", &values);
	assert_null(values.text);
	assert_string_equal(values.more, "--text");
}

static void options_may_have_an_empty_value(void **state)
{
	_cleanup_(values_release) struct values values;

	accepts("--text= here", &values);
	assert_string_equal(values.text, "");
}

static void options_may_name_no_address(void **state)
{
	_cleanup_(values_release) struct values values;

	accepts("--listen none here", &values);
	assert_string_equal(values.listen.text, "");
}

static void options_of_a_runner_end_at_its_program(void **state)
{
	struct values values = {0};

	assert_int_equal(parse(&runner, "-m 1 prog -m 2 --help", &values).status, -1);
	assert_string_equal(values.text, "1");
	assert_string_equal(values.rest[0], "prog");
	assert_string_equal(values.rest[3], "--help");
	assert_null(values.rest[4]);
}

/* ---- what is refused ---- */

static void options_that_no_row_has_are_refused(void **state)
{
	refuses("--nonsense here", "unknown option \"--nonsense\"");
	refuses("--nonsense=1 here", "unknown option \"--nonsense\"");
	refuses("-x here", "unknown option \"-x\"");
	refuses("-lx here", "unknown option \"-x\"");
	refuses("--n 1 here", "ambiguous option \"--n\"; could be one of --note, --name, --number");
	refuses("--=1 here", "unknown option \"--\"");
	refuses("--\x1b[2J here", "unknown option \"--?[2J\"");
}

static void options_without_their_value_are_refused(void **state)
{
	refuses("here --text", "--text TEXT: the value is missing");
	refuses("here -t", "--text TEXT: the value is missing");
	refuses("here --colour", "--colour COLOUR: the value is missing; must be one of red, green");
	refuses("here --percent",
		"--percent PERCENT: the value is missing; must be a whole number from 1 to 100, with or without %");
}

static void options_with_a_value_too_many_are_refused(void **state)
{
	refuses("--loud=1 here", "--loud takes no value");
	refuses("--help=1 here", "--help takes no value");
	refuses("--version=1 here", "--version takes no value");
}

static void options_with_a_malformed_value_are_refused(void **state)
{
	static const char *const numbers[] = {
		"1", "11", "-3", "+3", "0x3", "3.0", "@", "3m", "4294967299", "99999999999999999999999999"};
	static const char *const addresses[] = {"localhost:80", "1.2.3.4", "1.2.3.4:", ":80", "1.2.3.4:65536",
		"[::1]:80", "1.2.3.4:-1", "1111.2222.3333.4444:80", "None"};
	static const char *const names[] = {"@", "A", "a_b", "-a", ".a", "pod/", "pod/pod/a"};
	char line[512], problem[512];

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		const char *shown = strcmp(numbers[i], "@") == 0 ? "" : numbers[i];

		snprintf(line, sizeof(line), "here --number %s", numbers[i]);
		snprintf(problem, sizeof(problem),
			"--number: invalid value \"%s\"; must be a whole number from 2 to 10", shown);
		refuses(line, problem);
	}
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		snprintf(line, sizeof(line), "here --listen %s", addresses[i]);
		snprintf(problem, sizeof(problem),
			"--listen: invalid value \"%s\"; must be ADDRESS:PORT with an IPv4 address, or none",
			addresses[i]);
		refuses(line, problem);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *shown = strcmp(names[i], "@") == 0 ? "" : names[i];

		snprintf(line, sizeof(line), "here --name %s", names[i]);
		snprintf(problem, sizeof(problem),
			"--name: invalid value \"%s\"; must be a name of lower-case letters, digits, \"-\" and \".\", of at most 253 bytes",
			shown);
		refuses(line, problem);
	}
	refuses("--colour gree here", "--colour: invalid value \"gree\"; must be one of red, green");
	refuses("--folder x here", "--folder: invalid value \"x\"; must be an absolute path");
	refuses("--note a\tb here", "--note: invalid value \"a?b\"; must be one line of 1 to 5 bytes");
	refuses("--note @ here", "--note: invalid value \"\"; must be one line of 1 to 5 bytes");
	refuses("--percent % here",
		"--percent: invalid value \"%\"; must be a whole number from 1 to 100, with or without %");
	refuses("--percent 30%% here",
		"--percent: invalid value \"30%%\"; must be a whole number from 1 to 100, with or without %");
}

static void options_with_an_oversized_value_are_refused(void **state)
{
	char line[512], problem[512];
	char value[300];

	memset(value, 'a', sizeof(value));
	value[254] = '\0';
	snprintf(line, sizeof(line), "--name %s here", value);
	snprintf(problem, sizeof(problem),
		"--name: invalid value \"%.80s\"...; must be a name of lower-case letters, digits, \"-\" and \".\", of at most 253 bytes",
		value);
	refuses(line, problem);
	refuses("--note 123456 here", "--note: invalid value \"123456\"; must be one line of 1 to 5 bytes");
	snprintf(line, sizeof(line), "--%s here", value);
	snprintf(problem, sizeof(problem), "unknown option \"--%.78s\"", value);
	refuses(line, problem);
}

static void options_that_are_repeated_too_often_are_refused(void **state)
{
	refuses("--word 1 --word 2 --word 3 here", "--word must not be given more than 2 times");
}

static void options_with_other_arguments_are_refused(void **state)
{
	refuses("", "WHERE is missing");
	refuses("a b c", "unexpected argument c");
	refuses("A/b",
		"WHERE: invalid value \"A/b\"; must be a name of lower-case letters, digits, \"-\" and \".\", of at most 253 bytes");
	refuses_by(&runner, "prog", 125, "--mem AMOUNT is missing");
	refuses_by(&runner, "--mem 1", 125, "PROGRAM is missing");
	refuses_by(&runner, "--mem 1 --", 125, "PROGRAM is missing");
}

/* ---- help ---- */

static void check_width(const char *text)
{
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
		size_t len = strcspn(line, "\n");

		if (len > 80 || (len && line[len - 1] == ' '))
			fail_msg("line of %zu columns: %.*s", len, (int)len, line);
	}
}

static void options_help_names_every_row_once(void **state)
{
	_cleanup_(values_release) struct values values = {0};
	struct outcome outcome = parse(&table, "--help", &values);

	assert_int_equal(outcome.status, 0);
	assert_string_equal(outcome.err, "");
	assert_true(strncmp(outcome.out,
			    "Usage: some program WHERE [MORE] [OPTION]...\n\nDo something.\n\nOr nothing.\n\n"
			    "  WHERE                     a place\n",
			    90) == 0);
	assert_non_null(strstr(outcome.out, "\n  -n, --number N            how many (default: 7)\n"));
	assert_non_null(strstr(outcome.out,
		"\n      --colour COLOUR       of the line, in words that are many enough to need a\n"
		"                            second and even a third line of help\n"));
	assert_non_null(strstr(outcome.out, "\n      --version             print the version and exit\n"));
	assert_non_null(strstr(outcome.out, "\nOf another program: -s, --server, --insecure\n"));
	check_width(outcome.out);
	assert_string_equal(parse(&table, "-h", &values).out, outcome.out);
	assert_string_equal(parse(&table, "--version", &values).out, "some " RATION_VERSION "\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_without_any_have_the_defaults),
		cmocka_unit_test(options_of_every_kind_reach_their_member),
		cmocka_unit_test(options_are_recognised_however_they_are_written),
		cmocka_unit_test(options_given_twice_count_the_last_time),
		cmocka_unit_test(options_end_at_two_hyphens),
		cmocka_unit_test(options_may_have_an_empty_value),
		cmocka_unit_test(options_may_name_no_address),
		cmocka_unit_test(options_of_a_runner_end_at_its_program),
		cmocka_unit_test(options_that_no_row_has_are_refused),
		cmocka_unit_test(options_without_their_value_are_refused),
		cmocka_unit_test(options_with_a_value_too_many_are_refused),
		cmocka_unit_test(options_with_a_malformed_value_are_refused),
		cmocka_unit_test(options_with_an_oversized_value_are_refused),
		cmocka_unit_test(options_that_are_repeated_too_often_are_refused),
		cmocka_unit_test(options_with_other_arguments_are_refused),
		cmocka_unit_test(options_help_names_every_row_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
