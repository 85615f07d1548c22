/* progress.h - tells a person at a terminal what the command does if it takes longer than a second. */
#pragma once

#include <stdint.h>

struct progress {
	int64_t told_ns; /* when the last line was printed, or the command began; 0: print the first one at
			    once */
};

/* progress_begin() - from now on a second passes before the first line. */
void progress_begin(struct progress *progress);

/* progress_say() - prints what the command does next on standard error, if that is a terminal and nothing was
 * printed for a second. */
void progress_say(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
