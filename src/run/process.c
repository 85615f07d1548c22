#include "run/process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"

#define STAT_MAX 4096

int process_start_ticks(pid_t pid, uint64_t *ret_ticks)
{
	_cleanup_free_ char *stat = NULL;
	uint64_t ticks;
	char path[64], state;
	int threads;
	const char *rest;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fs_read(path, STAT_MAX, &stat, &len) < 0)
		return -ESRCH;
	/* The name, in parentheses, may contain any character. */
	rest = strrchr(stat, ')');
	if (!rest ||
		sscanf(rest + 1,
			" %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %" SCNu64,
			&state, &threads, &ticks) != 3)
		return -ESRCH;
	/* A process whose first thread has ended continues in the others. */
	if (state == 'X' || (state == 'Z' && threads <= 1))
		return -ESRCH;
	*ret_ticks = ticks;
	return 0;
}

bool process_is_alive(pid_t pid, uint64_t start_ticks)
{
	uint64_t ticks;

	return process_start_ticks(pid, &ticks) == 0 && (start_ticks == 0 || ticks == start_ticks);
}
