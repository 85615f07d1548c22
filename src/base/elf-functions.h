/* elf-functions.h - the functions that a shared library exports, read from its file without loading it. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct elf_names {
	const char **list; /* in alphabetical order */
	size_t count;
	char *text; /* the memory that contains the names */
};

void elf_names_release(struct elf_names *names);
#define _cleanup_elf_names_ _cleanup_(elf_names_release)

/* elf_functions() - the functions that `library` exports and whose names begin with `prefix`, but not with
 * `without` (NULL: all). -ENOEXEC: it is not a shared library of this machine. */
int elf_functions(const char *library, const char *prefix, const char *without, struct elf_names *ret_names);

/* elf_is_library() - whether this is the header of a shared library with this machine's byte order and word
 * size. */
bool elf_is_library(const Elf64_Ehdr *head);

struct elf_difference {
	size_t count;
	char names[512]; /* alphabetical, separated by ", "; "..." if not all fit */
};

/* elf_compare() - those of these functions that `other` does not export, or exports only by a spare entry
 * (base/elf-fit.h). The count is 0 if no function is missing. -ENOEXEC: one of them is not a shared library
 * of this machine. */
int elf_compare(const char *library, const char *other, const char *prefix, const char *without,
	struct elf_difference *ret_difference);
