/* elf-fit.h - a library in front of another one gets the names of functions that it lacks.
 *
 * Our substitute for the driver's library knows the functions of the drivers that were there when it was
 * built. A newer driver exports more, and a program that is linked with one of those would not start with the
 * substitute. So the substitute has spare entries, which pass calls on to the driver under the name that they
 * have (src/shim/resolve.c), and whoever puts it before a driver gives these entries names first
 * (docs/adr/046-new-symbols.md).
 */
#pragma once

#include <stddef.h>

#include "base/elf-functions.h"

#define ELF_SPARE_PREFIX "ration_spare_" /* names of spare entries, as src/shim/generate.py makes them */

/* elf_fit() - give those names that the library in `data` does not export to its spare entries, and write its
 * table of symbols and its hash table anew. The data keeps its length. Names that are too long for an entry,
 * and those for which no entry is left, are left out. Returns how many names were given, 0 if the library has
 * all of them already; -ENOEXEC, with the data as it was, if it is no shared library of this machine with a
 * GNU hash table. */
int elf_fit(char *data, size_t len, const struct elf_names *names);
