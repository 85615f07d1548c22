/* physical.h - GPU memory without an address: memory that cuMemCreate makes, and memory that processes share.
 *
 * Its bytes are in a file, so they are the same at every address and in every process to which they are
 * mapped.
 */
#pragma once

#include "sim/libcuda/regions.h"

struct physical {
	unsigned users;	       /* number of handles and mappings */
	struct device *device; /* NULL: host memory */
	uint64_t size;
	int fd;
	uint64_t offset; /* in the file */
	bool own_file;
	CUmemAllocationProp properties;
	uint64_t shared_id;    /* other processes can hold it */
	struct physical *next; /* list of those with an id */
};

/* physical_new() - charges the GPU. `shareable`: with an id, by which other processes find it. */
CUresult physical_new(struct device *device, const CUmemAllocationProp *properties, uint64_t size,
	bool shareable, struct physical **ret);
/* physical_import() - the memory that another process shares by this file, or our own object of it if there
 * is one. */
CUresult physical_import(int fd, struct physical **ret);
/* physical_open() - the same, by id and file; the descriptor stays the caller's. */
CUresult physical_open(uint64_t id, int fd, struct physical **ret);
struct physical *physical_use(struct physical *physical);
void physical_drop(struct physical *physical);

/* physical_map() - from now on the addresses show the bytes of this memory. -errno. */
int physical_map(const struct physical *physical, uint64_t offset, uint64_t address, uint64_t size);

/* physical_region() - makes a region of this kind at an address of its own (external memory). */
CUresult physical_region(struct physical *physical, enum region_kind kind, uint64_t offset, uint64_t size,
	struct region **ret_region);
void physical_region_free(struct region *region);
