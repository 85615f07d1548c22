#include "base/options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"

#define ROWS_MAX 64
/* Values of getopt_long(): letters are below. */
#define FIRST_LONG 256
#define HELP FIRST_LONG
#define VERSION (FIRST_LONG + 1)
#define FIRST_ROW (FIRST_LONG + 2)

#define NAME_LEN_MAX 253 /* of an object of the API server: RFC 1123 */
#define SHOWN_MAX 80

/* ---- usage errors ---------------------------------------------------------------------------------------
 */

int options_refuse(const struct option_table *table, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* The text may quote argv: a control character must not begin a line or control the terminal. */
	for (char *p = text; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	fprintf(stderr, "%s: %s\nTry '%s --help' for more information.\n", table->program, text,
		table->program);
	return table->usage_status ? table->usage_status : EXIT_USAGE;
}

static void must_be_choice(const struct option_row *row, char *ret_text, size_t size)
{
	const struct option_choice *choice = row->choices;
	size_t len = (size_t)snprintf(
		ret_text, size, "must be %s%s", choice[1].name ? "one of " : "", choice[0].name);

	for (choice++; choice->name && len < size; choice++)
		len += (size_t)snprintf(ret_text + len, size - len, ", %s", choice->name);
}

/* What the row accepts, after "invalid value X; ". */
static void must_be(const struct option_row *row, char *ret_text, size_t size)
{
	switch (row->kind) {
	case OPTION_TEXT:
		snprintf(ret_text, size, "must be one line of %u to %u bytes", row->min, row->max);
		break;
	case OPTION_NUMBER:
		snprintf(ret_text, size, "must be a whole number from %u to %u%s%s", row->min, row->max,
			row->suffix ? ", with or without " : "", row->suffix ? row->suffix : "");
		break;
	case OPTION_CHOICE:
		must_be_choice(row, ret_text, size);
		break;
	case OPTION_NAME:
		snprintf(ret_text, size,
			"must be a name of lower-case letters, digits, \"-\" and \".\", of at most %d bytes",
			NAME_LEN_MAX);
		break;
	case OPTION_FOLDER:
		snprintf(ret_text, size, "must be an absolute path");
		break;
	case OPTION_ADDRESS:
		snprintf(ret_text, size, "must be ADDRESS:PORT with an IPv4 address%s",
			row->max ? ", or none" : "");
		break;
	default: /* any text is valid */
		ret_text[0] = '\0';
	}
}

/* errnum: why take_value() did not take the value. */
static int refuse_value(
	const struct option_table *table, const struct option_row *row, const char *value, int errnum)
{
	char accepted[256];

	if (errnum == ENOMEM)
		return options_refuse(table, "out of memory");
	if (errnum == E2BIG)
		return options_refuse(
			table, "--%s must not be given more than %u times", row->name, row->max);
	must_be(row, accepted, sizeof(accepted));
	return options_refuse(table, "%s%s: invalid value \"%.*s\"%s; %s", row->name ? "--" : "",
		row->name ? row->name : row->value, SHOWN_MAX, value, strlen(value) > SHOWN_MAX ? "..." : "",
		accepted);
}

/* ---- one value ------------------------------------------------------------------------------------------
 */

static bool is_name(const char *text)
{
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.");

	return len && len <= NAME_LEN_MAX && !text[len] && text[0] != '-' && text[0] != '.';
}

static bool is_line(const struct option_row *row, const char *text)
{
	size_t len = strlen(text);

	if (!row->max)
		return true;
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return false;
	return len >= row->min && len <= row->max;
}

static int take_number(const struct option_row *row, const char *text, uint32_t *ret_number)
{
	size_t len = strlen(text), tail = row->suffix ? strlen(row->suffix) : 0;
	char digits[16];
	uint32_t number;

	if (tail && len > tail && strcmp(text + len - tail, row->suffix) == 0)
		len -= tail;
	if (len >= sizeof(digits))
		return -ERANGE;
	memcpy(digits, text, len);
	digits[len] = '\0';
	if (parse_u32(digits, row->max, &number) < 0 || number < row->min)
		return -EINVAL;
	*ret_number = number;
	return 0;
}

static int take_choice(const struct option_row *row, const char *text, int *ret_value)
{
	for (const struct option_choice *choice = row->choices; choice->name; choice++)
		if (strcmp(choice->name, text) == 0) {
			*ret_value = choice->value;
			return 0;
		}
	return -EINVAL;
}

static int take_address(const struct option_row *row, const char *text, struct option_address *ret_address)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	struct option_address taken = {""};
	struct in_addr address;
	uint32_t port;

	if (row->max && strcmp(text, "none") == 0) {
		*ret_address = taken;
		return 0;
	}
	if (!len || len >= sizeof(taken.text) || parse_u32(colon + 1, UINT16_MAX, &port) < 0)
		return -EINVAL;
	memcpy(taken.text, text, len);
	if (inet_pton(AF_INET, taken.text, &address) != 1)
		return -EINVAL;
	taken.port = (uint16_t)port;
	*ret_address = taken;
	return 0;
}

