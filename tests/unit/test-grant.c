/* The two files that shim and keeper share: what is written is what is read, and nothing else is believed. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "grant/grant.h"
#include "grant/usage.h"

#define MIB UINT64_C(1048576)

static char directory[64], grant_path[128], usage_path[128];

static int set_up(void **state)
{
	strcpy(directory, "/tmp/ration-grant-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(grant_path, sizeof(grant_path), "%s/grant", directory);
	assert_int_equal(usage_file_path(grant_path, usage_path, sizeof(usage_path)), 0);
	return 0;
}

static int tear_down(void **state)
{
	unlink(grant_path);
	unlink(usage_path);
	return rmdir(directory); /* fails if a temporary file was left */
}

/* The contract's own example: 2 of 15 units of a GPU of 16160 MiB are 2154 MiB. */
static struct grant_file valid(void)
{
	struct grant_file grant = {.gpu_count = 2};

	strcpy(grant.container, "default/pod/container");
	strcpy(grant.cuda_library, "/opt/driver/libcuda.so.1");
	strcpy(grant.nvml_library, "/opt/driver/libnvidia-ml.so.1");
	strcpy(grant.gpus[0].uuid, "GPU-00000000-0000-0000-0000-000000000001");
	strcpy(grant.gpus[0].pci_bus_id, "00000000:00:09.0");
	grant.gpus[0].limit_bytes = 2154 * MIB;
	grant.gpus[0].physical_bytes = 16160 * MIB;
	strcpy(grant.gpus[1].uuid, "GPU-00000000-0000-0000-0000-000000000002");
	grant.gpus[1].limit_bytes = 1;
	return grant;
}

static void write_valid(void)
{
	struct grant_file grant = valid();
	const char *why = NULL;

	assert_int_equal(grant_file_write(grant_path, &grant, &why), 0);
}

static void a_grant_is_read_as_it_was_written(void **state)
{
	const struct grant_file *read = NULL;
	const char *why = NULL;

	write_valid();
	assert_int_equal(grant_file_map(grant_path, &read, &why), 0);
	assert_int_equal(read->gpu_count, 2);
	assert_string_equal(read->gpus[0].uuid, "GPU-00000000-0000-0000-0000-000000000001");
	assert_int_equal(read->gpus[0].limit_bytes, 2154 * MIB);
	assert_string_equal(read->cuda_library, "/opt/driver/libcuda.so.1");
	assert_int_equal(read->live[0].overhead_generation, 0);
	grant_file_unmap(read);
}

static void a_program_of_any_user_may_read_the_grant_and_not_write_it(void **state)
{
	struct stat about;
	mode_t before = umask(0777);
	const char *why = NULL;

	write_valid();
	assert_int_equal(usage_file_create(usage_path, 1, &why), 0);
	umask(before);
	assert_int_equal(stat(grant_path, &about), 0);
	assert_int_equal(about.st_mode & 07777, 0644);
	assert_int_equal(stat(usage_path, &about), 0);
	assert_int_equal(about.st_mode & 07777, 0666);
}

static void overhead_that_the_keeper_writes_is_seen_by_a_reader_that_has_it_mapped(void **state)
{
	const struct grant_file *read = NULL;
	struct grant_file *keeper = NULL;
	const char *why = NULL;

	write_valid();
	assert_int_equal(grant_file_map(grant_path, &read, &why), 0);
	assert_int_equal(grant_file_map_keeper(grant_path, &keeper, &why), 0);
	grant_file_set_overhead(keeper, 1, 300 * MIB, 7);
	assert_int_equal(read->live[1].overhead_bytes, 300 * MIB);
	assert_int_equal(grant_file_limit_bytes(read, 1), 1);
	assert_int_equal(read->live[1].overhead_generation, 1);
	/* Who counted up to 8 is still to be looked at; 32 bits may overflow. */
	assert_true(grant_was_looked(read, 1, 7));
	assert_false(grant_was_looked(read, 1, 8));
	assert_true(grant_was_looked(read, 1, UINT32_MAX));
	assert_int_equal(read->live[0].overhead_generation, 0);
	/* What changes does not break the checksum: the next process reads the file too. */
	assert_null(grant_file_verify(read, sizeof(*read)));
	grant_file_unmap(keeper);
	grant_file_unmap(read);
}

