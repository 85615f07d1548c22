#include "sim/ration-sim/exports.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int compare_names(const void *name, const void *entry)
{
	return strcmp(name, ((const struct export_row *)entry)->name);
}

static bool has_name(uint32_t cuda_version, const char *name)
{
	const struct export_row *row = bsearch(
		name, export_rows, export_row_count, sizeof(export_rows[0]), compare_names);

	return !row || (row->since <= cuda_version && (row->gone == 0 || cuda_version < row->gone));
}

static const Elf64_Shdr *dynamic_symbols(const char *data, size_t length)
{
	const Elf64_Ehdr *elf = (const void *)data;
	const Elf64_Shdr *sections;

	if (length < sizeof(*elf) || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
		elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_shoff > length ||
		elf->e_shnum > (length - elf->e_shoff) / sizeof(*sections))
		return NULL;
	sections = (const void *)(data + elf->e_shoff);
	for (size_t i = 0; i < elf->e_shnum; i++)
		if (sections[i].sh_type == SHT_DYNSYM && sections[i].sh_link < elf->e_shnum &&
			sections[i].sh_offset <= length &&
			sections[i].sh_size <= length - sections[i].sh_offset)
			return &sections[i];
	return NULL;
}

int exports_hide(void *library, size_t length, uint32_t cuda_version)
{
	char *data = library;
	const Elf64_Shdr *table = dynamic_symbols(data, length), *strings;
	Elf64_Sym *symbols;

	if (!table)
		return -EBADMSG;
	strings = (const Elf64_Shdr *)(data + ((const Elf64_Ehdr *)data)->e_shoff) + table->sh_link;
	if (strings->sh_offset > length || strings->sh_size > length - strings->sh_offset ||
		strings->sh_size == 0 || data[strings->sh_offset + strings->sh_size - 1] != '\0')
		return -EBADMSG;
	symbols = (Elf64_Sym *)(data + table->sh_offset);
	for (size_t i = 0; i < table->sh_size / sizeof(*symbols); i++) {
		Elf64_Sym *symbol = &symbols[i];

		/* It becomes a weak undefined symbol that nothing in the library refers to. Dynamic linkers
		 * ignore such a symbol (glibc 2.36, elf/dl-lookup.c check_match; musl 1.2, ldso/dynlink.c
		 * find_sym2), and ld does not report it as missing. */
		if (symbol->st_name < strings->sh_size &&
			!has_name(cuda_version, data + strings->sh_offset + symbol->st_name)) {
			symbol->st_shndx = SHN_UNDEF;
			symbol->st_value = 0;
			symbol->st_info = ELF64_ST_INFO(STB_WEAK, ELF64_ST_TYPE(symbol->st_info));
		}
	}
	return 0;
}
