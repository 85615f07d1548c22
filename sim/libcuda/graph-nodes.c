/* graph-nodes.c - cuGraphAdd*Node: converts parameters into tasks. */
#include "sim/libcuda/array.h"
#include "sim/libcuda/event.h"
#include "sim/libcuda/graph.h"
#include "sim/libcuda/module.h"
#include "sim/libcuda/pool.h"
#include "sim/libcuda/started.h"

/* A kernel uses its module's context. A library's kernel uses the context that the caller names, or the
 * current one. */
CUresult task_of_kernel(const CUDA_KERNEL_NODE_PARAMS *p, struct task *ret_task)
{
	struct task task = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	struct context *context = NULL;
	struct function *function;
	CUresult r = CUDA_SUCCESS;

	task.launch = (struct launch){.function = p->func ? (uintptr_t)p->func : (uintptr_t)p->kern,
		.grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
		.block = {p->blockDimX, p->blockDimY, p->blockDimZ},
		.shared_bytes = p->sharedMemBytes};
	if (p->func && !object_find_quietly((uintptr_t)p->func, OBJECT_KERNEL)) {
		r = function_find(NULL, (uintptr_t)p->func, &function);
		if (r == CUDA_SUCCESS)
			context = function->module->object.context;
	} else {
		r = context_find(p->func ? NULL : p->ctx, &context);
	}
	if (r == CUDA_SUCCESS)
		r = launch_prepare(context, &task.launch);
	if (r == CUDA_SUCCESS)
		*ret_task = task;
	return r;
}

static CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	return (CUDA_KERNEL_NODE_PARAMS){p->func, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX,
		p->blockDimY, p->blockDimZ, p->sharedMemBytes, p->kernelParams, p->extra, NULL, NULL};
}

CUresult task_of_kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p, struct task *ret_task)
{
	CUDA_KERNEL_NODE_PARAMS wide = widened(p);

	return task_of_kernel(&wide, ret_task);
}

CUresult task_of_memset(const CUDA_MEMSET_NODE_PARAMS *p, struct task *ret_task)
{
	if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || p->height == 0)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_task = (struct task){.type = CU_GRAPH_NODE_TYPE_MEMSET,
		.fill = {p->dst, p->pitch, p->width, p->height, p->value, p->elementSize}};
	return fill_check(&ret_task->fill);
}

CUresult task_of_memcpy(const CUDA_MEMCPY3D *p, struct task *ret_task)
{
	*ret_task = (struct task){.type = CU_GRAPH_NODE_TYPE_MEMCPY};
	CUresult r = copy_of_descriptor(p, &ret_task->copy);

	return r == CUDA_SUCCESS ? copy_check(&ret_task->copy) : r;
}

static CUresult task_of_event(CUgraphNodeType type, CUevent handle, struct task *ret_task)
{
	struct event *event;

	*ret_task = (struct task){.type = type, .event = (uintptr_t)handle};
	return object_find((uintptr_t)handle, OBJECT_EVENT, &event);
}

static bool allocates(const struct graph *graph)
{
	for (size_t i = 0; i < graph->node_count; i++) {
		const struct task *task = &graph->nodes[i]->task;

		if (task->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
			(task->type == CU_GRAPH_NODE_TYPE_GRAPH && allocates(task->child)))
			return true;
	}
	return false;
}

static CUresult task_of_child(CUgraph handle, struct task *ret_task)
{
	struct graph *graph;
	CUresult r = graph_find(handle, &graph);

	*ret_task = (struct task){.type = CU_GRAPH_NODE_TYPE_GRAPH};
	if (r == CUDA_SUCCESS && allocates(graph))
		r = CUDA_ERROR_NOT_SUPPORTED;
	if (r == CUDA_SUCCESS)
		r = graph_clone(graph, &ret_task->child);
	if (r == CUDA_SUCCESS && graph_sort(ret_task->child) < 0) {
		graph_free(ret_task->child);
		r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS)
		ret_task->child->owned = true;
	return r;
}

/* cuda.h of CUDA 13.5.37, CUmemLocationType: the ids of HOST and HOST_NUMA_CURRENT are ignored. It was not
 * tried on a GPU whether a driver accepts host memory for a node; the header excludes no location. NULL: host
 * memory. */
static CUresult device_of_location(const CUmemLocation *location, struct device **ret_device)
{
	bool host = location->type == CU_MEM_LOCATION_TYPE_HOST ||
		    location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ||
		    (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && location->id == 0);

	*ret_device = host ? NULL : driver_location(*location);
	if (host)
		return driver_version() >= 13000 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	return *ret_device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult task_of_alloc(CUDA_MEM_ALLOC_NODE_PARAMS *p, struct task *ret_task)
{
	struct device *device;
	CUresult r = device_of_location(&p->poolProps.location, &device);

	if (r == CUDA_SUCCESS &&
		(p->bytesize == 0 || p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	*ret_task = (struct task){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		.alloc = {.size = p->bytesize, .device = device, .location = p->poolProps.location}};
	r = graph_memory_new(device, p->bytesize, &ret_task->alloc.address);
	if (r == CUDA_SUCCESS)
		p->dptr = ret_task->alloc.address;
	return r;
}

static CUresult task_of_free(CUdeviceptr address, struct task *ret_task)
{
	const struct region *region = region_at(address);

	*ret_task = (struct task){.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .address = address};
	return region && region->kind == REGION_GRAPH && region->span.base == address
		       ? CUDA_SUCCESS
		       : misuse(SIM_BAD_POINTER, CUDA_ERROR_INVALID_VALUE);
}

/* Adds the node if `r` is success, and otherwise frees what the task owns. */
static CUresult add(CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies, size_t count,
	const struct task *task, CUresult r)
{
	if (r != CUDA_SUCCESS)
		return r;
	r = graph_add_api(ret_handle, graph, dependencies, count, task);
	if (r != CUDA_SUCCESS && task->type == CU_GRAPH_NODE_TYPE_GRAPH)
		graph_free(task->child);
	if (r != CUDA_SUCCESS && task->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		graph_memory_drop(task->alloc.address);
	return r;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS)
		r = params ? task_of_kernel(params, &task) : CUDA_ERROR_INVALID_VALUE;
	return add(ret_handle, graph, dependencies, count, &task, r);
}

CUresult cuGraphAddKernelNode(CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS wide;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	wide = widened(params);
	return cuGraphAddKernelNode_v2(ret_handle, graph, dependencies, count, &wide);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, const CUDA_MEMCPY3D *params, CUcontext context)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS)
		r = params ? task_of_memcpy(params, &task) : CUDA_ERROR_INVALID_VALUE;
	return add(ret_handle, graph, dependencies, count, &task, r);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS)
		r = params ? task_of_memset(params, &task) : CUDA_ERROR_INVALID_VALUE;
	return add(ret_handle, graph, dependencies, count, &task, r);
}

