/* options-help.c - prints a table as the text of --help. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"

#define WIDTH 80
#define HELP_COLUMN 28
#define HEADING_MAX 256

/* Prints words from this column on, and ends the line; further lines begin at `indent`. */
static void print_words(const char *text, size_t column, size_t indent)
{
	bool first = true;

	while (*text) {
		size_t len = strcspn(text, " ");

		if (!first && column + 1 + len > WIDTH) {
			printf("\n%*s", (int)indent, "");
			column = indent;
			first = true;
		}
		printf("%s%.*s", first ? "" : " ", (int)len, text);
		column += len + !first;
		first = false;
		text += len;
		text += strspn(text, " ");
	}
	putchar('\n');
}

/* Paragraphs are separated by an empty line in the text, and end with one. */
static void print_paragraphs(const char *text)
{
	while (*text) {
		const char *end = strstr(text, "\n\n");
		size_t len = end ? (size_t)(end - text) : strlen(text);
		char paragraph[2048];

		snprintf(paragraph, sizeof(paragraph), "%.*s", (int)len, text);
		putchar('\n');
		print_words(paragraph, 0, 0);
		text += len + (end ? 2 : 0);
	}
}

static void print_entry(const char *heading, const char *help)
{
	printf("%s", heading);
	if (strlen(heading) + 2 > HELP_COLUMN)
		printf("\n%*s", HELP_COLUMN, "");
	else
		printf("%*s", (int)(HELP_COLUMN - strlen(heading)), "");
	print_words(help, HELP_COLUMN, HELP_COLUMN);
}

static void print_row(const struct option_row *row)
{
	char heading[HEADING_MAX], help[2048];

	if (!row->name)
		snprintf(heading, sizeof(heading), "  %s", row->value);
	else if (row->letter)
		snprintf(heading, sizeof(heading), "  -%c, --%s%s%s", row->letter, row->name,
			row->value ? " " : "", row->value ? row->value : "");
	else
		snprintf(heading, sizeof(heading), "      --%s%s%s", row->name, row->value ? " " : "",
			row->value ? row->value : "");
	snprintf(help, sizeof(help), "%s%s%s%s", row->help, row->standard ? " (default: " : "",
		row->standard ? row->standard : "", row->standard ? ")" : "");
	print_entry(heading, help);
}

static void print_group(const struct option_group *group)
{
	char names[2048];
	size_t len = (size_t)snprintf(names, sizeof(names), "%s:", group->title);

	for (size_t i = 0; i < group->n_rows && len < sizeof(names); i++) {
		const struct option_row *row = &group->rows[i];
		const char letter[] = {'-', row->letter, ',', ' ', '\0'};

		len += (size_t)snprintf(names + len, sizeof(names) - len, " %s--%s%s",
			row->letter ? letter : "", row->name, i + 1 < group->n_rows ? "," : "");
	}
	putchar('\n');
	print_words(names, 0, 2);
}

static void print_commands(const struct option_table *table)
{
	if (table->n_commands)
		puts("\nCommands:");
	for (size_t i = 0; i < table->n_commands; i++) {
		printf("  %-10s", table->commands[i].name);
		print_words(table->commands[i].help, 12, 12);
	}
}

static void print_variables(const struct option_table *table)
{
	if (table->n_variables)
		puts("\nEnvironment:");
	for (size_t i = 0; i < table->n_variables; i++) {
		char heading[HEADING_MAX];

		snprintf(heading, sizeof(heading), "  %s", table->variables[i].name);
		print_entry(heading, table->variables[i].help);
	}
}

void options_help(const struct option_table *table)
{
	static const struct option_row help = {"help", 'h', .help = "print this text and exit"},
				       version = {"version", .help = "print the version and exit"};
	char usage[1024];

	snprintf(usage, sizeof(usage), "Usage: %s %s", table->program, table->usage);
	print_words(usage, 0, 7);
	print_paragraphs(table->summary);
	print_commands(table);
	putchar('\n');
	for (size_t i = 0; i < table->n_arguments; i++)
		print_row(&table->arguments[i]);
	for (size_t i = 0; i < table->n_rows; i++)
		print_row(&table->rows[i]);
	print_row(&help);
	if (table->version)
		print_row(&version);
	if (table->group)
		print_group(table->group);
	print_variables(table);
	if (table->notes)
		print_paragraphs(table->notes);
}
