/* What the agent reads of the slots in a usage file. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "grant/owner.h"
#include "grant/peek.h"
#include "grant/usage.h"

/* What is charged and maybe not taken counts on the GPU where the process had such charges first, and what it
 * has on all other GPUs together counts on each of these. */
static void a_surplus_counts_on_its_gpu(void **state)
{
	char path[] = "/tmp/test-peek-XXXXXX";
	_cleanup_close_ int fd = mkstemp(path);
	struct usage_peek_slot slots[USAGE_FILE_SLOTS];
	struct usage_file *usage;
	struct usage_peek peek;
	const char *why = "";

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(usage_file_create(path, 3, &why), 0);
	assert_int_equal(usage_file_map(path, &usage, &why), 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	usage->slots_used = 1;
	usage->slots[0].owner = 1; /* pid 1 */
	usage->slots[0].surplus = 7;
	usage->slots[0].surplus_elsewhere = 2;
	for (unsigned first = 0; first < 3; first++) {
		usage->slots[0].surplus_gpu = first + 1;
		for (unsigned gpu = 0; gpu < 3; gpu++) {
			assert_int_equal(usage_peek(fd, 3, &peek), 0);
			assert_int_equal(usage_peek_slots(fd, &peek, gpu, slots), 1);
			assert_int_equal(slots[0].surplus_bytes >> USAGE_PAGE_SHIFT, gpu == first ? 7 : 2);
		}
	}
	munmap(usage, sizeof(*usage));
	unlink(path);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_surplus_counts_on_its_gpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
