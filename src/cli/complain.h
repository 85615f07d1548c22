/* complain.h - error messages for users: one line on standard error, without control sequences of terminals.
 */
#pragma once

struct error;

/* complain() - "PROGRAM: TEXT". warn() - "PROGRAM: warning: TEXT". */
void complain(const char *program, const char *text);
void warn(const char *program, const char *text);

/* complain_end() - ends a subcommand of ration that returned r: prints why it failed, if it did, and returns
 * the exit status. */
int complain_end(int r, const struct error *err);
