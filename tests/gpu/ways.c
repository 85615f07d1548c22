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

static const struct way ways[] = {
	{"linear", take_linear, give_linear},
	{"managed", take_managed, give_linear},
	{"pitch", take_pitch, give_linear},
	{"async", take_async, give_async},
	{"virtual", take_virtual, give_virtual},
	{"array", take_array, give_array},
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
}

const struct way *way_named(const char *name)
{
	look_up();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(ways[i].name, name) == 0)
			return &ways[i];
	return NULL;
}
