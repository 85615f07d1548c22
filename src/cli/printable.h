/* printable.h - names and texts of other people must not control the terminal: each byte that is not
 * printable ASCII becomes '?', in place. */
#pragma once

struct strbuf;

/* printable() - returns text. printable_copy() - of a copy, which the caller frees; NULL when out of memory.
 * printable_lines() - keeps newlines. */
char *printable(char *text);
char *printable_copy(const char *text);
void printable_lines(struct strbuf *text);
