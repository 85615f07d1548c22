/* proc-table.h - which symbol answers which name. The table is generated from src/cuda/libcuda.syms and
 * sorted by lookup. */
#pragma once

#include <stddef.h>

struct proc {
	const char *lookup;
	int version; /* the CUDA version that introduced it: 11020 is 11.2 */
	int per_thread;
	void *function;
};

extern const struct proc proc_table[];
extern const size_t proc_count;

/* not_simulated() - a CUresult. */
int not_simulated(void);
