/* address.h - device addresses. Nothing can be read there by the processor, as on a GPU; what copies write
 * lies in host memory at a constant distance and costs only what is touched.
 */
#pragma once

#include <stdbool.h>

#include "sim/libcuda/spans.h"

#define PAGE_BYTES (UINT64_C(2) << 20) /* the driver's physical granularity */

static inline uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

enum arena {
	ARENA_DEVICE,
	ARENA_LOW,     /* below 4 GiB: for the functions from when a pointer had 32 bits */
	ARENA_MANAGED, /* the processor's, too */
};

/* address_take() - reserve span->size bytes; sets span->base. `wanted` is tried first if it is not 0.
 * -ENOMEM. */
int address_take(enum arena arena, struct span *span, uint64_t align, uint64_t wanted);
/* address_give() - what was written there is gone. */
void address_give(struct span *span);
/* address_clear() - as if nothing had ever been written or mapped there; the addresses stay taken. */
void address_clear(uint64_t base, uint64_t size);
/* address_backing() - where the bytes of a device address are. */
void *address_backing(uint64_t address);
