/* commands.h - the subcommands of `ration`, one file each. Each returns the exit status of the program: 0, 1
 * for a failure, 2 for wrong arguments (base/options.h). Messages go to stderr with the program's name in
 * front. */
#pragma once

/* inspect_command() - argv[0] is not read. program: the name that messages begin with. */
struct option_table;
int inspect_command(int argc, char **argv, const struct option_table *table, const char *program);

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
int run_command(int argc, char **argv);
int ps_command(int argc, char **argv);

struct error;
struct set_options;

/* set_size() - for `ration advise --apply`, too: carries out `ration set`: sends the request, waits for the
 * scheduler's answer and prints it. A negative errno with a sentence if the container does not have the new
 * size. */
int set_size(const struct set_options *options, struct error *err);
