/* elf-functions.h - which functions a shared library has for others, read from its file: it is not loaded. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct elf_names {
	const char **list; /* by alphabet */
	size_t count;
	char *text; /* which the names are in */
};

void elf_names_release(struct elf_names *names);
#define _cleanup_elf_names_ _cleanup_(elf_names_release)

/* elf_functions() - the functions that `library` exports and whose names begin with `prefix`, but not with
 * `without` (NULL: all). -ENOEXEC if it is no shared library of this machine. */
int elf_functions(const char *library, const char *prefix, const char *without, struct elf_names *ret_names);

/* elf_is_library() - whether this is the head of a shared library of this machine's byte order and word size.
 */
bool elf_is_library(const Elf64_Ehdr *head);

struct elf_difference {
	size_t count;
	char names[512]; /* by alphabet, with ", " between them; what does not fit is left out, and "..."
			    stands for it */
};

/* elf_compare() - those of these functions that `other` does not export, or only by a spare entry
 * (base/elf-fit.h). The count is 0 if there are none. -ENOEXEC if one is no shared library of this machine.
 */
int elf_compare(const char *library, const char *other, const char *prefix, const char *without,
	struct elf_difference *ret_difference);