CUresult cuGraphAddHostNode(CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task = {.type = CU_GRAPH_NODE_TYPE_HOST};

	if (r == CUDA_SUCCESS && (!params || !params->fn))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS) {
		task.host.function = params->fn;
		task.host.data = params->userData;
	}
	return add(ret_handle, graph, dependencies, count, &task, r);
}

CUresult cuGraphAddChildGraphNode(
	CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUgraph child)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS)
		r = task_of_child(child, &task);
	return add(ret_handle, graph, dependencies, count, &task, r);
}

CUresult cuGraphAddEmptyNode(
	CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
	_cleanup_call_ struct call call = {};
	struct task task = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
	CUresult r = call_begin(&call, __func__);

	return add(ret_handle, graph, dependencies, count, &task, r);
}

CUresult cuGraphAddEventRecordNode(
	CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUevent event)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS)
		r = task_of_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &task);
	return add(ret_handle, graph, dependencies, count, &task, r);
}

CUresult cuGraphAddEventWaitNode(
	CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUevent event)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS)
		r = task_of_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &task);
	return add(ret_handle, graph, dependencies, count, &task, r);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS)
		r = params ? task_of_alloc(params, &task) : CUDA_ERROR_INVALID_VALUE;
	return add(ret_handle, graph, dependencies, count, &task, r);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, CUdeviceptr address)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS)
		r = task_of_free(address, &task);
	return add(ret_handle, graph, dependencies, count, &task, r);
}

static CUresult task_of_params(CUgraphNodeParams *p, struct task *ret_task)
{
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return task_of_kernel(&p->kernel, ret_task);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return task_of_memcpy(&p->memcpy.copyParams, ret_task);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return task_of_memset(&p->memset.v1, ret_task);
	case CU_GRAPH_NODE_TYPE_HOST:
		*ret_task = (struct task){.type = p->type};
		ret_task->host.function = p->host.fn;
		ret_task->host.data = p->host.userData;
		return p->host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return task_of_child(p->graph.graph, ret_task);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		*ret_task = (struct task){.type = p->type};
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return task_of_event(p->type, p->eventWait.event, ret_task);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return task_of_alloc(&p->alloc, ret_task);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return task_of_free(p->free.dptr, ret_task);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

static bool contains(const struct graph *outer, const struct graph *inner)
{
	bool found = outer == inner;

	for (size_t i = 0; !found && i < outer->node_count; i++)
		found = outer->nodes[i]->task.type == CU_GRAPH_NODE_TYPE_GRAPH &&
			contains(outer->nodes[i]->task.child, inner);
	return found;
}

/* The node takes over the graph itself with its allocations: cuda.h of CUDA 13.5.37,
 * CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE. */
static CUresult move_child(
	CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUgraph handle)
{
	struct task task = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	struct graph *parent;
	CUresult r = graph_find(graph, &parent);

	if (r == CUDA_SUCCESS)
		r = graph_find(handle, &task.child);
	if (r == CUDA_SUCCESS &&
		(task.child->owned || contains(task.child, parent) || graph_sort(task.child) < 0))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = graph_add_api(ret_handle, graph, dependencies, count, &task);
	if (r == CUDA_SUCCESS)
		task.child->owned = true;
	return r;
}

CUresult cuGraphAddNode_v2(CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies,
	const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS && params && params->type == CU_GRAPH_NODE_TYPE_GRAPH &&
		params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE && driver_version() >= 12090)
		return move_child(ret_handle, graph, dependencies, count, params->graph.graph);
	if (r == CUDA_SUCCESS)
		r = params ? task_of_params(params, &task) : CUDA_ERROR_INVALID_VALUE;
	return add(ret_handle, graph, dependencies, count, &task, r);
}

CUresult cuGraphAddNode(CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies, size_t count,
	CUgraphNodeParams *params)
{
	return cuGraphAddNode_v2(ret_handle, graph, dependencies, NULL, count, params);
}

/* In addition to the previous version it checks the context of kernels. Kernels here have no context of their
 * own. */
CUresult cuGraphAddNode_v3(CUgraphNode *ret_handle, CUgraph graph, const CUgraphNode *dependencies,
	const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
	return cuGraphAddNode_v2(ret_handle, graph, dependencies, edges, count, params);
}
