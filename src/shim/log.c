/* log.c - writes a line of the shim to the place that RATION_LOG names. */
#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_LEN 512

static int log_open(const char *where)
{
	if (strcmp(where, "1") == 0 || strcmp(where, "stderr") == 0)
		return STDERR_FILENO;
	return open(where, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
}

void shim_log(const char *format, ...)
{
	const char *where = secure_getenv("RATION_LOG");
	int saved = errno, len, fd;
	char line[LINE_MAX_LEN];
	va_list args;

	if (!where || !*where)
		return;
	len = snprintf(line, sizeof(line), "ration[%d]: %s: ", (int)getpid(), shim_library.name);
	va_start(args, format);
	len += vsnprintf(line + len, sizeof(line) - (size_t)len, format, args);
	va_end(args);
	if (len > LINE_MAX_LEN - 2)
		len = LINE_MAX_LEN - 2;
	line[len++] = '\n';
	fd = log_open(where);
	/* One write, so that lines of several processes do not mix. If it fails, the error cannot be reported
	 * anywhere. */
	if (fd >= 0 && write(fd, line, (size_t)len) < 0)
		errno = 0;
	if (fd > STDERR_FILENO)
		close(fd);
	errno = saved;
}
