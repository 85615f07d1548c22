#include "agent/gpu/use-file.h"

#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* "RAUSE001"; another layout of struct use_record gets another number. */
#define MAGIC UINT64_C(0x3130304553554152)

struct head {
	uint64_t magic;
	uint32_t count, size;
};

static struct head head_of(unsigned n)
{
	return (struct head){.magic = MAGIC, .count = n, .size = sizeof(struct use_record)};
}

void use_file_read(int fd, unsigned n, struct use_record *ret_records)
{
	const struct head wanted = head_of(n);
	const ssize_t size = (ssize_t)(n * sizeof(*ret_records));
	struct head found;

	if (pread(fd, &found, sizeof(found), 0) != (ssize_t)sizeof(found) ||
		memcmp(&found, &wanted, sizeof(found)) != 0 ||
		pread(fd, ret_records, (size_t)size, sizeof(found)) != size)
		memset(ret_records, 0, (size_t)size);
}

void use_file_write(int fd, unsigned n, unsigned i, const struct use_record *record)
{
	const struct head head = head_of(n);
	off_t at = (off_t)(sizeof(head) + i * sizeof(*record));

	/* The file is as long as all records from the start, so that a reader never finds it too short. */
	if (fd >= 0 && pwrite(fd, record, sizeof(*record), at) == (ssize_t)sizeof(*record) &&
		ftruncate(fd, (off_t)(sizeof(head) + n * sizeof(*record))) == 0)
		(void)!pwrite(fd, &head, sizeof(head), 0);
}
