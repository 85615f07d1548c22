#include "sim/libcuda/physical.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/libcuda/gpus.h"
#include "sim/libcuda/ipc.h"

#define FILE_PAGE 4096
#define NAME "ration-sim-memory-"

static struct physical *shared_ones;

/* Memory that is not shared is in one file of the process, at offsets that were never used before. */
static int private_file(uint64_t size, uint64_t *ret_offset)
{
	static int fd = -1;
	static uint64_t end;

	if (fd < 0)
		fd = memfd_create("ration-sim-private", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)(end + size)) < 0)
		return -errno;
	*ret_offset = end;
	end += size;
	return fd;
}

static int open_file(struct physical *p)
{
	char name[64];

	if (!p->shared_id) {
		p->fd = private_file(p->size, &p->offset);
		return p->fd < 0 ? p->fd : 0;
	}
	/* The name tells an importing process, which gets only a descriptor, which memory it is. */
	snprintf(name, sizeof(name), NAME "%llu", (unsigned long long)p->shared_id);
	p->fd = memfd_create(name, MFD_CLOEXEC);
	p->own_file = p->fd >= 0;
	return p->fd < 0 || ftruncate(p->fd, (off_t)p->size) < 0 ? -errno : 0;
}

static void forget_shared(struct physical *p)
{
	struct physical **link = &shared_ones;

	while (*link && *link != p)
		link = &(*link)->next;
	if (*link)
		*link = p->next;
}

static void give(struct physical *p)
{
	if (p->shared_id) {
		forget_shared(p);
		ipc_leave(p->shared_id);
	} else if (p->device) {
		gpu_give(p->device, p->size);
	}
	if (p->own_file)
		close(p->fd);
	else if (p->fd >= 0)
		fallocate(
			p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)p->offset, (off_t)p->size);
	free(p);
}

struct physical *physical_use(struct physical *physical)
{
	physical->users++;
	return physical;
}

void physical_drop(struct physical *physical)
{
	if (physical && --physical->users == 0)
		give(physical);
}

CUresult physical_new(struct device *device, const CUmemAllocationProp *properties, uint64_t size,
	bool shareable, struct physical **ret)
{
	struct physical *p = calloc(1, sizeof(*p));

	if (!p || (device && gpu_take(device, size) != CUDA_SUCCESS)) {
		free(p);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*p = (struct physical){
		.users = 1, .device = device, .size = size, .fd = -1, .properties = *properties};
	if (shareable && device &&
		sim_memory_share(&driver.processes, driver.slot, device->gpu, size, &p->shared_id) == 0) {
		p->next = shared_ones;
		shared_ones = p;
	}
	if ((shareable && device && !p->shared_id) || open_file(p) < 0) {
		physical_drop(p);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	fault_point("physical.created", device ? device->gpu : SIM_MAX_GPUS);
	*ret = p;
	return CUDA_SUCCESS;
}

/* Returns 0 if the file is not ours. */
static uint64_t id_of_file(int fd)
{
	char path[64], target[128];
	unsigned long long id = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return 0;
	target[n] = '\0';
	return sscanf(target, "/memfd:" NAME "%llu", &id) == 1 ? id : 0;
}

static struct device *device_of_gpu(unsigned gpu)
{
	for (int i = 0; i < driver.device_count; i++)
		if (driver.devices[i].gpu == gpu)
			return &driver.devices[i];
	return NULL;
}

CUresult physical_import(int fd, struct physical **ret)
{
	uint64_t id = id_of_file(fd);

	return id ? physical_open(id, fd, ret) : CUDA_ERROR_INVALID_VALUE;
}

CUresult physical_open(uint64_t id, int fd, struct physical **ret)
{
	struct physical *p;
	uint64_t size;
	unsigned gpu;

	for (p = shared_ones; p; p = p->next)
		if (p->shared_id == id) {
			*ret = physical_use(p);
			return CUDA_SUCCESS;
		}
	p = calloc(1, sizeof(*p));
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (sim_memory_join(&driver.processes, driver.slot, id, &size, &gpu) < 0) {
		free(p);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*p = (struct physical){.users = 1,
		.device = device_of_gpu(gpu),
		.size = size,
		.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3),
		.own_file = true,
		.shared_id = id,
		.next = shared_ones};
	p->properties = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)(p->device - driver.devices)}};
	shared_ones = p;
	if (!p->device || p->fd < 0) {
		physical_drop(p);
		return CUDA_ERROR_INVALID_DEVICE;
	}
	*ret = p;
	return CUDA_SUCCESS;
}

int physical_map(const struct physical *p, uint64_t offset, uint64_t address, uint64_t size)
{
	void *at = mmap(address_backing(address), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->fd,
		(off_t)(p->offset + offset));

	return at == MAP_FAILED ? -errno : 0;
}

CUresult physical_region(struct physical *physical, enum region_kind kind, uint64_t offset, uint64_t size,
	struct region **ret_region)
{
	struct region *region = calloc(1, sizeof(*region));
	uint64_t skew = offset % FILE_PAGE; /* files are mapped in whole pages */

	if (!region)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*region = (struct region){.kind = kind, .device = physical->device, .owner = physical};
	region->room.size = round_up(size + skew, PAGE_BYTES);
	if (address_take(ARENA_DEVICE, &region->room, PAGE_BYTES, 0) < 0) {
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	region->span = (struct span){region->room.base + skew, size};
	if (physical_map(physical, offset - skew, region->room.base, size + skew) < 0 ||
		region_add(region) < 0) {
		address_give(&region->room);
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	physical_use(physical);
	*ret_region = region;
	return CUDA_SUCCESS;
}

void physical_region_free(struct region *region)
{
	region_remove(region);
	address_give(&region->room);
	physical_drop(region->owner);
	free(region);
}
