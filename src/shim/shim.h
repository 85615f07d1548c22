/* shim.h - what the two substitutes share.
 *
 * src/shim/ is libcuda.so.1 and libnvidia-ml.so.1 for a program with a grant. It exports every symbol that
 * the driver exports. Symbols of hooks.def are answered here; the others are passed on through a table that
 * is filled from the driver's own library at the first call.
 *
 * It runs inside other people's programs. So it uses libc only, runs nothing at load time, has no signal
 * handler and no thread, never exits, prints nothing unless RATION_LOG is set, and preserves errno. A program
 * may fork at any instruction, so it holds no lock across a call of the driver.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grant/grant.h"

/* The tables of one of the two libraries. */
struct shim_library {
	const char *name;	  /* for messages */
	const char *names;	  /* by index, each terminated by a NUL */
	size_t count;		  /* number of symbols */
	const bool *hooked;	  /* by index: whether a hook answers */
	const size_t path_offset; /* offset in struct grant_file of the path of the driver's own library */
	int (*missing)(void);	  /* answers for a symbol that this driver does not have */
	int (*no_driver)(void);	  /* answers for all symbols if the driver's library cannot be opened */
	const void *(*own_entry)(
		void);	     /* one of our exported functions, by which the library recognises itself */
	int (*denied)(void); /* answers for symbols that no process with a grant may call */
	const unsigned short *denied_symbols;
	size_t denied_count;
};

extern const struct shim_library shim_library __attribute__((visibility("hidden")));

/* The driver's function for each symbol; initially a stub that leads to shim_resolve(). */
extern void *shim_slots[] __attribute__((visibility("hidden")));

/* The entries after those of the symbols, in the order of their slots. This file gives them names when it is
 * put before a driver with functions that this library does not know (src/base/elf-fit.h). */
extern const char shim_spares[] __attribute__((visibility("hidden")));

/* The address range of the driver's library. Some entries use it to tell the driver's own calls from a
 * program's. */
extern uintptr_t shim_driver_begin __attribute__((visibility("hidden")));
extern size_t shim_driver_size __attribute__((visibility("hidden")));

/* DRIVER() - the driver's own function of this name. Hooks and all other code here may call it. */
#define DRIVER(name) ((__typeof__(&name))__atomic_load_n(&shim_slots[SYMBOL_##name], __ATOMIC_RELAXED))

/* Marks a hook, which replaces the driver's function of the same name. */
#define HOOK __attribute__((visibility("default")))

/* shim_resolve() - called by the stubs. Fills the table once and returns the content of slot `index`; slots
 * of spare entries are filled one by one. Any number of threads may run it: all find and write the same.
 * Preserves errno. */
void *shim_resolve(size_t index);

/* shim_driver_is_open() - whether the driver's library could be opened. */
bool shim_driver_is_open(void);

/* shim_driver_has() - whether the driver is open and exports the symbol with this index. */
bool shim_driver_has(size_t index);

/* shim_was_cut_off() - whether this process was forked while another thread of its parent was opening the
 * driver's library. That library is half initialised here, so the process has no driver. */
bool shim_was_cut_off(void);

/* shim_self() - a handle of this library for dlsym(); NULL: none. */
void *shim_self(void);

/* shim_log() - writes a line for a person, only if RATION_LOG is set: "1" or "stderr" for standard error,
 * else the name of a file to append to. Preserves errno. */
void shim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
