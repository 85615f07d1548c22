/* physical.h - memory of a GPU that is apart from addresses: what cuMemCreate makes, and what other
 * processes share.
 *
 * Its bytes are in a file, so that they are the same at every address and in every process it is mapped to.
 */
#pragma once

#include "sim/libcuda/regions.h"

struct physical {
	unsigned users;	       /* handles and mappings */
	struct device *device; /* NULL: host memory */
	uint64_t size;
	int fd;
	uint64_t offset; /* in the file */
	bool own_file;
	CUmemAllocationProp properties;
	uint64_t shared_id;    /* others can hold it */
	struct physical *next; /* of those with an id */
};

/* physical_new() - charged to the GPU. `shareable`: with an id, by which others find it. */
CUresult physical_new(struct device *device, const CUmemAllocationProp *properties, uint64_t size,
	bool shareable, struct physical **ret);
/* physical_import() - what another process shares by this file, or what we hold of it already. */
CUresult physical_import(int fd, struct physical **ret);
/* physical_open() - the same by id and file; the descriptor stays the caller's. */
CUresult physical_open(uint64_t id, int fd, struct physical **ret);
struct physical *physical_use(struct physical *physical);
void physical_drop(struct physical *physical);

/* physical_map() - its bytes from now on are those of the addresses. -errno. */
int physical_map(const struct physical *physical, uint64_t offset, uint64_t address, uint64_t size);

/* physical_region() - a region of this kind at an address of its own (external memory). */
CUresult physical_region(struct physical *physical, enum region_kind kind, uint64_t offset, uint64_t size,
	struct region **ret_region);
void physical_region_free(struct region *region);
