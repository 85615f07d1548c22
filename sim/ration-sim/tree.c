/* tree.c - locks, finds and maps a tree; its state files. */
#include "sim/state/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "sim/ration-sim/commands.h"
#include "sim/state/processes.h"
#include "sim/state/trouble.h"
#include "sim/state/work.h"

int tree_lock(const char *dir, struct error *err)
{
	_cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, errno, "%s: %s", dir, strerror(errno));
	if (flock(fd, LOCK_EX) < 0)
		return error_set(err, errno, "%s: cannot lock: %s", dir, strerror(errno));
	return TAKE_FD(&fd);
}

int tree_map(const char *dir, struct sim_state **ret_state, struct error *err)
{
	bool writable;
	int r = sim_state_map(dir, ret_state, &writable);

	if (r == -ENOENT)
		return error_set(
			err, ENOENT, "%s: not a driver tree (make one with: ration-sim up %s)", dir, dir);
	if (r == -EBADMSG)
		return error_set(err, EBADMSG,
			"%s/state/cards: damaged or of another version (repair with: ration-sim up %s)", dir,
			dir);
	if (r < 0)
		return error_set(err, -r, "%s/state/cards: %s", dir, strerror(-r));
	if (!writable) {
		sim_state_unmap(*ret_state);
		return error_set(err, EACCES, "%s/state/cards: not writable", dir);
	}
	return 0;
}

int tree_find_gpu(const struct sim_state *state, const char *name, uint32_t *ret_gpu, struct error *err)
{
	uint32_t index;

	if (parse_u32(name, SIM_MAX_GPUS, &index) < 0)
		for (index = 0; index < state->gpu_count; index++)
			if (strncmp(state->gpus[index].uuid, name, sizeof(state->gpus[index].uuid)) == 0)
				break;
	if (index >= state->gpu_count)
		return error_set(err, ENOENT, "no GPU \"%.60s\": the tree has GPUs 0 to %u", name,
			state->gpu_count - 1);
	*ret_gpu = index;
	return 0;
}

/* Compares everything except what changes while mapped. */
static bool same_gpus(const struct sim_state *a, const struct sim_state *b)
{
	if (a->gpu_count != b->gpu_count || a->cuda_version != b->cuda_version ||
		memcmp(a->driver_version, b->driver_version, sizeof(a->driver_version)) != 0)
		return false;
	for (uint32_t i = 0; i < a->gpu_count; i++)
		if (memcmp(&a->gpus[i], &b->gpus[i], offsetof(struct sim_gpu, health)) != 0)
			return false;
	return true;
}

