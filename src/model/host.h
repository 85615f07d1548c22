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

/* What the cluster has of CPU and memory for each of its GPUs. */
struct gpu_mean {
	/* What all nodes have, divided by all GPUs; or what is free, divided by the free GPUs, if that is
	 * less. */
	struct host_sum host;
	/* How much less is free for each free GPU than all nodes have for each GPU, in thousandths: of CPU or
	 * of memory, whichever lacks more. 0: not less. */
	uint32_t shortage;
};
