/* memory-contexts.h - what was charged within each context: the end of a context frees all of it at once.
 *
 * Each context has a record, found by its handle. An object of a context carries the record's index and
 * stamp. When the context has ended, the record no longer has that stamp, and the object is invalid.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/abi.h"

struct object;

/* The context in which an allocation happens. */
struct memory_here {
	uint32_t index;
	uint32_t gpu;
	uint64_t stamp; /* 0: no context is current, and the driver will report that */
};

/* context_here() - the current context, recorded if it is new. False: its GPU is not granted, or no record is
 * free. */
bool context_here(struct memory_here *ret_here);

/* context_of() - the context in which an object was allocated. */
struct memory_here context_of(const struct object *object);

/* context_lives() - whether the context has not ended since. */
bool context_lives(const struct memory_here *here);

/* A context that is being created. */
struct making {
	struct memory_here here;
	uint64_t paid; /* the size of contexts on this GPU, as far as it is known */
	bool is_new;
	bool turn; /* the size is unknown, and little room is left */
};

/* context_make() - called before the driver creates a context; charges its size. Any result but CUDA_SUCCESS
 * is the answer to the program. context_made() - called afterwards with the driver's answer and the handle.
 * It returns that answer when the keeper has seen what the context took. */
CUresult context_make(struct making *making, CUdevice device);
CUresult context_made(struct making *making, CUresult r, const CUcontext *context);

/* context_primary() - the primary context of a device; NULL: it has none. The driver is asked, because the
 * runtime may have created the context in ways that no hook sees. */
CUcontext context_primary(CUdevice device);

/* context_charged() - notes that `bytes` more are charged in the context. context_refunded() - notes that
 * fewer are, and gives them back. If the context has ended they were given back with it. */
void context_charged(const struct memory_here *here, uint64_t bytes);
void context_refunded(const struct memory_here *here, uint64_t bytes);

/* context_set_surplus() - sets how many of the bytes charged in the context the driver may not have taken. A
 * sample does not conclude from these bytes that there is less overhead. Valid until the next call or the end
 * of the context. */
void context_set_surplus(const struct memory_here *here, uint64_t bytes);

/* Blocks that small allocations share, by their free units. context_block_changed() - a block had from_free
 * free units and now has to_free (-1: no such block). context_has_room() - whether some block has that many
 * free units. */
void context_block_changed(const struct memory_here *here, int from_free, int to_free);
bool context_has_room(const struct memory_here *here, unsigned units);
/* context_room() - an upper bound of the free units in all these blocks together. */
uint64_t context_room(const struct memory_here *here);
