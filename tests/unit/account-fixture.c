#include "account-fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char directory[64];
char usage_path[128];
struct grant_file *grant;
struct usage_file *usage;
struct account *account;

int account_set_up(const uint64_t *limits, unsigned count)
{
	const char *why;

	strcpy(directory, "/tmp/ration-account-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(usage_path, sizeof(usage_path), "%s/usage", directory);
	grant = mmap(NULL, sizeof(*grant), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	grant->gpu_count = count;
	for (unsigned i = 0; i < count; i++)
		grant_file_set_limit(grant, i, limits[i]);
	if (usage_file_create(usage_path, count, &why) < 0 || usage_file_map(usage_path, &usage, &why) < 0)
		return -1;
	account = account_open(grant, usage);
	return account ? 0 : -1;
}

int account_tear_down(void **state)
{
	account_close(account);
	usage_file_unmap(usage);
	munmap(grant, sizeof(*grant));
	unlink(usage_path);
	return rmdir(directory);
}
