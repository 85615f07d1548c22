/* printable.h - names and texts of other people must not control the terminal: each byte that is not
 * printable ASCII becomes '?', in place. */
#pragma once

struct strbuf;

/* printable() - returns text. printable_lines() - keeps newlines. */
char *printable(char *text);
void printable_lines(struct strbuf *text);
