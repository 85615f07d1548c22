/* pool-async.c - cuMemAllocAsync and cuMemFreeAsync: the address is returned at once, and memory is freed in
 * the stream's order. */
#include "sim/libcuda/capture.h"
#include "sim/libcuda/idle.h"
#include "sim/libcuda/pool.h"
#include "sim/libcuda/task.h"

/* In a capturing stream: adds a node, whose memory belongs to the graph. */
static CUresult capture_allocation(
	struct stream *stream, struct device *device, size_t size, CUdeviceptr *ret)
{
	struct task task = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		.alloc = {.size = size,
			.device = device,
			.location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)(device - driver.devices)}}};
	CUresult r = graph_memory_new(device, size, &task.alloc.address);

	if (r != CUDA_SUCCESS)
		return r;
	r = capture_add(stream, &task);
	if (r == CUDA_SUCCESS)
		*ret = task.alloc.address;
	else
		graph_memory_drop(task.alloc.address);
	return r;
}

static CUresult allocate(CUdeviceptr *ret, size_t size, struct pool *pool, struct stream *stream)
{
	struct region *region;
	CUresult r;

	if (!ret || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture_status != CU_STREAM_CAPTURE_STATUS_NONE)
		return capture_allocation(stream, pool->device, size, ret);
	r = pool_take(pool, size, &region);
	if (r == CUDA_SUCCESS)
		*ret = region->span.base;
	return r;
}

CUresult cuMemAllocAsync(CUdeviceptr *ret_address, size_t size, CUstream handle)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	struct pool *pool;
	CUresult r;

	if (driver_does_nothing)
		return idle_allocation(ret_address, size);
	r = call_begin_context(&call, __func__);
	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, handle, &stream);
	if (r == CUDA_SUCCESS)
		r = pool_current(stream->object.context->device, &pool);
	return r == CUDA_SUCCESS ? allocate(ret_address, size, pool, stream) : r;
}

CUresult cuMemAllocFromPoolAsync(
	CUdeviceptr *ret_address, size_t size, CUmemoryPool pool_number, CUstream handle)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	struct pool *pool;
	CUresult r;

	if (driver_does_nothing)
		return idle_allocation(ret_address, size);
	r = call_begin_context(&call, __func__);
	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, handle, &stream);
	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)pool_number, OBJECT_POOL, &pool);
	return r == CUDA_SUCCESS ? allocate(ret_address, size, pool, stream) : r;
}

static void run_free(struct op *op)
{
	struct region *region = region_at(op->arguments[0]);

	if (region && region->id == op->arguments[1])
		pool_give(region);
}

static CUresult free_graph_memory(struct stream *stream, struct region *region)
{
	struct task task = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .address = region->span.base};

	if (stream->capture_status != CU_STREAM_CAPTURE_STATUS_NONE)
		return capture_add(stream, &task);
	return graph_memory_run_free(stream, region->span.base);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	struct region *region;
	CUresult r;

	if (driver_does_nothing)
		return idle_free(address);
	r = call_begin_context(&call, __func__);
	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, handle, &stream);
	if (r != CUDA_SUCCESS || address == 0)
		return r;
	region = region_at(address);
	if (region && region->kind == REGION_GRAPH && region->span.base == address)
		return free_graph_memory(stream, region);
	r = region_expect(address, REGION_POOL, &region);
	if (r != CUDA_SUCCESS)
		return r;
	if (stream->capture_status != CU_STREAM_CAPTURE_STATUS_NONE)
		return CUDA_ERROR_INVALID_VALUE;
	if (region->freed)
		return misuse(SIM_DOUBLE_FREE, CUDA_ERROR_INVALID_VALUE);
	region->freed = true;
	return queue_add(stream,
		&(struct op){
			.kind = OP_WORK, .action = run_free, .arguments = {region->span.base, region->id}});
}
