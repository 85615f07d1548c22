/* address.h - device addresses. As on a GPU, the processor cannot read memory at them. The bytes that copies
 * write are in host memory at a constant distance, and only touched pages use memory. */
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
	ARENA_LOW,     /* below 4 GiB: for functions from the time when a pointer had 32 bits */
	ARENA_MANAGED, /* also addresses of the processor */
};

/* address_take() - reserves span->size bytes and sets span->base. `wanted` is tried first if it is not 0.
 * -ENOMEM. */
int address_take(enum arena arena, struct span *span, uint64_t align, uint64_t wanted);
/* address_give() - releases the addresses; their content is lost. */
void address_give(struct span *span);
/* address_clear() - makes the range look as if nothing had ever been written or mapped there. The addresses
 * stay reserved. */
void address_clear(uint64_t base, uint64_t size);
/* address_backing() - the host address of the bytes of a device address. */
void *address_backing(uint64_t address);
