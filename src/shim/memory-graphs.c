/* Graphs that allocate. Their memory is the driver's own, per device; it takes it when a graph is launched,
 * and keeps it for the next launch. So before a launch what the graph allocates is paid, unless that much is
 * reserved and unused.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory.h"
#include "shim/memory-pools.h"
#include "shim/objects.h"
#include "shim/pacing-graphs.h"

#define DEPTH_MAX 16

/* Whether a graph of this process can have allocations: only then each is looked through when it is
 * instantiated. */
static _Atomic bool graphs_may_allocate;

void graphs_allocate(void)
{
	atomic_store_explicit(&graphs_may_allocate, true, memory_order_relaxed);
}

struct need {
	uint64_t bytes;
	int device; /* -1: none */
};

static void need_of_graph(CUgraph graph, unsigned depth, struct need *need);

static void need_of_node(CUgraphNode node, unsigned depth, struct need *need)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	CUgraphNodeType type;
	CUgraph child;

	if (DRIVER(cuGraphNodeGetType)(node, &type) != CUDA_SUCCESS)
		return;
	if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
		DRIVER(cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS)
		need_of_graph(child, depth + 1, need);
	if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
		DRIVER(cuGraphMemAllocNodeGetParams)(node, &params) != CUDA_SUCCESS)
		return;
	need->bytes += memory_rounded(params.bytesize);
	need->device = params.poolProps.location.id;
}

static void need_of_graph(CUgraph graph, unsigned depth, struct need *need)
{
	CUgraphNode *nodes;
	size_t count = 0;

	if (depth > DEPTH_MAX || DRIVER(cuGraphGetNodes)(graph, NULL, &count) != CUDA_SUCCESS || count == 0)
		return;
	nodes = calloc(count, sizeof(CUgraphNode));
	if (!nodes)
		return;
	if (DRIVER(cuGraphGetNodes)(graph, nodes, &count) == CUDA_SUCCESS)
		for (size_t i = 0; i < count; i++)
			need_of_node(nodes[i], depth, need);
	free(nodes);
}

/* After a successful instantiation. */
static CUresult enter(CUgraphExec exec, CUgraph graph)
{
	struct object object = {.kind = OBJECT_EXEC, .key = (uintptr_t)exec};
	struct need need = {.device = -1};

	if (!atomic_load_explicit(&graphs_may_allocate, memory_order_relaxed))
		return CUDA_SUCCESS;
	need_of_graph(graph, 0, &need);
	if (need.bytes == 0)
		return CUDA_SUCCESS;
	if (cuda_device_card(need.device) < 0)
		return CUDA_SUCCESS; /* of the machine's memory */
	object.bytes = need.bytes;
	object.card = (uint32_t)cuda_device_card(need.device);
	object.index = (uint32_t)need.device;
	if (objects_put(&object) == 0)
		return CUDA_SUCCESS;
	DRIVER(cuGraphExecDestroy)(exec);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

HOOK CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
	CUresult r = DRIVER(cuGraphInstantiate)(exec, graph, node, log, size);

	return r == CUDA_SUCCESS ? enter(*exec, graph) : r;
}

HOOK CUresult cuGraphInstantiate_v2(
	CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
	CUresult r = DRIVER(cuGraphInstantiate_v2)(exec, graph, node, log, size);

	return r == CUDA_SUCCESS ? enter(*exec, graph) : r;
}

HOOK CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUresult r = DRIVER(cuGraphInstantiateWithFlags)(exec, graph, flags);

	return r == CUDA_SUCCESS ? enter(*exec, graph) : r;
}

HOOK CUresult cuGraphInstantiateWithParams(
	CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult r = DRIVER(cuGraphInstantiateWithParams)(exec, graph, params);

	return r == CUDA_SUCCESS ? enter(*exec, graph) : r;
}

HOOK CUresult cuGraphInstantiateWithParams_ptsz(
	CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult r = DRIVER(cuGraphInstantiateWithParams_ptsz)(exec, graph, params);

	return r == CUDA_SUCCESS ? enter(*exec, graph) : r;
}

static CUresult launch_charged(CUgraphExec exec, CUstream stream, CUresult (*driver)(CUgraphExec, CUstream))
{
	struct reserve_of of = {.kind = OBJECT_GRAPH_MEMORY};
	struct growth growth;
	struct object object;
	CUresult r;

	if (!atomic_load_explicit(&graphs_may_allocate, memory_order_relaxed) ||
		!objects_get(OBJECT_EXEC, (uintptr_t)exec, &object))
		return driver(exec, stream);
	of.key = object.index;
	of.card = object.card;
	r = growth_begin(&growth, &of, object.bytes, object.bytes);
	if (r != CUDA_SUCCESS)
		return r;
	r = driver(exec, stream);
	growth_settle(&growth); /* (what runs cannot be called back) */
	memory_leave();
	return r;
}

static CUresult launch(
	CUgraphExec exec, CUstream stream, CUstream meant, CUresult (*driver)(CUgraphExec, CUstream))
{
	struct pace pace;
	CUresult r;

	if (!pacing_is_on())
		return launch_charged(exec, stream, driver);
	pacing_begin(&pace, PACE_CORE, graph_key(exec), 1, meant);
	r = launch_charged(exec, stream, driver);
	pacing_end(&pace, r);
	return r;
}

HOOK CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	return launch(exec, stream, stream, DRIVER(cuGraphLaunch));
}

HOOK CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	return launch(exec, stream, pacing_own_stream(stream), DRIVER(cuGraphLaunch_ptsz));
}

HOOK CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	struct object object;
	bool known = objects_take(OBJECT_EXEC, (uintptr_t)exec, &object);
	CUresult r = DRIVER(cuGraphExecDestroy)(exec);

	pacing_renew(graph_key(exec)); /* (its handle may be another's next) */
	if (known && r == CUDA_SUCCESS)
		pools_settle();
	else if (known)
		objects_put(&object);
	return r;
}

HOOK CUresult cuGraphDestroy(CUgraph graph)
{
	CUresult r = DRIVER(cuGraphDestroy)(graph);

	if (atomic_load_explicit(&graphs_may_allocate, memory_order_relaxed))
		pools_settle();
	return r;
}

HOOK CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
	size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	graphs_allocate();
	return DRIVER(cuGraphAddMemAllocNode)(node, graph, dependencies, count, params);
}

HOOK CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
	CUgraphNodeParams *params)
{
	if (params && (!cuda_is_started() || params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC))
		graphs_allocate();
	return DRIVER(cuGraphAddNode)(node, graph, dependencies, count, params);
}

HOOK CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
	const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
	if (params && (!cuda_is_started() || params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC))
		graphs_allocate();
	return DRIVER(cuGraphAddNode_v2)(node, graph, dependencies, edges, count, params);
}

HOOK CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
	const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
	if (params && (!cuda_is_started() || params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC))
		graphs_allocate();
	return DRIVER(cuGraphAddNode_v3)(node, graph, dependencies, edges, count, params);
}
