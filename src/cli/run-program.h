/* run-program.h - executes ration-run, which opens the driver's libraries; this static program cannot. */
#pragma once

struct error;
struct strbuf;

/* run_program_exec() - replaces this process by ration-run, from where it is installed or built; argv
 * includes argv[0] and the end. Returns only on failure, with a sentence. */
int run_program_exec(char *const *argv, struct error *err);

/* run_program_output() - appends the output of this command to out; its standard error is that of this
 * process. */
int run_program_output(const char *command, struct strbuf *out, struct error *err);
