#include "cli/printable.h"

#include <stdbool.h>
#include <string.h>

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

char *printable_copy(const char *text)
{
	char *copy = strdup(text);

	return copy ? printable(copy) : NULL;
}

void printable_lines(struct strbuf *text)
{
	for (size_t i = 0; i < text->len; i++)
		if (text->data[i] != '\n' && !is_printable(text->data[i]))
			text->data[i] = '?';
}
