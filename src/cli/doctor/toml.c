/* Reads the part of TOML that programs write into configuration files. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/doctor/machine.h"

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t\r");
}

/* "[a.'b.c']" is the section a.b.c. */
static bool is_section(const char *line, const char *section)
{
	if (strncmp(line, "[[", 2) == 0)
		return false;
	for (line++; *line && *line != ']' && *line != '\n'; line++) {
		if (strchr("\"' \t", *line))
			continue;
		if (*line != *section)
			return false;
		section++;
	}
	return *line == ']' && !*section;
}

/* The beginning of the value if the line has this key, else NULL. */
static const char *value_of(const char *line, const char *key)
{
	size_t quote = *line == '"' || *line == '\'';
	const char *end = line + quote + strlen(key) + quote;

	if (strncmp(line + quote, key, strlen(key)) != 0 || (quote && end[-1] != *line))
		return NULL;
	end = skip_blanks(end);
	return *end == '=' ? skip_blanks(end + 1) : NULL;
}

static char *value_copy(const char *value)
{
	size_t len = *value == '[' ? strcspn(value, "]") + 1 : strcspn(value, "\n");
	char quote = 0, *copy = strndup(value, len);

	for (char *p = copy; p && *p; p++) {
		if (quote ? *p == quote : strchr("\"'", *p) != NULL)
			quote = quote ? 0 : *p;
		else if (!quote && *p == '#' && *value != '[')
			*p-- = '\0';
	}
	for (len = copy ? strlen(copy) : 0; len && isspace((unsigned char)copy[len - 1]); len--)
		copy[len - 1] = '\0';
	return copy;
}

char *toml_value(const char *text, const char *section, const char *key)
{
	bool inside = !*section;

	while (text && *text) {
		const char *line = skip_blanks(text), *value = inside ? value_of(line, key) : NULL;

		if (value)
			return value_copy(value);
		if (*line == '[')
			inside = is_section(line, section);
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return NULL;
}
