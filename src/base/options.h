/* options.h - the command line of a program, as one table.
 *
 * A table has one row for each option and each argument. The parser, `--help`, the man page and the shells'
 * completions are made from the rows, so that an option is added in one place. A table is data only and calls
 * nothing: docs/options/dump.c compiles it for the machine that builds.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a value must be, and the type of the member that receives it. */
enum option_kind {
	OPTION_FLAG,	/* bool: the option has no value */
	OPTION_TEXT,	/* const char *: any text; with max, one printable line of min to max bytes */
	OPTION_NUMBER,	/* uint32_t: from min to max, in digits, with suffix or without */
	OPTION_CHOICE,	/* an enum or int: one of choices */
	OPTION_NAME,	/* const char *: the name of a Kubernetes object, with suffix as an optional prefix */
	OPTION_FOLDER,	/* const char *: an absolute path */
	OPTION_ADDRESS, /* struct option_address: an IPv4 address and a port; with max, also "none" */
	OPTION_WORDS,	/* struct option_words: may be repeated, up to max times */
	OPTION_FORWARD, /* struct option_words: "--name=value" or "--name", for another program */
	OPTION_REST,	/* char **: this argument and all that follow; ended by NULL */
};

struct option_address {
	char text[16]; /* IPv4; "": none */
	uint16_t port;
};

/* Begins as {0}. The words and the array are the owner's. */
struct option_words {
	char **words;
	size_t n;
};

void option_words_release(struct option_words *words);

struct option_choice {
	const char *name;
	int value;
};

/* What a shell offers for a value. */
enum option_source {
	COMPLETE_NOTHING,
	COMPLETE_FILES,
	COMPLETE_FOLDERS,
	COMPLETE_NODES,
	COMPLETE_PODS, /* of the namespace that --namespace names */
	COMPLETE_NAMESPACES,
	COMPLETE_CONTEXTS,
	COMPLETE_NODE_GPUS,  /* of the node that is the first argument */
	COMPLETE_LOCAL_GPUS, /* of this machine */
	COMPLETE_TREE_GPUS,  /* of the simulated driver whose folder is the first argument */
	COMPLETE_PROGRAM,    /* a program, and then what the shell offers for that program */
};

struct option_row {
	const char *name;  /* without "--"; NULL: an argument */
	char letter;	   /* '\0': none */
	const char *value; /* what help calls the value or the argument; NULL: a flag */
	enum option_kind kind;
	size_t at; /* of the member, in the options of the program */
	uint32_t min, max;
	const char *suffix;
	const struct option_choice *choices; /* ended by {0} */
	const char *standard;		     /* the default, which the parser applies; NULL: none */
	bool required;			     /* of an option; an argument is required unless it is optional */
	bool optional;
	enum option_source source;
	const char *suggestions; /* other words that a shell offers, separated by blanks */
	const char *help;	 /* sentences without a full stop at the end */
};

/* The kind and the place of a row: OPTION_TO(NUMBER, struct options, seconds). Another type of the member
 * does not compile. */
#define OPTION_TO(kind, type, member)                                                                        \
	OPTION_##kind, offsetof(type, member) +                                                              \
			       0 * sizeof(char[_Generic(&((type *)0)->member, OPTION_TYPE_##kind)])
#define OPTION_TYPE_FLAG bool * : 1
#define OPTION_TYPE_TEXT const char ** : 1
#define OPTION_TYPE_NUMBER uint32_t * : 1
#define OPTION_TYPE_CHOICE int * : 1, unsigned int * : 1
#define OPTION_TYPE_NAME const char ** : 1
#define OPTION_TYPE_FOLDER const char ** : 1
#define OPTION_TYPE_ADDRESS struct option_address * : 1
#define OPTION_TYPE_WORDS struct option_words * : 1
#define OPTION_TYPE_FORWARD struct option_words * : 1
#define OPTION_TYPE_REST char *** : 1

/* A variable that the program reads, for help and the man page. */
struct option_variable {
	const char *name, *help;
};

/* A command of a program, for help. The command has a table of its own. The program runs the command before
 * it would call options_parse(), which refuses every word that is not an option. */
struct option_command {
	const char *name, *help;
};

/* Options that several tables have, at the same distance from `at`. Help lists their names only. */
struct option_group {
	const char *title;
	const struct option_row *rows;
	size_t n_rows;
};

struct option_table {
	const char *program; /* as a person types it, with the command: "ration why" */
	const char *usage;   /* what follows the program on the first line of help */
	const char *summary;
	const struct option_row *rows, *arguments;
	size_t n_rows, n_arguments;
	const struct option_group *group;
	size_t group_at; /* where the group's members begin */
	const struct option_command *commands;
	size_t n_commands;
	const struct option_variable *variables;
	size_t n_variables;
	const char *notes;	/* paragraphs after all rows, separated by "\n\n" */
	int usage_status;	/* the exit status of a usage error; 0: EXIT_USAGE */
	const char *version;	/* what --version calls the program; NULL: there is no --version */
	bool options_end_early; /* everything after the first argument is an argument */
};

/* Members of a table, and of a group, from arrays. */
#define OPTION_ROWS(array) .rows = array, .n_rows = sizeof(array) / sizeof((array)[0])
#define OPTION_ARGUMENTS(array) .arguments = array, .n_arguments = sizeof(array) / sizeof((array)[0])
#define OPTION_COMMANDS(array) .commands = array, .n_commands = sizeof(array) / sizeof((array)[0])
#define OPTION_VARIABLES(array) .variables = array, .n_variables = sizeof(array) / sizeof((array)[0])

#define EXIT_USAGE 2

/* options_parse() - puts the defaults, and then what argv says, into `options`. A member that neither names
 * is left as it is; what is given twice counts the last time. The texts are argv's and the table's. Returns
 * -1 to go on, or the status to end with: --help or --version was printed, or a usage error was told on
 * standard error. Not thread-safe (getopt). */
int options_parse(const struct option_table *table, int argc, char **argv, void *options);

/* options_refuse() - a usage error that the table cannot express: one line with the problem, one with the
 * way to --help. Returns the status to end with. */
int options_refuse(const struct option_table *table, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* options_help() - the text of --help on standard output, at most 80 columns wide. */
void options_help(const struct option_table *table);
