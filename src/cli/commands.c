#include "cli/commands.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "cli/kubectl.h"
#include "cli/printable.h"

#define PROGRESS_NS NS_PER_S
#define LINE_SIZE 400

int command_run(const struct option_table *table, int argc, char **argv, void *options,
	int (*check)(void *options), int (*run)(void *options, struct error *err))
{
	struct kubectl *kubectl = options;
	struct error err = {""};
	int r;

	kubectl_init(kubectl);
	r = options_parse(table, argc, argv, options);
	if (r < 0 && check)
		r = check(options);
	if (r < 0) {
		r = run(options, &err) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
		if (r != EXIT_SUCCESS)
			complain("ration", err.text);
	}
	kubectl_release(kubectl);
	return r;
}

int output_end(struct error *err)
{
	return fflush(stdout) == EOF || ferror(stdout) ? error_set(err, EIO, "the output cannot be written")
						       : 0;
}

/* ---- standard error ---- */

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

void progress_begin(struct progress *progress)
{
	progress->told_ns = monotonic_ns();
}

void progress_say(struct progress *progress, const char *format, ...)
{
	int64_t now = monotonic_ns();
	char line[LINE_SIZE];
	va_list args;

	if (now - progress->told_ns < PROGRESS_NS || !isatty(STDERR_FILENO))
		return;
	progress->told_ns = now;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "ration: %s ...\n", printable(line));
}
