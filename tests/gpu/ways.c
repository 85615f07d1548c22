#include "tests/gpu/ways.h"

#include <string.h>

#define ROW_BYTES 65536u

static struct {
	__typeof__(&cuMemAllocManaged) MemAllocManaged;
	__typeof__(&cuMemAllocPitch_v2) MemAllocPitch;
	__typeof__(&cuMemAllocAsync) MemAllocAsync;
	__typeof__(&cuMemFreeAsync) MemFreeAsync;
	__typeof__(&cuStreamSynchronize) StreamSynchronize;
	__typeof__(&cuMemCreate) MemCreate;
	__typeof__(&cuMemRelease) MemRelease;
	__typeof__(&cuArrayCreate_v2) ArrayCreate;
	__typeof__(&cuArrayDestroy) ArrayDestroy;
	__typeof__(&cuMemPoolCreate) MemPoolCreate;
	__typeof__(&cuMemAllocFromPoolAsync) MemAllocFromPoolAsync;
	__typeof__(&cuMipmappedArrayCreate) MipmappedArrayCreate;
	__typeof__(&cuMipmappedArrayDestroy) MipmappedArrayDestroy;
	__typeof__(&cuGraphCreate) GraphCreate;
	__typeof__(&cuGraphAddMemAllocNode) GraphAddMemAllocNode;
	__typeof__(&cuGraphInstantiateWithFlags) GraphInstantiate;
	__typeof__(&cuGraphLaunch) GraphLaunch;
	__typeof__(&cuStreamCreate) StreamCreate;
	__typeof__(&cuStreamBeginCapture_v2) StreamBeginCapture;
	__typeof__(&cuStreamEndCapture) StreamEndCapture;
} more;

static CUresult take_linear(uint64_t size, uint64_t *ret_piece)
{
	CUdeviceptr address;
	CUresult r = cu.MemAlloc(&address, size);

	*ret_piece = address;
	return r;
}

static CUresult give_linear(uint64_t piece)
{
	return cu.MemFree(piece);
}

static CUresult take_managed(uint64_t size, uint64_t *ret_piece)
{
	CUdeviceptr address;
	CUresult r = more.MemAllocManaged(&address, size, CU_MEM_ATTACH_GLOBAL);

	*ret_piece = address;
	return r;
}

static CUresult take_pitch(uint64_t size, uint64_t *ret_piece)
{
	CUdeviceptr address;
	size_t pitch;
	CUresult r = more.MemAllocPitch(&address, &pitch, ROW_BYTES, size / ROW_BYTES, 4);

	*ret_piece = address;
	return r;
}

static CUresult take_async(uint64_t size, uint64_t *ret_piece)
{
	CUdeviceptr address;
	CUresult r = more.MemAllocAsync(&address, size, NULL);

	*ret_piece = address;
	return r;
}

static CUresult give_async(uint64_t piece)
{
	CUresult r = more.MemFreeAsync(piece, NULL);

	return r == CUDA_SUCCESS ? more.StreamSynchronize(NULL) : r;
}

static CUresult take_virtual(uint64_t size, uint64_t *ret_piece)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda_device()},
	};
	CUmemGenericAllocationHandle handle;
	CUresult r = more.MemCreate(&handle, size, &properties, 0);

	*ret_piece = handle;
	return r;
}

static CUresult give_virtual(uint64_t piece)
{
	return more.MemRelease(piece);
}

static CUresult take_array(uint64_t size, uint64_t *ret_piece)
{
	CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = ROW_BYTES / sizeof(float),
		.Height = size / ROW_BYTES,
		.Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1,
	};
	CUarray array;
	CUresult r = more.ArrayCreate(&array, &shape);

	*ret_piece = (uintptr_t)array;
	return r;
}

static CUresult give_array(uint64_t piece)
{
	return more.ArrayDestroy((CUarray)(uintptr_t)piece);
}

static CUresult take_mipmapped(uint64_t size, uint64_t *ret_piece)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = ROW_BYTES / sizeof(float),
		.Height = size / ROW_BYTES,
		.Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 1,
	};
	CUmipmappedArray array;
	CUresult r = more.MipmappedArrayCreate(&array, &shape, 2);

	*ret_piece = (uintptr_t)array;
	return r;
}

static CUresult give_mipmapped(uint64_t piece)
{
	return more.MipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)piece);
}

