#include "shim/graph-needs.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "shim/cuda-devices.h"
#include "shim/cuda-library.h"
#include "shim/memory.h"
#include "shim/shim.h"

#define GRAPHS_MAX (1u << 20) /* a graph and its nested graphs */

static _Atomic bool graphs_may_allocate;

void graphs_allocate(void)
{
	atomic_store_explicit(&graphs_may_allocate, true, memory_order_relaxed);
}

/* Graphs that still have to be examined. Child graphs may be nested to any depth. */
struct graph_list {
	CUgraph *graphs;
	size_t count, room, total;
};

static CUresult add_graph(struct graph_list *list, CUgraph graph)
{
	if (list->total++ >= GRAPHS_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 16;
		/* The oldest libc that the shim supports has no reallocarray(). */
		CUgraph *graphs = realloc(list->graphs, room * sizeof(*graphs));

		if (!graphs)
			return CUDA_ERROR_OUT_OF_MEMORY;
		list->graphs = graphs;
		list->room = room;
	}
	list->graphs[list->count++] = graph;
	return CUDA_SUCCESS;
}

static CUresult add_bytes(struct needs *needs, CUdevice device, uint64_t bytes)
{
	int gpu = cuda_device_gpu(device);
	struct object *need = needs->of;

	if (gpu < 0)
		return cuda_refuse_device();
	while (need < needs->of + needs->count && need->gpu != (uint32_t)gpu)
		need++;
	if (need == needs->of + needs->count) {
		*need = (struct object){
			.kind = OBJECT_EXEC_NEED, .gpu = (uint32_t)gpu, .index = (uint32_t)device};
		needs->count++;
	}
	if (__builtin_add_overflow(need->bytes, memory_rounded(bytes), &need->bytes))
		need->bytes = UINT64_MAX;
	return CUDA_SUCCESS;
}

/* cuda.h of CUDA 13.5.37, CUmemLocationType: for HOST and HOST_NUMA_CURRENT the id is ignored. Managed host
 * memory may move to a GPU, and the shim does not know other types. */
static CUresult add_allocation(struct needs *needs, const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUmemLocation location = params->poolProps.location;
	CUdevice device;

	if (cuda_location_device(location, &device))
		return add_bytes(needs, device, params->bytesize);
	if (cuda_location_is_host(location) && params->poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_SUCCESS;
	shim_log("refused a graph: no GPU can be charged for memory of type %d at a location of type %d",
		(int)params->poolProps.allocType, (int)location.type);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* The body of a conditional node contains no allocations (cuda.h of CUDA 13.5.37,
 * CUDA_CONDITIONAL_NODE_PARAMS). */
static CUresult add_node(struct needs *needs, struct graph_list *list, CUgraphNode node)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	CUgraphNodeType type;
	CUgraph child;
	CUresult r = DRIVER(cuGraphNodeGetType)(node, &type);

	if (r == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_GRAPH) {
		r = DRIVER(cuGraphChildGraphNodeGetGraph)(node, &child);
		return r == CUDA_SUCCESS ? add_graph(list, child) : r;
	}
	if (r == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
		r = DRIVER(cuGraphMemAllocNodeGetParams)(node, &params);
		return r == CUDA_SUCCESS ? add_allocation(needs, &params) : r;
	}
	return r;
}

static CUresult add_nodes(struct needs *needs, struct graph_list *list, CUgraph graph)
{
	CUgraphNode *nodes;
	size_t count = 0;
	CUresult r = DRIVER(cuGraphGetNodes)(graph, NULL, &count);

	if (r != CUDA_SUCCESS || count == 0)
		return r;
	nodes = calloc(count, sizeof(CUgraphNode));
	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = DRIVER(cuGraphGetNodes)(graph, nodes, &count);
	for (size_t i = 0; r == CUDA_SUCCESS && i < count; i++)
		r = add_node(needs, list, nodes[i]);
	free(nodes);
	return r;
}

CUresult needs_of_graph(CUgraph graph, struct needs *ret_needs)
{
	struct graph_list list = {0};
	CUresult r;

	ret_needs->count = 0;
	if (!atomic_load_explicit(&graphs_may_allocate, memory_order_relaxed))
		return CUDA_SUCCESS;
	r = add_graph(&list, graph);
	while (r == CUDA_SUCCESS && list.count > 0)
		r = add_nodes(ret_needs, &list, list.graphs[--list.count]);
	free(list.graphs);
	return r;
}

/* ---- what an executable graph needs ----------------------------------------------------------------------
 *
 * An OBJECT_EXEC has a bit for each GPU that the graph allocates on (bytes). For each of these GPUs an
 * OBJECT_EXEC_NEED has the number of bytes.
 */

_Static_assert(GRANT_FILE_GPUS_MAX <= 64, "a bit for each GPU, and six bits above the addresses of programs");

static uint64_t need_key(CUgraphExec exec, unsigned gpu)
{
	return (uintptr_t)exec ^ (uint64_t)gpu << 58;
}

void forget_needs(CUgraphExec exec, struct needs *ret_needs)
{
	struct object entry;

	ret_needs->count = 0;
	if (!objects_take(OBJECT_EXEC, (uintptr_t)exec, &entry))
		return;
	for (unsigned gpu = 0; gpu < GRANT_FILE_GPUS_MAX; gpu++)
		if (entry.bytes >> gpu & 1 &&
			objects_take(OBJECT_EXEC_NEED, need_key(exec, gpu), &ret_needs->of[ret_needs->count]))
			ret_needs->count++;
}

CUresult keep_needs(CUgraphExec exec, struct needs *needs)
{
	struct object entry = {.kind = OBJECT_EXEC, .key = (uintptr_t)exec};
	int r = 0;

	for (unsigned i = 0; i < needs->count; i++)
		entry.bytes |= UINT64_C(1) << needs->of[i].gpu;
	if (needs->count > 0)
		r = objects_put(&entry);
	for (unsigned i = 0; i < needs->count && r == 0; i++) {
		needs->of[i].key = need_key(exec, needs->of[i].gpu);
		r = objects_put(&needs->of[i]);
	}
	if (r == 0)
		return CUDA_SUCCESS;
	forget_needs(exec, needs);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool set_count(struct object *need, void *context)
{
	need->count = *(uint32_t *)context;
	return true;
}

void needs_of_exec(CUgraphExec exec, struct needs *ret_needs)
{
	struct object entry;

	ret_needs->count = 0;
	if (!atomic_load_explicit(&graphs_may_allocate, memory_order_relaxed) ||
		!objects_get(OBJECT_EXEC, (uintptr_t)exec, &entry))
		return;
	for (uint64_t left = entry.bytes; left != 0; left &= left - 1)
		if (objects_get(OBJECT_EXEC_NEED, need_key(exec, (unsigned)__builtin_ctzll(left)),
			    &ret_needs->of[ret_needs->count]))
			ret_needs->count++;
}

void note_mapped_needs(CUgraphExec exec, const struct needs *needs, uint32_t trims)
{
	for (unsigned i = 0; i < needs->count; i++)
		objects_edit(OBJECT_EXEC_NEED, need_key(exec, needs->of[i].gpu), set_count, &trims);
}
