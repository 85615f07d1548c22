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

#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/graph-needs.h"
#include "shim/memory.h"
#include "shim/memory-pools.h"
#include "shim/pacing-graphs.h"

/* ---- taking it ------------------------------------------------------------------------------------------
 */

static _Atomic uint32_t trims; /* who was mapped before the last one may not be any more */
static _Atomic bool has_overgrown[GRANT_FILE_CARDS_MAX];

static struct reserve_of graph_memory(const struct object *need)
{
	return (struct reserve_of){.kind = OBJECT_GRAPH_MEMORY, .key = need->index, .card = need->card};
}

static void trim(const struct reserve_of *of)
{
	atomic_fetch_add(&trims, 1);
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
static uint64_t bytes_to_map(const struct object *need)
{
	return need->count == atomic_load(&trims) + 1 ? 0 : need->bytes;
}

/* Begins the call, and pays for its first GPU. */
static CUresult pay_first(struct growth *growth, const struct object *need)
{
	struct reserve_of of = graph_memory(need);
	uint64_t bytes = bytes_to_map(need);
	CUresult r = growth_begin(growth, &of, bytes, bytes);

	if (r != CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	trim(&of);
	return growth_begin(growth, &of, need->bytes, need->bytes);
}

/* Within the call. Neither trims nor waits for a sample, which concludes little while a call is under way. */
static CUresult pay_another(struct growth *growth, const struct object *need)
{
	struct reserve_of of = graph_memory(need);

	return growth_join(growth, &of, bytes_to_map(need));
}

/* All GPUs or none. *ret_refused: the GPU that has no room. */
static CUresult pay_all(struct growth *growths, const struct needs *needs, unsigned *ret_refused)
{
	CUresult r = pay_first(&growths[0], &needs->of[0]);
	unsigned paid = 1;

	if (r != CUDA_SUCCESS) {
		*ret_refused = 0;
		return r;
	}
	while (paid < needs->count) {
		r = pay_another(&growths[paid], &needs->of[paid]);
		if (r != CUDA_SUCCESS)
			break;
		paid++;
	}
	if (paid == needs->count)
		return CUDA_SUCCESS;
	for (unsigned i = 0; i < paid; i++)
		memory_refund(growths[i].of.card, growths[i].paid);
	growth_end(&growths[0]);
	*ret_refused = paid;
	return r;
}

/* A GPU that is refused while others are paid becomes the first: then its memory is trimmed, and a sample
 * waited for. What then has no room is refused. */
static CUresult take_begin(struct growth *growths, struct needs *needs)
{
	CUresult r = CUDA_SUCCESS;

	for (unsigned i = 0; i < needs->count; i++) {
		struct reserve_of of = graph_memory(&needs->of[i]);

		r = shrink(&of);
		if (r != CUDA_SUCCESS)
			return r;
	}
	for (unsigned tries = 0; tries < 2 * needs->count; tries++) {
		unsigned refused = 0;
		struct object first = needs->of[0];

		r = pay_all(growths, needs, &refused);
		if (r == CUDA_SUCCESS || refused == 0)
			return r;
		needs->of[0] = needs->of[refused];
		needs->of[refused] = first;
	}
	return r;
}

/* The driver may have taken more than was paid: on a full GPU it gives the memory of a graph that rests to
 * another, and takes memory again when the first one is launched. What runs cannot be called back, but what
 * rests can go. */
static void take_end(struct growth *growths, const struct needs *needs)
{
	uint64_t overgrown = 0;

	/* (A trim settles all that is known, so what was paid has to be noted before.) */
	for (unsigned i = 0; i < needs->count; i++)
		if (growth_settle(&growths[i]) != CUDA_SUCCESS)
			overgrown |= UINT64_C(1) << i;
	for (unsigned i = 0; overgrown >> i; i++) {
		if (!(overgrown >> i & 1))
			continue;
		trim(&growths[i].of);
		if (growth_catch_up(&growths[i].of) != CUDA_SUCCESS)
			atomic_store(&has_overgrown[growths[i].of.card], true);
	}
	growth_end(&growths[0]);
}

static CUresult take_charged(CUgraphExec exec, CUstream stream, CUresult (*driver)(CUgraphExec, CUstream))
{
	struct growth growths[GRANT_FILE_CARDS_MAX];
	struct needs needs;
	uint32_t before;
	CUresult r;

	needs_of_exec(exec, &needs);
	if (needs.count == 0)
		return driver(exec, stream);
	r = take_begin(growths, &needs);
	if (r != CUDA_SUCCESS)
		return r;
	before = atomic_load(&trims);
	r = driver(exec, stream);
	if (r == CUDA_SUCCESS)
		note_mapped_needs(exec, &needs, before + 1);
	take_end(growths, &needs);
	return r;
}

/* ---- hooks ----------------------------------------------------------------------------------------------
 */

/* After the driver's instantiation. The program gets the handle when the shim knows what the graph needs:
 * another thread might launch it before. That thread may add nodes to the graph meanwhile, but no call takes
 * allocations out of it (cuda.h of CUDA 13.5.37, cuGraphAddMemAllocNode()). */
static CUresult instantiated(CUresult r, CUgraphExec *exec, CUgraphExec made, CUgraph graph)
{
	struct needs needs;

	if (r != CUDA_SUCCESS)
		return r;
	r = needs_of_graph(graph, &needs);
	if (r == CUDA_SUCCESS)
		r = keep_needs(made, &needs);
	if (r == CUDA_SUCCESS)
		*exec = made;
	else
		DRIVER(cuGraphExecDestroy)(made);
	return r;
}

HOOK CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
	CUgraphExec made = NULL;
	CUresult r = DRIVER(cuGraphInstantiate)(exec ? &made : NULL, graph, node, log, size);

	return instantiated(r, exec, made, graph);
}

HOOK CUresult cuGraphInstantiate_v2(
	CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)
{
	CUgraphExec made = NULL;
	CUresult r = DRIVER(cuGraphInstantiate_v2)(exec ? &made : NULL, graph, node, log, size);

	return instantiated(r, exec, made, graph);
}

HOOK CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUgraphExec made = NULL;
	CUresult r = DRIVER(cuGraphInstantiateWithFlags)(exec ? &made : NULL, graph, flags);

	return instantiated(r, exec, made, graph);
}

