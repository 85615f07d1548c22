/* Graphs that allocate. Their memory is the driver's own, per device; it takes it when a graph is launched or
 * uploaded, and keeps it, also after the graph's end, until cuDeviceGraphMemTrim() takes what is idle. So
 * before the first launch, and the first after a trim, what the graph allocates is paid.
 *
 * CUDA programming guide 13.0, "Graph Memory Nodes", "Physical Memory Footprint": reserved is what is there
 * for graphs, used is what is mapped by at least one graph, running or not. What is reserved and not used is
 * what the next launch can have without growth. Graphs may share memory, and the driver may have to undo that
 * when one is launched into another stream: it can grow by more than was paid. Then the next launch has to
 * make room first.
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

static struct reserve_of graph_memory(const struct object *exec)
{
	return (struct reserve_of){.kind = OBJECT_GRAPH_MEMORY, .key = exec->index, .card = exec->card};
}

/* ---- taking it ------------------------------------------------------------------------------------------
 */

static _Atomic uint32_t trims; /* who was mapped before the last one may not be any more */
static _Atomic bool has_overgrown[GRANT_FILE_CARDS_MAX];

void graphs_trimmed(void)
{
	atomic_fetch_add(&trims, 1);
}

static void trim(const struct reserve_of *of)
{
	graphs_trimmed();
	DRIVER(cuDeviceGraphMemTrim)((CUdevice)of->key);
	pools_settle();
}

/* It has grown past what could be charged: nothing more until it fits. */
static CUresult shrink(const struct reserve_of *of)
{
	if (!atomic_load(&has_overgrown[of->card]))
		return CUDA_SUCCESS;
	if (growth_catch_up(of) != CUDA_SUCCESS) {
		trim(of);
		if (growth_catch_up(of) != CUDA_SUCCESS)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	atomic_store(&has_overgrown[of->card], false);
	return CUDA_SUCCESS;
}

/* What is mapped needs no more. count: one more than the trims there had been when it was. */
static CUresult take_begin(struct growth *growth, const struct object *exec)
{
	struct reserve_of of = graph_memory(exec);
	uint64_t bytes = exec->count == atomic_load(&trims) + 1 ? 0 : exec->bytes;
	CUresult r = shrink(&of);

	if (r != CUDA_SUCCESS)
		return r;
	r = growth_begin(growth, &of, bytes, bytes);
	if (r != CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	trim(&of);
	return growth_begin(growth, &of, exec->bytes, exec->bytes);
}

static bool note_mapped(struct object *exec, void *context)
{
	exec->count = *(uint32_t *)context;
	return exec->bytes > 0;
}

/* The driver may have taken more than was paid: on a full GPU it gives the memory of a graph that rests to
 * another, and takes memory again when the first one is launched. What runs cannot be called back, but what
 * rests can go. */
static CUresult take_end(struct growth *growth, const struct object *exec, uint32_t trims_before, CUresult r)
{
	uint32_t mapped = trims_before + 1;

	if (r == CUDA_SUCCESS)
		objects_change(OBJECT_EXEC, exec->key, note_mapped, &mapped);
	if (growth_settle(growth) != CUDA_SUCCESS) {
		trim(&growth->of);
		if (growth_catch_up(&growth->of) != CUDA_SUCCESS)
			atomic_store(&has_overgrown[exec->card], true);
	}
	growth_end(growth);
	return r;
}

static CUresult take_charged(CUgraphExec exec, CUstream stream, CUresult (*driver)(CUgraphExec, CUstream))
{
	struct growth growth;
	struct object object;
	uint32_t before;
	CUresult r;

	if (!atomic_load_explicit(&graphs_may_allocate, memory_order_relaxed) ||
		!objects_get(OBJECT_EXEC, (uintptr_t)exec, &object))
		return driver(exec, stream);
	r = take_begin(&growth, &object);
	if (r != CUDA_SUCCESS)
		return r;
	before = atomic_load(&trims);
	return take_end(&growth, &object, before, driver(exec, stream));
}

/* ---- hooks ----------------------------------------------------------------------------------------------
 */

static bool describe(CUgraph graph, struct object *ret_exec)
{
	struct need need = {.device = -1};

	*ret_exec = (struct object){.kind = OBJECT_EXEC};
	if (!atomic_load_explicit(&graphs_may_allocate, memory_order_relaxed))
		return false;
	need_of_graph(graph, 0, &need);
	if (need.bytes == 0 || cuda_device_card(need.device) < 0)
		return false; /* none, or of the machine's memory */
	ret_exec->bytes = need.bytes;
	ret_exec->card = (uint32_t)cuda_device_card(need.device);
	ret_exec->index = (uint32_t)need.device;
	return true;
}

/* After a successful instantiation. */
static CUresult enter(CUgraphExec exec, CUgraph graph)
{
	struct object object;

	if (!describe(graph, &object))
		return CUDA_SUCCESS;
	object.key = (uintptr_t)exec;
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

typedef CUresult (*instantiate)(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *);

/* It may upload at once. */
static CUresult instantiate_with(
	CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params, instantiate driver)
{
	bool uploads = cuda_is_started() && params && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	struct growth growth;
	struct object object;
	uint32_t before;
	CUresult r;

	if (!uploads || !describe(graph, &object)) {
		r = driver(exec, graph, params);
		return r == CUDA_SUCCESS ? enter(*exec, graph) : r;
	}
	r = take_begin(&growth, &object);
	if (r != CUDA_SUCCESS)
		return r;
	before = atomic_load(&trims);
	r = driver(exec, graph, params);
	if (r == CUDA_SUCCESS)
		r = enter(*exec, graph);
	object.key = r == CUDA_SUCCESS ? (uintptr_t)*exec : 0;
	return take_end(&growth, &object, before, r);
}

HOOK CUresult cuGraphInstantiateWithParams(
	CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return instantiate_with(exec, graph, params, DRIVER(cuGraphInstantiateWithParams));
}

HOOK CUresult cuGraphInstantiateWithParams_ptsz(
	CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return instantiate_with(exec, graph, params, DRIVER(cuGraphInstantiateWithParams_ptsz));
}

HOOK CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	return take_charged(exec, stream, DRIVER(cuGraphUpload));
}

HOOK CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
	return take_charged(exec, stream, DRIVER(cuGraphUpload_ptsz));
}

static CUresult launch(
	CUgraphExec exec, CUstream stream, CUstream meant, CUresult (*driver)(CUgraphExec, CUstream))
{
	struct pace pace;
	CUresult r;

	if (!pacing_is_on())
		return take_charged(exec, stream, driver);
	pacing_begin(&pace, PACE_CORE, graph_key(exec), 1, meant);
	r = take_charged(exec, stream, driver);
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
