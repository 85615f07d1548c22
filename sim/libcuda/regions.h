/* regions.h - memory as applications know it: address, size, context, and how it is freed. */
#pragma once

#include "sim/libcuda/address.h"
#include "sim/libcuda/context.h"

enum region_kind {
	REGION_DEVICE, /* cuMemAlloc, Pitch */
	REGION_MANAGED,
	REGION_POOL,	   /* cuMemAllocAsync */
	REGION_MAPPED,	   /* cuMemMap */
	REGION_IPC,	   /* cuIpcOpenMemHandle */
	REGION_EXTERNAL,   /* cuExternalMemoryGetMappedBuffer */
	REGION_GLOBAL,	   /* a module's variable */
	REGION_GRAPH,	   /* of an allocation node in a graph */
	REGION_ARRAY,	   /* of an array; no application knows its address */
	REGION_HOST,	   /* cuMemHostAlloc */
	REGION_REGISTERED, /* cuMemHostRegister */
};

struct region {
	struct span span; /* the requested range */
	enum region_kind kind;
	struct context *context; /* NULL: pools and mappings belong to a GPU */
	struct device *device;	 /* NULL: host memory */
	uint64_t id;		 /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
	unsigned host_flags;
	bool on_gpu;	     /* REGION_MANAGED: the place of the last prefetch, for the whole region */
	struct block *block; /* its block in the sub-allocator */
	struct span
		room; /* the room taken in the address space and on the GPU, if it is not part of a block */
	uint64_t shared_id;   /* sim_memory_share(): other processes can hold it */
	void *owner;	      /* the pool, or the handle of a mapping */
	bool accessible;      /* REGION_MAPPED: access was granted by cuMemSetAccess */
	uint64_t ipc_offset;  /* REGION_IPC: in the shared memory */
	unsigned users;	      /* REGION_IPC: how often it is open; REGION_GRAPH: nodes */
	bool freed;	      /* REGION_POOL, REGION_GRAPH: its free is queued */
	bool mapped, pinned;  /* REGION_GRAPH: it has GPU memory, which no other region may take now */
	bool in_use;	      /* REGION_GRAPH: allocated and not freed */
	uint64_t allocations; /* REGION_GRAPH: number of allocations so far */
};

/* region_add() - sets id. -ENOMEM. The set owns the region until region_remove(). */
int region_add(struct region *region);
/* region_remove() - removes the region from the set; the caller frees it. */
void region_remove(struct region *region);
/* region_at() - the region that contains the address, or NULL. */
struct region *region_at(uint64_t address);
/* region_overlapping() - the first region in [base, base + size), or NULL. */
struct region *region_overlapping(uint64_t base, uint64_t size);
/* region_next() - iterates; *cursor starts at 0. */
struct region *region_next(size_t *cursor);

/* region_expect() - the region of this kind that begins at the address. Otherwise INVALID_VALUE, which is
 * counted: as a double free if a region was there recently. */
CUresult region_expect(uint64_t address, enum region_kind kind, struct region **ret_region);

/* region_bytes() - the host memory behind [address, address + size), or NULL if it is not all in one region.
 */
void *region_bytes(uint64_t address, uint64_t size);

/* regions_free_context() - frees all regions of the context. */
void regions_free_context(struct context *context);