typedef CUresult (*instantiate)(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *);

/* It may upload at once. */
static CUresult instantiate_with(
	CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params, instantiate driver)
{
	bool uploads = cuda_is_started() && params && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	struct growth growths[GRANT_FILE_CARDS_MAX];
	struct needs needs = {0};
	CUgraphExec made = NULL;
	uint32_t before;
	CUresult r;

	if (uploads) {
		r = needs_of_graph(graph, &needs);
		if (r != CUDA_SUCCESS)
			return r;
	}
	if (needs.count == 0) {
		r = driver(exec ? &made : NULL, graph, params);
		return instantiated(r, exec, made, graph);
	}
	r = take_begin(growths, &needs);
	if (r != CUDA_SUCCESS)
		return r;
	before = atomic_load(&trims);
	r = driver(exec ? &made : NULL, graph, params);
	r = instantiated(r, exec, made, graph);
	if (r == CUDA_SUCCESS)
		note_mapped_needs(made, &needs, before + 1);
	take_end(growths, &needs);
	return r;
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
	struct needs needs;
	CUresult r;

	forget_needs(exec, &needs);
	r = DRIVER(cuGraphExecDestroy)(exec);
	pacing_renew(graph_key(exec)); /* (its handle may be another's next) */
	if (r != CUDA_SUCCESS)
		keep_needs(exec, &needs);
	else if (needs.count > 0)
		pools_settle();
	return r;
}

HOOK CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	CUresult r;

	atomic_fetch_add(&trims, 1);
	r = DRIVER(cuDeviceGraphMemTrim)(device);
	pools_settle();
	return r;
}

HOOK CUresult cuGraphDestroy(CUgraph graph)
{
	CUresult r = DRIVER(cuGraphDestroy)(graph);

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
	graphs_allocate(); /* another thread may write the type that the driver reads */
	return DRIVER(cuGraphAddNode)(node, graph, dependencies, count, params);
}

HOOK CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
	const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
	graphs_allocate(); /* another thread may write the type that the driver reads */
	return DRIVER(cuGraphAddNode_v2)(node, graph, dependencies, edges, count, params);
}

HOOK CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
	const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
	graphs_allocate(); /* another thread may write the type that the driver reads */
	return DRIVER(cuGraphAddNode_v3)(node, graph, dependencies, edges, count, params);
}
