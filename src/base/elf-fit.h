/* elf-fit.h - adds names of missing functions to a library that replaces another one.
 *
 * Our substitute for the driver's library knows the functions of the drivers that existed when it was built.
 * A newer driver exports more, and a program that is linked with one of those would not start with the
 * substitute. So the substitute has spare entries, which pass calls on to the driver under the name that they
 * have (src/shim/resolve.c). The program that puts the substitute before a driver first gives these entries
 * names (docs/adr/046-new-symbols.md).
 */
#pragma once

#include <stddef.h>

#include "base/elf-functions.h"

#define ELF_SPARE_PREFIX                                                                                     \
	"ration_spare_" /* prefix of the names of spare entries, which src/shim/generate.py makes */

/* elf_fit() - gives the names that the library in `data` does not export to its spare entries, and rewrites
 * its symbol table and its hash table. The data keeps its length. Names that are too long for an entry are
 * left out, and so are names for which no entry is left. Returns the number of names given, 0 if the library
 * has all of them already. -ENOEXEC, with the data unchanged: it is not a shared library of this machine with
 * a GNU hash table. */
int elf_fit(char *data, size_t len, const struct elf_names *names);
