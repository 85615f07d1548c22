#include "sim/state/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"

int sim_file_open(const char *root, const char *name, bool *ret_writable)
{
	char path[PATH_MAX + 24];
	int fd, n = snprintf(path, sizeof(path), "%s/state/%s", root, name);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CLOEXEC);
	*ret_writable = fd >= 0;
	if (fd < 0 && (errno == EACCES || errno == EROFS))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOTDIR ? -ENOENT : -errno;
	return fd;
}

int sim_file_map(const char *root, const char *name, struct sim_file_head expected, struct sim_file *ret_file)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	bool writable;
	void *map;

	fd = sim_file_open(root, name, &writable);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* Reading a shorter file through a mapping would cause SIGBUS. */
	if (!S_ISREG(st.st_mode) || st.st_size != expected.size)
		return -EBADMSG;
	map = mmap(NULL, expected.size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	if (memcmp(map, &expected, sizeof(expected)) != 0) {
		munmap(map, expected.size);
		return -EBADMSG;
	}
	*ret_file = (struct sim_file){.map = map, .fd = TAKE_FD(&fd), .writable = writable};
	return 0;
}
