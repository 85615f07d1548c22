#include "sim/libcuda/address.h"

#include <errno.h>
#include <sys/mman.h>

#define ARENAS 3
#define LARGEST_ARENA (UINT64_C(8) << 40)
#define SMALLEST_ARENA (UINT64_C(4) << 30)
#define LOW_BYTES UINT64_C(0x20000000)

static struct space {
	uint64_t base, size;
	uint64_t distance; /* from the front to the backing */
	uint64_t next;	   /* the next address: a freed one is not reused soon */
	struct spans taken;
} spaces[ARENAS];

static void *map(uint64_t at, uint64_t size, int protection)
{
	void *p = mmap((void *)(uintptr_t)at, size, protection,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Uses any free room that a program which is not position-independent has left. */
static int open_low(struct space *space)
{
	void *backing = map(0, LOW_BYTES, PROT_READ | PROT_WRITE), *front = NULL;
	uint64_t base = 0;

	while (backing && !front && base + 2 * LOW_BYTES < UINT32_MAX) {
		base += LOW_BYTES;
		front = map(base, LOW_BYTES, PROT_NONE);
	}
	if (!front) {
		if (backing)
			munmap(backing, LOW_BYTES);
		return -ENOMEM;
	}
	*space = (struct space){base, LOW_BYTES, (uintptr_t)backing - base, base, {}};
	return 0;
}

/* Front and backing are one mapping. A limit on the address space may allow less than requested. */
static int open_space(struct space *space, enum arena arena)
{
	if (arena == ARENA_LOW)
		return open_low(space);
	for (uint64_t size = LARGEST_ARENA; size >= SMALLEST_ARENA; size /= 4) {
		bool managed = arena == ARENA_MANAGED;
		char *p = map(0, managed ? size : 2 * size, PROT_READ | PROT_WRITE);
		uint64_t base = round_up((uintptr_t)p, PAGE_BYTES);

		if (!p)
			continue;
		if (!managed)
			mprotect(p, size, PROT_NONE);
		*space = (struct space){base, size - PAGE_BYTES, managed ? 0 : size, base, {}};
		return 0;
	}
	return -ENOMEM;
}

static bool is_free(const struct space *space, uint64_t base, uint64_t size)
{
	return base >= space->base && size <= space->size && base - space->base <= space->size - size &&
	       !spans_overlapping(&space->taken, base, size);
}

int address_take(enum arena arena, struct span *span, uint64_t align, uint64_t wanted)
{
	struct space *space = &spaces[arena];
	uint64_t end, base;

	if (!space->size && open_space(space, arena) < 0)
		return -ENOMEM;
	if (span->size > space->size)
		return -ENOMEM;
	end = space->base + space->size;
	base = wanted && wanted % align == 0 && is_free(space, wanted, span->size)
		       ? wanted
		       : spans_gap(&space->taken, space->next, end, span->size, align);
	if (!base)
		base = spans_gap(&space->taken, space->base, end, span->size, align);
	if (!base)
		return -ENOMEM;
	span->base = base;
	if (spans_add(&space->taken, span) < 0)
		return -ENOMEM;
	if (base != wanted)
		space->next = base + span->size;
	return 0;
}

static struct space *space_of(uint64_t address)
{
	for (size_t i = 0; i < ARENAS; i++)
		if (address >= spaces[i].base && address - spaces[i].base < spaces[i].size)
			return &spaces[i];
	return NULL;
}

void address_clear(uint64_t base, uint64_t size)
{
	struct space *space = space_of(base);

	/* A new mapping and not MADV_DONTNEED, because shared memory may be mapped there. */
	if (space)
		mmap((void *)(uintptr_t)(base + space->distance), size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void address_give(struct span *span)
{
	struct space *space = space_of(span->base);

	if (!space)
		return;
	address_clear(span->base, span->size);
	spans_remove(&space->taken, span);
}

void *address_backing(uint64_t address)
{
	struct space *space = space_of(address);

	return space ? (void *)(uintptr_t)(address + space->distance) : NULL;
}
