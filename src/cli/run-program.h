/* run-program.h - ration-run, which opens the driver's libraries, as this static program cannot. */
#pragma once

struct error;
struct strbuf;

/* run_program_exec() - become it, argv[0] and the end included, from where it is installed or built. Returns
 * only on failure, with a sentence. */
int run_program_exec(char *const *argv, struct error *err);

/* run_program_output() - what it writes for this command, appended to out; what it complains about goes to
 * our standard error. */
int run_program_output(const char *command, struct strbuf *out, struct error *err);
