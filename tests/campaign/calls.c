/* calls.c - each way to get memory of the GPU, and to give it back. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/campaign/client.h"

#define BLOCK_BYTES (2 * MIB) /* in which the driver gives memory of the GPU */
#define POOL_STEP_BYTES (32 * MIB)
#define IPC_BYTES_MAX (64 * MIB)
#define HEAP_BYTES_MAX (64 * MIB)

struct driver_calls cu;

const char *const kind_names[KIND_MAX] = {
	[KIND_ALLOC] = "alloc",
	[KIND_PITCH] = "pitch",
	[KIND_MANAGED] = "managed",
	[KIND_ARRAY] = "array",
	[KIND_MIPMAP] = "mipmap",
	[KIND_VIRTUAL] = "virtual",
	[KIND_ASYNC] = "async",
	[KIND_POOL] = "pool",
	[KIND_GRAPH] = "graph",
	[KIND_CAPTURE] = "capture",
	[KIND_IPC] = "ipc",
	[KIND_CONTEXT] = "context",
	[KIND_MODULE] = "module",
	[KIND_LIMIT] = "limit",
	[KIND_CHILD] = "child",
};

bool driver_load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "campaign-client: %s\n", dlerror());
		return false;
	}
#define FIND(name)                                                                                           \
	cu.name = (__typeof__(cu.name))dlsym(library, #name);                                                \
	if (!cu.name) {                                                                                      \
		fprintf(stderr, "campaign-client: the driver has no %s\n", #name);                           \
		return false;                                                                                \
	}
	FUNCTIONS(FIND)
#undef FIND
	return true;
}

/* xorshift64* */
uint64_t caller_random(struct caller *caller, uint64_t below)
{
	uint64_t x = caller->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	caller->random = x;
	return below ? (x * UINT64_C(2685821657736338717) >> 11) % below : 0;
}

/* Up to `largest`: some threads draw any size alike, others as often a small one as a large one. */
static uint64_t random_bytes(struct caller *caller, uint64_t largest)
{
	unsigned bits = 6;

	if (caller->even_sizes)
		return 1 + caller_random(caller, largest);
	while (bits < 40 && UINT64_C(2) << bits <= largest)
		bits++;
	bits = 6 + (unsigned)caller_random(caller, bits - 5);
	return 1 + caller_random(caller, UINT64_C(1) << bits) + (UINT64_C(1) << bits) / 2;
}

static uint64_t in_blocks(uint64_t bytes)
{
	return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

/* ---- the budget -----------------------------------------------------------------------------------------
 */

/* First the own part, then the look at all: two that ask at once may both be told no, and never both yes. */
bool board_reserve(struct board *board, struct slot *slot, uint64_t bytes)
{
	uint64_t sum = 0;

	if (board->budget == 0)
		return true;
	atomic_fetch_add(&slot->reserved, bytes);
	for (unsigned i = 0; i < SLOTS_MAX; i++)
		sum += atomic_load(&board->slots[i].reserved);
	if (sum <= board->budget)
		return true;
	atomic_fetch_sub(&slot->reserved, bytes);
	return false;
}

void board_release(struct slot *slot, uint64_t bytes)
{
	atomic_fetch_sub(&slot->reserved, bytes);
}

static bool reserve(struct caller *caller, struct held *held, uint64_t bytes)
{
	if (!board_reserve(caller->board, caller->slot, bytes))
		return false;
	held->cost = caller->board->budget ? bytes : 0;
	return true;
}

static uint64_t random_size(struct caller *caller, struct held *held)
{
	held->bytes = random_bytes(caller, caller->board->largest);
	return held->bytes;
}

/* ---- memory with an address -----------------------------------------------------------------------------
 */

static CUresult take_alloc(struct caller *caller, struct held *held)
{
	if (!reserve(caller, held, in_blocks(random_size(caller, held))))
		return CUDA_ERROR_NOT_READY;
	return cu.cuMemAlloc_v2(&held->pointer, held->bytes);
}

static CUresult take_managed(struct caller *caller, struct held *held)
{
	if (!reserve(caller, held, in_blocks(random_size(caller, held))))
		return CUDA_ERROR_NOT_READY;
	return cu.cuMemAllocManaged(&held->pointer, held->bytes, CU_MEM_ATTACH_GLOBAL);
}

/* A row is padded to 512 bytes at most. */
static CUresult take_pitch(struct caller *caller, struct held *held)
{
	uint64_t bytes = random_size(caller, held), width = 1 + caller_random(caller, 65536);
	uint64_t height = 1 + bytes / (width + 512);
	size_t pitch;

	if (!reserve(caller, held, in_blocks((width + 512) * height)))
		return CUDA_ERROR_NOT_READY;
	return cu.cuMemAllocPitch_v2(&held->pointer, &pitch, width, height, 4);
}

static void give_pointer(struct caller *caller, struct held *held)
{
	cu.cuMemFree_v2(held->pointer);
}

/* ---- arrays ---------------------------------------------------------------------------------------------
 */

/* At least 1, at most `most` and `limit`; as often 1 or all as something between. */
static uint64_t one_of_sizes(struct caller *caller, uint64_t most, uint64_t limit)
{
	uint64_t bound = most < limit ? most : limit;

	switch (caller_random(caller, 3)) {
	case 0:
		return 1;
	case 1:
		return bound ? bound : 1;
	default:
		return 1 + caller_random(caller, bound ? bound : 1);
	}
}

static CUresult take_array(struct caller *caller, struct held *held)
{
	uint64_t bytes = random_size(caller, held), width = 1 + caller_random(caller, 8192);
	uint64_t height = 1 + bytes / (width * 16);
	CUDA_ARRAY_DESCRIPTOR flat = {width, height < 65536 ? height : 65536, CU_AD_FORMAT_FLOAT, 4};
	CUDA_ARRAY3D_DESCRIPTOR deep = {width, flat.Height / 4 + 1, 4, CU_AD_FORMAT_FLOAT, 4, 0};
	bool is_deep = caller_random(caller, 2);

	if (!reserve(caller, held, in_blocks((width + 64) * (flat.Height + 64) * 16)))
		return CUDA_ERROR_NOT_READY;
	return is_deep ? cu.cuArray3DCreate_v2(&held->array, &deep)
		       : cu.cuArrayCreate_v2(&held->array, &flat);
}

static void give_array(struct caller *caller, struct held *held)
{
	cu.cuArrayDestroy(held->array);
}

static uint64_t halved(uint64_t size, unsigned unit)
{
	return size == 0 || size >> unit ? size >> unit : 1;
}

/* Of any shape: as wide as one texel, or as high, with depth, or with layers. */
static CUresult take_mipmap(struct caller *caller, struct held *held)
{
	uint64_t texels = 1 + random_size(caller, held) / 16, width = one_of_sizes(caller, texels, 131072);
	uint64_t height = one_of_sizes(caller, texels / width, 65536), depth = texels / (width * height);
	bool layered = caller_random(caller, 2);
	unsigned units = 1 + (unsigned)caller_random(caller, 18);
	CUDA_ARRAY3D_DESCRIPTOR shape = {width, height, depth < 2048 ? depth : 2048, CU_AD_FORMAT_FLOAT, 4,
		layered ? CUDA_ARRAY3D_LAYERED : 0};
	uint64_t cost = 0;

	for (unsigned i = 0; i < units; i++)
		cost += in_blocks(16 * halved(width, i) * halved(height, i) *
				  (layered ? shape.Depth : halved(shape.Depth, i)));
	if (!reserve(caller, held, cost))
		return CUDA_ERROR_NOT_READY;
	return cu.cuMipmappedArrayCreate(&held->mipmap, &shape, units);
}

static void give_mipmap(struct caller *caller, struct held *held)
{
	cu.cuMipmappedArrayDestroy(held->mipmap);
}

/* ---- virtual memory -------------------------------------------------------------------------------------
 */

static CUresult take_virtual(struct caller *caller, struct held *held)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUresult r;

	held->bytes = in_blocks(random_size(caller, held));
	if (!reserve(caller, held, held->bytes))
		return CUDA_ERROR_NOT_READY;
	r = cu.cuMemCreate(&held->vm.handle, held->bytes, &properties, 0);
	if (r != CUDA_SUCCESS || caller_random(caller, 2) == 0)
		return r;
	if (cu.cuMemAddressReserve(&held->vm.at, held->bytes, 0, 0, 0) != CUDA_SUCCESS) {
		held->vm.at = 0;
		return CUDA_SUCCESS;
	}
	if (cu.cuMemMap(held->vm.at, held->bytes, 0, held->vm.handle, 0) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	cu.cuMemAddressFree(held->vm.at, held->bytes);
	held->vm.at = 0;
	return CUDA_SUCCESS;
}

/* In either order: a mapping keeps the memory of a handle that was released. */
static void give_virtual(struct caller *caller, struct held *held)
{
	bool release_first = caller_random(caller, 2);

	if (release_first)
		cu.cuMemRelease(held->vm.handle);
	if (held->vm.at) {
		cu.cuMemUnmap(held->vm.at, held->bytes);
		cu.cuMemAddressFree(held->vm.at, held->bytes);
	}
	if (!release_first)
		cu.cuMemRelease(held->vm.handle);
}

/* ---- pools ----------------------------------------------------------------------------------------------
 */

/* With a budget no thread has more than one allocation in a pool: then a pool holds what is counted here. */
static bool reserve_of_pool(struct caller *caller, struct held *held)
{
	uint64_t bytes = in_blocks(random_size(caller, held));

	for (unsigned i = 0; caller->board->budget && i < caller->count; i++)
		if (caller->held[i].kind == KIND_POOL)
			return false;
	return reserve(caller, held, bytes > POOL_STEP_BYTES ? bytes : POOL_STEP_BYTES);
}

/* With a budget all threads of a process take pieces of one size from the GPU's own pool. Of several sizes
 * only the driver knows how much the pool has: a small piece may stay in the room that a large one has left.
 */
static _Atomic uint64_t async_bytes;

static CUresult take_async(struct caller *caller, struct held *held)
{
	uint64_t bytes = in_blocks(random_size(caller, held)), one_size = 0;

	if (caller->board->budget) {
		atomic_compare_exchange_strong(&async_bytes, &one_size, bytes);
		held->bytes = bytes = one_size ? one_size : bytes;
	}
	if (!reserve(caller, held, bytes > POOL_STEP_BYTES ? bytes : POOL_STEP_BYTES))
		return CUDA_ERROR_NOT_READY;
	return cu.cuMemAllocAsync(&held->pointer, held->bytes, caller->stream);
}

static CUresult take_pooled(struct caller *caller, struct held *held)
{
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	uint64_t keep = caller->board->budget ? 0 : caller_random(caller, 3) * 64 * MIB;
	CUresult r = CUDA_SUCCESS;

	if (!reserve_of_pool(caller, held))
		return CUDA_ERROR_NOT_READY;
	if (!caller->pool)
		r = cu.cuMemPoolCreate(&caller->pool, &properties);
	if (r != CUDA_SUCCESS)
		return r;
	cu.cuMemPoolSetAttribute(caller->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
	return cu.cuMemAllocFromPoolAsync(&held->pointer, held->bytes, caller->pool, caller->stream);
}

static void give_async(struct caller *caller, struct held *held)
{
	cu.cuMemFreeAsync(held->pointer, caller->stream);
	if (caller->board->budget || caller_random(caller, 2) == 0)
		cu.cuStreamSynchronize(caller->stream);
	if (!caller->pool || held->kind != KIND_POOL)
		return;
	if (caller->board->budget || caller_random(caller, 4) == 0)
		cu.cuMemPoolTrimTo(caller->pool, 0);
	if (caller_random(caller, 8) == 0) {
		cu.cuMemPoolDestroy(caller->pool);
		caller->pool = NULL;
	}
}

/* ---- graphs ---------------------------------------------------------------------------------------------
 */

static CUresult build_graph(struct caller *caller, struct held *held)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
		.bytesize = held->bytes,
	};
	CUgraphNode first, second;
	CUresult r = cu.cuGraphCreate(&held->graph.graph, 0);

	if (r == CUDA_SUCCESS)
		r = cu.cuGraphAddMemAllocNode(&first, held->graph.graph, NULL, 0, &params);
	held->graph.pointer = params.dptr;
	if (r == CUDA_SUCCESS && held->graph.frees)
		r = cu.cuGraphAddMemFreeNode(&second, held->graph.graph, &first, 1, params.dptr);
	return r;
}

static CUresult capture_graph(struct caller *caller, struct held *held)
{
	CUresult r = cu.cuStreamBeginCapture_v2(caller->stream, CU_STREAM_CAPTURE_MODE_RELAXED), end;

	if (r != CUDA_SUCCESS)
		return r;
	r = cu.cuMemAllocAsync(&held->graph.pointer, held->bytes, caller->stream);
	if (r == CUDA_SUCCESS && held->graph.frees)
		r = cu.cuMemFreeAsync(held->graph.pointer, caller->stream);
	end = cu.cuStreamEndCapture(caller->stream, &held->graph.graph);
	return r == CUDA_SUCCESS ? end : r;
}

/* What a graph has allocated and does not free itself outlives it, so it is freed before or after the graph's
 * end. */
static void give_graph(struct caller *caller, struct held *held)
{
	bool early = caller_random(caller, 2);

	if (held->graph.exec) {
		cu.cuStreamSynchronize(caller->stream);
		if (!held->graph.frees && early)
			cu.cuMemFreeAsync(held->graph.pointer, caller->stream);
		cu.cuStreamSynchronize(caller->stream);
		cu.cuGraphExecDestroy(held->graph.exec);
	}
	if (held->graph.graph)
		cu.cuGraphDestroy(held->graph.graph);
	if (held->graph.exec && !held->graph.frees && !early)
		cu.cuMemFree_v2(held->graph.pointer);
	if (caller->board->budget || (caller->trims && caller_random(caller, 4) == 0))
		cu.cuDeviceGraphMemTrim(0);
}

static CUresult take_graph(struct caller *caller, struct held *held)
{
	bool captured = held->kind == KIND_CAPTURE;
	CUresult r;

	held->graph.frees = caller_random(caller, 100) < caller->percent_self_freeing;
	if (!reserve(caller, held, in_blocks(random_size(caller, held))))
		return CUDA_ERROR_NOT_READY;
	r = captured ? capture_graph(caller, held) : build_graph(caller, held);
	if (r == CUDA_SUCCESS)
		r = cu.cuGraphInstantiateWithFlags(&held->graph.exec, held->graph.graph, 0);
	if (r == CUDA_SUCCESS)
		r = cu.cuGraphLaunch(held->graph.exec, caller->stream);
	if (r == CUDA_SUCCESS && held->graph.frees && caller_random(caller, 2))
		r = cu.cuGraphLaunch(held->graph.exec, caller->stream);
	if (r != CUDA_SUCCESS)
		give_graph(caller, held);
	return r;
}

/* ---- between processes ----------------------------------------------------------------------------------
 */

static CUresult offer_memory(struct caller *caller, struct held *held, struct offer *offer)
{
	uint32_t free_state = 0;
	CUresult r;

	held->bytes = MIB + 1 + random_bytes(caller, IPC_BYTES_MAX - MIB) % (IPC_BYTES_MAX - MIB);
	if (!reserve(caller, held, in_blocks(held->bytes)))
		return CUDA_ERROR_NOT_READY;
	r = cu.cuMemAlloc_v2(&held->ipc.pointer, held->bytes);
	if (r != CUDA_SUCCESS || !atomic_compare_exchange_strong(&offer->state, &free_state, 1))
		return r;
	offer->bytes = held->bytes;
	atomic_store(&offer->slot, (uint32_t)(caller->slot - caller->board->slots));
	if (cu.cuIpcGetMemHandle(&offer->handle, held->ipc.pointer) == CUDA_SUCCESS) {
		held->ipc.offer = offer;
		atomic_store(&offer->state, 2);
	} else {
		atomic_store(&offer->state, 0);
	}
	return CUDA_SUCCESS;
}

/* The memory stays as long as one process has it: who opens it may be the last. A handle that is gone is
 * refused with another word than memory that is not there. */
static CUresult open_memory(struct caller *caller, struct held *held, struct offer *offer)
{
	CUipcMemHandle handle = offer->handle;
	CUresult r;

	held->bytes = offer->bytes;
	if (held->bytes == 0 || held->bytes > IPC_BYTES_MAX + MIB ||
		!reserve(caller, held, in_blocks(held->bytes)))
		return CUDA_ERROR_NOT_READY;
	r = cu.cuIpcOpenMemHandle_v2(&held->ipc.pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	board_release(caller->slot, held->cost);
	held->cost = 0;
	return CUDA_ERROR_NOT_READY;
}

static CUresult take_ipc(struct caller *caller, struct held *held)
{
	struct offer *offer = &caller->board->offers[caller_random(caller, OFFERS_MAX)];

	if (atomic_load(&offer->state) == 2 &&
		&caller->board->slots[atomic_load(&offer->slot)] != caller->slot)
		return open_memory(caller, held, offer);
	return offer_memory(caller, held, offer);
}

static void give_ipc(struct caller *caller, struct held *held)
{
	uint32_t there = 2;

	if (held->ipc.offer) {
		atomic_compare_exchange_strong(&held->ipc.offer->state, &there, 0);
		cu.cuMemFree_v2(held->ipc.pointer);
	} else if (cu.cuIpcCloseMemHandle(held->ipc.pointer) != CUDA_SUCCESS) {
		cu.cuMemFree_v2(held->ipc.pointer); /* its own that it could not offer */
	}
}

/* ---- what the driver takes for itself -------------------------------------------------------------------
 */

/* A new context, and now and then memory in it, which goes with it. */
static CUresult take_context(struct caller *caller, struct held *held)
{
	uint64_t inside = caller_random(caller, 2) * in_blocks(random_bytes(caller, 64 * MIB));
	CUdeviceptr lost;
	CUresult r;

	held->bytes = caller->board->context_bytes;
	if (!reserve(caller, held, held->bytes + inside))
		return CUDA_ERROR_NOT_READY;
	r = cu.cuCtxCreate_v2(&held->context, 0, 0);
	if (r != CUDA_SUCCESS)
		return r;
	if (inside)
		r = cu.cuMemAlloc_v2(&lost, inside);
	cu.cuCtxPopCurrent_v2(NULL);
	cu.cuCtxSetCurrent(caller->context);
	if (r != CUDA_SUCCESS)
		cu.cuCtxDestroy_v2(held->context);
	return r;
}

static void give_context(struct caller *caller, struct held *held)
{
	cu.cuCtxDestroy_v2(held->context);
}

static CUresult take_module(struct caller *caller, struct held *held)
{
	char image[128];
	unsigned mib = 2 + 2 * (unsigned)caller_random(caller, 16);

	held->bytes = mib * MIB;
	if (!reserve(caller, held, held->bytes))
		return CUDA_ERROR_NOT_READY;
	snprintf(image, sizeof(image),
		"{\"rationSimModule\": 1, \"memoryMiB\": %u, \"functions\": {\"f\": {\"us\": 1}}}", mib);
	return cu.cuModuleLoadData(&held->module, image);
}

static void give_module(struct caller *caller, struct held *held)
{
	cu.cuModuleUnload(held->module);
}

/* A larger heap of the process's own context: one thread of a process has it at a time. */
static _Atomic bool heap_taken;

static CUresult take_limit(struct caller *caller, struct held *held)
{
	CUresult r;

	held->bytes = in_blocks(1 + caller_random(caller, HEAP_BYTES_MAX));
	if (atomic_exchange(&heap_taken, true))
		return CUDA_ERROR_NOT_READY;
	r = reserve(caller, held, held->bytes)
		    ? cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB + held->bytes)
		    : CUDA_ERROR_NOT_READY;
	if (r != CUDA_SUCCESS)
		atomic_store(&heap_taken, false);
	return r;
}

static void give_limit(struct caller *caller, struct held *held)
{
	cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB);
	atomic_store(&heap_taken, false);
}

