/* Kernels, in all the ways to start one. What it is called by: the function, and the shape it is started in.
 */
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/pacing.h"

struct shape {
	uint64_t words[COST_KEY_WORDS];
};

static struct shape shape_of(
	CUfunction function, const unsigned grid[3], const unsigned block[3], unsigned shared)
{
	return (struct shape){{(uintptr_t)function, grid[0] | (uint64_t)grid[1] << 32,
		grid[2] | (uint64_t)block[0] << 32, block[1] | (uint64_t)block[2] << 32, shared}};
}

static void begin(struct pace *pace, const struct shape *shape, CUstream stream)
{
	pacing_begin(pace, PACE_CORE, cost_key(shape->words, COST_KEY_WORDS), 1, stream);
}

static CUresult end(struct pace *pace, CUresult r)
{
	pacing_end(pace, r);
	return r;
}

static void begin_kernel(struct pace *pace, CUfunction function, unsigned grid_x, unsigned grid_y,
	unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
	CUstream stream)
{
	struct shape shape = shape_of(function, (unsigned[]){grid_x, grid_y, grid_z},
		(unsigned[]){block_x, block_y, block_z}, shared);

	begin(pace, &shape, stream);
}

HOOK CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
	unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params,
	void **extra)
{
	struct pace pace;

	if (!pacing_is_on())
		return DRIVER(cuLaunchKernel)(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
			shared, stream, params, extra);
	begin_kernel(&pace, function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream);
	return end(&pace, DRIVER(cuLaunchKernel)(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
				  shared, stream, params, extra));
}

HOOK CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
	unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params,
	void **extra)
{
	struct pace pace;

	if (!pacing_is_on())
		return DRIVER(cuLaunchKernel_ptsz)(function, grid_x, grid_y, grid_z, block_x, block_y,
			block_z, shared, stream, params, extra);
	begin_kernel(&pace, function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
		pacing_own_stream(stream));
	return end(&pace, DRIVER(cuLaunchKernel_ptsz)(function, grid_x, grid_y, grid_z, block_x, block_y,
				  block_z, shared, stream, params, extra));
}

HOOK CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
	unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
	CUstream stream, void **params)
{
	struct pace pace;

	if (!pacing_is_on())
		return DRIVER(cuLaunchCooperativeKernel)(
			function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, params);
	begin_kernel(&pace, function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream);
	return end(&pace, DRIVER(cuLaunchCooperativeKernel)(function, grid_x, grid_y, grid_z, block_x,
				  block_y, block_z, shared, stream, params));
}

HOOK CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y,
	unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
	CUstream stream, void **params)
{
	struct pace pace;

	if (!pacing_is_on())
		return DRIVER(cuLaunchCooperativeKernel_ptsz)(
			function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, params);
	begin_kernel(&pace, function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
		pacing_own_stream(stream));
	return end(&pace, DRIVER(cuLaunchCooperativeKernel_ptsz)(function, grid_x, grid_y, grid_z, block_x,
				  block_y, block_z, shared, stream, params));
}

static void begin_config(
	struct pace *pace, const CUlaunchConfig *config, CUfunction function, CUstream stream)
{
	struct shape shape = shape_of(function,
		(unsigned[]){config->gridDimX, config->gridDimY, config->gridDimZ},
		(unsigned[]){config->blockDimX, config->blockDimY, config->blockDimZ},
		config->sharedMemBytes);

	for (unsigned i = 0; config->attrs && i < config->numAttrs; i++) {
		const CUlaunchAttribute *attribute = &config->attrs[i];

		if (attribute->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			continue;
		shape.words[5] = attribute->value.clusterDim.x | (uint64_t)attribute->value.clusterDim.y
									 << 32;
		shape.words[6] = attribute->value.clusterDim.z;
	}
	begin(pace, &shape, stream);
}

HOOK CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	struct pace pace;

	if (!config || !pacing_is_on())
		return DRIVER(cuLaunchKernelEx)(config, function, params, extra);
	begin_config(&pace, config, function, config->hStream);
	return end(&pace, DRIVER(cuLaunchKernelEx)(config, function, params, extra));
}

HOOK CUresult cuLaunchKernelEx_ptsz(
	const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	struct pace pace;

	if (!config || !pacing_is_on())
		return DRIVER(cuLaunchKernelEx_ptsz)(config, function, params, extra);
	begin_config(&pace, config, function, pacing_own_stream(config->hStream));
	return end(&pace, DRIVER(cuLaunchKernelEx_ptsz)(config, function, params, extra));
}

/* As before CUDA 4: the function carries its block's shape with it. */
static void begin_grid(struct pace *pace, CUfunction function, int width, int height, CUstream stream)
{
	struct shape shape = shape_of(
		function, (unsigned[]){(unsigned)width, (unsigned)height, 0}, (unsigned[]){0, 0, 0}, 0);

	begin(pace, &shape, stream);
}

HOOK CUresult cuLaunch(CUfunction function)
{
	struct pace pace;

	if (!pacing_is_on())
		return DRIVER(cuLaunch)(function);
	begin_grid(&pace, function, 1, 1, NULL);
	return end(&pace, DRIVER(cuLaunch)(function));
}

HOOK CUresult cuLaunchGrid(CUfunction function, int width, int height)
{
	struct pace pace;

	if (!pacing_is_on())
		return DRIVER(cuLaunchGrid)(function, width, height);
	begin_grid(&pace, function, width, height, NULL);
	return end(&pace, DRIVER(cuLaunchGrid)(function, width, height));
}

HOOK CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
	struct pace pace;

	if (!pacing_is_on())
		return DRIVER(cuLaunchGridAsync)(function, width, height, stream);
	begin_grid(&pace, function, width, height, stream);
	return end(&pace, DRIVER(cuLaunchGridAsync)(function, width, height, stream));
}

/* A launch on each of several GPUs, in streams of their own contexts. They wait for each other, so all of
 * them are paid before the first. */
HOOK CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags)
{
	struct pace paces[CUDA_DEVICES_MAX];
	bool paced = list && count <= CUDA_DEVICES_MAX && pacing_is_on();
	CUresult r;

	for (unsigned i = 0; paced && i < count; i++)
		begin_kernel(&paces[i], list[i].function, list[i].gridDimX, list[i].gridDimY,
			list[i].gridDimZ, list[i].blockDimX, list[i].blockDimY, list[i].blockDimZ,
			list[i].sharedMemBytes, list[i].hStream);
	r = DRIVER(cuLaunchCooperativeKernelMultiDevice)(list, count, flags);
	for (unsigned i = 0; paced && i < count; i++)
		pacing_end(&paces[i], r);
	return r;
}

/* Grids that start others: no public document tells their arguments, so nothing could be charged or paced.
 * The driver's own answer where it cannot. */
static CUresult refuse_subgrid(void)
{
	return cuda_is_started() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_INITIALIZED;
}

HOOK CUresult cuSubgridCreate(void)
{
	return refuse_subgrid();
}

HOOK CUresult cuSubgridWorkerGridCreate(void)
{
	return refuse_subgrid();
}

HOOK CUresult cuSubgridWorksetCreate(void)
{
	return refuse_subgrid();
}
