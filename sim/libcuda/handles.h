/* handles.h - the handles of the driver's objects that an application holds. A handle is a number that
 * contains the process that made it. So a handle that was destroyed, belongs to another process or never
 * existed is recognised and never followed as a pointer. */
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

/* The first member of every struct that has a handle. */
struct object {
	uint64_t handle;
	enum object_kind kind;
	struct context *context; /* NULL: it belongs to the process */
};

/* object_register() - gives the object a handle. -ENOMEM. */
int object_register(struct object *object, enum object_kind kind, struct context *context);
/* object_forget() - makes the handle invalid. Tolerates an object that never had one. */
void object_forget(struct object *object);

/* object_find() - CUDA_ERROR_INVALID_HANDLE (for a context: INVALID_CONTEXT, CONTEXT_IS_DESTROYED), counted
 * as misuse unless the handle is 0. */
CUresult object_find(uint64_t handle, enum object_kind kind, void *ret_object);

/* object_find_quietly() - NULL: not found; nothing is counted. */
struct object *object_find_quietly(uint64_t handle, enum object_kind kind);

/* object_next() - iterates over the objects of a kind (OBJECT_ANY: all) and context (NULL: any). *cursor
 * starts at 0; NULL ends. The returned object may be forgotten during the iteration. */
struct object *object_next(enum object_kind kind, const struct context *context, size_t *cursor);
