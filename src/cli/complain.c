#include "cli/complain.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/inspect.h"

static void tell(const char *program, const char *kind, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);

	fprintf(stderr, "%s: %s%s\n", program, kind, copy ? printable(copy) : "out of memory");
}

void complain(const char *program, const char *text)
{
	tell(program, "", text);
}

void warn(const char *program, const char *text)
{
	tell(program, "warning: ", text);
}
