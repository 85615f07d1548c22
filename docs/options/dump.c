/* dump.c - prints the tables of options of all programs as JSON, for generate.py. It is compiled for the
 * machine that builds, with the tables alone, so that a build for another machine has man pages and
 * completions too. */
#include <stdio.h>

#include "agent/options.h"
#include "base/cleanup.h"
#include "cli/options.h"
#include "run/options.h"
#include "scheduler/options.h"
#include "sim/ration-sim/options.h"

static const struct option_table *const tables[] = {
	&ration_option_table,
	&run_option_table,
	&ps_option_table,
	&top_option_table,
	&why_option_table,
	&plan_option_table,
	&advise_option_table,
	&set_option_table,
	&cordon_option_table,
	&uncordon_option_table,
	&inspect_option_table,
	&ui_option_table,
	&doctor_option_table,
	&history_option_table,
	&replay_option_table,
	&cgpu_option_table,
	&scheduler_option_table,
	&agent_option_table,
	&sim_option_table,
	&sim_up_option_table,
	&sim_status_option_table,
	&sim_fault_option_table,
	&sim_set_option_table,
	&sim_usage_option_table,
	&sim_hold_option_table,
	&sim_down_option_table,
};

static const char *const sources[] = {
	[COMPLETE_NOTHING] = "nothing",
	[COMPLETE_FILES] = "files",
	[COMPLETE_FOLDERS] = "folders",
	[COMPLETE_NODES] = "nodes",
	[COMPLETE_PODS] = "pods",
	[COMPLETE_NAMESPACES] = "namespaces",
	[COMPLETE_CONTEXTS] = "contexts",
	[COMPLETE_NODE_GPUS] = "node-gpus",
	[COMPLETE_LOCAL_GPUS] = "local-gpus",
	[COMPLETE_TREE_GPUS] = "tree-gpus",
	[COMPLETE_PROGRAM] = "program",
};

static void print_text(const char *text)
{
	if (!text) {
		fputs("null", stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		if (*text == '\n')
			fputs("\\n", stdout);
		else
			putchar(*text);
	}
	putchar('"');
}

static void print_member(const char *name, const char *text)
{
	printf("\"%s\": ", name);
	print_text(text);
	fputs(", ", stdout);
}

static void print_row(const struct option_row *row)
{
	const char letter[] = {row->letter, '\0'};

	putchar('{');
	print_member("name", row->name);
	print_member("letter", row->letter ? letter : NULL);
	print_member("value", row->value);
	print_member("default", row->standard);
	print_member("source", sources[row->source]);
	print_member("suggestions", row->suggestions);
	print_member("help", row->help);
	printf("\"repeated\": %s, \"choices\": [",
		row->kind == OPTION_WORDS || row->kind == OPTION_REST ? "true" : "false");
	for (const struct option_choice *choice = row->choices; choice && choice->name; choice++) {
		fputs(choice == row->choices ? "" : ", ", stdout);
		print_text(choice->name);
	}
	fputs("]}", stdout);
}

static void print_rows(const char *name, const struct option_row *rows, size_t n)
{
	printf(",\n \"%s\": [", name);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? ",\n  " : "\n  ", stdout);
		print_row(&rows[i]);
	}
	putchar(']');
}

static void print_table(const struct option_table *table)
{
	const struct option_group *group = table->group;

	printf("{");
	print_member("program", table->program);
	print_member("version", table->version);
	print_member("group", group ? group->title : NULL);
	printf("\"optionsEndEarly\": %s", table->options_end_early ? "true" : "false");
	print_rows("options", table->rows, table->n_rows);
	print_rows("passedOn", group ? group->rows : NULL, group ? group->n_rows : 0);
	print_rows("arguments", table->arguments, table->n_arguments);
	fputs(",\n \"commands\": [", stdout);
	for (size_t i = 0; i < table->n_commands; i++) {
		fputs(i ? ", {" : "{", stdout);
		print_member("help", table->commands[i].help);
		fputs("\"name\": ", stdout);
		print_text(table->commands[i].name);
		putchar('}');
	}
	fputs("],\n \"variables\": [", stdout);
	for (size_t i = 0; i < table->n_variables; i++) {
		fputs(i ? ", {" : "{", stdout);
		print_member("help", table->variables[i].help);
		fputs("\"name\": ", stdout);
		print_text(table->variables[i].name);
		putchar('}');
	}
	fputs("]}", stdout);
}

int main(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		fputs(i ? ",\n" : "[", stdout);
		print_table(tables[i]);
	}
	puts("]");
	return fflush(stdout) == 0 ? 0 : 1;
}
