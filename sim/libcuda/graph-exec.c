/* graph-exec.c - executable graphs, and changes to them. */
#include <stdlib.h>
#include <string.h>

#include "sim/libcuda/graph.h"
#include "sim/libcuda/graph-params.h"
#include "sim/libcuda/objects.h"
#include "sim/libcuda/pool.h"

#define FLAGS_KNOWN                                                                                          \
	(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |              \
		CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

void exec_free_object(struct object *object)
{
	struct exec *exec = (struct exec *)object;

	graph_free(exec->graph);
	object_forget(object);
	free(exec);
}

static CUresult instantiate(CUgraphExec *ret_handle, CUgraph handle, uint64_t flags, const char *function)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, function);
	struct graph *graph, *clone;
	struct exec *exec;

	if (r == CUDA_SUCCESS)
		r = graph_find(handle, &graph);
	if (r == CUDA_SUCCESS && !ret_handle)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && flags & ~FLAGS_KNOWN)
		r = flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH ? CUDA_ERROR_NOT_SUPPORTED
								      : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = graph_clone(graph, &clone);
	if (r != CUDA_SUCCESS)
		return r;
	exec = calloc(1, sizeof(*exec));
	if (graph_sort(clone) < 0)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (!exec || object_register(&exec->object, OBJECT_EXEC, NULL) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS) {
		graph_free(clone);
		free(exec);
		return r;
	}
	clone->owned = true;
	exec->graph = clone;
	exec->flags = flags;
	*ret_handle = (CUgraphExec)(uintptr_t)exec->object.handle;
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret_handle, CUgraph graph, unsigned long long flags)
{
	return instantiate(ret_handle, graph, flags, __func__);
}

CUresult cuGraphInstantiate_v2(
	CUgraphExec *ret_handle, CUgraph graph, CUgraphNode *ret_error_node, char *log, size_t log_size)
{
	if (log && log_size > 0)
		log[0] = '\0';
	if (ret_error_node)
		*ret_error_node = NULL;
	return instantiate(ret_handle, graph, 0, __func__);
}

CUresult cuGraphInstantiate(
	CUgraphExec *ret_handle, CUgraph graph, CUgraphNode *ret_error_node, char *log, size_t log_size)
{
	return cuGraphInstantiate_v2(ret_handle, graph, ret_error_node, log, log_size);
}

CUresult cuGraphInstantiateWithParams(
	CUgraphExec *ret_handle, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult r;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	r = instantiate(ret_handle, graph, params->flags, __func__);
	if (r == CUDA_SUCCESS && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) {
		r = cuGraphUpload(*ret_handle, params->hUploadStream);
		if (r != CUDA_SUCCESS)
			cuGraphExecDestroy(*ret_handle);
	}
	params->hErrNode_out = NULL;
	params->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
					       : CUDA_GRAPH_INSTANTIATE_ERROR;
	return r;
}

static CUresult begin(struct call *call, CUgraphExec handle, struct exec **ret_exec, const char *function)
{
	CUresult r = call_begin(call, function);

	return r == CUDA_SUCCESS ? object_find((uintptr_t)handle, OBJECT_EXEC, ret_exec) : r;
}

CUresult cuGraphExecDestroy(CUgraphExec handle)
{
	_cleanup_call_ struct call call = {};
	struct exec *exec;
	CUresult r = begin(&call, handle, &exec, __func__);

	if (r == CUDA_SUCCESS)
		exec_free_object(&exec->object);
	return r;
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, uint64_t *ret_flags)
{
	_cleanup_call_ struct call call = {};
	struct exec *exec;
	CUresult r = begin(&call, handle, &exec, __func__);

	if (r == CUDA_SUCCESS && !ret_flags)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_flags = exec->flags;
	return r;
}

static void free_what_is_left(const struct graph *graph)
{
	for (size_t i = 0; i < graph->node_count; i++) {
		const struct task *task = &graph->nodes[i]->task;
		struct region *region = task->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC
						? region_at(task->alloc.address)
						: NULL;

		if (region && region->kind == REGION_GRAPH && region->in_use)
			graph_memory_release(region);
	}
}

static CUresult map_all(const struct graph *graph)
{
	CUresult r = CUDA_SUCCESS;

	for (size_t i = 0; i < graph->node_count && r == CUDA_SUCCESS; i++) {
		const struct task *task = &graph->nodes[i]->task;

		if (task->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			r = graph_memory_map(task->alloc.device, task->alloc.address);
		else if (task->type == CU_GRAPH_NODE_TYPE_GRAPH)
			r = map_all(task->child);
	}
	return r;
}

static CUresult map_memory(const struct graph *graph)
{
	CUresult r = map_all(graph);

	graph_memory_unpin();
	return r;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_number)
{
	_cleanup_call_ struct call call = {};
	struct stream *stream;
	struct exec *exec;
	CUresult r;

	if (driver_does_nothing)
		return CUDA_SUCCESS;
	r = call_begin_context(&call, __func__);
	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_EXEC, &exec);
	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, stream_number, &stream);
	if (r == CUDA_SUCCESS && stream->capture_status != CU_STREAM_CAPTURE_STATUS_NONE)
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (r != CUDA_SUCCESS)
		return r;
	if (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
		free_what_is_left(exec->graph);
	r = map_memory(exec->graph);
	return r == CUDA_SUCCESS ? graph_run(stream, exec->graph) : r;
}

