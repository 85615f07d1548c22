/* The shim's table of what it was charged for. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/objects.h"

/* The table lives as long as the process, and what points to it lies in a mapping, which LeakSanitizer does
 * not look into. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:make_room";
}

static void put(enum object_kind kind, uint64_t key, uint64_t bytes)
{
	struct object object = {.kind = kind, .key = key, .bytes = bytes};

	assert_int_equal(objects_put(&object), 0);
}

static void what_was_put_is_there_once(void **state)
{
	struct object object;

	put(OBJECT_POINTER, 512, 7);
	put(OBJECT_ARRAY, 512, 8);
	assert_true(objects_get(OBJECT_POINTER, 512, &object));
	assert_int_equal(object.bytes, 7);
	put(OBJECT_POINTER, 512, 9);
	assert_true(objects_take(OBJECT_POINTER, 512, &object));
	assert_int_equal(object.bytes, 9);
	assert_false(objects_take(OBJECT_POINTER, 512, &object));
	assert_true(objects_take(OBJECT_ARRAY, 512, &object));
	assert_int_equal(object.bytes, 8);
}

static void key_zero_and_the_largest_are_keys_as_others(void **state)
{
	struct object object;

	put(OBJECT_POINTER, 0, 1);
	put(OBJECT_POINTER, UINT64_MAX, 2);
	assert_true(objects_take(OBJECT_POINTER, 0, &object));
	assert_int_equal(object.bytes, 1);
	assert_true(objects_take(OBJECT_POINTER, UINT64_MAX, &object));
	assert_int_equal(object.bytes, 2);
}

/* Against an array: puts and takes of the same few thousand keys at random. */
static void a_long_history_loses_nothing_and_keeps_nothing(void **state)
{
	enum { KEYS = 5000 };
	uint64_t *expected = calloc(KEYS, sizeof(*expected)), seed = 12345;
	struct object object;

	for (int i = 0; i < 500000; i++) {
		uint64_t k, key;

		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		k = (seed >> 33) % KEYS;
		key = UINT64_C(0x7f0000000000) + k * 512;
		if (seed >> 63) {
			put(OBJECT_POINTER, key, (uint64_t)i + 1);
			expected[k] = (uint64_t)i + 1;
		} else {
			assert_int_equal(objects_take(OBJECT_POINTER, key, &object), expected[k] != 0);
			if (expected[k])
				assert_int_equal(object.bytes, expected[k]);
			expected[k] = 0;
		}
	}
	for (uint64_t k = 0; k < KEYS; k++)
		assert_int_equal(objects_take(OBJECT_POINTER, UINT64_C(0x7f0000000000) + k * 512, &object),
			expected[k] != 0);
	free(expected);
}

static bool count_up(struct object *object, void *context)
{
	object->count += *(uint32_t *)context;
	return object->count != 0;
}

static void a_change_makes_and_removes_objects(void **state)
{
	uint32_t one = 1, none = 0, less = UINT32_MAX;
	struct object object;

	assert_int_equal(objects_change(OBJECT_BLOCK, 4, count_up, &none), 0);
	assert_false(objects_get(OBJECT_BLOCK, 4, &object));
	assert_int_equal(objects_change(OBJECT_BLOCK, 4, count_up, &one), 0);
	assert_int_equal(objects_change(OBJECT_BLOCK, 4, count_up, &one), 0);
	assert_true(objects_get(OBJECT_BLOCK, 4, &object));
	assert_int_equal(object.count, 2);
	assert_int_equal(objects_change(OBJECT_BLOCK, 4, count_up, &less), 0);
	assert_int_equal(objects_change(OBJECT_BLOCK, 4, count_up, &less), 0);
	assert_false(objects_get(OBJECT_BLOCK, 4, &object));
}

static void *count_to(void *rounds)
{
	uint32_t one = 1;

	for (int i = 0; i < *(int *)rounds; i++)
		objects_change(OBJECT_BLOCK, (uint64_t)(i % 7), count_up, &one);
	return NULL;
}

static void threads_lose_no_change(void **state)
{
	pthread_t threads[4];
	int rounds = 70000;
	struct object object;

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, count_to, &rounds);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (uint64_t key = 0; key < 7; key++) {
		assert_true(objects_take(OBJECT_BLOCK, key, &object));
		assert_int_equal(object.count, 40000);
	}
}

static void a_child_of_fork_begins_with_nothing_also_while_threads_are_at_work(void **state)
{
	pthread_t thread;
	int rounds = 2000000, status;

	pthread_create(&thread, NULL, count_to, &rounds);
	put(OBJECT_POINTER, 512, 7);
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();
		struct object object;

		if (pid == 0) {
			alarm(10);
			for (uint64_t key = 0; key < 7; key++)
				if (objects_get(OBJECT_BLOCK, key, &object))
					_exit(1);
			_exit(objects_get(OBJECT_POINTER, 512, &object));
		}
		waitpid(pid, &status, 0);
		assert_int_equal(status, 0);
	}
	pthread_join(thread, NULL);
	for (uint64_t key = 0; key < 7; key++)
		assert_true(objects_take(OBJECT_BLOCK, key, &(struct object){0}));
	assert_true(objects_take(OBJECT_POINTER, 512, &(struct object){0}));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_put_is_there_once),
		cmocka_unit_test(key_zero_and_the_largest_are_keys_as_others),
		cmocka_unit_test(a_long_history_loses_nothing_and_keeps_nothing),
		cmocka_unit_test(a_change_makes_and_removes_objects),
		cmocka_unit_test(threads_lose_no_change),
		cmocka_unit_test(a_child_of_fork_begins_with_nothing_also_while_threads_are_at_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