/* ---- another process ------------------------------------------------------------------------------------
 */

static CUresult take_child(struct caller *caller, struct held *held)
{
	struct board *board = caller->board;

	if (!board->forks || caller->inside)
		return CUDA_ERROR_NOT_READY;
	for (int i = SLOTS_MAX / 2; i < SLOTS_MAX; i++) {
		uint32_t nobody = 0;

		if (!atomic_compare_exchange_strong(&board->slots[i].taken, &nobody, 1))
			continue;
		held->child.slot = i;
		held->child.pid = worker_start(i);
		if (held->child.pid > 0) {
			atomic_store(&board->slots[i].pid, held->child.pid);
			return CUDA_SUCCESS;
		}
		worker_forget(board, &board->slots[i]);
		break;
	}
	return CUDA_ERROR_NOT_READY;
}

/* Nobody else can have its number before it is waited for. Its slot may have been given away. */
static void give_child(struct caller *caller, struct held *held)
{
	struct slot *slot = &caller->board->slots[held->child.slot];

	kill(held->child.pid, SIGKILL);
	waitpid(held->child.pid, NULL, 0);
	if (atomic_load(&slot->pid) == held->child.pid)
		worker_forget(caller->board, slot);
}

/* ---- all of them ----------------------------------------------------------------------------------------
 */