static void a_limit_that_the_keeper_changes_is_seen_by_a_reader_that_has_it_mapped(void **state)
{
	const struct grant_file *read = NULL;
	struct grant_file *keeper = NULL;
	const char *why = NULL;

	write_valid();
	assert_int_equal(grant_file_map(grant_path, &read, &why), 0);
	assert_int_equal(grant_file_map_keeper(grant_path, &keeper, &why), 0);
	assert_int_equal(grant_file_limit_bytes(read, 0), 2154 * MIB);
	assert_int_equal(grant_file_set_limit(keeper, 0, 3231 * MIB), 0);
	assert_int_equal(grant_file_limit_bytes(read, 0), 3231 * MIB);
	assert_int_equal(grant_file_limit_bytes(read, 1), 1);
	assert_int_equal(read->gpus[0].limit_bytes, 2154 * MIB);
	assert_int_equal(read->live[0].largest_limit_bytes, 3231 * MIB);
	assert_int_equal(grant_file_set_limit(keeper, 0, 1077 * MIB), 0);
	assert_int_equal(grant_file_limit_bytes(read, 0), 1077 * MIB);
	assert_int_equal(read->live[0].largest_limit_bytes, 3231 * MIB);
	assert_null(grant_file_verify(read, sizeof(*read)));
	grant_file_unmap(keeper);
	grant_file_unmap(read);
}

static void no_gpu_can_be_left_without_memory_or_beyond_the_grant_be_given_some(void **state)
{
	struct grant_file grant = valid();
	const char *why = NULL;

	assert_int_equal(grant_file_write(grant_path, &grant, &why), 0);
	assert_int_equal(grant_file_set_limit(&grant, 0, 0), -EINVAL);
	assert_int_equal(grant_file_set_limit(&grant, 2, MIB), -EINVAL);
	assert_int_equal(grant_file_limit_bytes(&grant, 0), 2154 * MIB);
	/* A word that nobody of ours wrote. */
	grant.live[1].limit_bytes = 0;
	assert_string_equal(grant_file_verify(&grant, sizeof(grant)), "the grant has a GPU without memory");
}

static void no_single_byte_of_the_constant_part_can_change_unnoticed(void **state)
{
	struct grant_file grant = valid();
	unsigned char *bytes = (unsigned char *)&grant;
	const char *why = NULL;

	assert_int_equal(grant_file_write(grant_path, &grant, &why), 0);
	for (size_t i = 0; i < offsetof(struct grant_file, live); i++) {
		bytes[i] ^= 0x10;
		assert_non_null(grant_file_verify(&grant, sizeof(grant)));
		bytes[i] ^= 0x10;
	}
	assert_null(grant_file_verify(&grant, sizeof(grant)));
}

static void write_bytes(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_int_equal(write(fd, data, len), (ssize_t)len);
	close(fd);
}

static void a_grant_that_is_cut_off_at_any_length_is_refused(void **state)
{
	struct grant_file grant = valid();
	const struct grant_file *read = NULL;
	const char *why = NULL;
	static const size_t lengths[] = {0, 1, 7, 8, 24, 2520, sizeof(struct grant_file) - 1};

	assert_int_equal(grant_file_write(grant_path, &grant, &why), 0);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		write_bytes(grant_path, &grant, lengths[i]);
		assert_int_equal(grant_file_map(grant_path, &read, &why), -EBADMSG);
		assert_string_equal(why, "the grant is truncated");
	}
	assert_null(read);
}

static void refused(struct grant_file grant, const char *expected)
{
	const char *why = NULL;

	assert_int_equal(grant_file_write(grant_path, &grant, &why), -EINVAL);
	assert_string_equal(why, expected);
	assert_int_equal(access(grant_path, F_OK), -1);
}