static CUresult take_pool(uint64_t size, uint64_t *ret_piece)
{
	static CUmemoryPool pool;
	CUmemPoolProps properties = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda_device()},
	};
	CUdeviceptr address;
	CUresult r = pool ? CUDA_SUCCESS : more.MemPoolCreate(&pool, &properties);

	if (r == CUDA_SUCCESS)
		r = more.MemAllocFromPoolAsync(&address, size, pool, NULL);
	*ret_piece = address;
	return r;
}

/* Each piece is a graph of one allocation node that is launched once and never frees by itself. Graphs stay
 * until the program ends, as do those of a program that launches them again. */
static CUresult launch_once(CUgraph graph, CUstream stream)
{
	CUgraphExec exec;
	CUresult r = more.GraphInstantiate(&exec, graph, 0);

	if (r != CUDA_SUCCESS)
		return r;
	r = more.GraphLaunch(exec, stream);
	if (r == CUDA_SUCCESS)
		r = more.StreamSynchronize(stream);
	return r;
}

static CUresult take_graph(uint64_t size, uint64_t *ret_piece)
{
	CUDA_MEM_ALLOC_NODE_PARAMS node = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda_device()}},
		.bytesize = size,
	};
	CUgraphNode made;
	CUgraph graph;
	CUresult r = more.GraphCreate(&graph, 0);

	if (r != CUDA_SUCCESS)
		return r;
	r = more.GraphAddMemAllocNode(&made, graph, NULL, 0, &node);
	if (r == CUDA_SUCCESS)
		r = launch_once(graph, NULL);
	*ret_piece = node.dptr;
	return r;
}

static CUresult take_captured(uint64_t size, uint64_t *ret_piece)
{
	static CUstream stream;
	CUdeviceptr address = 0;
	CUgraph graph;
	CUresult r = stream ? CUDA_SUCCESS : more.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), end;

	if (r == CUDA_SUCCESS)
		r = more.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	if (r != CUDA_SUCCESS)
		return r;
	r = more.MemAllocAsync(&address, size, stream);
	end = more.StreamEndCapture(stream, &graph);
	if (r == CUDA_SUCCESS && end != CUDA_SUCCESS)
		r = end;
	if (r == CUDA_SUCCESS)
		r = launch_once(graph, stream);
	*ret_piece = address;
	return r;
}

static const struct way ways[] = {
	{"linear", take_linear, give_linear},
	{"managed", take_managed, give_linear},
	{"pitch", take_pitch, give_linear},
	{"async", take_async, give_async},
	{"pool", take_pool, give_async},
	{"virtual", take_virtual, give_virtual},
	{"array", take_array, give_array},
	{"mipmapped", take_mipmapped, give_mipmapped},
	{"graph", take_graph, give_async},
	{"captured", take_captured, give_async},
};

static void look_up(void)
{
	more.MemAllocManaged = cuda_symbol("cuMemAllocManaged");
	more.MemAllocPitch = cuda_symbol("cuMemAllocPitch_v2");
	more.MemAllocAsync = cuda_symbol("cuMemAllocAsync");
	more.MemFreeAsync = cuda_symbol("cuMemFreeAsync");
	more.StreamSynchronize = cuda_symbol("cuStreamSynchronize");
	more.MemCreate = cuda_symbol("cuMemCreate");
	more.MemRelease = cuda_symbol("cuMemRelease");
	more.ArrayCreate = cuda_symbol("cuArrayCreate_v2");
	more.ArrayDestroy = cuda_symbol("cuArrayDestroy");
	more.MemPoolCreate = cuda_symbol("cuMemPoolCreate");
	more.MemAllocFromPoolAsync = cuda_symbol("cuMemAllocFromPoolAsync");
	more.MipmappedArrayCreate = cuda_symbol("cuMipmappedArrayCreate");
	more.MipmappedArrayDestroy = cuda_symbol("cuMipmappedArrayDestroy");
	more.GraphCreate = cuda_symbol("cuGraphCreate");
	more.GraphAddMemAllocNode = cuda_symbol("cuGraphAddMemAllocNode");
	more.GraphInstantiate = cuda_symbol("cuGraphInstantiateWithFlags");
	more.GraphLaunch = cuda_symbol("cuGraphLaunch");
	more.StreamCreate = cuda_symbol("cuStreamCreate");
	more.StreamBeginCapture = cuda_symbol("cuStreamBeginCapture_v2");
	more.StreamEndCapture = cuda_symbol("cuStreamEndCapture");
}

const struct way *way_named(const char *name)
{
	look_up();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(ways[i].name, name) == 0)
			return &ways[i];
	return NULL;
}
