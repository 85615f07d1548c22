#include "base/error.h"

#include <stdio.h>
#include <string.h>

int error_set(struct error *err, int errnum, const char *format, ...)
{
	va_list args;

	if (err) {
		va_start(args, format);
		vsnprintf(err->text, sizeof(err->text), format, args);
		va_end(args);
	}
	return -errnum;
}

void error_prefix(struct error *err, const char *format, ...)
{
	char before[sizeof(err->text)];
	char joined[2 * sizeof(err->text) + 3];
	va_list args;

	if (!err)
		return;
	va_start(args, format);
	vsnprintf(before, sizeof(before), format, args);
	va_end(args);
	snprintf(joined, sizeof(joined), "%s: %s", before, err->text);
	joined[sizeof(err->text) - 1] = '\0';
	memcpy(err->text, joined, sizeof(err->text));
}
