#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Without O_NONBLOCK, a pipe or device in the place of a file could block open() for ever. */
static int open_file(const char *path, size_t max, bool pipe_too, bool *ret_is_pipe)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	*ret_is_pipe = pipe_too && S_ISFIFO(st.st_mode);
	if (!S_ISREG(st.st_mode) && !*ret_is_pipe)
		return -ENOTSUP;
	if (st.st_size > 0 && (uint64_t)st.st_size > max)
		return -EFBIG;
	return TAKE_FD(&fd);
}

/* Waits until the pipe can be read, or its last writer has closed it. */
static int wait_for_pipe(int fd, int64_t until_ns)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	int64_t left_ns;
	int r;

	do {
		left_ns = until_ns - monotonic_ns();
		r = left_ns > 0 ? poll(&poll_fd, 1, (int)(left_ns / NS_PER_MS) + 1) : 0;
	} while (r < 0 && errno == EINTR);
	return r > 0 ? 0 : r == 0 ? -ETIMEDOUT : -errno;
}

/* until_ns 0: it is a file. */
static int read_to_end(int fd, size_t max, int64_t until_ns, char **ret_data, size_t *ret_len)
{
	_cleanup_free_ char *data = NULL;
	size_t len = 0, size = 4096;

	for (;;) {
		ssize_t n;
		int r = until_ns ? wait_for_pipe(fd, until_ns) : 0;
		/* Files in /proc and /sys report no size. So the buffer grows while there is more to read, up
		 * to one byte over the limit. */
		char *grown = (len + 1 >= size || !data) ? realloc(data, size *= 2) : data;

		if (!grown)
			return -ENOMEM;
		data = grown;
		if (r < 0)
			return r;
		n = read(fd, data + len, size - len - 1);
		if (n < 0 && (errno == EINTR || (until_ns && errno == EAGAIN)))
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
		if (len > max)
			return -EFBIG;
	}
	data[len] = '\0';
	*ret_data = TAKE_PTR(data);
	if (ret_len)
		*ret_len = len;
	return 0;
}

int fs_read(const char *path, size_t max, char **ret_data, size_t *ret_len)
{
	bool is_pipe;
	_cleanup_close_ int fd = open_file(path, max, false, &is_pipe);

	return fd < 0 ? fd : read_to_end(fd, max, 0, ret_data, ret_len);
}

int fs_read_or_pipe(const char *path, size_t max, int timeout_ms, char **ret_data, size_t *ret_len)
{
	int64_t until_ns = monotonic_ns() + timeout_ms * NS_PER_MS;
	bool is_pipe = false; /* gcc -O3 does not see that it is set together with fd */
	_cleanup_close_ int fd = open_file(path, max, true, &is_pipe);

	return fd < 0 ? fd : read_to_end(fd, max, is_pipe ? until_ns : 0, ret_data, ret_len);
}

int fs_write_atomic(const char *path, mode_t mode, const void *data, size_t len)
{
	char temporary[PATH_MAX];
	_cleanup_close_ int fd = -1;
	int r;

	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.tmp-%d", path, getpid()) >= sizeof(temporary))
		return -ENAMETOOLONG;
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return -errno;
	r = fchmod(fd, mode) < 0 ? -errno : write_all(fd, data, len);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(temporary);
	return r;
}

int fs_own_folder(char ret_path[PATH_MAX])
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return -errno;
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	strcpy(ret_path, self);
	return 0;
}

int fs_mkdir_parents(const char *path, mode_t mode)
{
	char part[PATH_MAX];
	struct stat st;

	if (strlen(path) >= sizeof(part))
		return -ENAMETOOLONG;
	strcpy(part, path);
	for (char *p = part + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	if (mkdir(part, mode) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}
