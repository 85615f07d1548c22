#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "base/table.h"

static void error_prefix_puts_context_in_front(void **state)
{
	struct error err;

	assert_int_equal(error_set(&err, EINVAL, "not a number: %s", "x"), -EINVAL);
	error_prefix(&err, "pod %s", "default/a");
	assert_string_equal(err.text, "pod default/a: not a number: x");
}

static void error_text_is_cut_not_overrun(void **state)
{
	struct error err;
	char big[2000];

	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	error_set(&err, EINVAL, "%s", big);
	error_prefix(&err, "%s", big);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void strbuf_stops_at_its_limit_and_stays_failed(void **state)
{
	_cleanup_strbuf_ struct strbuf buf;

	strbuf_init(&buf, 8);
	assert_int_equal(strbuf_adds(&buf, "12345678"), 0);
	assert_int_equal(strbuf_adds(&buf, "9"), -EMSGSIZE);
	assert_int_equal(strbuf_addf(&buf, "%s", ""), -EMSGSIZE);
	assert_string_equal(strbuf_cstr(&buf), "12345678");
	assert_null(strbuf_take(&buf));
	strbuf_clear(&buf);
	assert_int_equal(strbuf_addf(&buf, "%d", 42), 0);
	assert_string_equal(strbuf_cstr(&buf), "42");
}

static void strbuf_drop_front_keeps_the_rest(void **state)
{
	_cleanup_strbuf_ struct strbuf buf;

	strbuf_init(&buf, 100);
	strbuf_adds(&buf, "abcdef");
	strbuf_drop_front(&buf, 2);
	assert_string_equal(strbuf_cstr(&buf), "cdef");
	strbuf_drop_front(&buf, 99);
	assert_string_equal(strbuf_cstr(&buf), "");
}

static void table_holds_what_was_set_through_growth_and_removal(void **state)
{
	struct table table;
	char key[32];
	void *value;
	size_t seen = 0;

	table_init(&table);
	for (uintptr_t i = 1; i <= 5000; i++) {
		snprintf(key, sizeof(key), "node-%zu", (size_t)i);
		assert_int_equal(table_set(&table, key, (void *)i), 0);
	}
	for (uintptr_t i = 2; i <= 5000; i += 2) {
		snprintf(key, sizeof(key), "node-%zu", (size_t)i);
		assert_ptr_equal(table_remove(&table, key), (void *)i);
		assert_null(table_remove(&table, key));
	}
	table_for_each (&table, cursor, value)
		seen += (uintptr_t)value & 1;
	assert_int_equal(seen, 2500);
	assert_int_equal(table.count, 2500);
	assert_ptr_equal(table_get(&table, "node-4999"), (void *)4999);
	assert_null(table_get(&table, "node-4998"));
	table_release(&table);
}

/* Keys of all lengths up to 40, whose first 8, 16 .. bytes are equal; every third one is removed, and there
 * are more than are looked up at once. */
static void many_keys_are_found_as_one_by_one(void **state)
{
	char texts[200][48];
	const char *keys[200];
	void *values[201];
	struct table table;

	table_init(&table);
	table_get_many(&table, (const char *const[]){"a", ""}, 2, values);
	assert_null(values[0]);
	assert_null(values[1]);
	for (size_t i = 0; i < 200; i++) {
		snprintf(texts[i], sizeof(texts[i]), "%.*s%zu", (int)(i % 38),
			"nodenodenodenodenodenodenodenodenodenode", i);
		keys[i] = texts[i];
		assert_int_equal(table_set(&table, keys[i], &texts[i]), 0);
	}
	for (size_t i = 0; i < 200; i += 3)
		assert_ptr_equal(table_remove(&table, keys[i]), &texts[i]);
	for (size_t n = 0; n <= 200; n += n < 40 ? 1 : 80) {
		values[n] = &table;
		table_get_many(&table, keys, n, values);
		for (size_t i = 0; i < n; i++)
			assert_ptr_equal(values[i], i % 3 ? (void *)&texts[i] : NULL);
		assert_ptr_equal(values[n], &table); /* no more than n are written */
	}
	table_release(&table);
}

static void assert_order(const struct table *table, const char *const *keys, size_t n)
{
	size_t at = 0;
	const char *key;

	for (size_t cursor = 0; table_next(table, &cursor, &key, NULL); at++) {
		assert_true(at < n);
		assert_string_equal(key, keys[at]);
	}
	assert_int_equal(at, n);
}

/* What a simulation or a replay decides must not depend on the process. */
static void table_is_iterated_in_the_order_of_insertion(void **state)
{
	static const char *const first[] = {"z", "a", "m", "b"}, *const then[] = {"z", "m", "b", "a"};
	struct table table;
	char key[32];

	table_init(&table);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(table_set(&table, first[i], &table), 0);
	assert_int_equal(table_set(&table, "z", table.entries), 0);
	assert_order(&table, first, 4);
	table_remove(&table, "a");
	assert_int_equal(table_set(&table, "a", &table), 0);
	assert_order(&table, then, 4);
	for (int i = 0; i < 1000; i++) { /* through growth, and back */
		snprintf(key, sizeof(key), "pod-%d", i);
		assert_int_equal(table_set(&table, key, &table), 0);
	}
	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "pod-%d", i);
		assert_ptr_equal(table_remove(&table, key), &table);
	}
	assert_order(&table, then, 4);
	table_release(&table);
}

