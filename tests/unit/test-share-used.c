/* Whether another process of the container has memory that the owner of a slot made. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "grant/share.h"

#define MIB UINT64_C(1048576)
#define HASH UINT64_C(0x123456789abcdef0)
#define OTHER_HASH UINT64_C(0xfedcba9876543210)
#define GPUS 2
/* The words behind those of the GPUs are records. */
#define RECORD GPUS

static struct usage_file *usage;

/* Two processes. */
static int set_up(void **state)
{
	usage = calloc(1, sizeof(*usage));
	usage->gpu_count = GPUS;
	usage->slots_used = 2;
	return 0;
}

static int tear_down(void **state)
{
	free(usage);
	return 0;
}

static void record(uint32_t slot, unsigned place, enum share_kind kind, unsigned gpu, uint64_t hash)
{
	usage->slots[slot].shared[RECORD + place] = share_word(kind, gpu, 600 * MIB, hash);
}

static void what_a_process_opens_itself_makes_it_no_importer_of_its_own(void **state)
{
	record(0, 0, SHARE_IMPORT, 1, HASH);
	usage->slots[0].shared[0] = 5;
	assert_false(share_has_importers(usage, 0, 1));
	assert_false(share_has_importers(usage, 0, 0));
	assert_true(share_has_importers(usage, 1, 1));
	assert_true(share_has_importers(usage, 1, 0));
}

static void an_import_counts_for_its_gpu_only(void **state)
{
	record(1, 0, SHARE_IMPORT, 1, HASH);
	assert_true(share_has_importers(usage, 0, 1));
	assert_false(share_has_importers(usage, 0, 0));
}

static void an_export_is_no_import(void **state)
{
	record(1, 0, SHARE_EXPORT, 1, HASH);
	record(1, 1, SHARE_FREED, 1, HASH);
	assert_false(share_has_importers(usage, 0, 1));
}

/* Pages of others without a record: in the low half of the word of the GPU. What the process itself has
 * shared is in the high half. */
static void a_sum_of_what_others_made_is_an_import(void **state)
{
	usage->slots[1].shared[1] = UINT64_C(7) << 32;
	assert_false(share_has_importers(usage, 0, 1));
	usage->slots[1].shared[1] |= 1;
	assert_true(share_has_importers(usage, 0, 1));
}

static void an_export_is_used_while_another_process_has_opened_it(void **state)
{
	record(0, 0, SHARE_EXPORT, 1, HASH);
	assert_false(share_is_used(usage, 0));
	record(1, 0, SHARE_IMPORT, 1, OTHER_HASH);
	assert_false(share_is_used(usage, 0));
	record(1, 1, SHARE_IMPORT, 1, HASH);
	assert_true(share_is_used(usage, 0));
}

/* The driver frees it when the last process has closed it. */
static void an_export_that_its_maker_freed_is_used_as_long(void **state)
{
	record(0, 0, SHARE_FREED, 1, HASH);
	assert_false(share_is_used(usage, 0));
	record(1, 0, SHARE_IMPORT, 1, HASH);
	assert_true(share_is_used(usage, 0));
}

static void what_has_no_record_is_used_while_others_have_anything_there(void **state)
{
	usage->slots[0].shared[1] = UINT64_C(7) << 32;
	assert_false(share_is_used(usage, 0));
	record(1, 0, SHARE_IMPORT, 1, HASH);
	assert_true(share_is_used(usage, 0));
}

#define USED(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		USED(what_a_process_opens_itself_makes_it_no_importer_of_its_own),
		USED(an_import_counts_for_its_gpu_only),
		USED(an_export_is_no_import),
		USED(a_sum_of_what_others_made_is_an_import),
		USED(an_export_is_used_while_another_process_has_opened_it),
		USED(an_export_that_its_maker_freed_is_used_as_long),
		USED(what_has_no_record_is_used_while_others_have_anything_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
