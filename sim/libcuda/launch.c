/* launch.c - all functions that start kernels. */
#include "sim/libcuda/module.h"
#include "sim/libcuda/task.h"

#define GRID_X_MAX 2147483647u
#define GRID_MAX 65535u
#define THREADS_MAX 1024u
#define SHARED_MAX 49152u

static CUresult check(const struct launch *l, const struct function *function)
{
	unsigned limit = function->max_dynamic_shared ? (unsigned)function->max_dynamic_shared : SHARED_MAX;

	for (int i = 0; i < 3; i++)
		if (l->grid[i] == 0 || l->block[i] == 0 || l->grid[i] > (i == 0 ? GRID_X_MAX : GRID_MAX))
			return CUDA_ERROR_INVALID_VALUE;
	if (l->block[2] > 64 || l->block[0] > THREADS_MAX || l->block[1] > THREADS_MAX ||
		l->block[0] * l->block[1] * l->block[2] > THREADS_MAX || l->shared_bytes > limit)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult launch_prepare(struct context *context, struct launch *l)
{
	struct function *function;
	CUresult r = function_find(context, l->function, &function);
	uint64_t blocks;

	if (r == CUDA_SUCCESS)
		r = check(l, function);
	if (r != CUDA_SUCCESS)
		return r;
	blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	/* All blocks of a cooperative launch must be on the GPU at the same time. */
	if (l->cooperative && blocks > (uint64_t)device_gpu(context->device)->sm_count *
					       function_blocks_per_sm(l->block[0] * l->block[1] * l->block[2],
						       l->shared_bytes))
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	l->duration_ns = (uint64_t)((function->image->us + function->image->us_per_block * (double)blocks) *
				    1000);
	l->fault = (CUresult)function->image->fault;
	return CUDA_SUCCESS;
}

static CUresult launch(struct launch l, CUstream handle, const char *name)
{
	_cleanup_call_ struct call call = {};
	struct task task = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	struct stream *stream;
	CUresult r = call_begin_context(&call, name);

	if (r == CUDA_SUCCESS)
		r = stream_find_own(call.context, handle, &stream);
	if (r == CUDA_SUCCESS)
		r = launch_prepare(call.context, &l);
	task.launch = l;
	return r == CUDA_SUCCESS ? task_start(stream, &task) : r;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
	unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
	void **params, void **extra)
{
	if (driver_does_nothing)
		return CUDA_SUCCESS;
	return launch((struct launch){.function = (uintptr_t)function,
			      .grid = {grid_x, grid_y, grid_z},
			      .block = {block_x, block_y, block_z},
			      .shared_bytes = shared_bytes},
		stream, __func__);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
	unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
	void **params)
{
	if (driver_does_nothing)
		return CUDA_SUCCESS;
	return launch((struct launch){.function = (uintptr_t)function,
			      .grid = {grid_x, grid_y, grid_z},
			      .block = {block_x, block_y, block_z},
			      .shared_bytes = shared_bytes,
			      .cooperative = true},
		stream, __func__);
}

static CUresult launch_config(const CUlaunchConfig *c, CUstream stream, CUfunction function)
{
	struct launch l = {.function = (uintptr_t)function,
		.grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
		.block = {c->blockDimX, c->blockDimY, c->blockDimZ},
		.shared_bytes = c->sharedMemBytes};

	for (unsigned i = 0; i < c->numAttrs; i++)
		if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
			l.cooperative = c->attrs[i].value.cooperative != 0;
	return launch(l, stream, "cuLaunchKernelEx");
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	if (driver_does_nothing)
		return CUDA_SUCCESS;
	if (!config || (config->numAttrs > 0 && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	return launch_config(config, config->hStream, function);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	if (driver_does_nothing)
		return CUDA_SUCCESS;
	if (!config || (config->numAttrs > 0 && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	return launch_config(config, config->hStream ? config->hStream : CU_STREAM_PER_THREAD, function);
}

/* Each GPU's part is a launch in its own context. It is not simulated that the parts start together. */
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);

	if (r == CUDA_SUCCESS && (!list || count == 0 || flags & ~3u))
		r = CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; r == CUDA_SUCCESS && i < count; i++) {
		const CUDA_LAUNCH_PARAMS *p = &list[i];
		struct task task = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
			.launch = {.function = (uintptr_t)p->function,
				.grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
				.block = {p->blockDimX, p->blockDimY, p->blockDimZ},
				.shared_bytes = p->sharedMemBytes,
				.cooperative = true}};
		struct stream *stream;

		/* Default streams are not allowed here. */
		r = object_find((uintptr_t)p->hStream, OBJECT_STREAM, &stream);
		if (r == CUDA_SUCCESS)
			r = launch_prepare(stream->object.context, &task.launch);
		if (r == CUDA_SUCCESS)
			r = task_start(stream, &task);
	}
	return r;
}

static CUresult launch_host(CUstream handle, const struct task *task, bool capturable, const char *name)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	CUresult r = call_begin_context(&call, name);

	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, handle, &stream);
	if (r == CUDA_SUCCESS && !task->host.function && !task->host.callback)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && !capturable && stream->capture_status != CU_STREAM_CAPTURE_STATUS_NONE)
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return r == CUDA_SUCCESS ? task_start(stream, task) : r;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
	struct task task = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.function = function, .data = data}};

	return launch_host(stream, &task, true, __func__);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data, unsigned flags)
{
	struct task task = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.callback = callback, .data = data}};

	return flags ? CUDA_ERROR_INVALID_VALUE : launch_host(stream, &task, false, __func__);
}
