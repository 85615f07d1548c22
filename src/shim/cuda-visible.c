/* cuda-visible.c - interprets CUDA_VISIBLE_DEVICES, and hides the variable from the driver. */
#include "shim/cuda-visible.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/session.h"
#include "shim/shim.h"

static const char uuid_prefix[] = "GPU-";

static bool is_uuid(const char *entry)
{
	return strncmp(entry, uuid_prefix, strlen(uuid_prefix)) == 0;
}

/* Returns the index of the GPU with this UUID, or of the only GPU whose UUID begins with this text. Returns
 * -1 if no GPU or several GPUs match. */
static int gpu_by_uuid(const struct grant_file *grant, const char *entry)
{
	size_t length = strcspn(entry, ",");
	int found = -1;

	for (unsigned i = 0; i < grant->gpu_count; i++) {
		if (strncmp(grant->gpus[i].uuid, entry, length) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

/* The driver reads numbers like strtoul(): "1gpu" is 1. */
static int gpu_by_index(const struct grant_file *grant, const char *entry)
{
	char *end;
	long index = strtol(entry, &end, 10);

	return end > entry && index >= 0 && index < (long)grant->gpu_count ? (int)index : -1;
}

static void add(const struct grant_file *grant, unsigned gpu, char *list, size_t *length)
{
	const char *uuid = grant->gpus[gpu].uuid;
	size_t more = strnlen(uuid, sizeof(grant->gpus[gpu].uuid) - 1);

	if (*length + (*length > 0) + more >= CUDA_VISIBLE_SIZE)
		return;
	if (*length > 0)
		list[(*length)++] = ',';
	memcpy(list + *length, uuid, more);
	*length += more;
	list[*length] = '\0';
}

/* The CUDA C++ Programming Guide 13.0, "CUDA Environment Variables", documents the order, prefixes of UUIDs,
 * and that the first invalid entry ends the list.
 *
 * Not documented, but found and imitated by PyTorch 2.4 (torch/cuda/__init__.py, _parse_visible_devices()):
 * the first entry decides whether all entries are UUIDs. The driver decides what a repeated entry means
 * (PyTorch: no devices), as long as the list has room. */
void cuda_visible_list(const struct grant_file *grant, const char *list, char ret_list[CUDA_VISIBLE_SIZE])
{
	bool uuids = list && is_uuid(list);
	size_t length = 0;

	ret_list[0] = '\0';
	for (unsigned i = 0; !list && i < grant->gpu_count; i++)
		add(grant, i, ret_list, &length);
	while (list && *list) {
		int gpu = uuids == is_uuid(list)
				  ? (uuids ? gpu_by_uuid(grant, list) : gpu_by_index(grant, list))
				  : -1;

		if (gpu < 0)
			return;
		add(grant, (unsigned)gpu, ret_list, &length);
		list += strcspn(list, ",");
		list += *list == ',';
	}
}

/* Redirects the driver's own call of getenv() to this file. The driver's table of imported functions is
 * changed, as if the dynamic linker had written another address into it. setenv() is not possible in a
 * foreign program: other threads may read the environment at the same time, and pass it to programs
 * that they start. */
#if defined(__x86_64__)
#define TYPE_SLOT R_X86_64_JUMP_SLOT
#define TYPE_DATA R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define TYPE_SLOT R_AARCH64_JUMP_SLOT
#define TYPE_DATA R_AARCH64_GLOB_DAT
#else
#error "relocations with the addresses of imported functions are not known for this architecture"
#endif

/* The tables of one library in memory. */
struct imports {
	const void *function; /* the function of that library to search for */
	uintptr_t base;
	const ElfW(Dyn) * dynamic;
};

static const char variable[] = "CUDA_VISIBLE_DEVICES";
static int gives_all;

static char *driver_getenv(const char *name)
{
	static char list[CUDA_VISIBLE_SIZE];
	const struct shim_session *session = session_get();
	char fresh[CUDA_VISIBLE_SIZE], *own = getenv(name);

	if (!session || strcmp(name, variable) != 0 ||
		(!own && __atomic_load_n(&gives_all, __ATOMIC_RELAXED)))
		return own;
	cuda_visible_list(session->grant, own, fresh);
	/* Another thread may be reading the list, so equal bytes are not written again. */
	if (strcmp(list, fresh) != 0)
		strcpy(list, fresh);
	return list;
}

/* glibc has added the base to the addresses in this table; musl has not. */
static uintptr_t value_of(const struct imports *in, ElfW(Sxword) tag)
{
	for (const ElfW(Dyn) *d = in->dynamic; d->d_tag != DT_NULL; d++) {
		if (d->d_tag != tag)
			continue;
		return tag == DT_PLTRELSZ || tag == DT_RELASZ || d->d_un.d_ptr >= in->base
			       ? d->d_un.d_ptr
			       : in->base + d->d_un.d_ptr;
	}
	return 0;
}

/* The table may have been made read-only after it was filled (RELRO). Afterwards it stays writable: a thread
 * that made it read-only again could make another thread's write fail. */
static bool write_slot(void **slot)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)slot & ~(page - 1);

	if (mprotect((void *)start, page, PROT_READ | PROT_WRITE) < 0)
		return false;
	__atomic_store_n(slot, (void *)driver_getenv, __ATOMIC_RELAXED);
	return true;
}

static bool replace_in(const struct imports *in, uintptr_t table, size_t bytes)
{
	const ElfW(Sym) *symbols = (const ElfW(Sym) *)value_of(in, DT_SYMTAB);
	const char *names = (const char *)value_of(in, DT_STRTAB);
	const ElfW(Rela) *entries = (const ElfW(Rela) *)table;
	bool found = false;

	for (size_t i = 0; table && symbols && names && i < bytes / sizeof(*entries); i++) {
		unsigned type = ELF64_R_TYPE(entries[i].r_info);

		if ((type == TYPE_SLOT || type == TYPE_DATA) &&
			strcmp(names + symbols[ELF64_R_SYM(entries[i].r_info)].st_name, "getenv") == 0)
			found |= write_slot((void **)(in->base + entries[i].r_offset));
	}
	return found;
}

static int visit(struct dl_phdr_info *info, size_t size, void *context)
{
	struct imports *in = context;
	uintptr_t address = (uintptr_t)in->function;
	bool here = false;

	in->base = info->dlpi_addr;
	in->dynamic = NULL;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_LOAD && address - in->base - part->p_vaddr < part->p_memsz)
			here = true;
		if (part->p_type == PT_DYNAMIC)
			in->dynamic = (const ElfW(Dyn) *)(in->base + part->p_vaddr);
	}
	return here && in->dynamic;
}

void cuda_visible_give(const void *function)
{
	static int given;
	struct imports in = {.function = function};

	if (__atomic_load_n(&given, __ATOMIC_ACQUIRE))
		return;
	if (dl_iterate_phdr(visit, &in) != 1 ||
		(!replace_in(&in, value_of(&in, DT_JMPREL), value_of(&in, DT_PLTRELSZ)) &&
			!replace_in(&in, value_of(&in, DT_RELA), value_of(&in, DT_RELASZ))))
		shim_log(
			"the driver does not import getenv(), so it reads the program's CUDA_VISIBLE_DEVICES");
	__atomic_store_n(&given, 1, __ATOMIC_RELEASE);
}

bool cuda_visible_give_all(void)
{
	const struct shim_session *session = session_get();

	if (!session || session->grant->gpu_count < 2 || getenv(variable))
		return false;
	__atomic_store_n(&gives_all, 1, __ATOMIC_RELAXED);
	return true;
}
