/* host.h - CPU and memory of the machine that GPUs are in. kube-scheduler decides whether a pod fits by them;
 * here they only order the nodes. */
#pragma once

#include <stdint.h>

/* What a node can allocate, or a pod requests; 0: not known, or nothing. The largest numbers are those of 32
 * bits, four million processors and 4 PiB; what is more reads as that. */
struct host_amount {
	uint32_t cpu_milli;
	uint32_t memory_mib;
};

/* Of many pods or nodes. */
struct host_sum {
	uint64_t cpu_milli;
	uint64_t memory_mib;
};
