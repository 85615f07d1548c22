/* tabwriter.h - aligns columns as Go's text/tabwriter does with a padding of two blanks: the layout of the
 * tool that this output replaces. */
#pragma once

struct strbuf;

/* tabwriter_format() - text is lines of cells, each ended by a tab; the text after the last tab of a line
 * belongs to no column. A column is as wide as its widest cell among neighbouring lines that have that
 * column. Blanks at the end of lines are left out. Widths are in bytes: the text must be ASCII. Returns 0 or
 * a negative errno. */
int tabwriter_format(const char *text, struct strbuf *out);
