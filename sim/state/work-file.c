#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "sim/state/work.h"

int sim_work_map(const char *root, struct sim_work **ret_work, bool *ret_writable)
{
	_cleanup_close_ int fd = -1;
	int protection = PROT_READ | PROT_WRITE;
	char path[PATH_MAX + 24];
	struct sim_work *work;
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/state/work", root);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EROFS)) {
		protection = PROT_READ;
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size != sizeof(*work))
		return -EBADMSG;
	work = mmap(NULL, sizeof(*work), protection, MAP_SHARED, fd, 0);
	if (work == MAP_FAILED)
		return -errno;
	if (work->magic != SIM_WORK_MAGIC || work->version != SIM_WORK_VERSION ||
		work->size != sizeof(*work)) {
		sim_work_unmap(work);
		return -EBADMSG;
	}
	*ret_work = work;
	*ret_writable = protection & PROT_WRITE;
	return 0;
}

void sim_work_unmap(struct sim_work *work)
{
	if (work)
		munmap(work, sizeof(*work));
}

void sim_work_prepare(struct sim_work *work)
{
	work->magic = SIM_WORK_MAGIC;
	work->version = SIM_WORK_VERSION;
	work->size = sizeof(*work);
	work->pace = (struct sim_pace)SIM_PACE_DEFAULT;
	for (size_t i = 0; i < SIM_MAX_CARDS; i++)
		sim_lock_prepare(&work->cards[i].lock);
}