static void a_grant_that_says_nothing_usable_is_not_written(void **state)
{
	struct grant_file grant = valid();

	grant.gpu_count = 0;
	refused(grant, "the grant names no GPU, or more GPUs than it can hold");
	grant.gpu_count = GRANT_FILE_GPUS_MAX + 1;
	refused(grant, "the grant names no GPU, or more GPUs than it can hold");
	grant = valid();
	grant.gpus[1].limit_bytes = 0;
	refused(grant, "the grant has a GPU without memory");
	grant = valid();
	grant.gpus[1].uuid[0] = '\0';
	refused(grant, "the grant has a GPU without a name");
	grant = valid();
	memset(grant.gpus[0].uuid, 'x', sizeof(grant.gpus[0].uuid));
	refused(grant, "the grant has a GPU without a name");
	grant = valid();
	memset(grant.cuda_library, '/', sizeof(grant.cuda_library));
	refused(grant, "the grant does not name the driver's library");
	grant = valid();
	strcpy(grant.cuda_library, "libcuda.so.1"); /* would find the shim itself */
	refused(grant, "the grant does not name the driver's library");
}

static void a_grant_from_before_the_first_version_is_refused(void **state)
{
	struct grant_file grant = valid();
	const struct grant_file *read = NULL;
	const char *why = NULL;

	assert_int_equal(grant_file_write(grant_path, &grant, &why), 0);
	grant.version = GRANT_FILE_OLDEST - 1;
	write_bytes(grant_path, &grant, sizeof(grant));
	assert_int_equal(grant_file_map(grant_path, &read, &why), -EBADMSG);
	assert_string_equal(why, "the grant was written by a version of ration that is too old for this one");
}

static void what_is_no_file_is_no_grant_and_hangs_nobody(void **state)
{
	const struct grant_file *read = NULL;
	const char *why = NULL;

	assert_int_equal(grant_file_map(grant_path, &read, &why), -ENOENT);
	assert_string_equal(why, "there is no grant");
	assert_true(grant_file_map(directory, &read, &why) < 0);
	assert_int_equal(mkfifo(grant_path, 0600), 0);
	assert_true(grant_file_map(grant_path, &read, &why) < 0);
	assert_true(grant_file_map("/dev/zero", &read, &why) < 0);
	assert_null(read);
}

static void no_descriptor_stays_open(void **state)
{
	const struct grant_file *read = NULL;
	struct usage_file *usage = NULL;
	const char *why = NULL;
	int before = dup(0), after;

	close(before);
	write_valid();
	assert_int_equal(usage_file_create(usage_path, 2, &why), 0);
	assert_int_equal(grant_file_map(grant_path, &read, &why), 0);
	assert_int_equal(usage_file_map(usage_path, &usage, &why), 0);
	after = dup(0);
	close(after);
	assert_int_equal(after, before);
	usage_file_unmap(usage);
	grant_file_unmap(read);
}

static void a_new_usage_file_is_empty_and_shared(void **state)
{
	struct usage_file *first = NULL, *second = NULL;
	const char *why = NULL;

	assert_int_equal(usage_file_create(usage_path, 2, &why), 0);
	assert_int_equal(usage_file_map(usage_path, &first, &why), 0);
	assert_int_equal(usage_file_map(usage_path, &second, &why), 0);
	assert_int_equal(first->slots_used, 0);
	assert_int_equal(first->gpus[1].total, 0);
	first->slots[1023].gpus[63] = 5;
	assert_int_equal(second->slots[1023].gpus[63], 5);
	usage_file_unmap(first);
	usage_file_unmap(second);
}

static void an_empty_usage_file_takes_little_memory(void **state)
{
	struct stat about;
	const char *why = NULL;

	assert_int_equal(usage_file_create(usage_path, 2, &why), 0);
	assert_int_equal(stat(usage_path, &about), 0);
	assert_true(about.st_blocks * 512 <= 16384);
}

