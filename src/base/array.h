/* array.h - an array that grows, in a struct with a pointer and a number of items. */
#pragma once

#include <errno.h>
#include <stdlib.h>

/* array_room() - makes room for one more item. array: the address of the pointer to n items of this size,
 * which was grown by this function only; NULL at the beginning. The room is doubled at each power of two.
 * -ENOMEM. */
static inline int array_room(void *array, size_t n, size_t size)
{
	void *grown = n & (n - 1) ? *(void **)array : reallocarray(*(void **)array, n ? 2 * n : 1, size);

	if (!grown)
		return -ENOMEM;
	*(void **)array = grown;
	return 0;
}
