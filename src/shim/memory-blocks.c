#include "shim/memory-blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/memory.h"
#include "shim/objects.h"

/* CUDA programming guide, "Device Memory Accesses": what cuMemAlloc returns is aligned to at least 256 bytes.
 */
#define GRAIN 256
#define GRAINS (MEMORY_BLOCK / GRAIN)
#define WORD_BITS 64
#define BLOCK_UNITS ((int)(MEMORY_BLOCK / MEMORY_SMALL_UNIT))

/* A bit for each grain. */
struct marks {
	uint64_t begins[GRAINS / WORD_BITS];
	uint64_t ends[GRAINS / WORD_BITS];
	bool is_paid;
};

static void set(uint64_t *bits, unsigned grain)
{
	bits[grain / WORD_BITS] |= UINT64_C(1) << grain % WORD_BITS;
}

/* Clears the bits from the first to the last, inclusive. */
static void clear(uint64_t *bits, unsigned first, unsigned last)
{
	for (unsigned at = first / WORD_BITS; at <= last / WORD_BITS; at++) {
		uint64_t mask = UINT64_MAX;

		if (at == first / WORD_BITS)
			mask &= UINT64_MAX << first % WORD_BITS;
		if (at == last / WORD_BITS)
			mask &= UINT64_MAX >> (WORD_BITS - 1 - last % WORD_BITS);
		bits[at] &= ~mask;
	}
}

/* Returns the first bit that is set from this one on; GRAINS: none. */
static unsigned next_set(const uint64_t *bits, unsigned grain)
{
	unsigned at = grain / WORD_BITS;
	uint64_t word = bits[at] >> grain % WORD_BITS << grain % WORD_BITS;

	while (word == 0 && ++at < GRAINS / WORD_BITS)
		word = bits[at];
	return word ? at * WORD_BITS + (unsigned)__builtin_ctzll(word) : GRAINS;
}

static struct marks *marks_of(const struct object *block)
{
	return (struct marks *)(uintptr_t)block->bytes;
}

static unsigned grain_of(uint64_t address)
{
	return address % MEMORY_BLOCK / GRAIN;
}

static int units_of(uint64_t size)
{
	return (int)((size + MEMORY_SMALL_UNIT - 1) / MEMORY_SMALL_UNIT);
}

/* Marks that are there already belong to memory that was freed in a way that no hook saw. */
static void mark(struct marks *marks, uint64_t address, uint64_t size)
{
	unsigned first = grain_of(address), last = grain_of(address + size - 1);

	clear(marks->begins, first, last);
	clear(marks->ends, first, last);
	set(marks->begins, first);
	set(marks->ends, last);
}

bool block_holds(uint64_t address, uint64_t size)
{
	return size > 0 && size <= MEMORY_SMALL_MAX && address % GRAIN == 0 &&
	       address / MEMORY_BLOCK == (address + size - 1) / MEMORY_BLOCK;
}

/* ---- an allocation that begins --------------------------------------------------------------------------
 */

struct joining {
	const struct memory_here *here;
	uint64_t address, size;
	bool is_paid, failed;
};

/* Returns false if out of memory. */
static bool begin_block(struct object *block, const struct memory_here *here)
{
	struct marks *marks = marks_of(block);

	if (!marks)
		marks = malloc(sizeof(*marks));
	if (!marks)
		return false;
	memset(marks, 0, sizeof(*marks));
	block->bytes = (uintptr_t)marks;
	block->stamp = here->stamp;
	block->index = here->index;
	block->gpu = here->gpu;
	block->count = 0;
	return true;
}

static bool join(struct object *block, void *context)
{
	struct joining *joining = context;
	/* The block is unknown, or belongs to a context that has ended. */
	bool is_new = block->stamp != joining->here->stamp;
	int before = (int)block->count, after;

	if (is_new && !begin_block(block, joining->here)) {
		joining->failed = true;
		return block->stamp != 0;
	}
	after = (int)block->count + units_of(joining->size);
	block->count = (uint32_t)after;
	mark(marks_of(block), joining->address, joining->size);
	joining->is_paid = marks_of(block)->is_paid;
	context_block_changed(joining->here, is_new ? -1 : BLOCK_UNITS - before, BLOCK_UNITS - after);
	return true;
}

