#include "sim/libcuda/image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_US 5.0
#define MACHINE_CUDA 190	   /* EM_CUDA */
#define FATBIN_WRAPPER 0x466243b1u /* magic of the structure that nvcc puts around a fat binary */
#define FATBIN 0xba55ed50u
#define FATBIN_ELF 2 /* kind of an entry */

int image_add_function(struct image *image, const char *name, size_t length, struct image_function **ret)
{
	struct image_function *more;

	if (length == 0 || length >= IMAGE_NAME_MAX || image->function_count >= IMAGE_FUNCTIONS_MAX)
		return -E2BIG;
	more = reallocarray(image->functions, image->function_count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	image->functions = more;
	more += image->function_count;
	*more = (struct image_function){.name = strndup(name, length), .us = DEFAULT_US};
	if (!more->name)
		return -ENOMEM;
	image->function_count++;
	if (ret)
		*ret = more;
	return 0;
}

int image_add_global(struct image *image, const char *name, size_t length, uint64_t bytes)
{
	struct image_global *more;

	if (length == 0 || length >= IMAGE_NAME_MAX || image->global_count >= IMAGE_FUNCTIONS_MAX)
		return -E2BIG;
	more = reallocarray(image->globals, image->global_count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	image->globals = more;
	more += image->global_count;
	*more = (struct image_global){strndup(name, length), bytes};
	if (!more->name)
		return -ENOMEM;
	image->global_count++;
	return 0;
}

void image_release(struct image *image)
{
	for (size_t i = 0; i < image->function_count; i++)
		free(image->functions[i].name);
	for (size_t i = 0; i < image->global_count; i++)
		free(image->globals[i].name);
	free(image->functions);
	free(image->globals);
	*image = (struct image){};
}

/* Finds ".visible .entry NAME(" of each kernel. */
static int read_ptx(const char *text, struct image *image)
{
	int r = 0;

	image->memory_bytes = strlen(text);
	while (r == 0 && (text = strstr(text, ".entry"))) {
		size_t length;

		text += strlen(".entry");
		text += strspn(text, " \t\n");
		length = strcspn(text, " \t\n({");
		r = image_add_function(image, text, length, NULL);
	}
	return r;
}

/* The code of a kernel is the section ".text.NAME"; a variable is a symbol of .nv.global. */
static int read_sections(
	const char *data, const Elf64_Shdr *sections, size_t count, size_t names, struct image *image)
{
	static const char prefix[] = ".text.";
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		const char *name = data + sections[names].sh_offset + sections[i].sh_name;

		image->memory_bytes += sections[i].sh_flags & SHF_ALLOC ? sections[i].sh_size : 0;
		if (strncmp(name, prefix, strlen(prefix)) == 0)
			r = image_add_function(
				image, name + strlen(prefix), strlen(name + strlen(prefix)), NULL);
	}
	return r;
}

static int read_symbols(
	const char *data, const Elf64_Shdr *sections, size_t count, size_t names, struct image *image)
{
	const char *section_names = data + sections[names].sh_offset;
	int r = 0;

	for (size_t i = 0; i < count; i++) {
		const Elf64_Sym *symbols = (const void *)(data + sections[i].sh_offset);
		const char *strings;

		if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= count)
			continue;
		strings = data + sections[sections[i].sh_link].sh_offset;
		for (size_t k = 0; r == 0 && k < sections[i].sh_size / sizeof(*symbols); k++) {
			const char *name = strings + symbols[k].st_name;
			size_t home = symbols[k].st_shndx;

			if (home < count && ELF64_ST_TYPE(symbols[k].st_info) == STT_OBJECT &&
				symbols[k].st_size > 0 &&
				strncmp(section_names + sections[home].sh_name, ".nv.global", 10) == 0)
				r = image_add_global(image, name, strlen(name), symbols[k].st_size);
		}
	}
	return r;
}

/* The data is trusted, like any library that the application loads: its length is not given anywhere. */
static int read_elf(const char *data, struct image *image)
{
	const Elf64_Ehdr *header = (const void *)data;
	const Elf64_Shdr *sections = (const void *)(data + header->e_shoff);
	int r;

	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != MACHINE_CUDA ||
		header->e_shentsize != sizeof(*sections) || header->e_shstrndx >= header->e_shnum)
		return -EBADMSG;
	r = read_sections(data, sections, header->e_shnum, header->e_shstrndx, image);
	return r == 0 ? read_symbols(data, sections, header->e_shnum, header->e_shstrndx, image) : r;
}

/* A header of 16 bytes, then entries: kind, header size, payload size. The first uncompressed ELF or PTX is
 * used. */
static int read_fatbin(const char *data, struct image *image)
{
	uint64_t size, payload, at = 16;
	uint32_t header;
	uint16_t kind;

	memcpy(&size, data + 8, sizeof(size));
	while (at + 16 <= size + 16) {
		memcpy(&kind, data + at, sizeof(kind));
		memcpy(&header, data + at + 4, sizeof(header));
		memcpy(&payload, data + at + 8, sizeof(payload));
		if (kind == FATBIN_ELF && memcmp(data + at + header, ELFMAG, SELFMAG) == 0)
			return read_elf(data + at + header, image);
		if (header == 0)
			break;
		at += header + payload;
	}
	return -EBADMSG;
}

int image_read(const void *data, struct image *ret_image)
{
	struct image image = {};
	uint32_t magic;
	int r;

	memcpy(&magic, data, sizeof(magic));
	if (magic == FATBIN_WRAPPER) {
		memcpy(&data, (const char *)data + 8, sizeof(data));
		memcpy(&magic, data, sizeof(magic));
	}
	if (magic == FATBIN)
		r = read_fatbin(data, &image);
	else if (memcmp(data, ELFMAG, SELFMAG) == 0)
		r = read_elf(data, &image);
	else if (*(const char *)data == '{')
		r = image_read_json(data, &image);
	else if (strstr(data, ".version") && strstr(data, ".target"))
		r = read_ptx(data, &image);
	else
		r = -EBADMSG;
	if (r == 0)
		*ret_image = image;
	else
		image_release(&image);
	return r;
}
