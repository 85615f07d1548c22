/* commands.h - the subcommands of `ration`, one file each, and what they share: how they run, and what they
 * say on standard error. */
#pragma once

#include <stdint.h>

struct error;
struct option_table;
struct set_options;

/* Each subcommand returns the exit status of the program: 0, 1 for a failure, 2 for wrong arguments
 * (base/options.h). */
int why_command(int argc, char **argv);
int cordon_command(int argc, char **argv); /* argv[0]: cordon or uncordon */
int set_command(int argc, char **argv);
int plan_command(int argc, char **argv);
int advise_command(int argc, char **argv);
int ui_command(int argc, char **argv);
int history_command(int argc, char **argv);
int replay_command(int argc, char **argv);
int top_command(int argc, char **argv);
int doctor_command(int argc, char **argv); /* has its own statuses: see ration-doctor(1) */
int run_command(int argc, char **argv);	   /* argv[0]: run or ps */

/* inspect_command() - argv[0] is not read. program: the name that messages begin with. */
int inspect_command(int argc, char **argv, const struct option_table *table, const char *program);

/* set_size() - for `ration advise --apply`, too: carries out `ration set`: sends the request, waits for the
 * scheduler's answer and prints it. A negative errno with a sentence if the container does not have the new
 * size. */
int set_size(const struct set_options *options, struct error *err);

/* command_run() - a subcommand that asks the cluster. options: a struct whose first member is a
 * struct kubectl, as in options.h; command_run() fills it and passes it to check() and run(). check() refuses
 * combinations of options: it returns the exit status, or -1 if it has nothing against them; NULL: every
 * combination is valid. run() does the work; if it returns a negative errno, command_run() prints its
 * sentence. Returns the exit status. */
int command_run(const struct option_table *table, int argc, char **argv, void *options,
	int (*check)(void *options), int (*run)(void *options, struct error *err));

/* output_end() - call it after the last output. -EIO with a sentence: the output could not be written. */
int output_end(struct error *err);

/* complain() - "PROGRAM: TEXT". warn() - "PROGRAM: warning: TEXT". One line, without control sequences of
 * terminals. */
void complain(const char *program, const char *text);
void warn(const char *program, const char *text);

/* Tells a person at a terminal what the command does if it takes longer than a second. */
struct progress {
	int64_t told_ns; /* when the last line was printed, or the command began; 0: print the first one at
			    once */
};

/* progress_begin() - from now on a second passes before the first line. progress_say() - prints what the
 * command does next, if standard error is a terminal and no line was printed for a second. */
void progress_begin(struct progress *progress);
void progress_say(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
