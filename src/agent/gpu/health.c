#include "agent/gpu/health.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/container/driver.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/gpu-name.h"
#include "net/errand.h"
#include "node/inventory.h"
#include "nvml/nvml.h"
#include "nvml/watch.h"

#define LOOK_AGAIN_NS (5 * NS_PER_S)

struct gpu_health {
	struct gpu_health_ops ops;
	struct errand *errand;
	bool lent, missed; /* another thread has the library; a poll was due meanwhile */
	int64_t look_at_ns;
	unsigned int generation; /* of the driver's files, when the library was opened; 0: it never was */
	char complaint[512];	 /* the last log line about a missing driver, so that it is not repeated */

	/* These belong to the thread while the errand runs, or to the borrower of the library. */
	struct nvml *nvml;
	struct nvml_watch *watch;
	struct nvml_inventory found;
	struct nvml_links links;
	struct question {
		bool opens; /* true: open the library again; false: poll the health of the GPUs */
		char path[PATH_MAX];
		unsigned int generation;
		int result;
		struct error err;
		struct nvml_change changes[NVML_MAX_GPUS];
		size_t n_changes;
	} question;
};

static void health_close(struct gpu_health *health)
{
	health->watch = nvml_watch_close(health->watch);
	health->nvml = nvml_close(health->nvml);
}

/* ---- in the thread --------------------------------------------------------------------------------------
 */

static void health_open(struct gpu_health *health)
{
	struct question *question = &health->question;
	int r;

	health_close(health);
	r = nvml_open(&health->nvml, question->path, &question->err);
	if (r == 0)
		r = nvml_inventory(health->nvml, &health->found, &question->err);
	if (r == 0)
		nvml_links(health->nvml, &health->found, &health->links);
	if (r == 0)
		r = nvml_watch_open(&health->watch, health->nvml, &health->found, &question->err);
	if (r < 0)
		health_close(health);
	question->result = r;
}

static void health_work(void *userdata)
{
	struct gpu_health *health = userdata;
	struct question *question = &health->question;

	if (question->opens)
		health_open(health);
	else
		question->n_changes = nvml_watch_poll(
			health->watch, monotonic_ns(), question->changes, NVML_MAX_GPUS);
}

/* ---- what it found --------------------------------------------------------------------------------------
 */

/* Logs why a GPU is left out, or works for one process only. */
static bool gpu_is_ours(const struct nvml_gpu *gpu)
{
	if (!gpu_name_is_valid(gpu->uuid)) {
		log_warning("GPU %u has no usable UUID: it is left out", gpu->index);
		return false;
	}
	if (!gpu->memory_mib) {
		log_warning("GPU %u (%s) has no memory of its own: it is left out", gpu->index, gpu->uuid);
		return false;
	}
	if (gpu->compute_mode != NVML_COMPUTE_DEFAULT)
		log_warning(
			"GPU %u (%s) is not in compute mode Default: only one process can use it at a time; nvidia-smi -i %u -c 0 lets pods share it",
			gpu->index, gpu->uuid, gpu->index);
	return true;
}

static bool health_fill(const struct nvml_inventory *found, struct inventory *inventory)
{
	struct gpu gpus[NODE_GPUS_MAX];
	struct mig_gpu mig[NODE_GPUS_MAX] = {{0}};
	size_t n = 0, n_mig = 0;
	bool mig_changed;

	memset(gpus, 0, sizeof(gpus));
	for (size_t i = 0; i < found->count && n < NODE_GPUS_MAX; i++) {
		const struct nvml_gpu *from = &found->gpus[i];
		struct gpu *gpu = &gpus[n];

		if (from->mig_enabled && n_mig < NODE_GPUS_MAX && gpu_name_is_valid(from->uuid)) {
			mig[n_mig].index = from->index;
			snprintf(mig[n_mig++].uuid, sizeof(mig[0].uuid), "%.63s", from->uuid);
		}
		if (from->mig_enabled || !gpu_is_ours(from))
			continue;
		snprintf(gpu->facts.uuid, sizeof(gpu->facts.uuid), "%.63s", from->uuid);
		snprintf(gpu->details.model, sizeof(gpu->details.model), "%.63s", from->name);
		gpu->facts.index = (int)from->index;
		gpu->facts.mib = from->memory_mib;
		gpu->minor = from->minor;
		snprintf(gpu->bus_id, sizeof(gpu->bus_id), "%s", from->bus_id);
		gpu->compute_major = from->compute_major;
		gpu->compute_minor = from->compute_minor;
		gpu->numa_node = from->numa_node;
		n++;
	}
	snprintf(inventory->driver_version, sizeof(inventory->driver_version), "%s", found->driver_version);
	inventory->cuda_major = found->cuda_major;
	inventory->cuda_minor = found->cuda_minor;
	mig_changed = inventory_set_mig(inventory, mig, n_mig);
	return inventory_update(inventory, gpus, n) || mig_changed;
}

