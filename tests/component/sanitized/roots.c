/* roots.c - where the search for leaks begins: the sanitizer does not look into mappings, and the shim has
 * its tables there. The linker puts these functions before those of src/grant/private.c (--wrap). */
#include <sanitizer/lsan_interface.h>

#include "grant/private.h"

void *__real_private_map(size_t size, bool *ret_cleared);
void *__wrap_private_map(size_t size, bool *ret_cleared);
void __real_private_unmap(void *map, size_t size);
void __wrap_private_unmap(void *map, size_t size);

void *__wrap_private_map(size_t size, bool *ret_cleared)
{
	void *map = __real_private_map(size, ret_cleared);

	if (map)
		__lsan_register_root_region(map, size);
	return map;
}

void __wrap_private_unmap(void *map, size_t size)
{
	if (map)
		__lsan_unregister_root_region(map, size);
	__real_private_unmap(map, size);
}