static const struct {
	CUresult (*take)(struct caller *caller, struct held *held);
	void (*give)(struct caller *caller, struct held *held);
} ways[KIND_MAX] = {
	[KIND_ALLOC] = {take_alloc, give_pointer},
	[KIND_PITCH] = {take_pitch, give_pointer},
	[KIND_MANAGED] = {take_managed, give_pointer},
	[KIND_ARRAY] = {take_array, give_array},
	[KIND_MIPMAP] = {take_mipmap, give_mipmap},
	[KIND_VIRTUAL] = {take_virtual, give_virtual},
	[KIND_ASYNC] = {take_async, give_async},
	[KIND_POOL] = {take_pooled, give_async},
	[KIND_GRAPH] = {take_graph, give_graph},
	[KIND_CAPTURE] = {take_graph, give_graph},
	[KIND_IPC] = {take_ipc, give_ipc},
	[KIND_CONTEXT] = {take_context, give_context},
	[KIND_MODULE] = {take_module, give_module},
	[KIND_LIMIT] = {take_limit, give_limit},
	[KIND_CHILD] = {take_child, give_child},
};

CUresult call_take(struct caller *caller, enum kind kind, struct held *ret_held)
{
	struct held held = {.kind = kind};
	CUresult r = ways[kind].take(caller, &held);

	if (r == CUDA_SUCCESS) {
		*ret_held = held;
		atomic_fetch_add(&caller->board->calls[kind], 1);
		return r;
	}
	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		atomic_fetch_add(&caller->board->refused[kind], 1);
		if (caller->board->budget)
			fprintf(stderr, "refused: %s of %llu bytes, slot %d\n", kind_names[kind],
				(unsigned long long)held.bytes, (int)(caller->slot - caller->board->slots));
	} else if (r != CUDA_ERROR_NOT_READY) {
		atomic_fetch_add(&caller->board->failed[kind], 1);
		fprintf(stderr, "failed: %s with %d\n", kind_names[kind], (int)r);
	}
	board_release(caller->slot, held.cost);
	return r;
}

void call_give(struct caller *caller, struct held *held)
{
	ways[held->kind].give(caller, held);
	board_release(caller->slot, held->cost);
}

unsigned fill(CUdeviceptr *pieces, unsigned max)
{
	unsigned count = 0;

	while (count < max && cu.cuMemAlloc_v2(&pieces[count], PIECE_BYTES) == CUDA_SUCCESS)
		count++;
	return count;
}
