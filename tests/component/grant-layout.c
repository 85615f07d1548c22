/* Writes and keeps grants as one version of the layout does. Built as this version and as a later one, which
 * pair in test_grant_layout.py. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "grant/usage.h"

#define NEXT_WORD UINT64_C(0x6e657874)

static int fail(const char *why)
{
	fprintf(stderr, "%s\n", why);
	return EXIT_FAILURE;
}

/* FOLDER CUDA NVML UUID LIMIT */
static int write_files(char **args)
{
	struct grant_file grant = {.gpu_count = 1};
	char grant_path[4096], usage_path[4096];
	const char *why = "";

	snprintf(grant_path, sizeof(grant_path), "%s/grant", args[0]);
	snprintf(usage_path, sizeof(usage_path), "%s/" USAGE_FILE_NAME, args[0]);
	snprintf(grant.cuda_library, sizeof(grant.cuda_library), "%s", args[1]);
	snprintf(grant.nvml_library, sizeof(grant.nvml_library), "%s", args[2]);
	snprintf(grant.gpus[0].uuid, sizeof(grant.gpus[0].uuid), "%s", args[3]);
	grant.gpus[0].limit_bytes = strtoull(args[4], NULL, 10);
#ifdef GRANT_LAYOUT_NEXT
	grant.gpus[0].next[0] = NEXT_WORD;
	grant.live[0].next[0] = NEXT_WORD;
#endif
	if (grant_file_write(grant_path, &grant, &why) < 0 || usage_file_create(usage_path, 1, &why) < 0)
		return fail(why);
	return EXIT_SUCCESS;
}

/* FOLDER LIMIT OVERHEAD: what a keeper changes, and what it reads: prints the bytes that are charged. */
static int keep(char **args)
{
	char grant_path[4096], usage_path[4096];
	struct grant_file *grant;
	const char *why = "";
	uint64_t charged;
	int fd, r;

	snprintf(grant_path, sizeof(grant_path), "%s/grant", args[0]);
	snprintf(usage_path, sizeof(usage_path), "%s/" USAGE_FILE_NAME, args[0]);
	if (grant_file_map_keeper(grant_path, &grant, &why) < 0)
		return fail(why);
	if (grant_file_set_limit(grant, 0, strtoull(args[1], NULL, 10)) < 0)
		return fail("the limit was not taken");
	grant_file_set_overhead(grant, 0, strtoull(args[2], NULL, 10), 0);
	fd = open(usage_path, O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -1 : usage_file_read(fd, 1, &charged);
	if (fd >= 0)
		close(fd);
	if (r < 0)
		return fail("the usage file cannot be read");
	printf("%llu\n", (unsigned long long)charged);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	if (argc == 7 && strcmp(argv[1], "write") == 0)
		return write_files(argv + 2);
	if (argc == 5 && strcmp(argv[1], "keep") == 0)
		return keep(argv + 2);
	return fail("usage: grant-layout write FOLDER CUDA NVML UUID LIMIT | keep FOLDER LIMIT OVERHEAD");
}
