/* shim.h - what the two substitutes share.
 *
 * src/shim/ is libcuda.so.1 and libnvidia-ml.so.1 as a program with a grant finds them: every symbol that the
 * driver exports, those of hooks.def answered here, the others passed on through a table that is filled from
 * the driver's own library at the first call. It runs inside other people's programs: libc only, nothing that
 * runs at load time, no signal handler, thread, exit, output (but under RATION_LOG), errno kept; it may be
 * forked at any instruction, so it holds no lock across a call of the driver.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grant/grant.h"

/* One library's part. */
struct shim_library {
	const char *name;		/* for messages */
	const char *names;		/* by index, each ended by a NUL */
	size_t count;			/* of symbols */
	const bool *hooked;		/* by index: whether a hook answers */
	const size_t path_offset;	/* of the path of the driver's own library, in struct grant_file */
	int (*missing)(void);		/* answers for a symbol that this driver does not have */
	int (*no_driver)(void);		/* answers for all where the driver's library cannot be opened */
	const void *(*own_entry)(void); /* an exported function of ours, to know ourselves by */
	int (*denied)(void);		/* answers for the symbols that nobody with a grant may call */
	const unsigned short *denied_symbols;
	size_t denied_count;
};

extern const struct shim_library shim_library __attribute__((visibility("hidden")));

/* The driver's function for each symbol: at first a stub that leads to shim_resolve(). */
extern void *shim_slots[] __attribute__((visibility("hidden")));

/* The entries behind those of the symbols, in the order of their slots. Their names are given to this file
 * when it is put before a driver that has functions which this library does not know (src/base/elf-fit.h). */
extern const char shim_spares[] __attribute__((visibility("hidden")));

/* Where the driver's library lies: for the entries that tell its own calls from a program's. */
extern uintptr_t shim_driver_begin __attribute__((visibility("hidden")));
extern size_t shim_driver_size __attribute__((visibility("hidden")));

/* DRIVER() - the driver's own function of this name, to be called from a hook or anywhere. */
#define DRIVER(name) ((__typeof__(&name))__atomic_load_n(&shim_slots[SYMBOL_##name], __ATOMIC_RELAXED))

/* Of hooks, which replace the driver's function of the same name. */
#define HOOK __attribute__((visibility("default")))

/* shim_resolve() - called by the stubs: fills the table once and returns what slot `index` holds then; slots
 * of spare entries are filled one by one. Any number of threads may be in it: all find the same and write the
 * same. Keeps errno. */
void *shim_resolve(size_t index);

/* shim_driver_is_open() - whether there is a driver behind this library. */
bool shim_driver_is_open(void);

/* shim_driver_has() - whether there is, and it exports the symbol with this index. */
bool shim_driver_has(size_t index);

/* shim_was_cut_off() - whether this process was forked while another thread of its parent opened the driver's
 * library. What it has of that is half done, so it has no driver. */
bool shim_was_cut_off(void);

/* shim_self() - a handle of this library for dlsym(). NULL where it has none. */
void *shim_self(void);

/* shim_log() - a line for a person, only where RATION_LOG is set: "1" or "stderr" for standard error, else
 * the name of a file to append to. Keeps errno. */
void shim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
