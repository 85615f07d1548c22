#include "base/elf-fit.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* The parts of a library in which the dynamic linker finds names: pointers into its data. */
struct tables {
	Elf64_Sym *symbols;
	uint16_t *versions; /* one for each symbol; NULL: it has none */
	size_t count;
	char *names;
	size_t names_size;
	/* The hash table (Drepper, "How To Write Shared Libraries", 1.5.3, and the description of DT_GNU_HASH
	 * in binutils' ld). It consists of four numbers, a Bloom filter, the first symbol of each bucket, and
	 * a hash for each symbol from `first` on, whose lowest bit ends a bucket. The symbols of a bucket are
	 * consecutive. */
	uint32_t buckets_count, first, filter_words, filter_shift;
	uint64_t *filter;
	uint32_t *buckets, *hashes;
};

/* A symbol, and the data that moves with it. */
struct entry {
	Elf64_Sym symbol;
	uint16_t version;
	uint32_t hash, bucket;
	size_t was; /* its index */
};

static void *part(char *data, size_t len, uint64_t offset, uint64_t size, unsigned alignment)
{
	return offset % alignment == 0 && offset <= len && size <= len - offset ? data + offset : NULL;
}

static const Elf64_Shdr *sections(char *data, size_t len, size_t *ret_count)
{
	const Elf64_Ehdr *head = part(data, len, 0, sizeof(*head), 8);

	if (!head || !elf_is_library(head))
		return NULL;
	*ret_count = head->e_shnum;
	return part(data, len, head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr), 8);
}

static const Elf64_Shdr *find_section(const Elf64_Shdr *list, size_t count, uint32_t type)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].sh_type == type)
			return &list[i];
	return NULL;
}

static bool read_hash(char *data, size_t len, const Elf64_Shdr *section, struct tables *tables)
{
	const uint32_t *head = part(data, len, section->sh_offset, section->sh_size, 8);
	uint64_t size = 4 * sizeof(uint32_t);

	if (!head || section->sh_size < size)
		return false;
	tables->buckets_count = head[0];
	tables->first = head[1];
	tables->filter_words = head[2];
	tables->filter_shift = head[3];
	if (!head[0] || head[1] > tables->count || !head[2] || head[3] >= 32)
		return false;
	size += head[2] * sizeof(uint64_t) + head[0] * sizeof(uint32_t) +
		(tables->count - head[1]) * sizeof(uint32_t);
	tables->filter = (uint64_t *)(head + 4);
	tables->buckets = (uint32_t *)(tables->filter + head[2]);
	tables->hashes = tables->buckets + head[0];
	return size <= section->sh_size;
}

static bool read_tables(char *data, size_t len, struct tables *ret_tables)
{
	struct tables tables = {NULL};
	size_t count = 0;
	const Elf64_Shdr *list = sections(data, len, &count);
	const Elf64_Shdr *symbols = list ? find_section(list, count, SHT_DYNSYM) : NULL;
	const Elf64_Shdr *hash = list ? find_section(list, count, SHT_GNU_HASH) : NULL;
	const Elf64_Shdr *versions = list ? find_section(list, count, SHT_GNU_versym) : NULL;
	const Elf64_Shdr *names = symbols && symbols->sh_link < count ? &list[symbols->sh_link] : NULL;

	/* A hash table of the older kind would have to be rewritten as well. */
	if (!names || !hash || find_section(list, count, SHT_HASH))
		return false;
	tables.count = symbols->sh_size / sizeof(Elf64_Sym);
	tables.symbols = part(data, len, symbols->sh_offset, symbols->sh_size, 8);
	tables.names_size = names->sh_size;
	tables.names = names->sh_offset <= len && names->sh_size <= len - names->sh_offset
			       ? data + names->sh_offset
			       : NULL;
	if (versions && versions->sh_size == tables.count * sizeof(uint16_t))
		tables.versions = part(data, len, versions->sh_offset, versions->sh_size, 2);
	if (!tables.symbols || !tables.names || !tables.names_size ||
		tables.names[tables.names_size - 1] != '\0' || (versions && !tables.versions) ||
		!read_hash(data, len, hash, &tables))
		return false;
	for (size_t i = 0; i < tables.count; i++)
		if (tables.symbols[i].st_name >= tables.names_size)
			return false;
	*ret_tables = tables;
	return true;
}

/* Relocations name symbols by index. The shim is linked with -Bsymbolic, so none of its relocations names a
 * symbol that moves. */
