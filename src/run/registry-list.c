/* Lists the living runs, and removes dead ones. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "grant/owner.h"
#include "grant/usage.h"
#include "model/shares.h"
#include "run/keeper.h"
#include "run/registry.h"
#include "run/shim.h"

static void closedir_ptr(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static int open_folder(int parent, const char *name)
{
	return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Removes a folder that layer_prepare() made: links, empty files to mount over, and substitutes (is_shim),
 * with the names of the driver's libraries. If a user has put other files into it, these stay, and so does
 * the folder. */
static void remove_libraries(int run, const char *name, bool is_shim)
{
	int fd = open_folder(run, name);
	_cleanup_(closedir_ptr) DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;
	struct stat st;

	while (dir && (entry = readdir(dir)))
		if ((strncmp(entry->d_name, "libcuda.so", 10) == 0 ||
			    strncmp(entry->d_name, "libnvidia-ml.so", 15) == 0) &&
			fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			(S_ISLNK(st.st_mode) || st.st_size == 0 || is_shim))
			unlinkat(fd, entry->d_name, 0);
	unlinkat(run, name, AT_REMOVEDIR);
}

/* Root removes the folders of other users' runs. These users may have put links into them, so no link is
 * followed. */
void registry_remove(const char *folder)
{
	static const char *const files[] = {"grant", "usage", "cards", "power"};
	static const char *const folders[] = {"lib", "host-cuda", "host-nvml", RUN_SHIM_FOLDER};
	_cleanup_close_ int run = open_folder(AT_FDCWD, folder);

	if (run < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		unlinkat(run, files[i], 0);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		remove_libraries(run, folders[i], strcmp(folders[i], RUN_SHIM_FOLDER) == 0);
	rmdir(folder);
}

/* Parses "<pid>.<start ticks>", with "new-" in front while the folder is being made. */
static int name_parse(const char *name, pid_t *ret_pid, uint64_t *ret_ticks)
{
	uint64_t ticks;
	int pid, end = 0;

	if (strncmp(name, "new-", 4) == 0)
		name += 4;
	if (sscanf(name, "%d.%" SCNu64 "%n", &pid, &ticks, &end) != 2 || name[end] != '\0' || pid <= 0)
		return -EINVAL;
	*ret_pid = pid;
	*ret_ticks = ticks;
	return 0;
}

static int usage_open(const char *folder)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.4080s/usage", folder);
	return open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
}

/* The keeper has a slot too, once it has recovered what a killed process held. */
static bool is_keeper(pid_t pid)
{
	_cleanup_free_ char *name = NULL;
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	return fs_read(path, sizeof(path), &name, &len) == 0 && strcmp(name, KEEPER_NAME "\n") == 0;
}

/* Whether a living process has used a GPU under this run. A process of another pid namespace does not count,
 * because it is not visible here whether it lives. */
static bool has_living_user(const char *folder)
{
	_cleanup_close_ int fd = usage_open(folder);
	struct usage_slot slot;
	struct owner self;
	uint32_t slots;

	/* The run belongs to another user: its keeper, that user or root removes it. */
	if (fd < 0 && errno == EACCES)
		return true;
	if (fd < 0 ||
		pread(fd, &slots, sizeof(slots), offsetof(struct usage_file, slots_used)) != sizeof(slots))
		return false;
	owner_self(&self);
	for (uint32_t i = 0; i < slots && i < USAGE_FILE_SLOTS; i++) {
		off_t at = (off_t)(offsetof(struct usage_file, slots) + i * sizeof(slot));
		uint64_t word;

		if (pread(fd, &slot, sizeof(slot), at) != sizeof(slot))
			return false;
		word = atomic_load(&slot.owner);
		if (OWNER_PID(word) && OWNER_NAMESPACE(word) == OWNER_NAMESPACE(self.word) &&
			!owner_is_dead(&self, &slot, word) && !is_keeper((pid_t)OWNER_PID(word)))
			return true;
	}
	return false;
}

