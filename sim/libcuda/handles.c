#include "sim/libcuda/handles.h"

#include <errno.h>
#include <stdlib.h>

#include "sim/libcuda/driver.h"

/* The layout of a handle: bits 4..23 index, 24..35 generation, 36..46 process. It is aligned like a pointer,
 * as callers expect. */
#define INDEX_BITS 20
#define GENERATION_BITS 12
#define PROCESS_BITS 11
#define INDEX_SHIFT 4
#define GENERATION_SHIFT (INDEX_SHIFT + INDEX_BITS)
#define PROCESS_SHIFT (GENERATION_SHIFT + GENERATION_BITS)

struct entry {
	struct object *object; /* NULL: free */
	uint32_t generation;
	uint32_t next_free; /* index + 1 */
};

static struct entry *entries;
static size_t entry_count, entry_capacity;
static uint32_t first_free,
	last_free; /* index + 1; the oldest is reused first, so that generations repeat late */

static uint64_t process_part(void)
{
	uint64_t mixed = (driver.slot->pid * UINT64_C(2654435761)) ^ driver.slot->start_ticks * 40503;

	return (mixed ^ mixed >> 16) % ((1u << PROCESS_BITS) - 1) + 1;
}

static int grow(void)
{
	size_t capacity = entry_capacity ? entry_capacity * 2 : 1024;
	struct entry *more;

	if (capacity > 1u << INDEX_BITS)
		return -ENOMEM;
	more = reallocarray(entries, capacity, sizeof(*entries));
	if (!more)
		return -ENOMEM;
	entries = more;
	entry_capacity = capacity;
	return 0;
}

static int take_index(size_t *ret_index)
{
	if (entry_count == entry_capacity && !first_free && grow() < 0)
		return -ENOMEM;
	if (entry_count < entry_capacity) {
		*ret_index = entry_count++;
		entries[*ret_index] = (struct entry){};
		return 0;
	}
	*ret_index = first_free - 1;
	first_free = entries[*ret_index].next_free;
	if (!first_free)
		last_free = 0;
	return 0;
}

int object_register(struct object *object, enum object_kind kind, struct context *context)
{
	struct entry *entry;
	size_t index;

	if (take_index(&index) < 0)
		return -ENOMEM;
	entry = &entries[index];
	entry->generation = (entry->generation + 1) & ((1u << GENERATION_BITS) - 1);
	entry->object = object;
	object->kind = kind;
	object->context = context;
	object->handle = process_part() << PROCESS_SHIFT | (uint64_t)entry->generation << GENERATION_SHIFT |
			 (uint64_t)index << INDEX_SHIFT;
	return 0;
}

static size_t index_of(uint64_t handle)
{
	return handle >> INDEX_SHIFT & ((1u << INDEX_BITS) - 1);
}

void object_forget(struct object *object)
{
	size_t index = index_of(object->handle);

	if (!object->handle || index >= entry_count || entries[index].object != object)
		return;
	entries[index].object = NULL;
	entries[index].next_free = 0;
	if (last_free)
		entries[last_free - 1].next_free = (uint32_t)index + 1;
	else
		first_free = (uint32_t)index + 1;
	last_free = (uint32_t)index + 1;
	object->handle = 0;
}

static CUresult refuse(uint64_t handle, enum object_kind kind)
{
	CUresult answer = kind == OBJECT_CONTEXT ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
	uint64_t process = handle >> PROCESS_SHIFT;
	size_t index = index_of(handle);

	if (handle == 0)
		return answer;
	if (process == 0 || process >= 1u << PROCESS_BITS || handle & ((1u << INDEX_SHIFT) - 1))
		return misuse(SIM_NOT_A_HANDLE, answer);
	if (process != process_part())
		return misuse(SIM_FOREIGN_HANDLE, answer);
	if (index >= entry_count || (entries[index].object && entries[index].object->handle == handle))
		return misuse(SIM_NOT_A_HANDLE, answer); /* the handle is of another kind */
	return misuse(SIM_USE_AFTER_FREE, kind == OBJECT_CONTEXT ? CUDA_ERROR_CONTEXT_IS_DESTROYED : answer);
}

struct object *object_find_quietly(uint64_t handle, enum object_kind kind)
{
	size_t index = index_of(handle);
	struct object *object = index < entry_count ? entries[index].object : NULL;

	return object && object->handle == handle && object->kind == kind ? object : NULL;
}

CUresult object_find(uint64_t handle, enum object_kind kind, void *ret_object)
{
	struct object *object = object_find_quietly(handle, kind);

	if (!object)
		return refuse(handle, kind);
	*(struct object **)ret_object = object;
	return CUDA_SUCCESS;
}

struct object *object_next(enum object_kind kind, const struct context *context, size_t *cursor)
{
	while (*cursor < entry_count) {
		struct object *object = entries[(*cursor)++].object;

		if (object && (kind == OBJECT_ANY || object->kind == kind) &&
			(!context || object->context == context))
			return object;
	}
	return NULL;
}
