#include "base/elf-functions.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* libcuda has some 900 symbols, and 30 KiB of names. */
#define PART_MAX ((size_t)4 << 20)
#define SECTIONS_MAX 1000

struct symbols {
	Elf64_Sym *list;
	size_t count;
	char *names; /* ends with a NUL */
	size_t names_size;
};

static void symbols_release(struct symbols *symbols)
{
	free(symbols->list);
	free(symbols->names);
}
#define _cleanup_symbols_ _cleanup_(symbols_release)

/* Adds a NUL after the bytes that were read. NULL: errno says why. */
static void *read_part(int fd, uint64_t offset, uint64_t size)
{
	char *part;
	ssize_t got;

	if (size > PART_MAX || offset > INT64_MAX) {
		errno = ENOEXEC;
		return NULL;
	}
	part = malloc(size + 1);
	if (!part)
		return NULL;
	got = pread(fd, part, size, (off_t)offset);
	if (got < 0 || (uint64_t)got != size) {
		errno = got < 0 ? errno : ENOEXEC;
		free(part);
		return NULL;
	}
	part[size] = '\0';
	return part;
}

bool elf_is_library(const Elf64_Ehdr *head)
{
	const union {
		uint16_t number;
		unsigned char first;
	} order = {.number = 1};

	return memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 && head->e_ident[EI_CLASS] == ELFCLASS64 &&
	       head->e_ident[EI_DATA] == (order.first ? ELFDATA2LSB : ELFDATA2MSB) &&
	       head->e_type == ET_DYN && head->e_shentsize == sizeof(Elf64_Shdr) &&
	       head->e_shnum <= SECTIONS_MAX;
}

static int symbols_read(int fd, struct symbols *ret_symbols)
{
	_cleanup_free_ Elf64_Ehdr *head = read_part(fd, 0, sizeof(*head));
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	_cleanup_symbols_ struct symbols found = {NULL};

	if (!head)
		return -errno;
	if (!elf_is_library(head))
		return -ENOEXEC;
	sections = read_part(fd, head->e_shoff, (uint64_t)head->e_shnum * sizeof(*sections));
	if (!sections)
		return -errno;
	for (unsigned i = 0; i < head->e_shnum; i++) {
		const Elf64_Shdr *symbols = &sections[i];

		if (symbols->sh_type != SHT_DYNSYM || symbols->sh_link >= head->e_shnum)
			continue;
		found.list = read_part(fd, symbols->sh_offset, symbols->sh_size);
		found.count = symbols->sh_size / sizeof(*found.list);
		found.names_size = sections[symbols->sh_link].sh_size;
		found.names = found.list
				      ? read_part(fd, sections[symbols->sh_link].sh_offset, found.names_size)
				      : NULL;
		if (!found.names)
			return -errno;
		*ret_symbols = found;
		found = (struct symbols){NULL};
		return 0;
	}
	return -ENOEXEC;
}

static int symbols_open(const char *path, struct symbols *ret_symbols)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : symbols_read(fd, ret_symbols);
}

/* Returns NULL if it is not an exported function. */
static const char *function_name(const struct symbols *symbols, size_t i)
{
	const Elf64_Sym *symbol = &symbols->list[i];
	unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_name >= symbols->names_size ||
		(type != STT_FUNC && type != STT_GNU_IFUNC) || (binding != STB_GLOBAL && binding != STB_WEAK))
		return NULL;
	return symbols->names + symbol->st_name;
}

/* A weak function of a substitute is a spare entry that got the name of a function which the substitute does
 * not know (base/elf-fit.h). */
static bool knows(const struct symbols *symbols, const char *name)
{
	for (size_t i = 0; i < symbols->count; i++) {
		const char *other = function_name(symbols, i);

		if (other && ELF64_ST_BIND(symbols->list[i].st_info) == STB_GLOBAL &&
			strcmp(other, name) == 0)
			return true;
	}
	return false;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void write_names(const char **names, size_t count, struct elf_difference *difference)
{
	size_t len = 0, room = sizeof(difference->names) - sizeof(", ...");

	difference->count = count;
	difference->names[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		const char *between = i ? ", " : "";

		if (len + strlen(between) + strlen(names[i]) > room) {
			strcpy(difference->names + len, i ? ", ..." : "...");
			return;
		}
		len += (size_t)sprintf(difference->names + len, "%s%s", between, names[i]);
	}
}

void elf_names_release(struct elf_names *names)
{
	free(names->list);
	free(names->text);
}

/* A name may occur in several versions. */
static size_t drop_doubles(const char **names, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!kept || strcmp(names[kept - 1], names[i]) != 0)
			names[kept++] = names[i];
	return kept;
}

int elf_functions(const char *library, const char *prefix, const char *without, struct elf_names *ret_names)
{
	_cleanup_symbols_ struct symbols symbols = {NULL};
	_cleanup_free_ const char **list = NULL;
	size_t count = 0;
	int r = symbols_open(library, &symbols);

	if (r < 0)
		return r;
	list = calloc(symbols.count + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < symbols.count; i++) {
		const char *name = function_name(&symbols, i);

		if (name && strncmp(name, prefix, strlen(prefix)) == 0 &&
			(!without || strncmp(name, without, strlen(without)) != 0))
			list[count++] = name;
	}
	qsort(list, count, sizeof(*list), compare_names);
	count = drop_doubles(list, count);
	*ret_names = (struct elf_names){.list = list, .count = count, .text = symbols.names};
	list = NULL;
	symbols.names = NULL;
	return 0;
}

int elf_compare(const char *library, const char *other, const char *prefix, const char *without,
	struct elf_difference *ret_difference)
{
	_cleanup_elf_names_ struct elf_names names = {NULL};
	_cleanup_symbols_ struct symbols theirs = {NULL};
	size_t count = 0;
	int r = elf_functions(library, prefix, without, &names);

	if (r == 0)
		r = symbols_open(other, &theirs);
	if (r < 0)
		return r;
	for (size_t i = 0; i < names.count; i++)
		if (!knows(&theirs, names.list[i]))
			names.list[count++] = names.list[i];
	write_names(names.list, count, ret_difference);
	return 0;
}
