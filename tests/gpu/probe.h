/* probe.h - what `gpu-probe` can be asked to do, by file. Each action prints lines of JSON and ends the
 * program at the first error. After cuda_open().
 */
#pragma once

#include <stdint.h>

#define MIB (UINT64_C(1) << 20)

struct probe_args {
	uint64_t number[4];
	const char *word; /* the optional last one; NULL: none was given */
};

/* probe_wait() - until a line comes on standard input; false: standard input ended. */
int probe_wait(void);

/* work.c */
void probe_calibrate(const struct probe_args *args);
void probe_work(const struct probe_args *args);
void probe_gaps(const struct probe_args *args);

/* storm.c */
void probe_storm(const struct probe_args *args);
