/* resolve.c - finds the driver's functions behind the shim, and gives names to spare entries. */
#include "shim/shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "shim/session.h"

/* The size of an entry in src/shim/stubs-*.inc, which checks it. */
#define SPARE_ENTRY_SIZE 16

/* What the slots hold after they were filled. */
static int filled;
static void *driver;
uintptr_t shim_driver_begin;
size_t shim_driver_size;

/* The process in which a thread is inside dlopen(), so that its children can see it; 0: none. */
static pid_t opening;

/* The grant may name this library as the driver, or a mount may hide the driver. Without this check a call
 * would return to its own stub for ever. */
static bool is_ourselves(void *handle)
{
	void *entry = dlsym(handle, shim_library.names);
	Dl_info theirs, ours;

	return entry && dladdr(entry, &theirs) && dladdr(shim_library.own_entry(), &ours) &&
	       theirs.dli_fbase == ours.dli_fbase;
}

/* Returns NULL if no driver can be opened, and logs that if RATION_LOG is set. */
static void *driver_open(void)
{
	const char *path = session_path(shim_library.path_offset);
	void *handle;

	if (path[0] != '/')
		return NULL;
	__atomic_store_n(&opening, getpid(), __ATOMIC_RELAXED);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	__atomic_store_n(&opening, 0, __ATOMIC_RELAXED);
	if (!handle) {
		shim_log("cannot open the driver's library: %s", dlerror());
		return NULL;
	}
	if (is_ourselves(handle)) {
		shim_log("%s is ration's substitute for the driver and not the driver", path);
		return NULL;
	}
	return handle;
}

/* The driver occupies the memory from its first page to the end of its last segment. The size is written
 * last: until then no call is taken for the driver's own. */
static void driver_measure(void *handle)
{
	void *entry = dlsym(handle, shim_library.names);
	const ElfW(Ehdr) * head;
	const ElfW(Phdr) * parts;
	size_t end = 0;
	Dl_info info;

	if (!entry || !dladdr(entry, &info))
		return;
	head = info.dli_fbase;
	parts = (const void *)((const char *)info.dli_fbase + head->e_phoff);
	for (unsigned i = 0; i < head->e_phnum; i++)
		if (parts[i].p_type == PT_LOAD && parts[i].p_vaddr + parts[i].p_memsz > end)
			end = parts[i].p_vaddr + parts[i].p_memsz;
	__atomic_store_n(&shim_driver_begin, (uintptr_t)info.dli_fbase, __ATOMIC_RELAXED);
	__atomic_store_n(&shim_driver_size, end, __ATOMIC_RELEASE);
}

static bool is_denied(size_t index)
{
	for (size_t i = 0; i < shim_library.denied_count; i++)
		if (shim_library.denied_symbols[i] == index)
			return true;
	return false;
}

/* The length of a name without the suffixes for a version and for per-thread streams: cuMemAlloc_v2_ptsz. */
static size_t stem_length(const char *name)
{
	size_t len = strlen(name), digits = 0;

	if (len > 5 && (strcmp(name + len - 5, "_ptsz") == 0 || strcmp(name + len - 5, "_ptds") == 0))
		len -= 5;
	while (digits < len && name[len - digits - 1] >= '0' && name[len - digits - 1] <= '9')
		digits++;
	if (digits && len > digits + 2 && memcmp(name + len - digits - 2, "_v", 2) == 0)
		len -= digits + 2;
	return len;
}

/* Whether the name is a version of a function that is limited by a hook or denied. The driver's own version
 * would bypass the limit, so it is not passed on (see cuda-lookup.c). */
static bool is_version_of_limited(const char *name)
{
	const char *known = shim_library.names;
	size_t len = stem_length(name);

	for (size_t i = 0; i < shim_library.count; i++, known += strlen(known) + 1)
		if ((shim_library.hooked[i] || is_denied(i)) && stem_length(known) == len &&
			memcmp(known, name, len) == 0)
			return true;
	return false;
}

/* Returns the function that a spare entry passes calls on to: the driver's function of the name that this
 * file gives the entry. */
static void *spare_find(size_t spare)
{
	const char *entry = shim_spares + spare * SPARE_ENTRY_SIZE;
	void *handle = __atomic_load_n(&driver, __ATOMIC_RELAXED), *function;
	Dl_info info;

	if (!handle)
		return (void *)shim_library.no_driver;
	if (!dladdr(entry, &info) || info.dli_saddr != entry || !info.dli_sname)
		return (void *)shim_library.missing;
	if (is_version_of_limited(info.dli_sname)) {
		shim_log("%s is withheld: this version of ration does not know it; update ration",
			info.dli_sname);
		return (void *)shim_library.missing;
	}
	function = dlsym(handle, info.dli_sname);
	if (!function)
		return (void *)shim_library.missing;
	shim_log("%s is called without a limit: this version of ration does not know it; update ration",
		info.dli_sname);
	return function;
}

/* No lock is needed. A second thread opens the same library and writes the same pointers. The child of a
 * fork() in the middle starts again. If the driver calls back during its own start, it finds what dlsym()
 * finds. */
void *shim_resolve(size_t index)
{
	int saved = errno;

	if (!__atomic_load_n(&filled, __ATOMIC_ACQUIRE)) {
		void *handle = shim_was_cut_off() ? NULL : driver_open();
		const char *name = shim_library.names;

		if (handle)
			driver_measure(handle);

		for (size_t i = 0; i < shim_library.count; i++, name += strlen(name) + 1) {
			void *function = handle ? dlsym(handle, name) : (void *)shim_library.no_driver;

			if (!function)
				function = (void *)shim_library.missing;
			else if (handle && is_denied(i))
				function = (void *)shim_library.denied;
			__atomic_store_n(&shim_slots[i], function, __ATOMIC_RELAXED);
		}
		__atomic_store_n(&driver, handle, __ATOMIC_RELAXED);
		__atomic_store_n(&filled, 1, __ATOMIC_RELEASE);
	}
	if (index >= shim_library.count)
		__atomic_store_n(
			&shim_slots[index], spare_find(index - shim_library.count), __ATOMIC_RELAXED);
	errno = saved;
	return __atomic_load_n(&shim_slots[index], __ATOMIC_RELAXED);
}

bool shim_was_cut_off(void)
{
	pid_t begun = __atomic_load_n(&opening, __ATOMIC_RELAXED);

	return begun != 0 && begun != getpid();
}

bool shim_driver_is_open(void)
{
	shim_resolve(0);
	return __atomic_load_n(&driver, __ATOMIC_RELAXED);
}

bool shim_driver_has(size_t index)
{
	return shim_driver_is_open() && shim_resolve(index) != (void *)shim_library.missing;
}

void *shim_self(void)
{
	Dl_info info;

	return dladdr(shim_library.own_entry(), &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD)
						       : NULL;
}
