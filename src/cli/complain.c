#include "cli/complain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/printable.h"

static void tell(const char *program, const char *kind, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);

	/* Messages of other programs end with a newline. */
	for (size_t n = copy ? strlen(copy) : 0; n && copy[n - 1] == '\n'; n--)
		copy[n - 1] = '\0';
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

int complain_end(int r, const struct error *err)
{
	if (r >= 0)
		return EXIT_SUCCESS;
	complain("ration", err->text);
	return EXIT_FAILURE;
}
