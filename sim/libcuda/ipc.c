/* ipc.c - memory of cuMemAlloc that other processes open by a handle of 64 bytes.
 *
 * The first handle moves the bytes into a file of the tree's state, DIR/state/ipc-ID, which other processes
 * map. The last process that holds the memory removes the file. If that process was killed, the next process
 * that starts removes it.
 */
#include "sim/libcuda/ipc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/libcuda/physical.h"
#include "sim/libcuda/suballoc.h"

#define HANDLE_MAGIC UINT64_C(0x434950494d4953) /* "SIMIPIC" */
#define COPY_BYTES ((size_t)1 << 16)

struct ipc_handle {
	uint64_t magic, id, offset, size;
	uint64_t start_ticks; /* of the exporting process */
	uint32_t pid, gpu;
};

_Static_assert(sizeof(struct ipc_handle) <= sizeof(CUipcMemHandle), "fits");

static int open_file(uint64_t id, int flags)
{
	char path[sizeof(driver.tree.root) + 48];
	int fd;

	snprintf(path, sizeof(path), "%s/state/ipc-%llu", driver.tree.root, (unsigned long long)id);
	fd = open(path, flags | O_CLOEXEC, 0666);
	if (fd >= 0 && flags & O_CREAT)
		fchmod(fd, 0666); /* whatever the umask, because users of other containers open it */
	return fd;
}

void ipc_leave(uint64_t id)
{
	char path[sizeof(driver.tree.root) + 48];

	if (!sim_memory_leave(&driver.processes, driver.slot, id))
		return;
	snprintf(path, sizeof(path), "%s/state/ipc-%llu", driver.tree.root, (unsigned long long)id);
	unlink(path);
}

void ipc_sweep(void)
{
	_cleanup_free_ char *path = NULL;
	struct dirent *entry;
	DIR *folder = NULL;

	if (asprintf(&path, "%s/state", driver.tree.root) >= 0)
		folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		unsigned long long id;

		if (sscanf(entry->d_name, "ipc-%llu", &id) == 1 && !sim_memory_known(&driver.processes, id))
			unlinkat(dirfd(folder), entry->d_name, 0);
	}
	if (folder)
		closedir(folder);
}

/* Pages that were never written stay holes. */
static int copy_into(int fd, const char *from, uint64_t size)
{
	static const char zeros[COPY_BYTES];

	for (uint64_t at = 0; at < size; at += COPY_BYTES)
		if (memcmp(from + at, zeros, COPY_BYTES) != 0 &&
			pwrite(fd, from + at, COPY_BYTES, (off_t)at) != (ssize_t)COPY_BYTES)
			return -EIO;
	return 0;
}

/* From now on the bytes of these addresses are the file's. */
static int publish(uint64_t id, const struct span *room)
{
	_cleanup_close_ int fd = open_file(id, O_RDWR | O_CREAT | O_EXCL);
	void *backing = address_backing(room->base);

	if (fd < 0 || ftruncate(fd, (off_t)room->size) < 0 || copy_into(fd, backing, room->size) < 0 ||
		mmap(backing, room->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
			MAP_FAILED)
		return -EIO;
	return 0;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *ret_handle, CUdeviceptr address)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct ipc_handle handle = {.magic = HANDLE_MAGIC};
	struct region *region;
	struct span *room;
	uint64_t *id;

	if (r != CUDA_SUCCESS)
		return r;
	region = region_at(address);
	if (!ret_handle || !region || region->kind != REGION_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	suballoc_room(region, &room, &id);
	if (*id == 0) {
		if (sim_memory_share(&driver.processes, driver.slot, region->device->gpu, room->size, id) < 0)
			return CUDA_ERROR_OUT_OF_MEMORY;
		if (publish(*id, room) < 0)
			return CUDA_ERROR_OPERATING_SYSTEM;
	}
	handle.id = *id;
	handle.offset = region->span.base - room->base;
	handle.size = region->span.size;
	handle.pid = atomic_load(&driver.slot->pid);
	handle.start_ticks = driver.slot->start_ticks;
	memset(ret_handle, 0, sizeof(*ret_handle));
	memcpy(ret_handle, &handle, sizeof(handle));
	return CUDA_SUCCESS;
}

/* The memory was opened before: the same address gets one more user. */
static struct region *opened(const struct ipc_handle *handle)
{
	struct region *region;
	size_t cursor = 0;

	while ((region = region_next(&cursor)))
		if (region->kind == REGION_IPC && region->shared_id == handle->id &&
			region->ipc_offset == handle->offset)
			return region;
	return NULL;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ret_address, CUipcMemHandle opaque, unsigned flags)
{
	_cleanup_call_ struct call call = {};
	CUresult r = call_begin_context(&call, __func__);
	struct physical *physical;
	struct ipc_handle handle;
	struct region *region;

	if (r != CUDA_SUCCESS)
		return r;
	memcpy(&handle, &opaque, sizeof(handle));
	if (!ret_address || flags & ~CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || handle.magic != HANDLE_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (handle.pid == atomic_load(&driver.slot->pid) && handle.start_ticks == driver.slot->start_ticks)
		return misuse(SIM_WRONG_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
	region = opened(&handle);
	if (!region) {
		_cleanup_close_ int fd = open_file(handle.id, O_RDWR);

		r = fd < 0 ? misuse(SIM_USE_AFTER_FREE, CUDA_ERROR_INVALID_VALUE)
			   : physical_open(handle.id, fd, &physical);
		if (r == CUDA_SUCCESS) {
			r = physical_region(physical, REGION_IPC, handle.offset, handle.size, &region);
			physical_drop(physical); /* the region keeps its reference */
		}
		if (r != CUDA_SUCCESS)
			return r;
		region->context = call.context;
		region->shared_id = handle.id;
		region->ipc_offset = handle.offset;
	}
	region->users++;
	*ret_address = region->span.base;
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *ret_address, CUipcMemHandle handle, unsigned flags)
{
	return cuIpcOpenMemHandle_v2(ret_address, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	_cleanup_call_ struct call call = {};
	struct region *region;
	CUresult r = call_begin_context(&call, __func__);

	if (r == CUDA_SUCCESS)
		r = region_expect(address, REGION_IPC, &region);
	if (r == CUDA_SUCCESS && --region->users == 0)
		physical_region_free(region);
	return r;
}
