#include "agent/gpu/shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/gpu/looks.h"
#include "agent/gpu/processes.h"
#include "model/units.h"
#include "node/registry.h"

#define KEY_SIZE 600

void shared_init(struct shared *shared)
{
	table_init(&shared->by_key);
}

static const char *key_of(const char *uid, const char *container, const char *uuid, char *buf)
{
	snprintf(buf, KEY_SIZE, "%.255s/%.255s/%.63s", uid, container, uuid);
	return buf;
}

static void use_free(struct shared_use *use)
{
	free(use->uid);
	free(use->container);
	free(use);
}

void shared_release(struct shared *shared)
{
	struct shared_use *use;

	table_for_each (&shared->by_key, cursor, use)
		use_free(use);
	table_release(&shared->by_key);
}

/* NULL: out of memory; the container is then in no sample until memory is free. */
static struct shared_use *get(struct shared *shared, const char *uid, const char *container, const char *uuid)
{
	char key[KEY_SIZE];
	struct shared_use *use = table_get(&shared->by_key, key_of(uid, container, uuid, key));

	if (use)
		return use;
	use = calloc(1, sizeof(*use));
	if (!use)
		return NULL;
	use->uid = strdup(uid);
	use->container = strdup(container);
	snprintf(use->uuid, sizeof(use->uuid), "%s", uuid);
	if (!use->uid || !use->container || table_set(&shared->by_key, key, use) < 0) {
		use_free(use);
		return NULL;
	}
	return use;
}

static bool counts(const struct node_registry *node, const struct node_pod *pod)
{
	return node->in_force == GPU_MODE_SHARE && pod->facts.has_placement && node_pod_holds(&pod->facts);
}

/* The container runtime may not have told yet in which container of the pod a process is. The only container
 * with a GPU then has it. */
static uint64_t used_by(
	const struct node_pod *pod, const char *container, const struct holder *holders, size_t n)
{
	bool only = pod->facts.placement.n_containers == 1;
	uint64_t used = 0;

	for (size_t i = 0; i < n; i++) {
		const struct process *process = holders[i].process;

		if (!process || process->verdict != 0 || strcmp(process->place.uid, pod->facts.uid) != 0)
			continue;
		if (holders[i].container ? strcmp(holders[i].container, container) == 0 : only)
			used += holders[i].bytes;
	}
	return used;
}

static void note_container(struct shared_use *use, const struct node_registry *node,
	const struct node_pod *pod, uint32_t units, int64_t now_ns)
{
	const struct gpu *gpu = inventory_find(&node->inventory, use->uuid);
	uint64_t mib = gpu ? gpu->facts.mib : 0;
	struct use_sample sample = {.elapsed_ns = use->use_ns ? now_ns - use->use_ns : 0,
		.used_bytes = use->used_bytes,
		.idle = node_pod_is_idle(pod, use->container)};

	use->granted_bytes = gpu ? units_limit_bytes(mib, units, pod->facts.placement.unit_mib) : 0;
	sample.limit_bytes = use->granted_bytes;
	sample.physical_bytes = mib << 20;
	use_note_memory(&use->use, &sample);
	use->use_ns = now_ns;
	use->listed = true;
}

static void forget_unlisted(struct shared *shared, const char *uuid)
{
	struct shared_use *use;
	char key[KEY_SIZE];

	table_for_each (&shared->by_key, cursor, use) {
		bool listed = use->listed;

		if (strcmp(use->uuid, uuid) != 0)
			continue;
		use->listed = false;
		if (listed)
			continue;
		table_remove(&shared->by_key, key_of(use->uid, use->container, uuid, key));
		use_free(use);
	}
}

void shared_note(struct shared *shared, const struct node_registry *node, const char *uuid,
	const struct holder *holders, size_t n_holders, int64_t now_ns)
{
	const struct node_pod *pod;

	table_for_each (&node->pods.by_uid, cursor, pod) {
		const struct placement *placement = &pod->facts.placement;

		for (size_t i = 0; counts(node, pod) && i < placement->n_containers; i++) {
			const struct container_placement *container = &placement->containers[i];
			const struct gpu_share *share = container_share(container, uuid);
			struct shared_use *use = share ? get(shared, pod->facts.uid, container->name, uuid)
						       : NULL;

			if (!use)
				continue;
			use->used_bytes = used_by(pod, container->name, holders, n_holders);
			note_container(use, node, pod, share->units, now_ns);
		}
	}
	forget_unlisted(shared, uuid);
}

const struct node_pod *shared_pod(const struct node_registry *node, const struct shared_use *use)
{
	const struct node_pod *pod = node_pods_by_uid(&node->pods, use->uid);

	return pod && counts(node, pod) ? pod : NULL;
}

bool shared_has(const struct node_registry *node, const char *uuid)
{
	const struct node_pod *pod;

	table_for_each (&node->pods.by_uid, cursor, pod)
		for (size_t i = 0; counts(node, pod) && i < pod->facts.placement.n_containers; i++)
			if (container_share(&pod->facts.placement.containers[i], uuid))
				return true;
	return false;
}