/* The word is copied; name is NULL for the value alone. */
static int add_word(struct option_words *words, const char *name, const char *value)
{
	char **grown = reallocarray(words->words, words->n + 1, sizeof(char *));
	char *word;

	if (!grown)
		return -ENOMEM;
	words->words = grown;
	if (asprintf(&word, "%s%s%s%s", name ? "--" : "", name ? name : "", name && value ? "=" : "",
		    value ? value : "") < 0)
		return -ENOMEM;
	words->words[words->n++] = word;
	return 0;
}

void option_words_release(struct option_words *words)
{
	for (size_t i = 0; i < words->n; i++)
		free(words->words[i]);
	free(words->words);
	*words = (struct option_words){0};
}

static int take_text(const char **ret_text, const char *text, bool valid)
{
	if (!valid)
		return -EINVAL;
	*ret_text = text;
	return 0;
}

/* to: the member. A value that is refused changes nothing. */
static int take_value(const struct option_row *row, const char *value, void *to)
{
	size_t prefix = row->kind == OPTION_NAME && row->suffix ? strlen(row->suffix) : 0;

	switch (row->kind) {
	case OPTION_FLAG:
		*(bool *)to = true;
		return 0;
	case OPTION_TEXT:
		return take_text(to, value, is_line(row, value));
	case OPTION_NUMBER:
		return take_number(row, value, to);
	case OPTION_CHOICE:
		return take_choice(row, value, to);
	case OPTION_NAME:
		if (prefix && strncmp(value, row->suffix, prefix) == 0)
			value += prefix;
		return take_text(to, value, is_name(value));
	case OPTION_FOLDER:
		return take_text(to, value, value[0] == '/');
	case OPTION_ADDRESS:
		return take_address(row, value, to);
	case OPTION_WORDS:
		if (((struct option_words *)to)->n >= row->max)
			return -E2BIG;
		return add_word(to, NULL, value);
	case OPTION_FORWARD:
		return add_word(to, row->name, value);
	case OPTION_REST:
		break; /* arguments_take() has the place in argv */
	}
	return -EINVAL;
}

/* ---- all options ----------------------------------------------------------------------------------------
 */

/* What getopt_long() is given. The rows are the table's, then its group's. */
struct parser {
	const struct option_table *table;
	char *options;
	const struct option_row *rows[ROWS_MAX];
	void *to[ROWS_MAX];
	bool given[ROWS_MAX];
	size_t n;
	struct option known[ROWS_MAX + 3];
	char letters[2 * ROWS_MAX + 4];
};

static void parser_add(struct parser *parser, const struct option_row *row, size_t at)
{
	size_t len = strlen(parser->letters);
	int has_value = row->value ? required_argument : no_argument;

	if (parser->n == ROWS_MAX)
		abort(); /* a mistake in the table; tests/component/test_options.py parses with each */
	parser->known[parser->n] = (struct option){row->name, has_value, NULL, FIRST_ROW + (int)parser->n};
	parser->rows[parser->n] = row;
	parser->to[parser->n++] = parser->options + at + row->at;
	if (!row->letter)
		return;
	parser->letters[len++] = row->letter;
	if (row->value)
		parser->letters[len++] = ':';
}

static void parser_init(struct parser *parser, const struct option_table *table, void *options)
{
	*parser = (struct parser){.table = table, .options = options};
	strcpy(parser->letters, table->options_end_early ? "+:h" : ":h");
	for (size_t i = 0; i < table->n_rows; i++)
		parser_add(parser, &table->rows[i], 0);
	for (size_t i = 0; table->group && i < table->group->n_rows; i++)
		parser_add(parser, &table->group->rows[i], table->group_at);
	parser->known[parser->n] = (struct option){"help", no_argument, NULL, HELP};
	if (table->version)
		parser->known[parser->n + 1] = (struct option){"version", no_argument, NULL, VERSION};
}

/* The index of the row that getopt_long() has found; -1: no row. */
static int row_find(const struct parser *parser, int found)
{
	for (size_t i = 0; i < parser->n; i++)
		if (found == FIRST_ROW + (int)i || (found && found == parser->rows[i]->letter))
			return (int)i;
	return -1;
}

