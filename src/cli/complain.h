/* complain.h - what goes wrong, for a person: one line on standard error, nothing in it that commands the
 * terminal. */
#pragma once

struct error;

/* complain() - "PROGRAM: TEXT". warn() - "PROGRAM: warning: TEXT". */
void complain(const char *program, const char *text);
void warn(const char *program, const char *text);

/* complain_end() - how a subcommand of ration ends that returned r: says why it failed if it did, and returns
 * the exit status. */
int complain_end(int r, const struct error *err);
