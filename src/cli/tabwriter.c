#include "cli/tabwriter.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

#define PADDING 2

struct cell {
	const char *text;
	size_t len;
	size_t width; /* including padding */
};

struct line {
	struct cell *cells; /* the cells that end with a tab, then the rest of the line */
	size_t n_cells;	    /* without the rest */
};

struct lines {
	struct line *lines;
	size_t n;
	struct cell *cells;
};

static void lines_release(struct lines *lines)
{
	free(lines->lines);
	free(lines->cells);
}

static size_t count(const char *text, char c)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == c;
	return n;
}

/* Text without a newline at its end has one line more than newlines. */
static int lines_split(const char *text, struct lines *ret_lines)
{
	size_t n_lines = count(text, '\n') + 1, n_cells = count(text, '\t') + n_lines;
	struct cell *cell;

	ret_lines->lines = calloc(n_lines, sizeof(struct line));
	ret_lines->cells = calloc(n_cells, sizeof(struct cell));
	if (!ret_lines->lines || !ret_lines->cells)
		return -ENOMEM;
	cell = ret_lines->cells;
	while (*text) {
		struct line *line = &ret_lines->lines[ret_lines->n++];

		line->cells = cell;
		for (;; line->n_cells++, text++) {
			*cell = (struct cell){.text = text, .len = strcspn(text, "\t\n")};
			text += cell++->len;
			if (*text != '\t')
				break;
		}
		text += *text == '\n';
	}
	return 0;
}

/* Sets the width of one column in one run of lines; returns the line after the run. */
static size_t column_fit(struct lines *lines, size_t first, size_t column)
{
	size_t end = first, width = 0;

	for (; end < lines->n && lines->lines[end].n_cells > column; end++)
		if (lines->lines[end].cells[column].len > width)
			width = lines->lines[end].cells[column].len;
	for (size_t i = first; i < end; i++)
		lines->lines[i].cells[column].width = width + PADDING;
	return end;
}

static void lines_fit(struct lines *lines)
{
	size_t columns = 0;

	for (size_t i = 0; i < lines->n; i++)
		if (lines->lines[i].n_cells > columns)
			columns = lines->lines[i].n_cells;
	for (size_t column = 0; column < columns; column++)
		for (size_t i = 0; i < lines->n;)
			i = lines->lines[i].n_cells > column ? column_fit(lines, i, column) : i + 1;
}

static void line_print(const struct line *line, struct strbuf *out)
{
	size_t blanks = 0;

	for (size_t i = 0; i <= line->n_cells; i++) {
		const struct cell *cell = &line->cells[i];
		size_t len = cell->len;

		while (len && cell->text[len - 1] == ' ')
			len--;
		if (len) {
			strbuf_addf(out, "%*s", (int)blanks, "");
			strbuf_add(out, cell->text, len);
			blanks = 0;
		}
		blanks += (i < line->n_cells ? cell->width : cell->len) - len;
	}
	strbuf_add(out, "\n", 1);
}

int tabwriter_format(const char *text, struct strbuf *out)
{
	_cleanup_(lines_release) struct lines lines = {0};
	int r = lines_split(text, &lines);

	if (r < 0)
		return r;
	lines_fit(&lines);
	for (size_t i = 0; i < lines.n; i++)
		line_print(&lines.lines[i], out);
	return out->failed;
}