/* There is nothing else to prepare. */
CUresult cuGraphUpload(CUgraphExec handle, CUstream stream_number)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct stream *stream;
	struct exec *exec;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_EXEC, &exec);
	if (r == CUDA_SUCCESS)
		r = stream_find(call.context, stream_number, &stream);
	return r == CUDA_SUCCESS ? map_memory(exec->graph) : r;
}

/* Returns the executable's node that was made from this node of the graph. */
static struct node *node_in(const struct exec *exec, CUgraphNode handle)
{
	for (size_t i = 0; i < exec->graph->node_count; i++)
		if (exec->graph->nodes[i]->original == (uintptr_t)handle)
			return exec->graph->nodes[i];
	return NULL;
}

static CUresult replace(CUgraphExec handle, CUgraphNode node_number, const struct task *task, CUresult r)
{
	struct exec *exec;
	struct node *node;

	if (r == CUDA_SUCCESS)
		r = object_find((uintptr_t)handle, OBJECT_EXEC, &exec);
	if (r != CUDA_SUCCESS)
		return r;
	node = node_in(exec, node_number);
	if (!node || node->task.type != task->type)
		return CUDA_ERROR_INVALID_VALUE;
	node->task = *task;
	return CUDA_SUCCESS;
}

CUresult cuGraphExecKernelNodeSetParams_v2(
	CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS)
		r = params ? task_of_kernel(params, &task) : CUDA_ERROR_INVALID_VALUE;
	return replace(exec, node, &task, r);
}

CUresult cuGraphExecKernelNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS)
		r = params ? task_of_kernel_v1(params, &task) : CUDA_ERROR_INVALID_VALUE;
	return replace(exec, node, &task, r);
}

CUresult cuGraphExecMemsetNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS)
		r = params ? task_of_memset(params, &task) : CUDA_ERROR_INVALID_VALUE;
	return replace(exec, node, &task, r);
}

CUresult cuGraphExecMemcpyNodeSetParams(
	CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct task task;

	if (r == CUDA_SUCCESS)
		r = params ? task_of_memcpy(params, &task) : CUDA_ERROR_INVALID_VALUE;
	return replace(exec, node, &task, r);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode node_number, unsigned enabled)
{
	_cleanup_call_ struct call call = {};
	struct exec *exec;
	CUresult r = begin(&call, handle, &exec, __func__);
	struct node *node = r == CUDA_SUCCESS ? node_in(exec, node_number) : NULL;

	if (r != CUDA_SUCCESS)
		return r;
	if (!node || node->task.type > CU_GRAPH_NODE_TYPE_MEMSET)
		return CUDA_ERROR_INVALID_VALUE;
	node->disabled = !enabled;
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode node_number, unsigned *ret_enabled)
{
	_cleanup_call_ struct call call = {};
	struct exec *exec;
	CUresult r = begin(&call, handle, &exec, __func__);
	struct node *node = r == CUDA_SUCCESS ? node_in(exec, node_number) : NULL;

	if (r != CUDA_SUCCESS)
		return r;
	if (!node || !ret_enabled)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_enabled = !node->disabled;
	return CUDA_SUCCESS;
}

/* Only parameters may differ, of nodes that are otherwise the same and have the same dependencies. */
static CUgraphExecUpdateResult compare(const struct graph *old, const struct graph *fresh, size_t *ret_at)
{
	if (old->node_count != fresh->node_count)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	for (size_t i = 0; i < old->node_count; i++) {
		const struct node *a = old->nodes[i], *b = fresh->nodes[i];

		*ret_at = i;
		if (a->task.type != b->task.type)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
		if (a->dependency_count != b->dependency_count)
			return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		if (a->task.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
			a->task.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
	}
	return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_number, CUgraphExecUpdateResultInfo *ret_info)
{
	_cleanup_call_ struct call call = {};
	struct graph *graph, *clone;
	struct exec *exec;
	CUresult r = begin(&call, handle, &exec, __func__);
	size_t at = 0;

	if (r == CUDA_SUCCESS)
		r = graph_find(graph_number, &graph);
	if (r == CUDA_SUCCESS && !ret_info)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = graph_clone(graph, &clone);
	if (r != CUDA_SUCCESS)
		return r;
	*ret_info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
	if (graph_sort(clone) == 0)
		ret_info->result = compare(exec->graph, clone, &at);
	if (ret_info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
		if (at < clone->node_count)
			ret_info->errorNode = (CUgraphNode)(uintptr_t)clone->nodes[at]->original;
		graph_free(clone);
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	for (size_t i = 0; i < clone->node_count; i++) {
		struct task task = exec->graph->nodes[i]->task;

		exec->graph->nodes[i]->task = clone->nodes[i]->task;
		clone->nodes[i]->task = task;
	}
	graph_free(clone);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate(
	CUgraphExec exec, CUgraph graph, CUgraphNode *ret_error_node, CUgraphExecUpdateResult *ret_result)
{
	CUgraphExecUpdateResultInfo info = {};
	CUresult r = ret_result ? cuGraphExecUpdate_v2(exec, graph, &info) : CUDA_ERROR_INVALID_VALUE;

	if (ret_result)
		*ret_result = info.result;
	if (ret_error_node)
		*ret_error_node = info.errorNode;
	return r;
}
