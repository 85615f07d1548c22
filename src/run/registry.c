#include "run/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "grant/usage.h"

#define LOCK_WAIT_NS (10 * NS_PER_S)
#define LOCK_STEP_US 5000

/* Every user may add a folder, but not remove another user's. */
static int place_open(const char *path, bool make, int *ret_fd, struct error *err)
{
	struct stat st;
	int fd;

	if (make && mkdir(path, 0700) == 0 && chmod(path, 01777) < 0)
		return error_set(err, errno, "%s: %s", path, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == EACCES))
		return -errno;
	if (fd < 0)
		return error_set(err, errno, "%s cannot be the folder for the grants of runs: %s", path,
			strerror(errno));
	if (fstat(fd, &st) < 0 || ((st.st_mode & 0022) && !(st.st_mode & S_ISVTX))) {
		close(fd);
		return error_set(err, EPERM,
			"%s: any user can remove the files of other users in it: remove this folder, or chmod +t",
			path);
	}
	*ret_fd = fd;
	return 0;
}

static int place_lock(const char *path, int fd, struct error *err)
{
	int64_t deadline = monotonic_ns() + LOCK_WAIT_NS;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return error_set(err, errno, "%s: %s", path, strerror(errno));
		if (monotonic_ns() > deadline)
			return error_set(err, ETIMEDOUT,
				"%s: another run has been starting for 10 s (fuser %s tells which)", path,
				path);
		usleep(LOCK_STEP_US);
	}
	return 0;
}

int registry_open(struct registry *registry, bool lock, struct error *err)
{
	const char *named = getenv(REGISTRY_VARIABLE);
	const char *const places[REGISTRY_PLACES] = {
		named ? named : "/run/ration-runs", named ? "" : "/tmp/ration-runs"};
	int r = 0;

	*registry = (struct registry){.fd = {-1, -1}, .home = -1};
	for (int i = 0; i < REGISTRY_PLACES && r == 0; i++) {
		/* The second place is only made if the first cannot be opened or made. */
		bool make = lock && *places[i] && registry->home < 0;

		snprintf(registry->place[i], sizeof(registry->place[i]), "%s", places[i]);
		r = *places[i] ? place_open(places[i], make, &registry->fd[i], err) : 0;
		if (r == -ENOENT || r == -EACCES)
			r = 0;
		if (registry->fd[i] < 0)
			continue;
		if (registry->home < 0 && faccessat(registry->fd[i], ".", W_OK, 0) == 0)
			registry->home = i;
		if (r == 0 && lock)
			r = place_lock(places[i], registry->fd[i], err);
	}
	if (r == 0 && lock && registry->home < 0)
		r = error_set(err, EACCES, "neither %s nor %s can be written: runs need one of them",
			places[0], *places[1] ? places[1] : places[0]);
	if (r < 0)
		registry_close(registry);
	return r;
}

void registry_close(struct registry *registry)
{
	for (int i = 0; i < REGISTRY_PLACES; i++) {
		if (registry->fd[i] >= 0)
			close(registry->fd[i]);
		registry->fd[i] = -1;
	}
}

int registry_folder(const struct registry *registry, char *ret_folder, struct error *err)
{
	uint64_t ticks;

	if (process_start_ticks(getpid(), &ticks) < 0)
		return error_set(err, ESRCH, "/proc does not show this process: mount it");
	snprintf(ret_folder, PATH_MAX, "%.4000s/%d.%" PRIu64, registry->place[registry->home], (int)getpid(),
		ticks);
	return 0;
}

static int write_labels(const char *folder, unsigned count, const char labels[][16])
{
	char path[PATH_MAX];
	FILE *file;
	int r = 0;

	snprintf(path, sizeof(path), "%.4080s/cards", folder);
	file = fopen(path, "we");
	if (!file)
		return -errno;
	for (unsigned i = 0; i < count; i++)
		fprintf(file, "%s\n", labels[i]);
	if (ferror(file) || fflush(file) == EOF)
		r = -EIO;
	fclose(file);
	return r;
}

static int write_power(const char *folder, const struct run_power *power)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.4080s/power", folder);
	file = fopen(path, "we");
	if (!file)
		return -errno;
	/* The keepers of other users need to read it, whatever the umask. */
	if (fchmod(fileno(file), 0644) < 0)
		return -errno;
	fprintf(file, "core %u weight %u policy %d\n", power->percent, power->weight, power->policy);
	return ferror(file) || fflush(file) == EOF ? -EIO : 0;
}

static int fill(const char *folder, struct grant_file *grant, const char labels[][16],
	const struct run_power *power, const char **ret_why)
{
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "%.4080s/grant", folder);
	r = grant_file_write(path, grant, ret_why);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%.4080s/usage", folder);
	r = usage_file_create(path, grant->gpu_count, ret_why);
	if (r < 0)
		return r;
	/* A program of root may change its user, so its file stays open to others; the file of another user
	 * is only for that user. */
	if (geteuid() != 0 && chmod(path, 0600) < 0)
		return -errno;
	r = write_power(folder, power);
	return r < 0 ? r : write_labels(folder, grant->gpu_count, labels);
}

int64_t registry_stamp(const struct registry *registry)
{
	int64_t stamp = 0;
	struct stat st;

	for (int i = 0; i < REGISTRY_PLACES; i++)
		if (registry->fd[i] >= 0 && fstat(registry->fd[i], &st) == 0)
			stamp = stamp * 31 + st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
	return stamp;
}

int registry_add(const char *folder, struct grant_file *grant, const char labels[][16],
	const struct run_power *power, struct error *err)
{
	char making[PATH_MAX];
	const char *slash = strrchr(folder, '/'), *why = NULL;
	int r;

	/* The folder is completed under another name first, because other processes may read the registry at
	 * any time. */
	snprintf(making, sizeof(making), "%.*s/new-%s", (int)(slash - folder), folder, slash + 1);
	registry_remove(making);
	if (mkdir(making, 0755) < 0)
		return error_set(err, errno, "%s: %s", making, strerror(errno));
	r = fill(making, grant, labels, power, &why);
	if (r == 0 && rename(making, folder) < 0)
		r = -errno;
	if (r < 0) {
		registry_remove(making);
		return error_set(
			err, -r, "%s: %s%s%s", making, why ? why : "", why ? ": " : "", strerror(-r));
	}
	return 0;
}

#define STAT_MAX 4096

int process_start_ticks(pid_t pid, uint64_t *ret_ticks)
{
	_cleanup_free_ char *stat = NULL;
	uint64_t ticks;
	char path[64], state;
	int threads;
	const char *rest;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fs_read(path, STAT_MAX, &stat, &len) < 0)
		return -ESRCH;
	/* The name, in parentheses, may contain any character. */
	rest = strrchr(stat, ')');
	if (!rest ||
		sscanf(rest + 1,
			" %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %" SCNu64,
			&state, &threads, &ticks) != 3)
		return -ESRCH;
	/* A process whose first thread has ended continues in the others. */
	if (state == 'X' || (state == 'Z' && threads <= 1))
		return -ESRCH;
	*ret_ticks = ticks;
	return 0;
}

bool process_is_alive(pid_t pid, uint64_t start_ticks)
{
	uint64_t ticks;

	return process_start_ticks(pid, &ticks) == 0 && (start_ticks == 0 || ticks == start_ticks);
}
