/* ration run: finds the driver, gets a grant that fits with the other runs, starts a keeper and becomes the
 * program. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "run/driver.h"
#include "run/keeper.h"
#include "run/layer.h"
#include "run/options.h"
#include "run/registry.h"
#include "run/shim.h"

#define MIB (UINT64_C(1) << 20)

struct run {
	struct run_options options;
	struct driver driver;
	struct shim shim;
	char folder[PATH_MAX];
	enum layer layer;
	char reason[256]; /* why there is no stronger layer */
	struct grant_file grant;
	char labels[GRANT_FILE_GPUS_MAX][16];
	struct run_power power;
};

/* ---- the amount of a GPU, as a user writes it ---- */

#define MIB_MAX (UINT64_C(1) << 40)

static const struct amount_unit {
	const char *name;
	uint64_t mib; /* 0: a hundredth of the GPU */
} units[] = {{"MiB", 1}, {"GiB", 1024}, {"%", 0}};

static const struct amount_unit *unit_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strcmp(units[i].name, name) == 0)
			return &units[i];
	return NULL;
}

/* Parses "2GiB", "2154MiB" or "25%" of a GPU with physical_mib into whole MiB. A percentage is rounded down,
 * as the documents round a share of a GPU. -EINVAL: another form; -ERANGE: nothing, or more than the GPU has.
 */
static int amount_parse(const char *text, uint64_t physical_mib, uint64_t *ret_mib, struct error *err)
{
	size_t digits = strspn(text, "0123456789");
	const struct amount_unit *unit = unit_find(text + digits);
	uint64_t number, mib;
	char copy[32];

	if (!unit || digits == 0 || digits >= sizeof(copy))
		return error_set(err, EINVAL,
			"%s: an amount of memory is a whole number with a unit: 2GiB, 2154MiB or 25%%", text);
	memcpy(copy, text, digits);
	copy[digits] = '\0';
	if (parse_u64(copy, MIB_MAX / 1024, &number) < 0)
		number = MIB_MAX / 1024;
	mib = unit->mib ? number * unit->mib : physical_mib * number / 100;
	if (mib == 0)
		return error_set(err, ERANGE, "%s: that is less than 1 MiB", text);
	if (mib > physical_mib)
		return error_set(err, ERANGE, "%s: the GPU has %" PRIu64 " MiB", text, physical_mib);
	*ret_mib = mib;
	return 0;
}

/* ---- whether one more run fits on its GPUs ---- */

struct sums {
	const struct grant_file *grant;
	uint64_t bytes[GRANT_FILE_GPUS_MAX];
	unsigned runs[GRANT_FILE_GPUS_MAX];
};

static int add_run(void *context, const struct run_seen *run)
{
	struct sums *sums = context;

	for (unsigned i = 0; i < sums->grant->gpu_count; i++)
		for (unsigned j = 0; j < run->grant->gpu_count; j++) {
			if (strcmp(sums->grant->gpus[i].uuid, run->grant->gpus[j].uuid) != 0)
				continue;
			sums->bytes[i] += grant_file_limit_bytes(run->grant, j);
			sums->runs[i]++;
		}
	return 0;
}

/* Compares the request with the memory of all living runs, with the registry locked. -ENOSPC, with a list of
 * the holders of the GPU. */
static int admission_check(
	struct registry *registry, const struct grant_file *grant, const char labels[][16], struct error *err)
{
	struct sums sums = {.grant = grant};

	registry_each(registry, add_run, &sums);
	for (unsigned i = 0; i < grant->gpu_count; i++) {
		const struct grant_file_gpu *gpu = &grant->gpus[i];
		uint64_t left = gpu->physical_bytes > sums.bytes[i] ? gpu->physical_bytes - sums.bytes[i] : 0;

		if (gpu->limit_bytes > left)
			return error_set(err, ENOSPC,
				"GPU %s has %" PRIu64 " of its %" PRIu64
				" MiB left: %u other run%s the rest (`ration ps` lists them)",
				labels[i], left / MIB, gpu->physical_bytes / MIB, sums.runs[i],
				sums.runs[i] == 1 ? " has" : "s have");
	}
	return 0;
}

/* ---- the run ---- */

