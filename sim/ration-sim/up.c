#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "sim/ration-sim/commands.h"
#include "sim/ration-sim/gpus.h"
#include "sim/ration-sim/options.h"

/* Takes the GPUs that the options name, or the existing ones. */
static int named_gpus(
	const struct up_options *o, const struct sim_state *old, struct sim_state *state, struct error *err)
{
	int r;

	if (o->file && !o->spec)
		return gpus_read(o->file, state, err);
	if (!o->spec) {
		*state = *old;
		return 0;
	}
	r = gpus_parse_spec(o->spec, state, err);
	if (r < 0)
		error_prefix(err, "--gpus");
	return r;
}

/* Computes the GPUs that the tree should have: from the options, with the identities of the existing GPUs. */
static int wanted_gpus(
	const struct up_options *o, const char *gpus_path, struct sim_state *ret_state, struct error *err)
{
	_cleanup_free_ struct sim_state *state = calloc(1, sizeof(*state));
	_cleanup_free_ struct sim_state *old = calloc(1, sizeof(*old));
	int r, have_old;

	if (!state || !old)
		return error_set(err, ENOMEM, "out of memory");
	have_old = gpus_read(gpus_path, old, err);
	if (have_old < 0 && have_old != -ENOENT)
		return have_old;
	if (have_old < 0 && !o->spec && !o->file)
		return error_set(
			err, EINVAL, "%s: no tree yet; name the GPUs, as in --gpus 4x16160MiB", o->dir);
	r = named_gpus(o, old, state, err);
	if (r < 0)
		return r;
	if (have_old == 0)
		gpus_adopt(state, old, o->spec != NULL);
	if (have_old == 0 && o->spec)
		state->pace = old->pace;
	for (size_t i = 0; r == 0 && i < PACE_KEYS; i++)
		if (o->pace[i])
			r = pace_set(&state->pace, &pace_keys[i], o->pace[i], err);
	if (o->driver_version)
		r = gpus_set_driver(state, o->driver_version, err);
	else if (have_old == 0 && !state->driver_version[0])
		r = gpus_set_driver(state, old->driver_version, err);
	if (r == 0 && o->links)
		r = gpus_set_links(state, o->links, err);
	if (r == 0)
		r = gpus_complete(state, err);
	if (r == 0)
		*ret_state = *state;
	return r;
}

static int make_folders(const char *dir, struct error *err)
{
	static const char *const folders[] = {"lib", "bin", "dev", "state"};

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		_cleanup_free_ char *path = NULL;
		int r;

		if (asprintf(&path, "%s/%s", dir, folders[i]) < 0)
			return error_set(err, ENOMEM, "out of memory");
		r = fs_mkdir_parents(path, 0755);
		/* Whatever the umask: users of every kind read the tree, and share memory by files in
		 * state. */
		if (r == 0 && chmod(path, strcmp(folders[i], "state") == 0 ? 01777 : 0755) < 0)
			r = -errno;
		if (r < 0)
			return error_set(err, -r, "%s: %s", path, strerror(-r));
	}
	return 0;
}

static void report(const struct up_options *o, const struct sim_state *state, bool changed, bool stand_ins)
{
	printf("%s: %u simulated GPU%s, driver %s, CUDA %u.%u (%s)\n", o->dir, state->gpu_count,
		state->gpu_count == 1 ? "" : "s", state->driver_version, state->cuda_version / 1000,
		state->cuda_version % 1000 / 10, changed ? "new state" : "state kept");
	for (uint32_t i = 0; i < state->gpu_count; i++)
		printf("  %2u  %s  %-24s %7lluMiB\n", i, state->gpus[i].uuid, state->gpus[i].name,
			(unsigned long long)(state->gpus[i].memory_bytes >> 20));
	if (stand_ins)
		printf("Device nodes are plain files because mknod is not permitted here. Programs on this machine see the GPUs, but containers cannot get them as devices.\n");
}

static int up(const struct up_options *o, struct error *err)
{
	_cleanup_free_ struct sim_state *state = calloc(1, sizeof(*state));
	_cleanup_free_ char *gpus_path = NULL;
	_cleanup_close_ int lock = -1;
	bool changed, stand_ins;
	int r;

	if (!state || asprintf(&gpus_path, "%s/gpus.json", o->dir) < 0)
		return error_set(err, ENOMEM, "out of memory");
	/* This is checked first without the lock, so that a wrong option leaves no empty folders behind. */
	r = wanted_gpus(o, gpus_path, state, err);
	if (r == 0)
		r = make_folders(o->dir, err);
	if (r < 0)
		return r;
	lock = tree_lock(o->dir, err);
	if (lock < 0)
		return lock;
	r = wanted_gpus(o, gpus_path, state, err);
	if (r == 0)
		r = tree_install(o->dir, state, &stand_ins, err);
	if (r == 0)
		r = tree_write_state(o->dir, state, &changed, err);
	if (r == 0)
		r = gpus_write(gpus_path, state, err);
	if (r == 0)
		report(o, state, changed, stand_ins);
	return r;
}

int command_up(int argc, char **argv)
{
	struct up_options options = {};
	struct error err = {};
	int r = options_parse(&sim_up_option_table, argc, argv, &options);

	if (r >= 0)
		return r;
	if (options.spec && options.file)
		return options_refuse(&sim_up_option_table, "--gpus and --gpus-file exclude each other");
	return up(&options, &err) < 0 ? command_fail(&err) : 0;
}
