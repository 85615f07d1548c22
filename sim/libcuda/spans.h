/* spans.h - sorted sets of address ranges that do not overlap. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The first member of each element of a set. */
struct span {
	uint64_t base, size;
};

struct spans {
	struct span **list;
	size_t count, capacity;
};

/* spans_add() - -ENOMEM. The caller has made sure that the range is free. */
int spans_add(struct spans *spans, struct span *span);
void spans_remove(struct spans *spans, const struct span *span);
/* spans_find() - the span that contains the address, or NULL. */
struct span *spans_find(const struct spans *spans, uint64_t address);
/* spans_overlapping() - the first span that shares an address with [base, base + size), or NULL. */
struct span *spans_overlapping(const struct spans *spans, uint64_t base, uint64_t size);
/* spans_gap() - the lowest aligned base >= from with `size` free bytes before `end`; 0: none. */
uint64_t spans_gap(const struct spans *spans, uint64_t from, uint64_t end, uint64_t size, uint64_t align);