static bool relocations_name_none(char *data, size_t len, uint32_t first)
{
	size_t count = 0;
	const Elf64_Shdr *list = sections(data, len, &count);

	for (size_t i = 0; i < count; i++) {
		const Elf64_Rela *relocations;

		if (list[i].sh_type == SHT_REL || list[i].sh_type == SHT_RELR)
			return false;
		if (list[i].sh_type != SHT_RELA)
			continue;
		relocations = part(data, len, list[i].sh_offset, list[i].sh_size, 8);
		for (size_t j = 0; relocations && j < list[i].sh_size / sizeof(*relocations); j++)
			if (ELF64_R_SYM(relocations[j].r_info) >= first)
				return false;
		if (!relocations)
			return false;
	}
	return true;
}

static const char *name_of(const struct tables *tables, size_t symbol)
{
	return tables->names + tables->symbols[symbol].st_name;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* Searches like the dynamic linker, in the library's original hash table. */
static bool exports(const struct tables *tables, const char *name)
{
	uint32_t hash = gnu_hash(name), symbol = tables->buckets[hash % tables->buckets_count];

	for (; symbol >= tables->first && symbol < tables->count; symbol++) {
		if (strcmp(name_of(tables, symbol), name) == 0)
			return true;
		if (tables->hashes[symbol - tables->first] & 1)
			break;
	}
	return false;
}

static bool exports_all(const struct tables *tables, const struct elf_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		if (!exports(tables, names->list[i]))
			return false;
	return true;
}

/* Returns the next symbol from *cursor on that is a spare entry, and the room for its name. */
static bool next_spare(const struct tables *tables, size_t *cursor, char **ret_name, size_t *ret_room)
{
	for (; *cursor < tables->count; ++*cursor) {
		const Elf64_Sym *symbol = &tables->symbols[*cursor];

		if (strncmp(name_of(tables, *cursor), ELF_SPARE_PREFIX, strlen(ELF_SPARE_PREFIX)) != 0)
			continue;
		*ret_name = tables->names + symbol->st_name;
		*ret_room = strlen(*ret_name);
		++*cursor;
		return true;
	}
	return false;
}

static int give_names(const struct tables *tables, const struct elf_names *names)
{
	size_t cursor = tables->first, room = 0;
	char *spare = NULL;
	int given = 0;

	for (size_t i = 0; i < names->count; i++) {
		const char *name = names->list[i];

		if (exports(tables, name) || (!spare && !next_spare(tables, &cursor, &spare, &room)) ||
			strlen(name) > room)
			continue;
		memset(spare, 0, room);
		memcpy(spare, name, strlen(name));
		spare = NULL;
		given++;
	}
	return given;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->bucket != y->bucket)
		return x->bucket < y->bucket ? -1 : 1;
	return x->was < y->was ? -1 : x->was > y->was;
}

static void write_entries(const struct tables *tables, const struct entry *entries, size_t count)
{
	memset(tables->filter, 0, tables->filter_words * sizeof(*tables->filter));
	memset(tables->buckets, 0, tables->buckets_count * sizeof(*tables->buckets));
	for (size_t i = 0; i < count; i++) {
		const struct entry *entry = &entries[i];
		bool last = i + 1 == count || entries[i + 1].bucket != entry->bucket;
		uint32_t index = tables->first + (uint32_t)i;

		tables->symbols[index] = entry->symbol;
		if (tables->versions)
			tables->versions[index] = entry->version;
		tables->hashes[i] = (entry->hash & ~1U) | last;
		if (!tables->buckets[entry->bucket])
			tables->buckets[entry->bucket] = index;
		tables->filter[entry->hash / 64 % tables->filter_words] |=
			UINT64_C(1) << entry->hash % 64 |
			UINT64_C(1) << (entry->hash >> tables->filter_shift) % 64;
	}
}

int elf_fit(char *data, size_t len, const struct elf_names *names)
{
	_cleanup_free_ struct entry *entries = NULL;
	struct tables tables;
	size_t count;
	int given;

	if (!read_tables(data, len, &tables))
		return -ENOEXEC;
	if (exports_all(&tables, names))
		return 0;
	if (!relocations_name_none(data, len, tables.first))
		return -ENOEXEC;
	count = tables.count - tables.first;
	entries = calloc(count + 1, sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	given = give_names(&tables, names);
	for (size_t i = 0; i < count; i++) {
		uint32_t hash = gnu_hash(name_of(&tables, tables.first + i));

		entries[i] = (struct entry){.symbol = tables.symbols[tables.first + i],
			.version = tables.versions ? tables.versions[tables.first + i] : 0,
			.hash = hash,
			.bucket = hash % tables.buckets_count,
			.was = i};
	}
	qsort(entries, count, sizeof(*entries), compare_entries);
	write_entries(&tables, entries, count);
	return given;
}
