/* objects.h - what this process has of the driver and was charged for: by pointer or handle.
 *
 * A hash table in 64 parts with a lock each, which is never held while the driver is called; each call costs
 * the same however many objects there are. Empty in a child of fork(), which can use nothing of its parent's.
 *
 * Rule for frees: take the object, call the driver, put the object back if that failed. Once the driver has
 * freed something, another thread may get the same pointer. What is not here was not charged and is the
 * driver's business.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum object_kind {
	OBJECT_CONTEXT = 1,  /* CUcontext; index, stamp: memory-contexts.h */
	OBJECT_POINTER,	     /* of cuMemAlloc and the like, not in a block; index, stamp: its context */
	OBJECT_BLOCK,	     /* 2 MiB that small allocations share: memory-blocks.c */
	OBJECT_SMALL_ARRAYS, /* of a context; index: how many, bytes: their units, count: blocks that are
				charged, GPU: ARRAYS_WITH_HOLES when there may be holes between them */
	OBJECT_ARRAY,	     /* CUarray, CUmipmappedArray */
	OBJECT_PHYSICAL,     /* what cuMemCreate made, by a number; count: references to it */
	OBJECT_HANDLE,	     /* of it; stamp: the number, count: releases that are due */
	OBJECT_MAPPING,	     /* of it, by address; stamp: the number */
	OBJECT_POOL, /* CUmemoryPool; index, count: memory-reserves.h, stamp: calls that allocate from it */
	OBJECT_GRAPH_MEMORY, /* of a device; as a pool */
	OBJECT_EXPORT,	     /* memory of this process that others may have, by address */
	OBJECT_IMPORT,	     /* memory of others, by address; count: how many times it was opened */
	OBJECT_EXTERNAL,     /* CUexternalMemory */
	OBJECT_EXEC,	     /* CUgraphExec that allocates; bytes: a bit for each GPU of the grant */
	OBJECT_EXEC_NEED,    /* what it allocates on one of them; index: the device, count: memory-graphs.c */
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

/* Of 100,000 objects each look is a miss of the processor's caches: one, not two. */
_Static_assert(sizeof(struct object) == 32, "two to a cache line");

/* objects_put() - in the place of one with the same kind and key. -ENOMEM. */
int objects_put(const struct object *object);

/* objects_take() - remove; false if it is not there. */
bool objects_take(enum object_kind kind, uint64_t key, struct object *ret_object);

/* objects_get() - a copy of it. */
bool objects_get(enum object_kind kind, uint64_t key, struct object *ret_object);

/* objects_change() - under the part's lock: with what is there, or with an object of which only kind and key
 * are set. What `change` leaves is kept, and removed if it returns false. -ENOMEM: there is no room for a new
 * one, and change was not called. change may not call objects_...(). */
int objects_change(
	enum object_kind kind, uint64_t key, bool (*change)(struct object *, void *), void *context);

/* objects_edit() - the same, but only if it is there. */
bool objects_edit(
	enum object_kind kind, uint64_t key, bool (*change)(struct object *, void *), void *context);
