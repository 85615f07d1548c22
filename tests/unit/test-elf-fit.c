/* Spare entries of the shim get names; the dynamic linker is the judge of the tables. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/elf-fit.h"
#include "base/fs.h"

#define SPARES 256 /* src/shim/generate.py */
#define NAMES_MAX 400

struct library {
	char *data;
	size_t len;
};

static void library_release(struct library *library)
{
	free(library->data);
}
#define _cleanup_library_ _cleanup_(library_release)

static const char *shim_path(void)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/src/shim/libcuda.so.1", getenv("RATION_BUILD"));
	return path;
}

static struct library library_read(void)
{
	struct library library = {NULL};

	assert_int_equal(fs_read(shim_path(), (size_t)16 << 20, &library.data, &library.len), 0);
	return library;
}

/* "cuNew0", "cuNew1" ... */
static struct elf_names names_make(size_t count, char text[NAMES_MAX][128], const char *list[NAMES_MAX])
{
	for (size_t i = 0; i < count; i++) {
		snprintf(text[i], 128, "cuNew%zu", i);
		list[i] = text[i];
	}
	return (struct elf_names){.list = list, .count = count};
}

/* Each call with a file of its own: the linker knows a library by its inode. */
static void *load(const struct library *library)
{
	char path[] = "/tmp/test-elf-fit-XXXXXX";
	int fd = mkstemp(path);
	void *handle;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, library->data, library->len), library->len);
	close(fd);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		print_message("%s\n", dlerror());
	unlink(path);
	assert_non_null(handle);
	return handle;
}

static void every_name_is_found_by_the_linker(void **state)
{
	static const size_t counts[] = {1, 2, 17, SPARES};

	for (size_t c = 0; c < ARRAY_SIZE(counts); c++) {
		_cleanup_library_ struct library library = library_read();
		_cleanup_elf_names_ struct elf_names old = {NULL};
		static char text[NAMES_MAX][128];
		const char *list[NAMES_MAX];
		struct elf_names names = names_make(counts[c], text, list);
		void *handle;

		assert_int_equal(elf_functions(shim_path(), "", NULL, &old), 0);
		assert_true(old.count > 700 + SPARES);
		assert_int_equal(elf_fit(library.data, library.len, &names), counts[c]);
		handle = load(&library);
		for (size_t i = 0; i < names.count; i++)
			assert_non_null(dlsym(handle, names.list[i]));
		for (size_t i = 0, gone = 0; i < old.count; i++)
			if (strncmp(old.list[i], ELF_SPARE_PREFIX, strlen(ELF_SPARE_PREFIX)) != 0)
				assert_non_null(dlsym(handle, old.list[i]));
			else if (!dlsym(handle, old.list[i]))
				assert_true(++gone <= counts[c]);
		assert_null(dlsym(handle, "cuNew"));
		assert_null(dlsym(handle, "cuNew999"));
	}
}

static void names_that_are_there_change_nothing(void **state)
{
	_cleanup_library_ struct library library = library_read(), before = library_read();
	const char *list[] = {"cuInit", "cuMemAlloc_v2"};
	struct elf_names names = {.list = list, .count = 2};

	assert_int_equal(elf_fit(library.data, library.len, &names), 0);
	assert_memory_equal(library.data, before.data, before.len);
}

static void names_that_were_given_are_there(void **state)
{
	_cleanup_library_ struct library library = library_read();
	static char text[NAMES_MAX][128];
	const char *list[NAMES_MAX];
	struct elf_names names = names_make(30, text, list);

	assert_int_equal(elf_fit(library.data, library.len, &names), 30);
	assert_int_equal(elf_fit(library.data, library.len, &names), 0);
}

static void names_without_room_are_left_out(void **state)
{
	_cleanup_library_ struct library library = library_read();
	static char text[NAMES_MAX][128];
	const char *list[NAMES_MAX];
	struct elf_names names = names_make(NAMES_MAX, text, list);
	void *handle;

	memset(text[0], 'c', 80);
	text[0][80] = '\0';
	assert_int_equal(elf_fit(library.data, library.len, &names), SPARES);
	handle = load(&library);
	assert_null(dlsym(handle, text[0]));
	assert_non_null(dlsym(handle, text[1]));
	assert_non_null(dlsym(handle, text[SPARES]));
	assert_null(dlsym(handle, text[SPARES + 1]));
	assert_non_null(dlsym(handle, "cuInit"));
}

/* Whatever is read as a shim, nothing outside of its bytes is touched (the sanitizers watch). */
static void damaged_libraries_are_refused_or_do_no_harm(void **state)
{
	static char text[NAMES_MAX][128];
	const char *list[NAMES_MAX];
	struct elf_names names = names_make(5, text, list);
	_cleanup_library_ struct library whole = library_read();
	uint64_t sections;
	uint32_t seed = 7;

	memcpy(&sections, whole.data + 40, sizeof(sections));
	for (unsigned round = 0; round < 400; round++) {
		_cleanup_free_ char *data = malloc(whole.len);
		size_t len = round % 4 ? whole.len : (size_t)(seed % whole.len);

		memcpy(data, whole.data, whole.len);
		for (unsigned i = 0; i < 4; i++) {
			size_t at;

			seed = seed * 1664525 + 1013904223;
			at = round % 3 == 0   ? seed % 64
			     : round % 3 == 1 ? sections + seed % (whole.len - sections)
					      : 0x2f0 + seed % 0x100;
			data[at] = (char)(seed >> 24);
		}
		elf_fit(data, len, &names);
	}
	assert_int_equal(elf_fit(whole.data, 10, &names), -ENOEXEC);
	whole.data[4] = 1; /* ELFCLASS32 */
	assert_int_equal(elf_fit(whole.data, whole.len, &names), -ENOEXEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_name_is_found_by_the_linker),
		cmocka_unit_test(names_that_are_there_change_nothing),
		cmocka_unit_test(names_that_were_given_are_there),
		cmocka_unit_test(names_without_room_are_left_out),
		cmocka_unit_test(damaged_libraries_are_refused_or_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