static const struct nvml_gpu *gpu_find(const struct nvml_inventory *gpus, const char *name)
{
	uint32_t index;
	bool is_index = parse_u32(name, NVML_MAX_GPUS, &index) == 0;

	for (size_t i = 0; i < gpus->count; i++)
		if (is_index ? gpus->gpus[i].index == index : strcmp(gpus->gpus[i].uuid, name) == 0)
			return &gpus->gpus[i];
	return NULL;
}

static int gpu_grant(struct run *run, const char *name, struct error *err)
{
	const struct nvml_gpu *gpu = gpu_find(&run->driver.gpus, name);
	unsigned n = run->grant.gpu_count;
	struct grant_file_gpu *granted = &run->grant.gpus[n];
	uint64_t mib = 0;
	int r;

	if (!gpu)
		return error_set(err, ENODEV, "there is no GPU %s: nvidia-smi -L lists them", name);
	if (gpu->mig_enabled || gpu->memory_mib == 0)
		return error_set(err, ENOTSUP, "GPU %s cannot be shared: %s", name,
			gpu->mig_enabled ? "MIG is enabled on it" : "its memory is the machine's");
	for (unsigned i = 0; i < n; i++)
		if (strcmp(run->grant.gpus[i].uuid, gpu->uuid) == 0)
			return error_set(err, EINVAL, "GPU %s is named twice", name);
	if (n == GRANT_FILE_GPUS_MAX)
		return error_set(err, E2BIG, "more than %d GPUs", GRANT_FILE_GPUS_MAX);
	r = amount_parse(run->options.mem, gpu->memory_mib, &mib, err);
	if (r < 0)
		return r;
	snprintf(granted->uuid, sizeof(granted->uuid), "%.63s", gpu->uuid);
	snprintf(granted->pci_bus_id, sizeof(granted->pci_bus_id), "%.31s", gpu->bus_id);
	granted->limit_bytes = mib * MIB;
	granted->physical_bytes = gpu->memory_mib * MIB;
	snprintf(run->labels[n], sizeof(run->labels[n]), "%u", gpu->index);
	run->grant.gpu_count++;
	return 0;
}

static int gpus_grant(struct run *run, struct error *err)
{
	_cleanup_free_ char *copy = strdup(run->options.gpus);
	char *rest = copy, *name;
	int r = 0;

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	while (r == 0 && (name = strsep(&rest, ",")))
		r = gpu_grant(run, name, err);
	return r;
}

/* Only for users: the name of the program under the grant. */
static void name_program(struct run *run)
{
	size_t len = 0, size = sizeof(run->grant.container);
	char **word;

	for (word = run->options.program; *word && len < size - 1; word++)
		len += (size_t)snprintf(
			run->grant.container + len, size - len, "%s%s", len ? " " : "", *word);
}

static int choose_layer(struct run *run, struct error *err)
{
	enum layer best = layer_choose(&run->driver, run->shim.folder, run->reason, sizeof(run->reason));

	run->layer = best;
	if (run->options.layer == LAYER_PRELOAD)
		run->layer = LAYER_PRELOAD;
	else if (run->options.layer == LAYER_MOUNT && best == LAYER_PRELOAD)
		return error_set(err, EPERM, "%s", run->reason);
	return 0;
}

static int admit(struct run *run, struct error *err)
{
	_cleanup_registry_ struct registry registry;
	int r = registry_open(&registry, true, err);

	if (r < 0)
		return r;
	r = registry_folder(&registry, run->folder, err);
	if (r == 0)
		r = admission_check(&registry, &run->grant, run->labels, err);
	if (r == 0)
		r = division_admit(
			&registry, &run->options.power, &run->grant, run->labels, &run->power, err);
	if (r == 0 && (layer_library(run->layer, run->folder, run->driver.cuda, true, run->grant.cuda_library,
			       sizeof(run->grant.cuda_library)) < 0 ||
			      layer_library(run->layer, run->folder, run->driver.nvml, false,
				      run->grant.nvml_library, sizeof(run->grant.nvml_library)) < 0))
		r = error_set(err, ENAMETOOLONG, "%s: the name is too long", run->driver.cuda);
	return r < 0 ? r : registry_add(run->folder, &run->grant, run->labels, &run->power, err);
}

