#include "cli/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/printable.h"

#define PROGRESS_NS NS_PER_S
#define LINE_SIZE 400

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
