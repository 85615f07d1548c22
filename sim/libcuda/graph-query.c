/* graph-query.c - queries, adds and removes nodes and edges of a graph; parameters of nodes. */
#include "sim/libcuda/graph.h"
#include "sim/libcuda/graph-params.h"

static CUresult begin_node(
	struct call *call, CUgraphNode handle, struct node **ret_node, const char *function)
{
	CUresult r = call_begin(call, function);

	return r == CUDA_SUCCESS ? object_find((uintptr_t)handle, OBJECT_NODE, ret_node) : r;
}

/* The rule of all lists: without a buffer the number is returned. With a buffer at most *count entries are
 * written, and the rest is zeroed. */
struct out {
	CUgraphNode *list;
	size_t room, found;
};

static void put(struct out *out, const struct node *node)
{
	if (out->list && out->found < out->room)
		out->list[out->found] = node_handle(node);
	out->found++;
}

static CUresult finish(struct out *out, size_t *count)
{
	for (size_t i = out->found; out->list && i < out->room; i++)
		out->list[i] = NULL;
	*count = out->list && out->found > out->room ? out->room : out->found;
	return CUDA_SUCCESS;
}

static CUresult list_nodes(CUgraph handle, CUgraphNode *list, size_t *count, bool roots, const char *function)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, function);
	struct out out = {.list = list};
	struct graph *graph;

	if (r == CUDA_SUCCESS)
		r = graph_find(handle, &graph);
	if (r == CUDA_SUCCESS && !count)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	out.room = *count;
	for (size_t i = 0; i < graph->node_count; i++)
		if (!roots || graph->nodes[i]->dependency_count == 0)
			put(&out, graph->nodes[i]);
	return finish(&out, count);
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *list, size_t *count)
{
	return list_nodes(graph, list, count, false, __func__);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *list, size_t *count)
{
	return list_nodes(graph, list, count, true, __func__);
}

CUresult cuGraphGetEdges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, __func__);
	struct out out_from = {.list = from}, out_to = {.list = to};
	struct graph *graph;

	if (r == CUDA_SUCCESS)
		r = graph_find(handle, &graph);
	if (r == CUDA_SUCCESS && (!count || !from != !to))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	out_from.room = out_to.room = *count;
	for (size_t i = 0; i < graph->node_count; i++)
		for (size_t k = 0; k < graph->nodes[i]->dependency_count; k++) {
			put(&out_from, graph->nodes[i]->dependencies[k]);
			put(&out_to, graph->nodes[i]);
		}
	finish(&out_from, count);
	return finish(&out_to, count);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode *list, size_t *count)
{
	_cleanup_call_ struct call call = {};
	struct out out = {.list = list};
	struct node *node;
	CUresult r = begin_node(&call, handle, &node, __func__);

	if (r == CUDA_SUCCESS && !count)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	out.room = *count;
	for (size_t i = 0; i < node->dependency_count; i++)
		put(&out, node->dependencies[i]);
	return finish(&out, count);
}

static bool depends(const struct node *node, const struct node *on)
{
	for (size_t i = 0; i < node->dependency_count; i++)
		if (node->dependencies[i] == on)
			return true;
	return false;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode handle, CUgraphNode *list, size_t *count)
{
	_cleanup_call_ struct call call = {};
	struct out out = {.list = list};
	struct node *node;
	CUresult r = begin_node(&call, handle, &node, __func__);

	if (r == CUDA_SUCCESS && !count)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	out.room = *count;
	for (size_t i = 0; i < node->graph->node_count; i++)
		if (depends(node->graph->nodes[i], node))
			put(&out, node->graph->nodes[i]);
	return finish(&out, count);
}

static CUresult change_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to, size_t count,
	bool adding, const char *function)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin(&call, function);
	struct graph *graph;

	if (r == CUDA_SUCCESS)
		r = graph_find(handle, &graph);
	if (r == CUDA_SUCCESS && count > 0 && (!from || !to))
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++) {
		struct node *a, *b;

		r = object_find((uintptr_t)from[i], OBJECT_NODE, &a);
		if (r == CUDA_SUCCESS)
			r = object_find((uintptr_t)to[i], OBJECT_NODE, &b);
		if (r == CUDA_SUCCESS &&
			(a->graph != graph || b->graph != graph || a == b || depends(b, a) == adding))
			r = CUDA_ERROR_INVALID_VALUE;
		if (r == CUDA_SUCCESS && adding)
			r = node_depend(b, a);
		for (size_t k = 0; r == CUDA_SUCCESS && !adding && k < b->dependency_count; k++)
			if (b->dependencies[k] == a)
				b->dependencies[k] = b->dependencies[--b->dependency_count];
	}
	return r;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
	return change_edges(graph, from, to, count, true, __func__);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	const CUgraphEdgeData *edges, size_t count)
{
	return change_edges(graph, from, to, count, true, __func__);
}

