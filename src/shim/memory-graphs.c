/* Graphs that allocate.
 *
 * The driver owns their memory, per device. It takes the memory when a graph is launched or uploaded, and
 * keeps it even after the graph's end, until cuDeviceGraphMemTrim() takes what is idle. So what a graph
 * allocates is charged before its first launch and before the first launch after a trim.
 *
 * CUDA programming guide 13.0, "Graph Memory Nodes", "Physical Memory Footprint": "reserved" is the memory
 * held for graphs; "used" is what is mapped by at least one graph, running or not. Several launches at the
 * same time would all count on memory that is reserved and not used, so no launch does. If there is no room
 * for all that a graph allocates, unused memory is trimmed.
 *
 * Graphs may share memory, and the driver may have to undo that when one is launched into another stream.
 * Then it can grow by more than was charged. The excess is charged, beyond the limit if necessary, and
 * further requests are refused until the total fits.
 */
#include <stdatomic.h>

#include "grant/wait.h"
#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/graph-needs.h"
#include "shim/memory.h"
#include "shim/memory-pools.h"
#include "shim/pacing.h"

#define TRIM_PATIENCE_NS INT64_C(1000000000)
#define TRIES 4 /* of a launch that other threads trim; the last try charges everything */

/* ---- trims ----------------------------------------------------------------------------------------------
 */

static _Atomic uint32_t trims; /* graphs mapped before the last trim may no longer be mapped */
/* Numbers of threads. waiting: threads that want to launch and wait for the end of a trim. */
static _Atomic uint32_t launching, trimming, waiting;

/* From the moment at which a launch checks what is mapped until the driver's answer, nothing may be
 * trimmed. */
static void begin_launch(void)
{
	bool waits = false;

	for (;;) {
		atomic_fetch_add(&launching, 1);
		if (atomic_load(&trimming) == 0)
			break;
		atomic_fetch_sub(&launching, 1);
		if (!waits)
			atomic_fetch_add(&waiting, 1);
		waits = true;
		wait_nap();
	}
	if (waits)
		atomic_fetch_sub(&waiting, 1);
}

static void end_launch(void)
{
	atomic_fetch_sub(&launching, 1);
}

/* A launch may take long, for example if the queue of its stream is full. So a trim waits for a limited time
 * and is then skipped. Launches that have waited for one trim go before the next; otherwise threads that trim
 * continuously would let no launch through. */
static CUresult trim_device(CUdevice device)
{
	int64_t begin = wait_now_ns();
	CUresult r = CUDA_SUCCESS;
	bool alone;

	while (atomic_load(&waiting) > 0 && wait_now_ns() - begin < TRIM_PATIENCE_NS)
		wait_nap();
	atomic_fetch_add(&trimming, 1);
	for (;;) {
		alone = atomic_load(&launching) == 0;
		if (alone || wait_now_ns() - begin > TRIM_PATIENCE_NS)
			break;
		wait_nap();
	}
	if (alone) {
		atomic_fetch_add(&trims, 1);
		r = DRIVER(cuDeviceGraphMemTrim)(device);
	}
	atomic_fetch_sub(&trimming, 1);
	pools_settle();
	return r;
}

/* ---- taking it ------------------------------------------------------------------------------------------
 */

static struct reserve_of graph_memory(const struct object *need)
{
	return (struct reserve_of){.kind = OBJECT_GRAPH_MEMORY, .key = need->index, .gpu = need->gpu};
}

/* A mapped graph needs nothing more. count: 1 + the number of trims when it was mapped. */
static uint64_t bytes_to_map(const struct object *need)
{
	return need->count == atomic_load(&trims) + 1 ? 0 : need->bytes;
}

