/* objects.h - frees each kind of object that a context holds, together with the context. */
#pragma once

#include "sim/libcuda/handles.h"

void stream_free_object(struct object *object);
void event_free_object(struct object *object);
void module_free_object(struct object *object);
void array_free_object(struct object *object);
void mipmapped_free_object(struct object *object);
void exec_free_object(struct object *object);