static int write_part(const char *dir, const char *name, const void *data, size_t length, struct error *err)
{
	_cleanup_free_ char *path = NULL;
	int r;

	if (asprintf(&path, "%s/state/%s", dir, name) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = fs_write_atomic(path, 0666, data, length);
	return r < 0 ? error_set(err, -r, "%s: %s", path, strerror(-r)) : 0;
}

static int write_processes(const char *dir, struct error *err)
{
	_cleanup_free_ struct sim_process_table *table = calloc(1, sizeof(*table));

	if (!table)
		return error_set(err, ENOMEM, "out of memory");
	sim_processes_prepare(table);
	return write_part(dir, "processes", table, sizeof(*table), err);
}

static int write_work(const char *dir, struct error *err)
{
	_cleanup_free_ struct sim_work *work = calloc(1, offsetof(struct sim_work, lines));
	_cleanup_free_ char *path = NULL, *part = NULL;
	int r;

	if (!work)
		return error_set(err, ENOMEM, "out of memory");
	sim_work_prepare(work);
	if (asprintf(&path, "%s/state/work", dir) < 0 || asprintf(&part, "%s/state/work.new", dir) < 0)
		return error_set(err, ENOMEM, "out of memory");
	/* The rest of the file is zero, and stays a hole until a line is used. */
	r = fs_write_atomic(part, 0666, work, offsetof(struct sim_work, lines));
	if (r == 0 && (truncate(part, sizeof(*work)) < 0 || rename(part, path) < 0))
		r = -errno;
	return r < 0 ? error_set(err, -r, "%s: %s", path, strerror(-r)) : 0;
}

int tree_write_pace(const char *dir, const struct sim_pace *pace, struct error *err)
{
	struct sim_work *work;
	bool writable;
	int r = sim_work_map(dir, &work, &writable);

	if (r == 0 && !writable) {
		sim_work_unmap(work);
		r = -EACCES;
	}
	if (r < 0)
		return error_set(err, -r, "%s/state/work: %s", dir, strerror(-r));
	atomic_store(&work->pace.slice_us, atomic_load(&pace->slice_us));
	atomic_store(&work->pace.latency_ns, atomic_load(&pace->latency_ns));
	atomic_store(&work->pace.jitter_percent, atomic_load(&pace->jitter_percent));
	atomic_store(&work->pace.seed, atomic_load(&pace->seed));
	sim_work_unmap(work);
	return 0;
}

static int write_trouble(const char *dir, struct error *err)
{
	struct sim_trouble trouble = {};

	sim_trouble_prepare(&trouble);
	return write_part(dir, "trouble", &trouble, sizeof(trouble), err);
}

/* A GPU with the same UUID keeps its health and counters. */
static void carry_over(struct sim_state *fresh, const struct sim_state *old)
{
	for (uint32_t i = 0; i < fresh->gpu_count; i++)
		for (uint32_t k = 0; k < old->gpu_count; k++)
			if (memcmp(fresh->gpus[i].uuid, old->gpus[k].uuid, sizeof(fresh->gpus[i].uuid)) == 0)
				memcpy((char *)&fresh->gpus[i] + offsetof(struct sim_gpu, health),
					(const char *)&old->gpus[k] + offsetof(struct sim_gpu, health),
					sizeof(struct sim_gpu) - offsetof(struct sim_gpu, health));
}

static int write_gpus(
	const char *dir, const struct sim_state *state, struct sim_state *old, struct error *err)
{
	_cleanup_free_ struct sim_state *fresh = malloc(sizeof(*fresh));

	if (!fresh)
		return error_set(err, ENOMEM, "out of memory");
	*fresh = *state;
	fresh->magic = SIM_STATE_MAGIC;
	fresh->version = SIM_STATE_VERSION;
	fresh->size = sizeof(*fresh);
	for (uint32_t i = 0; i < fresh->gpu_count; i++)
		fresh->gpus[i].persistence = 1;
	if (old) {
		carry_over(fresh, old);
		atomic_store(&old->retired, 1);
	}
	return write_part(dir, "cards", fresh, sizeof(*fresh), err);
}

static bool processes_are_ours(const char *dir)
{
	struct sim_processes processes;

	return sim_processes_open(dir, &processes) == 0;
}

static bool trouble_is_ours(const char *dir)
{
	struct sim_trouble *trouble = NULL;
	bool ours = sim_trouble_map(dir, &trouble) == 0;

	sim_trouble_unmap(trouble);
	return ours;
}

static bool work_is_ours(const char *dir)
{
	struct sim_work *work = NULL;
	bool writable, ours = sim_work_map(dir, &work, &writable) == 0;

	sim_work_unmap(work);
	return ours;
}

int tree_write_state(const char *dir, const struct sim_state *state, bool *ret_changed, struct error *err)
{
	struct sim_state *old = NULL;
	bool changed, writable;
	int r = 0;

	/* A damaged file is replaced, like a missing one. */
	if (sim_state_map(dir, &old, &writable) == 0 && !writable) {
		sim_state_unmap(old);
		return error_set(err, EACCES, "%s/state/cards: not writable", dir);
	}
	changed = !old || atomic_load(&old->retired) || !same_gpus(old, state);
	if (changed || !processes_are_ours(dir))
		r = write_processes(dir, err);
	if (r == 0 && (changed || !trouble_is_ours(dir)))
		r = write_trouble(dir, err);
	if (r == 0 && (changed || !work_is_ours(dir)))
		r = write_work(dir, err);
	if (r == 0)
		r = tree_write_pace(dir, &state->pace, err);
	if (r == 0 && changed)
		r = write_gpus(dir, state, old, err);
	sim_state_unmap(old);
	if (r == 0)
		*ret_changed = changed;
	return r;
}
