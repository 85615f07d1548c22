/* memory-contexts.h - what was charged within each context: its end frees all of it at once.
 *
 * A record per context, found by its handle. An object of a context carries the record's index and stamp;
 * when the context has ended, its stamp is no longer there, and the object is nothing any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"

struct object;

/* Where an allocation happens. */
struct memory_here {
	uint32_t index;
	uint32_t gpu;
	uint64_t stamp; /* 0: no context is current; the driver will say so */
};

/* context_here() - the current context, recorded if it is new. False if it is of a GPU that is not granted,
 * or there are more contexts than can be recorded. */
bool context_here(struct memory_here *ret_here);

/* context_of() - where an object was allocated. */
struct memory_here context_of(const struct object *object);

/* context_lives() - it has not ended since. */
bool context_lives(const struct memory_here *here);

/* A context that is being made. */
struct making {
	struct memory_here here;
	uint64_t paid; /* what contexts take on this GPU, as far as that is known */
	bool is_new;
	bool turn; /* it is not known, and little room is left */
};

/* context_make() - before the driver makes one: charges what it will take. Not CUDA_SUCCESS: that is the
 * answer. context_made() - after, with the driver's answer and the handle; returns that answer, once the
 * keeper has seen what the context took. */
CUresult context_make(struct making *making, CUdevice device);
CUresult context_made(struct making *making, CUresult r, const CUcontext *context);

/* context_primary() - of a device; NULL: it has none. Asked of the driver, since the runtime may have made it
 * in ways that no hook sees. */
CUcontext context_primary(CUdevice device);

/* context_charged() - `bytes` more are charged in it (fewer: context_refunded(), which also gives them back,
 * unless the context has ended: then they were given back with it). */
void context_charged(const struct memory_here *here, uint64_t bytes);
void context_refunded(const struct memory_here *here, uint64_t bytes);

/* context_set_surplus() - so much of what is charged in it the driver may not have taken: a sample does not
 * conclude from these bytes that there is less overhead. Until another number, or the end of the context. */
void context_set_surplus(const struct memory_here *here, uint64_t bytes);

/* Blocks that small allocations share, by how much is free in them: context_block_changed() from one number
 * of free units to another (-1: no such block), and context_has_room() says whether a block has that many. */
void context_block_changed(const struct memory_here *here, int from_free, int to_free);
bool context_has_room(const struct memory_here *here, unsigned units);
/* context_room() - units that are free in all of them together, at most. */
uint64_t context_room(const struct memory_here *here);
