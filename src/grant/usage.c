#include "grant/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "grant/files.h"

#define TRIES 5 /* attempts to read a sum that is being recounted */

struct usage_head {
	uint64_t magic;
	uint32_t version;
	uint32_t size;
	uint32_t slot_count;
	uint32_t gpu_count;
	uint32_t slots_used;
	uint32_t look_wanted;
	uint32_t readable_from;
};

_Static_assert(offsetof(struct usage_head, slots_used) == offsetof(struct usage_file, slots_used), "layout");
_Static_assert(
	offsetof(struct usage_head, readable_from) == offsetof(struct usage_file, readable_from), "layout");

_Static_assert(sizeof(struct usage_head) <= USAGE_HEAD_BYTES, "layout");

/* Returns NULL, or what is wrong with the head. */
static const char *verify(const struct usage_head *head)
{
	if (head->magic != USAGE_FILE_MAGIC)
		return "the file is not a usage file";
	switch (layout_fit(head->version, head->readable_from, USAGE_FILE_VERSION, USAGE_FILE_OLDEST)) {
	case LAYOUT_TOO_NEW:
		return "the usage file was written by a newer version of ration, which this one cannot use";
	case LAYOUT_TOO_OLD:
		return "the usage file was written by a version of ration that is too old for this one";
	case LAYOUT_FITS:
		break;
	}
	if (head->size != sizeof(struct usage_file) || head->slot_count != USAGE_FILE_SLOTS ||
		head->gpu_count == 0 || head->gpu_count > GRANT_FILE_GPUS_MAX)
		return "the usage file is damaged";
	return NULL;
}

const char *usage_file_verify(const void *head)
{
	struct usage_head found;

	memcpy(&found, head, sizeof(found));
	return verify(&found);
}

int usage_file_create(const char *path, unsigned gpu_count, const char **ret_why)
{
	struct usage_head head = {
		.magic = USAGE_FILE_MAGIC,
		.version = USAGE_FILE_VERSION,
		.size = sizeof(struct usage_file),
		.slot_count = USAGE_FILE_SLOTS,
		.gpu_count = gpu_count,
		.readable_from = USAGE_FILE_READABLE_FROM,
	};
	int r;

	if (verify(&head)) {
		*ret_why = "a usage file must be for at least one GPU, and not for more than it can hold";
		return -EINVAL;
	}
	r = files_write(path, 0666, &head, sizeof(head), sizeof(struct usage_file));
	if (r < 0)
		*ret_why = "the usage file cannot be written";
	return r;
}

int usage_file_map(const char *path, struct usage_file **ret_usage, const char **ret_why)
{
	struct usage_head head;
	const char *why;
	void *map;
	int r = files_map(path, sizeof(struct usage_file), 1, &map);

	if (r < 0) {
		*ret_why = r == -ENOENT	   ? "there is no usage file"
			   : r == -EACCES  ? "the usage file cannot be written: permission denied"
			   : r == -EBADMSG ? "the usage file is truncated"
					   : "the usage file cannot be opened";
		return r;
	}
	memcpy(&head, map, sizeof(head));
	why = verify(&head);
	if (why) {
		munmap(map, sizeof(struct usage_file));
		*ret_why = why;
		return -EBADMSG;
	}
	*ret_usage = map;
	return 0;
}

void usage_file_unmap(struct usage_file *usage)
{
	if (usage)
		munmap(usage, sizeof(*usage));
}

/* The lock belongs to the open file. A lock of the process would be dropped when any descriptor of the file
 * is closed. The call is made by number, because glibc names it fcntl64 since 2.28, and older versions must
 * be able to load the shim. */
static long lock_call(int fd, int command, struct flock *lock)
{
	return syscall(SYS_fcntl, fd, command, lock);
}

void usage_file_keep(int fd, bool kept)
{
	struct flock lock = {.l_type = kept ? F_RDLCK : F_UNLCK, .l_whence = SEEK_SET};

	lock_call(fd, F_OFD_SETLK, &lock);
}

bool usage_file_is_kept(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return lock_call(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int usage_file_path(const char *grant_path, char *ret_path, size_t size)
{
	const char *slash = strrchr(grant_path, '/');
	size_t directory = slash ? (size_t)(slash - grant_path) + 1 : 0;

	if (directory + sizeof(USAGE_FILE_NAME) > size)
		return -ENAMETOOLONG;
	memcpy(ret_path, grant_path, directory);
	memcpy(ret_path + directory, USAGE_FILE_NAME, sizeof(USAGE_FILE_NAME));
	return 0;
}

/* While a sum is recounted its word names the recounting process, so the slots are summed instead. */
static int sum_of_slots(int fd, unsigned gpu, uint32_t slots, uint64_t *ret_pages)
{
	uint64_t pages = 0, word;

	for (uint32_t i = 0; i < slots && i < USAGE_FILE_SLOTS; i++) {
		size_t at = offsetof(struct usage_file, slots) + i * sizeof(struct usage_slot) +
			    offsetof(struct usage_slot, gpus) + gpu * sizeof(word);

		if (pread(fd, &word, sizeof(word), (off_t)at) != sizeof(word))
			return -EBADMSG;
		pages += USAGE_HELD_PAGES(word);
	}
	*ret_pages = pages;
	return 0;
}

static int read_pages(int fd, unsigned gpu, uint32_t slots, uint64_t *ret_pages)
{
	size_t at = offsetof(struct usage_file, gpus) + gpu * sizeof(struct usage_gpu);
	uint64_t word;

	for (int i = 0; i < TRIES; i++) {
		if (pread(fd, &word, sizeof(word), (off_t)at) != sizeof(word))
			return -EBADMSG;
		if (!USAGE_IS_RECOUNTED(word)) {
			*ret_pages = USAGE_TOTAL_PAGES(word);
			return 0;
		}
	}
	return sum_of_slots(fd, gpu, slots, ret_pages);
}

int usage_file_read(int fd, unsigned n, uint64_t *ret_bytes)
{
	uint64_t bytes[GRANT_FILE_GPUS_MAX];
	struct usage_head head;

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || verify(&head) || n > head.gpu_count)
		return -EBADMSG;
	for (unsigned i = 0; i < n; i++) {
		uint64_t pages;
		int r = read_pages(fd, i, head.slots_used, &pages);

		if (r < 0)
			return r;
		bytes[i] = pages << USAGE_PAGE_SHIFT;
	}
	memcpy(ret_bytes, bytes, n * sizeof(bytes[0]));
	return 0;
}
