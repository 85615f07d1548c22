#include "cli/printable.h"

#include <stdbool.h>

#include "base/strbuf.h"

static bool is_printable(char c)
{
	return c >= ' ' && c <= '~';
}

char *printable(char *text)
{
	for (char *p = text; *p; p++)
		if (!is_printable(*p))
			*p = '?';
	return text;
}

void printable_lines(struct strbuf *text)
{
	for (size_t i = 0; i < text->len; i++)
		if (text->data[i] != '\n' && !is_printable(text->data[i]))
			text->data[i] = '?';
}
