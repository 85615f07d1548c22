/* complain.h - what goes wrong, for a person: one line on standard error, nothing in it that commands the
 * terminal. */
#pragma once

/* complain() - "PROGRAM: TEXT". warn() - "PROGRAM: warning: TEXT". */
void complain(const char *program, const char *text);
void warn(const char *program, const char *text);
