#include "grant/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_whole(int fd, mode_t mode, const void *data, size_t len, size_t size)
{
	const char *at = data;

	if (fchmod(fd, mode) < 0 || ftruncate(fd, (off_t)size) < 0)
		return -errno;
	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

int files_write(const char *path, mode_t mode, const void *data, size_t len, size_t size)
{
	char temporary[4096];
	int n = snprintf(temporary, sizeof(temporary), "%s.%ld", path, (long)getpid());
	int fd, r;

	if (n < 0 || (size_t)n >= sizeof(temporary))
		return -ENAMETOOLONG;
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = write_whole(fd, mode, data, len, size);
	close(fd);
	if (r == 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(temporary);
	return r;
}

int files_map(const char *path, size_t size, int writable, void **ret_map)
{
	/* With O_NONBLOCK a pipe in the file's place cannot block the program. */
	int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	off_t length;
	void *map;
	int r = 0;

	if (fd < 0)
		return -errno;
	/* Not fstat: glibc 2.33 gave it a new symbol version, and the shim must load with older versions. */
	length = lseek(fd, 0, SEEK_END);
	if (length < 0 || (size_t)length < size) {
		close(fd);
		return -EBADMSG;
	}
	map = mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		r = -errno;
	close(fd);
	if (r == 0)
		*ret_map = map;
	return r;
}