static struct link link_at(const void *userdata, size_t a, size_t b)
{
	static const uint8_t kinds[] = {
		[NVML_PATH_UNKNOWN] = LINK_UNKNOWN,
		[NVML_PATH_SYS] = LINK_SYS,
		[NVML_PATH_NODE] = LINK_NODE,
		[NVML_PATH_PHB] = LINK_PHB,
		[NVML_PATH_PXB] = LINK_PXB,
		[NVML_PATH_PIX] = LINK_PIX,
	};
	const struct nvml_links *links = userdata;
	uint8_t lanes = links->between[a][b].nvlinks;

	if (lanes)
		return (struct link){LINK_NVLINK, lanes < LINK_LANES_MAX ? lanes : LINK_LANES_MAX};
	return (struct link){.kind = kinds[links->between[a][b].path]};
}

static bool health_failed(struct gpu_health *health, const char *why)
{
	struct inventory *inventory = health->ops.inventory;

	if (strcmp(health->complaint, why) != 0)
		log_info("no GPUs to share: %s; looking again every 5 s", why);
	snprintf(health->complaint, sizeof(health->complaint), "%s", why);
	inventory->driver_version[0] = '\0';
	/* GPUs that were here before the agent restarted are not usable now. */
	return inventory_update(inventory, NULL, 0);
}

static bool health_opened(struct gpu_health *health)
{
	const char *uuids[NVML_MAX_GPUS];
	bool changed;

	health->generation = health->question.generation;
	if (health->question.result < 0)
		return health_failed(health, health->question.err.text);
	health->complaint[0] = '\0';
	log_info("driver %s, %zu GPUs", health->found.driver_version, health->found.count);
	if (health->found.unreachable)
		log_warning(
			"%zu GPUs do not answer and are left out; restart the agent when they are repaired",
			health->found.unreachable);
	changed = health_fill(&health->found, health->ops.inventory);
	for (size_t i = 0; i < health->found.count; i++)
		uuids[i] = health->found.gpus[i].uuid;
	return inventory_set_links(health->ops.inventory, uuids, health->found.count, link_at, &health->links,
		       health->links.nvlink_gbps) ||
	       changed;
}

static void health_done(void *userdata)
{
	struct gpu_health *health = userdata;
	bool changed = false;

	if (health->question.opens)
		changed = health_opened(health);
	for (size_t i = 0; i < health->question.n_changes; i++) {
		const struct nvml_change *change = &health->question.changes[i];
		const char *says = change->healthy   ? ""
				   : *change->reason ? change->reason
						     : "the driver says so";

		changed |= inventory_driver_says(
			health->ops.inventory, health->found.gpus[change->gpu].uuid, says);
	}
	health->ops.done(health->ops.userdata, changed);
}

/* ---- questions ------------------------------------------------------------------------------------------
 */

/* If no thread can be started, the next poll tries again. */
static void health_ask(struct gpu_health *health, bool opens)
{
	const struct driver *driver = health->ops.driver;
	struct question *question = &health->question;

	question->opens = opens;
	question->n_changes = 0;
	question->generation = driver->generation;
	snprintf(question->path, sizeof(question->path), "%s/%s/libnvidia-ml.so.1", driver->root,
		driver->library_dir);
	errand_start(health->errand);
}

static bool is_away(const struct gpu_health *health)
{
	return health->lent || errand_is_busy(health->errand);
}

bool gpu_health_is_outdated(const struct gpu_health *health)
{
	/* The generation is also set when opening the library failed. */
	return health->generation && health->ops.driver->generation != health->generation;
}

void gpu_health_follow(struct gpu_health *health)
{
	if (is_away(health) || !gpu_health_is_outdated(health))
		return;
	log_info("the NVIDIA driver's files have changed: reading the GPUs again");
	health_ask(health, true);
}

void gpu_health_poll(struct gpu_health *health)
{
	int64_t now = monotonic_ns();

	health->missed = health->lent;
	if (is_away(health))
		return;
	if (now >= health->look_at_ns) {
		struct error err = {""};

		health->look_at_ns = now + LOOK_AGAIN_NS;
		if (driver_scan(health->ops.driver, &err) == 0)
			health_ask(health, !health->watch || gpu_health_is_outdated(health));
		else if (health->watch)
			health_ask(health, false);
		else
			health->ops.done(health->ops.userdata, health_failed(health, err.text));
	} else if (health->watch) {
		health_ask(health, false);
	}
}

struct nvml *gpu_health_lend(struct gpu_health *health)
{
	health->lent = !is_away(health) && health->nvml && health->watch;
	return health->lent ? health->nvml : NULL;
}

void gpu_health_return(struct gpu_health *health)
{
	health->lent = false;
	if (health->missed)
		gpu_health_poll(health);
}

/* ---- life -----------------------------------------------------------------------------------------------
 */

int gpu_health_new(struct loop *loop, const struct gpu_health_ops *ops, struct gpu_health **ret_health)
{
	struct gpu_health *health = calloc(1, sizeof(*health));
	int r;

	if (!health)
		return -ENOMEM;
	health->ops = *ops;
	r = errand_new(loop, health_work, health_done, health, &health->errand);
	if (r < 0)
		free(health);
	else
		*ret_health = health;
	return r;
}

void gpu_health_free(struct gpu_health *health)
{
	/* If the driver does not answer, the thread still uses the library and this memory. */
	if (!health || !errand_free(health->errand))
		return;
	if (!health->lent)
		health_close(health);
	free(health);
}