static void table_survives_endless_insert_and_remove(void **state)
{
	struct table table;

	table_init(&table);
	for (uintptr_t i = 0; i < 100000; i++) {
		char key[32];

		snprintf(key, sizeof(key), "pod-%zu", (size_t)i);
		assert_int_equal(table_set(&table, key, &table), 0);
		table_remove(&table, key);
	}
	assert_int_equal(table.count, 0);
	assert_true(table.size <= 64);
	table_release(&table);
}

static void parse_takes_digits_only_and_knows_its_limit(void **state)
{
	uint64_t value = 7;
	uint32_t small = 7;

	assert_int_equal(parse_u64("18446744073709551615", UINT64_MAX, &value), 0);
	assert_true(value == UINT64_MAX);
	assert_int_equal(parse_u64("18446744073709551616", UINT64_MAX, &value), -ERANGE);
	assert_int_equal(parse_u64("", 10, &value), -EINVAL);
	assert_int_equal(parse_u64("-1", 10, &value), -EINVAL);
	assert_int_equal(parse_u64("1 ", 10, &value), -EINVAL);
	assert_int_equal(parse_u32("5", 3, &small), -ERANGE);
	assert_int_equal(small, 7);
	assert_int_equal(parse_u32("3", 3, &small), 0);
	assert_int_equal(small, 3);
}

static void fs_files_are_replaced_whole_and_read_with_a_limit(void **state)
{
	char dir[] = "/tmp/ration-test-XXXXXX", path[64];
	_cleanup_free_ char *data = NULL;
	struct stat st;
	size_t len;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a/b", dir);
	assert_int_equal(fs_mkdir_parents(path, 0755), 0);
	assert_int_equal(fs_mkdir_parents(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/a/b/file", dir);
	assert_int_equal(fs_write_atomic(path, 0640, "hello", 5), 0);
	assert_int_equal(fs_write_atomic(path, 0600, "hi", 2), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(fs_read(path, 1, &data, &len), -EFBIG);
	assert_int_equal(fs_read(path, 2, &data, &len), 0);
	assert_int_equal(len, 2);
	assert_string_equal(data, "hi");
	assert_int_equal(fs_mkdir_parents(path, 0755), -ENOTDIR);
	unlink(path);
	snprintf(path, sizeof(path), "%s/a/b", dir);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/a", dir);
	rmdir(path);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error_prefix_puts_context_in_front),
		cmocka_unit_test(error_text_is_cut_not_overrun),
		cmocka_unit_test(strbuf_stops_at_its_limit_and_stays_failed),
		cmocka_unit_test(strbuf_drop_front_keeps_the_rest),
		cmocka_unit_test(table_holds_what_was_set_through_growth_and_removal),
		cmocka_unit_test(many_keys_are_found_as_one_by_one),
		cmocka_unit_test(table_is_iterated_in_the_order_of_insertion),
		cmocka_unit_test(table_survives_endless_insert_and_remove),
		cmocka_unit_test(parse_takes_digits_only_and_knows_its_limit),
		cmocka_unit_test(fs_files_are_replaced_whole_and_read_with_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
