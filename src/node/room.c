#include "node/room.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/facts.h"
#include "model/units.h"
#include "node/registry.h"

uint32_t room_units(const struct pod_facts *pod, const char *uuid, uint32_t unit_mib)
{
	uint32_t units = pod->has_placement ? placement_units_on(&pod->placement, &pod->request, uuid) : 0;

	if (!units || pod->request.whole)
		return units > 0;
	return units_convert(units, pod->placement.unit_mib, unit_mib);
}

uint32_t room_core(const struct pod_facts *pod, const char *uuid)
{
	return pod->has_placement ? placement_core_on(&pod->placement, &pod->request, uuid) : 0;
}

struct sums {
	uint32_t units, core;
	const struct held_pod *orphan; /* the first one on the GPU */
};

static void add_orphans(
	const struct held *orphans, const struct pod_facts *pod, const char *uuid, struct sums *sums)
{
	for (size_t i = 0; i < orphans->n_pods; i++) {
		const struct held_pod *orphan = &orphans->pods[i];

		for (size_t k = 0; k < orphan->n_gpus && strcmp(orphan->uid, pod->uid) != 0; k++) {
			if (strcmp(orphan->gpus[k].uuid, uuid) != 0)
				continue;
			sums->orphan = sums->orphan ? sums->orphan : orphan;
			sums->units = units_add(sums->units, orphan->gpus[k].units);
			sums->core = units_add(sums->core, orphan->gpus[k].core);
		}
	}
}

static int wait_for(const struct pod_facts *pod, const struct gpu_facts *gpu, const struct held_pod *orphan,
	bool behind, struct error *err)
{
	if (!orphan && !behind)
		return error_set(err, EBUSY,
			"pod %s/%s waits for GPU %d (%s): the pods that have started there leave too little; this pod starts by itself when one of them has ended; to have it placed anew, delete it",
			pod->namespace_, pod->name, gpu->index, gpu->uuid);
	if (!orphan)
		return error_set(err, EBUSY,
			"pod %s/%s waits for GPU %d (%s): the API server has not told this agent yet which of the pods there are gone",
			pod->namespace_, pod->name, gpu->index, gpu->uuid);
	return error_set(err, EBUSY,
		"pod %s/%s waits for GPU %d (%s): pod %s/%s (uid %s) was deleted, but its containers still run there; this pod starts by itself when they have ended",
		pod->namespace_, pod->name, gpu->index, gpu->uuid, orphan->namespace_, orphan->name,
		orphan->uid);
}

int room_check(const struct room *room, const struct pod_facts *pod, struct error *err)
{
	for (size_t k = 0; k < room->n_gpus; k++) {
		const struct gpu_facts *gpu = &room->gpus[k];
		uint32_t total = pod->request.whole ? 1 : units_of_gpu(gpu->mib, room->unit_mib);
		struct sums sums = {.units = room_units(pod, gpu->uuid, room->unit_mib),
			.core = room_core(pod, gpu->uuid)};
		bool may_wait;

		if (!sums.units)
			continue;
		add_orphans(room->orphans, pod, gpu->uuid, &sums);
		for (size_t i = 0; i < room->n_others; i++) {
			sums.units = units_add(
				sums.units, room_units(room->others[i], gpu->uuid, room->unit_mib));
			sums.core = units_add(sums.core, room_core(room->others[i], gpu->uuid));
		}
		may_wait = sums.orphan || room->behind || room->first;
		if (may_wait && (sums.units > total || sums.core > CORE_PER_GPU))
			return wait_for(pod, gpu, sums.orphan, room->behind, err);
	}
	return 0;
}

/* After the loss of the kubelet's checkpoint, only the status says that containers run. */
bool room_has_started(const struct node_registry *node, const struct node_pod *pod)
{
	return pod->shown.runs || served_has_started(&node->served, pod->facts.uid);
}

int room_look(const struct node_registry *node, const struct held *orphans, const struct node_pod *pod,
	struct error *err)
{
	const struct node_pod *other;
	size_t n = 0;

	_cleanup_free_ const struct pod_facts **others = calloc(
		node->pods.by_uid.count + 1, sizeof(const struct pod_facts *));
	const struct inventory *inventory = &node->inventory;
	struct gpu_facts gpus[NODE_GPUS_MAX];
	struct room room;

	if (!others)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < inventory->n_gpus; i++)
		gpus[i] = inventory->gpus[i].facts;
	room = (struct room){.gpus = gpus,
		.n_gpus = inventory->n_gpus,
		.unit_mib = inventory->unit_mib,
		.orphans = orphans,
		.others = others,
		.behind = !pod->watched,
		.first = !room_has_started(node, pod)};
	/* Lists the other pods of this node that have a placement and a container that was allowed to start.
	 * Sets *behind if the watch has not shown one of them. */
	table_for_each (&node->pods.by_uid, cursor, other) {
		if (other == pod || !other->facts.has_placement || other->facts.finished ||
			!room_has_started(node, other))
			continue;
		others[n++] = &other->facts;
		room.behind |= !other->watched;
	}
	room.n_others = n;
	return room_check(&room, &pod->facts, err);
}
