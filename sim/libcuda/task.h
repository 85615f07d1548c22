/* task.h - a piece of work of a stream or of a graph's node; both use the same struct. */
#pragma once

#include "sim/libcuda/queue.h"

/* A box of bytes. The sides are host or device addresses; arrays are given as device addresses, too. */
struct copy {
	uint64_t to, from;
	size_t width, height, depth;
	size_t to_pitch, to_slice, from_pitch, from_slice;
	bool to_host, from_host;
};

struct fill {
	uint64_t to;
	size_t pitch, width, height; /* width in elements */
	uint32_t value;
	uint32_t element; /* bytes: 1, 2 or 4 */
};

struct launch {
	uint64_t function; /* handle of a function or a kernel */
	unsigned grid[3], block[3], shared_bytes;
	bool cooperative;
	uint64_t duration_ns;
	CUresult fault;
};

struct task {
	CUgraphNodeType type;
	union {
		struct launch launch;
		struct copy copy;
		struct fill fill;
		struct {
			void (*function)(void *data);
			void (*callback)(CUstream stream, CUresult result, void *data);
			void *data;
		} host;
		uint64_t event;	     /* handle of the event that is recorded or waited for */
		struct graph *child; /* owned */
		uint64_t address;    /* the address to free */
		struct {
			uint64_t address, size;
			struct device *device; /* NULL: host memory */
			CUmemLocation location;
		} alloc;
	};
};

/* task_start() - starts the task in a stream. A capturing stream gets a node instead. */
CUresult task_start(struct stream *stream, const struct task *task);
/* task_run() - runs the task in a stream that does not capture. */
CUresult task_run(struct stream *stream, const struct task *task);

/* copy_check() - CUDA_ERROR_INVALID_VALUE if a device side is not known memory. */
CUresult copy_check(const struct copy *copy);
CUresult fill_check(const struct fill *fill);

/* launch_prepare() - checks function and shape, and sets the duration. */
CUresult launch_prepare(struct context *context, struct launch *launch);