static void a_usage_file_that_is_not_ours_is_refused(void **state)
{
	struct usage_file *usage = NULL;
	const char *why = NULL;
	uint64_t bytes[1];
	int fd;

	write_bytes(usage_path, "RAUSAGE1", 8);
	assert_int_equal(usage_file_map(usage_path, &usage, &why), -EBADMSG);
	assert_int_equal(truncate(usage_path, sizeof(struct usage_file)), 0);
	assert_int_equal(usage_file_map(usage_path, &usage, &why), -EBADMSG);
	fd = open(usage_path, O_RDONLY);
	assert_int_equal(usage_file_read(fd, 1, bytes), -EBADMSG);
	close(fd);
	assert_int_equal(usage_file_create(usage_path, GRANT_FILE_GPUS_MAX + 1, &why), -EINVAL);
	assert_int_equal(usage_file_create(usage_path, 0, &why), -EINVAL);
}

static void the_keeper_reads_sums_without_mapping_also_while_one_is_recounted(void **state)
{
	struct usage_file *usage = NULL;
	const char *why = NULL;
	uint64_t bytes[2] = {0, 0};
	int fd;

	assert_int_equal(usage_file_create(usage_path, 2, &why), 0);
	assert_int_equal(usage_file_map(usage_path, &usage, &why), 0);
	fd = open(usage_path, O_RDONLY);
	usage->slots_used = 3;
	usage->slots[0].gpus[1] = 256;			   /* pages: 1 MiB */
	usage->slots[2].gpus[1] = 512 | UINT64_C(7) << 32; /* 2 MiB, and a change under way */
	usage->gpus[0].total = UINT64_C(4) << 32 | 768;	   /* 3 MiB */
	usage->gpus[1].total = UINT64_C(5) << 32 | 1;	   /* odd epoch: slot 1 recounts */
	assert_int_equal(usage_file_read(fd, 2, bytes), 0);
	assert_int_equal(bytes[0], 3 * MIB);
	assert_int_equal(bytes[1], 3 * MIB);
	assert_int_equal(usage_file_read(fd, 3, bytes), -EBADMSG);
	close(fd);
	usage_file_unmap(usage);
}

static void the_usage_file_lies_beside_the_grant(void **state)
{
	char path[20];

	assert_int_equal(usage_file_path("/run/ration/grant", path, sizeof(path)), 0);
	assert_string_equal(path, USAGE_FILE_PATH);
	assert_int_equal(usage_file_path("grant", path, sizeof(path)), 0);
	assert_string_equal(path, "usage");
	assert_int_equal(usage_file_path("/run/ration/a-name/grant", path, sizeof(path)), -ENAMETOOLONG);
}

#define FILES(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		FILES(a_grant_is_read_as_it_was_written),
		FILES(a_program_of_any_user_may_read_the_grant_and_not_write_it),
		FILES(overhead_that_the_keeper_writes_is_seen_by_a_reader_that_has_it_mapped),
		FILES(a_limit_that_the_keeper_changes_is_seen_by_a_reader_that_has_it_mapped),
		FILES(no_gpu_can_be_left_without_memory_or_beyond_the_grant_be_given_some),
		FILES(no_single_byte_of_the_constant_part_can_change_unnoticed),
		FILES(a_grant_that_is_cut_off_at_any_length_is_refused),
		FILES(a_grant_that_says_nothing_usable_is_not_written),
		FILES(a_grant_from_before_the_first_version_is_refused),
		FILES(what_is_no_file_is_no_grant_and_hangs_nobody),
		FILES(no_descriptor_stays_open),
		FILES(a_new_usage_file_is_empty_and_shared),
		FILES(an_empty_usage_file_takes_little_memory),
		FILES(a_usage_file_that_is_not_ours_is_refused),
		FILES(the_keeper_reads_sums_without_mapping_also_while_one_is_recounted),
		cmocka_unit_test(the_usage_file_lies_beside_the_grant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