/* Begins the call, and charges its first GPU. */
static CUresult pay_first(struct growth *growth, const struct object *need, bool all)
{
	struct reserve_of of = graph_memory(need);
	CUresult r = growth_begin_paid(growth, &of, all ? need->bytes : bytes_to_map(need));

	if (r != CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	trim_device((CUdevice)of.key);
	return growth_begin_paid(growth, &of, need->bytes);
}

static void give_back(struct growth *growths, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		growth_give_back(&growths[i]);
	growth_end(&growths[0]);
}

/* Charges all GPUs or none. For GPUs after the first it neither trims nor waits for a sample, which proves
 * little while a call is under way. *ret_refused: the GPU that has no room. all: charge even what is
 * mapped. */
static CUresult pay(struct growth *growths, const struct needs *needs, bool all, unsigned *ret_refused)
{
	CUresult r = pay_first(&growths[0], &needs->of[0], all);

	*ret_refused = 0;
	for (unsigned i = 1; i < needs->count && r == CUDA_SUCCESS; i++) {
		const struct object *need = &needs->of[i];
		struct reserve_of of = graph_memory(need);

		r = growth_join(&growths[i], &of, all ? need->bytes : bytes_to_map(need));
		if (r == CUDA_SUCCESS)
			continue;
		give_back(growths, i);
		*ret_refused = i;
	}
	return r;
}

/* Charges, and begins the launch. If a GPU after the first is refused, it becomes the first: then its memory
 * is trimmed, and a sample is waited for. If there is still no room, the launch is refused. */
static CUresult take_begin(struct growth *growths, struct needs *needs)
{
	unsigned tries = 2 * needs->count + TRIES;

	for (unsigned i = 1; i <= tries; i++) {
		uint32_t before = atomic_load(&trims);
		unsigned refused;
		CUresult r = pay(growths, needs, i == tries, &refused);

		if (r == CUDA_SUCCESS) {
			begin_launch();
			if (i == tries || atomic_load(&trims) == before)
				return CUDA_SUCCESS;
			end_launch();
			give_back(growths, needs->count);
			continue;
		}
		if (refused == 0)
			return r;
		struct object first = needs->of[0];
		needs->of[0] = needs->of[refused];
		needs->of[refused] = first;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* exec: NULL: the driver has refused the launch.
 *
 * The driver may have taken more than was charged: on a full GPU it gives the memory of an idle graph to
 * another graph, and takes memory again when the idle one is launched. Running graphs cannot be stopped, but
 * idle memory can be trimmed. False: the driver took more, and there was no room for it. */
static bool take_end(struct growth *growths, const struct needs *needs, CUgraphExec exec)
{
	bool fits = true;

	if (exec)
		note_mapped_needs(exec, needs, atomic_load(&trims) + 1);
	end_launch();
	/* A trim settles all known needs, so the charged ones must have been noted before it. */
	for (unsigned i = 0; i < needs->count; i++)
		fits &= growth_settle(&growths[i]) == CUDA_SUCCESS;
	for (unsigned i = 0; i < needs->count; i++)
		if (!memory_has_room(growths[i].of.gpu, 0))
			trim_device((CUdevice)growths[i].of.key);
	growth_end(&growths[0]);
	return fits;
}

static CUresult take_charged(CUgraphExec exec, CUstream stream, CUresult (*driver)(CUgraphExec, CUstream))
{
	struct growth growths[GRANT_FILE_GPUS_MAX];
	struct needs needs;
	CUresult r;

	needs_of_exec(exec, &needs);
	if (needs.count == 0)
		return driver(exec, stream);
	r = take_begin(growths, &needs);
	if (r != CUDA_SUCCESS)
		return r;
	r = driver(exec, stream);
	take_end(growths, &needs, r == CUDA_SUCCESS ? exec : NULL);
	return r;
}

/* ---- hooks ----------------------------------------------------------------------------------------------
 */

/* Called after the driver's instantiation. The program gets the handle only when the shim knows what the
 * graph needs, because another thread might launch it earlier. That thread may add nodes to the graph
 * meanwhile, but no call removes allocations from it (cuda.h of CUDA 13.5.37, cuGraphAddMemAllocNode()). */
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

/* Another thread may have added allocations to the graph since its needs were determined. An upload makes the
 * driver take memory for these as well. */
static bool fits_as_uploaded(CUgraphExec exec)
{
	struct needs needs;
	bool fits = true;

	needs_of_exec(exec, &needs);
	for (unsigned i = 0; i < needs.count; i++) {
		struct reserve_of of = graph_memory(&needs.of[i]);

		fits &= growth_catch_up(&of) == CUDA_SUCCESS;
	}
	return fits;
}

static void undo_upload(CUgraphExec exec)
{
	struct needs needs;

	forget_needs(exec, &needs);
	DRIVER(cuGraphExecDestroy)(exec);
	for (unsigned i = 0; i < needs.count; i++)
		trim_device((CUdevice)needs.of[i].index);
}

/* Instantiation may upload at once. own: a copy, because another thread may write to the program's structure
 * while the driver reads it. */
static CUresult instantiate_with(
	CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params, instantiate driver)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS own = {0};
	struct growth growths[GRANT_FILE_GPUS_MAX];
	struct needs needs = {0};
	CUgraphExec made = NULL;
	bool uploads, fits = true;
	CUresult r;

	if (!cuda_is_started() || !params)
		return driver(exec, graph, params);
	own = *params;
	uploads = own.flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	if (uploads) {
		r = needs_of_graph(graph, &needs);
		if (r == CUDA_SUCCESS && needs.count > 0)
			r = take_begin(growths, &needs);
		if (r != CUDA_SUCCESS)
			return r;
	}
	r = driver(exec ? &made : NULL, graph, &own);
	params->hErrNode_out = own.hErrNode_out;
	params->result_out = own.result_out;
	r = instantiated(r, exec, made, graph);
	if (needs.count > 0)
		fits = take_end(growths, &needs, r == CUDA_SUCCESS ? made : NULL);
	if (r == CUDA_SUCCESS && uploads)
		fits &= fits_as_uploaded(made);
	if (r == CUDA_SUCCESS && !fits) {
		*exec = NULL;
		undo_upload(made);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
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
	pacing_renew(graph_key(exec)); /* another graph may get its handle next */
	if (r != CUDA_SUCCESS)
		keep_needs(exec, &needs);
	else if (needs.count > 0)
		pools_settle();
	return r;
}

HOOK CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	return trim_device(device);
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
