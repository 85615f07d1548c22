/* A shim whose tables of symbols are not what the ELF format allows is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/elf-fit.h"
#include "base/fs.h"

#include <elf.h>

static char *data;
static size_t len;

static int set_up(void **state)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/src/shim/libcuda.so.1", getenv("RATION_BUILD"));
	return fs_read(path, (size_t)16 << 20, &data, &len);
}

static int tear_down(void **state)
{
	free(data);
	data = NULL;
	return 0;
}

static const Elf64_Shdr *section(uint32_t type)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)data;
	const Elf64_Shdr *list = (const Elf64_Shdr *)(data + head->e_shoff);

	for (size_t i = 0; i < head->e_shnum; i++)
		if (list[i].sh_type == type)
			return &list[i];
	fail();
	return NULL;
}

/* The numbers that begin DT_GNU_HASH: buckets, the first symbol in it, words of the filter, its shift. */
enum { BUCKETS, FIRST, FILTER_WORDS, FILTER_SHIFT };

static uint32_t *hash_head(void)
{
	return (uint32_t *)(data + section(SHT_GNU_HASH)->sh_offset);
}

static size_t symbols(void)
{
	return section(SHT_DYNSYM)->sh_size / sizeof(Elf64_Sym);
}

static int fit(void)
{
	const char *list[] = {"cuNew"};
	struct elf_names names = {.list = list, .count = 1};

	return elf_fit(data, len, &names);
}

static void a_shim_as_it_was_built_is_taken(void **state)
{
	assert_int_equal(fit(), 1);
}

static void a_table_without_buckets_is_refused(void **state)
{
	hash_head()[BUCKETS] = 0;
	assert_int_equal(fit(), -ENOEXEC);
}

static void a_table_without_a_filter_is_refused(void **state)
{
	hash_head()[FILTER_WORDS] = 0;
	assert_int_equal(fit(), -ENOEXEC);
}

/* A hash has 32 bits. */
static void a_filter_is_shifted_by_less_than_32(void **state)
{
	hash_head()[FILTER_SHIFT] = 32;
	assert_int_equal(fit(), -ENOEXEC);
	hash_head()[FILTER_SHIFT] = 31;
	assert_int_equal(fit(), 1);
}

static void a_table_that_begins_behind_the_last_symbol_is_refused(void **state)
{
	hash_head()[FIRST] = (uint32_t)symbols() + 1;
	assert_int_equal(fit(), -ENOEXEC);
}

static void a_symbol_whose_name_is_outside_the_names_is_refused(void **state)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)data;
	const Elf64_Shdr *list = (const Elf64_Shdr *)(data + head->e_shoff), *dynamic = section(SHT_DYNSYM);
	Elf64_Sym *last = (Elf64_Sym *)(data + dynamic->sh_offset) + symbols() - 1;

	last->st_name = (uint32_t)list[dynamic->sh_link].sh_size;
	assert_int_equal(fit(), -ENOEXEC);
}

#define TABLES(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLES(a_shim_as_it_was_built_is_taken),
		TABLES(a_table_without_buckets_is_refused),
		TABLES(a_table_without_a_filter_is_refused),
		TABLES(a_filter_is_shifted_by_less_than_32),
		TABLES(a_table_that_begins_behind_the_last_symbol_is_refused),
		TABLES(a_symbol_whose_name_is_outside_the_names_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
