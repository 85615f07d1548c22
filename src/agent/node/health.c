#include "agent/node/health.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/delivery/driver.h"
#include "agent/node/inventory.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/card-name.h"
#include "nvml/nvml.h"
#include "nvml/watch.h"

#define LOOK_AGAIN_NS (5 * NS_PER_S)

struct gpu_health {
	struct nvml *nvml;
	struct nvml_watch *watch;
	struct nvml_inventory found;
	int64_t look_at_ns;
	bool lent, missed;	 /* another thread has the library; a poll was due meanwhile */
	unsigned int generation; /* of the driver's files, when the library was opened */
	char complaint[512];	 /* what was said last about a driver that is not there */
};

int gpu_health_new(struct gpu_health **ret_health)
{
	*ret_health = calloc(1, sizeof(**ret_health));
	return *ret_health ? 0 : -ENOMEM;
}

static void health_close(struct gpu_health *health)
{
	health->watch = nvml_watch_close(health->watch);
	health->nvml = nvml_close(health->nvml);
}

void gpu_health_free(struct gpu_health *health)
{
	if (!health)
		return;
	if (!health->lent)
		health_close(health);
	free(health);
}

/* Says what is not shared, and why, once. */
static bool card_is_ours(const struct nvml_card *card)
{
	if (!card_name_is_valid(card->uuid)) {
		log_warning("GPU %u has no usable UUID: it is left out", card->index);
		return false;
	}
	if (card->mig_enabled) {
		log_warning("GPU %u (%s) is divided by MIG: it is left out; nvidia-smi -i %u -mig 0 gives it "
			    "back",
			card->index, card->uuid, card->index);
		return false;
	}
	if (!card->memory_mib) {
		log_warning("GPU %u (%s) has no memory of its own: it is left out", card->index, card->uuid);
		return false;
	}
	if (card->compute_mode != NVML_COMPUTE_DEFAULT)
		log_warning(
			"GPU %u (%s) is not in compute mode Default: only one process can use it at a time; "
			"nvidia-smi -i %u -c 0 lets pods share it",
			card->index, card->uuid, card->index);
	return true;
}

static bool health_fill(const struct nvml_inventory *found, struct inventory *inventory)
{
	struct card cards[NODE_GPUS_MAX];
	size_t n = 0;

	memset(cards, 0, sizeof(cards));
	for (size_t i = 0; i < found->count && n < NODE_GPUS_MAX; i++) {
		const struct nvml_card *from = &found->cards[i];
		struct card *card = &cards[n];

		if (!card_is_ours(from))
			continue;
		snprintf(card->facts.uuid, sizeof(card->facts.uuid), "%.63s", from->uuid);
		snprintf(card->facts.model, sizeof(card->facts.model), "%.63s", from->name);
		card->facts.index = (int)from->index;
		card->facts.mib = from->memory_mib;
		card->facts.healthy = true;
		card->minor = from->minor;
		snprintf(card->bus_id, sizeof(card->bus_id), "%s", from->bus_id);
		n++;
	}
	snprintf(inventory->driver_version, sizeof(inventory->driver_version), "%s", found->driver_version);
	return inventory_update(inventory, cards, n);
}

static int health_open(struct gpu_health *health, struct driver *driver, struct error *err)
{
	char path[PATH_MAX];
	int r = driver_scan(driver, err);

	if (r < 0)
		return r;
	health->generation = driver->generation;
	snprintf(path, sizeof(path), "%s/%s/libnvidia-ml.so.1", driver->root, driver->library_dir);
	r = nvml_open(&health->nvml, path, err);
	if (r == 0)
		r = nvml_inventory(health->nvml, &health->found, err);
	if (r == 0)
		r = nvml_watch_open(&health->watch, health->nvml, &health->found, err);
	if (r < 0)
		health_close(health);
	return r;
}

static bool health_look(struct gpu_health *health, struct driver *driver, struct inventory *inventory)
{
	struct error err = {""};

	health->look_at_ns = monotonic_ns() + LOOK_AGAIN_NS;
	if (health_open(health, driver, &err) < 0) {
		if (strcmp(health->complaint, err.text) != 0)
			log_info("no GPUs to share: %s; looking again every 5 s", err.text);
		memcpy(health->complaint, err.text, sizeof(health->complaint));
		inventory->driver_version[0] = '\0';
		/* Cards that were here before the agent restarted are not usable now. */
		return inventory_update(inventory, NULL, 0);
	}
	health->complaint[0] = '\0';
	log_info("driver %s, %zu GPUs", health->found.driver_version, health->found.count);
	if (health->found.unreachable)
		log_warning(
			"%zu GPUs do not answer and are left out; restart the agent when they are repaired",
			health->found.unreachable);
	return health_fill(&health->found, inventory);
}

static bool health_apply(
	const struct gpu_health *health, const struct nvml_change *change, struct inventory *inventory)
{
	const char *uuid = health->found.cards[change->card].uuid;
	struct card *card = (struct card *)inventory_find(inventory, uuid);

	if (!card || card->facts.healthy == change->healthy)
		return false;
	card->facts.healthy = change->healthy;
	if (change->healthy)
		log_info("GPU %d (%s) is healthy again", card->facts.index, uuid);
	else
		log_warning("GPU %d (%s) is sick, no new pods on it: %s", card->facts.index, uuid,
			change->reason);
	return true;
}

bool gpu_health_is_outdated(const struct gpu_health *health, const struct driver *driver)
{
	/* A library that could not be opened was tried, too. */
	return health->generation && driver->generation != health->generation;
}

bool gpu_health_follow(struct gpu_health *health, struct driver *driver, struct inventory *inventory)
{
	if (health->lent || !gpu_health_is_outdated(health, driver))
		return false;
	log_info("the NVIDIA driver's files have changed: looking at the cards anew");
	health_close(health);
	return health_look(health, driver, inventory);
}

bool gpu_health_poll(struct gpu_health *health, struct driver *driver, struct inventory *inventory)
{
	struct nvml_change changes[NVML_MAX_CARDS];
	struct error ignored;
	bool changed = false;
	size_t n;

	health->missed = health->lent;
	if (health->lent)
		return false;
	if (health->watch && monotonic_ns() >= health->look_at_ns) {
		health->look_at_ns = monotonic_ns() + LOOK_AGAIN_NS;
		driver_scan(driver, &ignored);
		changed = gpu_health_follow(health, driver, inventory);
	}
	if (!health->watch)
		return changed |
		       (monotonic_ns() >= health->look_at_ns && health_look(health, driver, inventory));
	n = nvml_watch_poll(health->watch, monotonic_ns(), changes, NVML_MAX_CARDS);
	for (size_t i = 0; i < n; i++)
		changed |= health_apply(health, &changes[i], inventory);
	return changed;
}

struct nvml *gpu_health_lend(struct gpu_health *health)
{
	health->lent = health->nvml && health->watch;
	return health->lent ? health->nvml : NULL;
}

bool gpu_health_return(struct gpu_health *health)
{
	health->lent = false;
	return health->missed;
}