int block_join(const struct memory_here *here, uint64_t address, uint64_t size, bool *ret_paid)
{
	struct joining joining = {.here = here, .address = address, .size = size};
	int r = objects_change(OBJECT_BLOCK, address / MEMORY_BLOCK, join, &joining);

	if (r < 0 || joining.failed)
		return -ENOMEM;
	*ret_paid = joining.is_paid;
	return 0;
}

static bool pay(struct object *block, void *context)
{
	struct joining *joining = context;

	if (block->stamp != joining->here->stamp)
		return true;
	joining->is_paid = !marks_of(block)->is_paid;
	marks_of(block)->is_paid = true;
	return true;
}

bool block_pay(const struct memory_here *here, uint64_t address)
{
	struct joining joining = {.here = here};

	return objects_edit(OBJECT_BLOCK, address / MEMORY_BLOCK, pay, &joining) && joining.is_paid;
}

/* ---- one that is there ----------------------------------------------------------------------------------
 */

struct finding {
	uint64_t address, size;
	struct memory_here here;
	bool found, takes;
};

static bool find(struct object *block, void *context)
{
	struct finding *finding = context;
	unsigned first = grain_of(finding->address), last;
	struct marks *marks = marks_of(block);

	if (!(marks->begins[first / WORD_BITS] >> first % WORD_BITS & 1))
		return true;
	last = next_set(marks->ends, first);
	if (finding->takes) {
		clear(marks->begins, first, first);
		clear(marks->ends, last, last);
	}
	finding->here = context_of(block);
	finding->size = (uint64_t)(last - first + 1) * GRAIN;
	finding->found = true;
	return true;
}

static bool look_up(uint64_t address, bool takes, struct memory_here *ret_here, uint64_t *ret_size)
{
	struct finding finding = {.address = address, .takes = takes};

	if (address % GRAIN != 0 || !objects_edit(OBJECT_BLOCK, address / MEMORY_BLOCK, find, &finding) ||
		!finding.found)
		return false;
	*ret_here = finding.here;
	*ret_size = finding.size;
	return true;
}

bool block_find(uint64_t address, struct memory_here *ret_here, uint64_t *ret_size)
{
	return look_up(address, false, ret_here, ret_size);
}

bool block_take(uint64_t address, struct memory_here *ret_here, uint64_t *ret_size)
{
	return look_up(address, true, ret_here, ret_size);
}

static bool restore(struct object *block, void *context)
{
	const struct finding *finding = context;

	if (block->stamp == finding->here.stamp)
		mark(marks_of(block), finding->address, finding->size);
	return true;
}

void block_restore(const struct memory_here *here, uint64_t address, uint64_t size)
{
	struct finding finding = {.address = address, .size = size, .here = *here};

	objects_edit(OBJECT_BLOCK, address / MEMORY_BLOCK, restore, &finding);
}

/* ---- one that has ended ---------------------------------------------------------------------------------
 */

struct leaving {
	const struct memory_here *here;
	int units;
	bool was_paid;
};

static bool leave(struct object *block, void *context)
{
	struct leaving *leaving = context;
	int before = (int)block->count, after = before - leaving->units;

	if (block->stamp != leaving->here->stamp)
		return true;
	block->count = after > 0 ? (uint32_t)after : 0;
	context_block_changed(leaving->here, BLOCK_UNITS - before, after > 0 ? BLOCK_UNITS - after : -1);
	if (after > 0)
		return true;
	leaving->was_paid = marks_of(block)->is_paid;
	free(marks_of(block));
	return false;
}

bool block_leave(const struct memory_here *here, uint64_t address, uint64_t size)
{
	struct leaving leaving = {.here = here, .units = units_of(size)};

	objects_edit(OBJECT_BLOCK, address / MEMORY_BLOCK, leave, &leaving);
	return leaving.was_paid;
}