CUresult cuGraphRemoveDependencies(
	CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
	return change_edges(graph, from, to, count, false, __func__);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	const CUgraphEdgeData *edges, size_t count)
{
	return change_edges(graph, from, to, count, false, __func__);
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *ret_type)
{
	_cleanup_call_ struct call call = {};
	struct node *node;
	CUresult r = begin_node(&call, handle, &node, __func__);

	if (r == CUDA_SUCCESS && !ret_type)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret_type = node->task.type;
	return r;
}

static CUresult begin_kind(struct call *call, CUgraphNode handle, CUgraphNodeType type, const void *output,
	struct node **ret_node, const char *function)
{
	CUresult r = begin_node(call, handle, ret_node, function);

	return r == CUDA_SUCCESS && (!output || (*ret_node)->task.type != type) ? CUDA_ERROR_INVALID_VALUE
										: r;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1 *ret)
{
	_cleanup_call_ struct call call = {};
	struct node *node;
	CUresult r = begin_kind(&call, handle, CU_GRAPH_NODE_TYPE_KERNEL, ret, &node, __func__);
	const struct launch *l;

	if (r != CUDA_SUCCESS)
		return r;
	l = &node->task.launch;
	*ret = (CUDA_KERNEL_NODE_PARAMS_v1){(CUfunction)(uintptr_t)l->function, l->grid[0], l->grid[1],
		l->grid[2], l->block[0], l->block[1], l->block[2], l->shared_bytes, NULL, NULL};
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	_cleanup_call_ struct call call = {};
	struct node *node;
	CUresult r = begin_kind(&call, handle, CU_GRAPH_NODE_TYPE_KERNEL, params, &node, __func__);

	return r == CUDA_SUCCESS ? task_of_kernel_v1(params, &node->task) : r;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS *params)
{
	_cleanup_call_ struct call call = {};
	struct node *node;
	CUresult r = begin_kind(&call, handle, CU_GRAPH_NODE_TYPE_KERNEL, params, &node, __func__);

	return r == CUDA_SUCCESS ? task_of_kernel(params, &node->task) : r;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS *params)
{
	_cleanup_call_ struct call call = {};
	struct node *node;
	CUresult r = begin_kind(&call, handle, CU_GRAPH_NODE_TYPE_MEMSET, params, &node, __func__);

	return r == CUDA_SUCCESS ? task_of_memset(params, &node->task) : r;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode handle, const CUDA_MEMCPY3D *params)
{
	_cleanup_call_ struct call call = {};
	struct node *node;
	CUresult r = begin_kind(&call, handle, CU_GRAPH_NODE_TYPE_MEMCPY, params, &node, __func__);

	return r == CUDA_SUCCESS ? task_of_memcpy(params, &node->task) : r;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS *ret)
{
	_cleanup_call_ struct call call = {};
	struct node *node;
	CUresult r = begin_kind(&call, handle, CU_GRAPH_NODE_TYPE_MEM_ALLOC, ret, &node, __func__);

	if (r != CUDA_SUCCESS)
		return r;
	*ret = (CUDA_MEM_ALLOC_NODE_PARAMS){.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
						    .location = node->task.alloc.location},
		.bytesize = node->task.alloc.size,
		.dptr = node->task.alloc.address};
	return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr *ret_address)
{
	_cleanup_call_ struct call call = {};
	struct node *node;
	CUresult r = begin_kind(&call, handle, CU_GRAPH_NODE_TYPE_MEM_FREE, ret_address, &node, __func__);

	if (r == CUDA_SUCCESS)
		*ret_address = node->task.address;
	return r;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph *ret_graph)
{
	_cleanup_call_ struct call call = {};
	struct node *node;
	CUresult r = begin_kind(&call, handle, CU_GRAPH_NODE_TYPE_GRAPH, ret_graph, &node, __func__);

	if (r == CUDA_SUCCESS)
		*ret_graph = (CUgraph)(uintptr_t)node->task.child->object.handle;
	return r;
}
