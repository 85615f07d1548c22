/* What fs_read() refuses: files that are too large, whatever their size says, and what is no file. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fs.h"

static char folder[64], path[128];

static int set_up(void **state)
{
	strcpy(folder, "/tmp/test-fs-read-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/file", folder);
	return 0;
}

static int tear_down(void **state)
{
	unlink(path);
	return rmdir(folder);
}

static int read_at_most(const char *from, size_t max)
{
	size_t len = 0;
	char *data = NULL;
	int r = fs_read(from, max, &data, &len);

	assert_true(r < 0 || len <= max);
	free(data);
	return r;
}

static void a_file_may_have_all_that_is_allowed(void **state)
{
	assert_int_equal(fs_write_atomic(path, 0600, "12345678", 8), 0);
	assert_int_equal(read_at_most(path, 8), 0);
	assert_int_equal(read_at_most(path, 7), -EFBIG);
}

/* Files in /proc have the size 0. */
static void a_file_that_does_not_tell_its_size_is_refused_when_it_is_read(void **state)
{
	assert_int_equal(read_at_most("/proc/self/status", 1 << 20), 0);
	assert_int_equal(read_at_most("/proc/self/status", 16), -EFBIG);
}

/* Nobody writes to the pipe: to open it in the usual way would take for ever. */
static void what_is_no_file_is_not_read(void **state)
{
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(read_at_most(path, 16), -ENOTSUP);
	assert_int_equal(read_at_most("/dev/null", 16), -ENOTSUP);
	assert_int_equal(read_at_most(folder, 16), -EISDIR);
}

#define READ(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		READ(a_file_may_have_all_that_is_allowed),
		READ(a_file_that_does_not_tell_its_size_is_refused_when_it_is_read),
		READ(what_is_no_file_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
