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
	REGION_GRAPH,	   /* of a graph's allocation node */
	REGION_ARRAY,	   /* of an array; its address is nobody's */
	REGION_HOST,	   /* cuMemHostAlloc */
	REGION_REGISTERED, /* cuMemHostRegister */
};

struct region {
	struct span span; /* what was asked for */
	enum region_kind kind;
	struct context *context; /* NULL: pools and mappings belong to a GPU */
	struct device *device;	 /* NULL: host memory */
	uint64_t id;		 /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
	unsigned host_flags;
	bool on_gpu;	     /* REGION_MANAGED: where it was prefetched to last, as a whole */
	struct block *block; /* of the sub-allocator */
	struct span room; /* what is taken of the address space and of the GPU if it is not part of a block */
	uint64_t shared_id;   /* sim_memory_share(): others can hold it */
	void *owner;	      /* pool, or a mapping's handle */
	bool accessible;      /* REGION_MAPPED: by cuMemSetAccess */
	uint64_t ipc_offset;  /* REGION_IPC: in what is shared */
	unsigned users;	      /* REGION_IPC: opened so often; REGION_GRAPH: nodes */
	bool freed;	      /* REGION_POOL, REGION_GRAPH: its return is queued */
	bool mapped, pinned;  /* REGION_GRAPH: it has memory of the GPU, which cannot be another's now */
	bool in_use;	      /* REGION_GRAPH: allocated and not freed */
	uint64_t allocations; /* REGION_GRAPH: ever */
};

/* region_add() - fills id. -ENOMEM. The region is the set's until region_remove(). */
int region_add(struct region *region);
/* region_remove() - forget the address; the caller frees. */
void region_remove(struct region *region);
/* region_at() - the one that holds the address, or NULL. */
struct region *region_at(uint64_t address);
/* region_overlapping() - the first in [base, base + size), or NULL. */
struct region *region_overlapping(uint64_t base, uint64_t size);
/* region_next() - walk; *cursor starts at 0. */
struct region *region_next(size_t *cursor);

/* region_expect() - the region that begins at the address and is of the kind; else INVALID_VALUE, counted: a
 * double free if one was there not long ago. */
CUresult region_expect(uint64_t address, enum region_kind kind, struct region **ret_region);

/* region_bytes() - the host memory behind [address, address + size), or NULL if it is not all in one region.
 */
void *region_bytes(uint64_t address, uint64_t size);

/* regions_free_context() - whatever was allocated in it. */
void regions_free_context(struct context *context);
