/* handles.h - what an application holds of the driver's objects: numbers that say which process made them, so
 * that a handle that was destroyed, that is of another process or that never was one is told apart and never
 * followed.
 */
#pragma once

#include <stddef.h>

#include "cuda/abi.h"

enum object_kind {
	OBJECT_ANY,
	OBJECT_CONTEXT,
	OBJECT_STREAM,
	OBJECT_EVENT,
	OBJECT_MODULE,
	OBJECT_LIBRARY,
	OBJECT_FUNCTION,
	OBJECT_KERNEL,
	OBJECT_ARRAY,
	OBJECT_MIPMAPPED,
	OBJECT_POOL,
	OBJECT_MEMORY,
	OBJECT_EXTERNAL,
	OBJECT_GRAPH,
	OBJECT_NODE,
	OBJECT_EXEC,
};

/* The first member of everything that has a handle. */
struct object {
	uint64_t handle;
	enum object_kind kind;
	struct context *context; /* NULL: belongs to the process */
};

/* object_register() - give it a handle. -ENOMEM. */
int object_register(struct object *object, enum object_kind kind, struct context *context);
/* object_forget() - the handle answers nothing any more. Tolerates what never had one. */
void object_forget(struct object *object);

/* object_find() - CUDA_ERROR_INVALID_HANDLE (a context's: INVALID_CONTEXT, CONTEXT_IS_DESTROYED), counted as
 * misuse unless the handle is 0. */
CUresult object_find(uint64_t handle, enum object_kind kind, void *ret_object);

/* object_find_quietly() - NULL, and nothing is counted. */
struct object *object_find_quietly(uint64_t handle, enum object_kind kind);

/* object_next() - walk over those of a kind (OBJECT_ANY: all) and context (NULL: any); *cursor starts at 0.
 * NULL ends. The one returned may be forgotten. */
struct object *object_next(enum object_kind kind, const struct context *context, size_t *cursor);