/* No option has the name that was typed, or several begin with it. */
static int refuse_name(const struct parser *parser, const char *typed)
{
	size_t len = strcspn(typed, "="), n = 0, used = 0;
	char names[256] = "";

	for (const struct option *known = parser->known; known->name; known++)
		if (len > 2 && strncmp(known->name, typed + 2, len - 2) == 0 && used < sizeof(names)) {
			used += (size_t)snprintf(
				names + used, sizeof(names) - used, "%s--%s", n++ ? ", " : "", known->name);
		}
	if (n > 1)
		return options_refuse(parser->table, "ambiguous option \"%.*s\"; could be one of %s",
			len < SHOWN_MAX ? (int)len : SHOWN_MAX, typed, names);
	return options_refuse(
		parser->table, "unknown option \"%.*s\"", len < SHOWN_MAX ? (int)len : SHOWN_MAX, typed);
}

static int refuse_option(const struct parser *parser, char **argv)
{
	int index = row_find(parser, optopt);
	const struct option_row *row = index < 0 ? NULL : parser->rows[index];
	char accepted[256] = "";

	if (optopt == HELP || optopt == VERSION)
		return options_refuse(
			parser->table, "--%s takes no value", optopt == HELP ? "help" : "version");
	if (row && !row->value)
		return options_refuse(parser->table, "--%s takes no value", row->name);
	if (row && (row->kind == OPTION_CHOICE || row->kind == OPTION_NUMBER))
		must_be(row, accepted, sizeof(accepted));
	if (row)
		return options_refuse(parser->table, "--%s %s: the value is missing%s%s", row->name,
			row->value, *accepted ? "; " : "", accepted);
	if (optopt)
		return options_refuse(parser->table, "unknown option \"-%c\"", optopt);
	return refuse_name(parser, argv[optind - 1]);
}

/* Returns -1 to go on, or the status to end with. */
static int option_take(struct parser *parser, int found, char **argv)
{
	const struct option_row *row;
	int index, r;

	switch (found) {
	case 'h':
	case HELP:
		options_help(parser->table);
		return EXIT_SUCCESS;
	case VERSION:
		printf("%s " RATION_VERSION "\n", parser->table->version);
		return EXIT_SUCCESS;
	case '?':
	case ':':
		return refuse_option(parser, argv);
	}
	index = row_find(parser, found);
	row = parser->rows[index];
	parser->given[index] = true;
	r = take_value(row, optarg, parser->to[index]);
	return r < 0 ? refuse_value(parser->table, row, optarg ? optarg : "", -r) : -1;
}

/* ---- what follows the options ---------------------------------------------------------------------------
 */

static int arguments_take(const struct option_table *table, int argc, char **argv, char *options)
{
	int n = 0;

	if (table->n_commands && !argc)
		return options_refuse(table, "COMMAND is missing");
	if (table->n_commands)
		return options_refuse(table, "unknown command \"%.*s\"", SHOWN_MAX, argv[0]);
	for (size_t i = 0; i < table->n_arguments; i++) {
		const struct option_row *row = &table->arguments[i];
		void *to = options + row->at;

		if (n == argc && !row->optional)
			return options_refuse(table, "%s is missing", row->value);
		if (row->kind == OPTION_REST) {
			*(char ***)to = argv + n;
			return -1;
		}
		if (n < argc && take_value(row, argv[n], to) < 0)
			return refuse_value(table, row, argv[n], EINVAL);
		n += n < argc;
	}
	return n < argc ? options_refuse(table, "unexpected argument %.*s", SHOWN_MAX, argv[n]) : -1;
}

static int check_required(const struct parser *parser)
{
	for (size_t i = 0; i < parser->n; i++)
		if (parser->rows[i]->required && !parser->given[i])
			return options_refuse(parser->table, "--%s %s is missing", parser->rows[i]->name,
				parser->rows[i]->value);
	return -1;
}

static void apply_defaults(struct parser *parser)
{
	for (size_t i = 0; i < parser->n; i++)
		if (parser->rows[i]->standard &&
			take_value(parser->rows[i], parser->rows[i]->standard, parser->to[i]) < 0)
			abort(); /* a mistake in the table; tests/component/test_options.py parses with each
				  */
}

int options_parse(const struct option_table *table, int argc, char **argv, void *options)
{
	struct parser parser;
	int found, r = -1;

	parser_init(&parser, table, options);
	apply_defaults(&parser);
	opterr = 0;
#ifdef __APPLE__
	optreset = 1;
	optind = 1;
#else
	optind = 0; /* begin anew, also where a command line was read before (getopt(3)) */
#endif
	while (r < 0 && (found = getopt_long(argc, argv, parser.letters, parser.known, NULL)) != -1)
		r = option_take(&parser, found, argv);
	if (r < 0)
		r = check_required(&parser);
	return r < 0 ? arguments_take(table, argc - optind, argv + optind, options) : r;
}