bool registry_is_alive(const char *folder)
{
	const char *slash = strrchr(folder, '/');
	uint64_t ticks;
	pid_t pid;

	if (name_parse(slash ? slash + 1 : folder, &pid, &ticks) < 0)
		return false;
	return process_is_alive(pid, ticks) || has_living_user(folder);
}

static void read_usage(struct run_seen *run)
{
	_cleanup_close_ int fd = usage_open(run->folder);

	run->usage_known = fd >= 0 && usage_file_read(fd, run->grant->gpu_count, run->used_bytes) == 0;
	for (unsigned i = 0; i < run->grant->gpu_count; i++)
		run->used_bytes[i] += atomic_load(&run->grant->live[i].overhead_bytes);
}

static void read_labels(struct run_seen *run)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX], *rest;
	size_t len;

	snprintf(path, sizeof(path), "%.4080s/cards", run->folder);
	rest = fs_read(path, GRANT_FILE_GPUS_MAX * sizeof(run->labels[0]), &text, &len) == 0 ? text : NULL;
	for (unsigned i = 0; i < run->grant->gpu_count; i++) {
		const char *label = strsep(&rest, "\n");

		snprintf(run->labels[i], sizeof(run->labels[i]), "%.15s", label && *label ? label : "?");
	}
}

static void read_power(struct run_seen *run)
{
	_cleanup_free_ char *text = NULL;
	struct run_power power;
	char path[PATH_MAX];
	size_t len;

	run->power = (struct run_power){.policy = -1};
	snprintf(path, sizeof(path), "%.4080s/power", run->folder);
	if (fs_read(path, 256, &text, &len) == 0 &&
		sscanf(text, "core %3u weight %5u policy %1d", &power.percent, &power.weight,
			&power.policy) == 3 &&
		power.percent <= 100 && power.weight <= SHARE_WEIGHT_MAX && power.policy >= 0 &&
		power.policy < SHARE_POLICY_MAX)
		run->power = power;
}

/* Returns NULL if there is no valid grant. The caller frees it. */
static struct grant_file *read_grant(const char *folder)
{
	_cleanup_free_ char *data = NULL;
	char path[PATH_MAX];
	size_t len;

	snprintf(path, sizeof(path), "%.4080s/grant", folder);
	if (fs_read(path, sizeof(struct grant_file), &data, &len) < 0 ||
		grant_file_verify((struct grant_file *)data, len))
		return NULL;
	return (struct grant_file *)TAKE_PTR(data);
}

/* Returns 0 for a name that is not a run, or a dead run. */
static int visit(
	const char *place, const char *name, int (*seen)(void *, const struct run_seen *), void *context)
{
	_cleanup_free_ struct grant_file *grant = NULL;
	struct run_seen run = {0};
	struct stat st;
	uint64_t ticks;

	if (name_parse(name, &run.pid, &ticks) < 0)
		return 0;
	snprintf(run.folder, sizeof(run.folder), "%.3800s/%s", place, name);
	if (!registry_is_alive(run.folder)) {
		registry_remove(run.folder);
		return 0;
	}
	if (strncmp(name, "new-", 4) == 0 || lstat(run.folder, &st) < 0)
		return 0;
	grant = read_grant(run.folder);
	if (!grant)
		return 0;
	run.grant = grant;
	run.uid = st.st_uid;
	read_usage(&run);
	read_labels(&run);
	read_power(&run);
	return seen(context, &run);
}

int registry_each(
	struct registry *registry, int (*seen)(void *context, const struct run_seen *run), void *context)
{
	for (int i = 0; i < REGISTRY_PLACES; i++) {
		_cleanup_(closedir_ptr) DIR *dir = NULL;
		const struct dirent *entry;
		int r = 0, fd;

		if (registry->fd[i] < 0)
			continue;
		fd = openat(registry->fd[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		dir = fd >= 0 ? fdopendir(fd) : NULL;
		while (r == 0 && dir && (entry = readdir(dir)))
			r = visit(registry->place[i], entry->d_name, seen, context);
		if (r != 0)
			return r;
	}
	return 0;
}
