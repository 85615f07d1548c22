/* objects.h - what this process has of the driver and was charged for, by pointer or handle.
 *
 * It is a hash table in 64 parts, each with a lock that is never held while the driver is called. The cost of
 * a call does not depend on the number of objects. The table is empty in a child of fork(), which can use
 * nothing of its parent's.
 *
 * Rule for frees: take the object, call the driver, put the object back if the call failed. Once the driver
 * has freed memory, another thread may get the same pointer. An object that is not in the table was not
 * charged and is left to the driver.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum object_kind {
	OBJECT_CONTEXT = 1,  /* CUcontext; index, stamp: memory-contexts.h */
	OBJECT_POINTER,	     /* of cuMemAlloc and similar calls, not in a block; index, stamp: its context */
	OBJECT_BLOCK,	     /* 2 MiB that small allocations share: memory-blocks.c */
	OBJECT_SMALL_ARRAYS, /* of a context; index: how many, bytes: their units, count: charged blocks, gpu:
				ARRAYS_WITH_HOLES if there may be holes between them */
	OBJECT_ARRAY,	     /* CUarray, CUmipmappedArray */
	OBJECT_PHYSICAL,     /* made by cuMemCreate; key: a number, count: references to it */
	OBJECT_HANDLE,	     /* of an OBJECT_PHYSICAL; stamp: its number, count: releases that are due */
	OBJECT_MAPPING,	     /* of an OBJECT_PHYSICAL, by address; stamp: its number */
	OBJECT_POOL, /* CUmemoryPool; index, count: memory-reserves.h, stamp: calls that allocate from it */
	OBJECT_GRAPH_MEMORY, /* of a device; fields as for a pool */
	OBJECT_EXPORT,	     /* memory of this process that other processes may have, by address */
	OBJECT_IMPORT,	     /* memory of other processes, by address; count: how many times it was opened */
	OBJECT_EXTERNAL,     /* CUexternalMemory */
	OBJECT_EXEC,	     /* CUgraphExec that allocates; bytes: a bit for each GPU of the grant */
	OBJECT_EXEC_NEED,    /* what it allocates on one GPU; index: the device, count: memory-graphs.c */
};

enum { ARRAYS_WITH_HOLES = 1 };

struct object {
	uint64_t key;
	uint64_t bytes;
	uint64_t stamp : 48;
	uint64_t kind : 8;
	uint64_t gpu : 8;
	uint32_t index;
	uint32_t count;
};

/* With 100,000 objects each lookup is a cache miss of the processor: one, not two. */
_Static_assert(sizeof(struct object) == 32, "two to a cache line");

/* objects_put() - adds the object, or replaces one with the same kind and key. -ENOMEM. */
int objects_put(const struct object *object);

/* objects_take() - removes an object and returns it; false if it is not there. */
bool objects_take(enum object_kind kind, uint64_t key, struct object *ret_object);

/* objects_get() - copies an object; false if it is not there. */
bool objects_get(enum object_kind kind, uint64_t key, struct object *ret_object);

/* objects_change() - calls `change` under the part's lock with the object, or with a new one of which only
 * kind and key are set. The object is kept as `change` leaves it, or removed if `change` returns false.
 * -ENOMEM: out of memory for a new object, and `change` was not called. `change` must not call
 * objects_...(). */
int objects_change(
	enum object_kind kind, uint64_t key, bool (*change)(struct object *, void *), void *context);

/* objects_edit() - the same, but only if the object exists. */
bool objects_edit(
	enum object_kind kind, uint64_t key, bool (*change)(struct object *, void *), void *context);
