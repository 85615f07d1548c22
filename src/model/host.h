/* host.h - CPU and memory of the machine with the GPUs. kube-scheduler compares them to decide whether a pod
 * fits; ration only orders the nodes by them. */
#pragma once

#include <stdint.h>

/* What a node can allocate, or a pod requests; 0: unknown, or nothing. The largest numbers are those of 32
 * bits: four million processors and 4 PiB. Larger amounts are read as these. */
struct host_amount {
	uint32_t cpu_milli;
	uint32_t memory_mib;
};

/* The sum over many pods or nodes. */
struct host_sum {
	uint64_t cpu_milli;
	uint64_t memory_mib;
};

/* What a GPU of the cluster has behind it. */
struct gpu_mean {
	struct host_sum host; /* of all nodes and GPUs, or of what both have left where that is less */
	/* How much less is left behind a GPU that is left, in thousandths of the former: that of CPU or of
	 * memory, whichever is scarcer. 0: not less. */
	uint32_t shortage;
};
