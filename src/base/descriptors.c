#include "base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 65536

void descriptors_reserve(unsigned int n)
{
	struct rlimit limit;
	int fd;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (limit.rlim_cur < limit.rlim_max && limit.rlim_cur < DESCRIPTORS_MAX) {
		limit.rlim_cur = limit.rlim_max < DESCRIPTORS_MAX ? limit.rlim_max : DESCRIPTORS_MAX;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (int)(n < limit.rlim_cur ? n : limit.rlim_cur) - 1);
	if (fd >= 0)
		close(fd);
}
