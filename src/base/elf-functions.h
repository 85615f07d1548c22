/* elf-functions.h - which functions a shared library has for others, read from its file: it is not loaded. */
#pragma once

#include <stddef.h>

struct elf_difference {
	size_t count;
	char names[512]; /* by alphabet, with ", " between them; what does not fit is left out, and "..."
			    stands for it */
};

/* elf_compare() - the functions whose names begin with `prefix`, but not with `without` (NULL: all), that
 * `library` exports and `other` does not. The count is 0 if there are none. -ENOEXEC where one is no shared
 * library of this machine. */
int elf_compare(const char *library, const char *other, const char *prefix, const char *without,
	struct elf_difference *ret_difference);
