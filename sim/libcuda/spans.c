#include "sim/libcuda/spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The index of the first span that ends after the address. */
static size_t lower(const struct spans *spans, uint64_t address)
{
	size_t low = 0, high = spans->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (spans->list[middle]->base + spans->list[middle]->size > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

int spans_add(struct spans *spans, struct span *span)
{
	size_t at = lower(spans, span->base);

	if (spans->count == spans->capacity) {
		size_t capacity = spans->capacity ? spans->capacity * 2 : 256;
		struct span **list = reallocarray(spans->list, capacity, sizeof(struct span *));

		if (!list)
			return -ENOMEM;
		spans->list = list;
		spans->capacity = capacity;
	}
	memmove(spans->list + at + 1, spans->list + at, (spans->count - at) * sizeof(struct span *));
	spans->list[at] = span;
	spans->count++;
	return 0;
}

void spans_remove(struct spans *spans, const struct span *span)
{
	size_t at = lower(spans, span->base);

	if (at == spans->count || spans->list[at] != span)
		return;
	spans->count--;
	memmove(spans->list + at, spans->list + at + 1, (spans->count - at) * sizeof(struct span *));
}

struct span *spans_find(const struct spans *spans, uint64_t address)
{
	return spans_overlapping(spans, address, 1);
}

struct span *spans_overlapping(const struct spans *spans, uint64_t base, uint64_t size)
{
	size_t at = lower(spans, base);

	return at < spans->count && spans->list[at]->base < base + size ? spans->list[at] : NULL;
}

uint64_t spans_gap(const struct spans *spans, uint64_t from, uint64_t end, uint64_t size, uint64_t align)
{
	uint64_t base = (from + align - 1) & ~(align - 1);

	for (size_t i = lower(spans, base); i < spans->count && spans->list[i]->base < base + size; i++)
		base = (spans->list[i]->base + spans->list[i]->size + align - 1) & ~(align - 1);
	return base < end && size <= end - base ? base : 0;
}