static void tell_power(const struct run *run)
{
	const struct run_power *power = &run->power;

	/* Without a policy or a share, nothing about computing power is printed. */
	if (!run->options.verbose ||
		(run->options.power.policy < 0 && !atomic_load(&run->grant.live[0].core_share)))
		return;
	fprintf(stderr, "ration run: computing power: policy %d (%s)", power->policy,
		share_policy_name((enum share_policy)power->policy));
	if (power->percent)
		fprintf(stderr, ", %u%%", power->percent);
	if (power->weight)
		fprintf(stderr, ", weight %u", power->weight);
	fputc('\n', stderr);
}

static void tell(const struct run *run)
{
	for (unsigned i = 0; run->options.verbose && i < run->grant.gpu_count; i++) {
		const struct nvml_gpu *gpu = gpu_find(&run->driver.gpus, run->grant.gpus[i].uuid);

		fprintf(stderr, "ration run: GPU %s, %s: %" PRIu64 " of %" PRIu64 " MiB\n", run->labels[i],
			gpu ? gpu->name : "?", run->grant.gpus[i].limit_bytes / MIB,
			run->grant.gpus[i].physical_bytes / MIB);
	}
	if (run->options.verbose)
		fprintf(stderr, "ration run: layer: %s\n", layer_name(run->layer));
	/* A layer that is weaker than usual is always reported, except if the user asked for it. */
	if (run->layer == LAYER_PRELOAD && run->options.layer != LAYER_PRELOAD)
		fprintf(stderr,
			"ration run: %s. The program is limited by preloading only, which static and set-uid programs and those that open the driver by its path do not follow: see ration-run(1)\n",
			run->reason);
}

/* With the preload layer, a program that finds the driver without the shim still sees only the granted GPUs.
 * The shim treats these UUIDs as GPUs. */
static int hide_other_gpus(const struct run *run, struct error *err)
{
	_cleanup_strbuf_ struct strbuf visible;

	strbuf_init(&visible, sizeof(run->grant));
	if (run->driver.gpus.count == 1)
		return 0;
	for (unsigned i = 0; i < run->grant.gpu_count; i++)
		strbuf_addf(&visible, "%s%s", i ? "," : "", run->grant.gpus[i].uuid);
	if (visible.failed || setenv("CUDA_VISIBLE_DEVICES", strbuf_cstr(&visible), 1) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

static int start(struct run *run, struct error *err)
{
	int r = admit(run, err);

	if (r < 0)
		return r;
	tell_power(run);
	r = layer_prepare(run->layer, run->folder, &run->driver, &run->shim, err);
	if (r == 0)
		r = keeper_start(run->folder, run->driver.nvml, err);
	if (r == 0)
		r = hide_other_gpus(run, err);
	if (r == 0)
		r = layer_enter(run->layer, run->folder, &run->driver, &run->shim, err);
	if (r < 0)
		registry_remove(run->folder);
	return r;
}

static int prepare(struct run *run, struct error *err)
{
	int r;

	if (access(GRANT_FILE_PATH, F_OK) == 0 || getenv(GRANT_FILE_VARIABLE))
		return error_set(
			err, EBUSY, "this shell runs under a grant already: a run cannot be divided further");
	r = shim_find(&run->shim, err);
	if (r == 0)
		r = driver_find(run->options.driver, &run->driver, err);
	if (r == 0)
		r = shim_fit(&run->shim, &run->driver, err);
	if (r == 0)
		r = gpus_grant(run, err);
	if (r == 0)
		r = choose_layer(run, err);
	return r;
}

int run_command(int argc, char **argv)
{
	_cleanup_free_ struct run *run = calloc(1, sizeof(*run));
	struct error err = {""};
	int r;

	if (!run)
		return RUN_EXIT_FAILURE;
	run->options = (struct run_options)RUN_OPTIONS_INIT;
	r = options_parse(&run_option_table, argc, argv, &run->options);
	if (r >= 0)
		return r;
	name_program(run);
	r = prepare(run, &err);
	if (r == 0) {
		tell(run);
		r = start(run, &err);
	}
	shim_release(&run->shim);
	if (r < 0) {
		fprintf(stderr, "ration run: %s\n", err.text);
		return RUN_EXIT_FAILURE;
	}
	execvp(run->options.program[0], run->options.program);
	r = errno;
	fprintf(stderr, "ration run: %s: %s\n", run->options.program[0], strerror(r));
	return r == ENOENT ? RUN_EXIT_NOT_FOUND : RUN_EXIT_CANNOT_EXEC;
}
