#include "agent/single.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fs.h"

int single_lock(const char *dir, int *ret_fd, struct error *err)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX], text[32] = "";
	ssize_t n;

	snprintf(path, sizeof(path), "%s/agent.lock", dir);
	fs_mkdir_parents(dir, 0755);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		return error_set(err, errno, "%s: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int r = errno == EWOULDBLOCK ? EBUSY : errno;

		n = read(fd, text, sizeof(text) - 1);
		text[n > 0 ? strcspn(text, "\n") : 0] = '\0';
		return error_set(
			err, r, "another ration-agent (process %s by its own count) holds %s", text, path);
	}
	/* Only for people: the lock is the kernel's. */
	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) == 0 && pwrite(fd, text, strlen(text), 0) < 0)
		text[0] = '\0';
	*ret_fd = TAKE_FD(&fd);
	return 0;
}
