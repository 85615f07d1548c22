#include "core/gang/gang-room.h"

#include <stdlib.h>
#include <string.h>

#include "core/gang/gang.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"

static bool is_kept_for_other(const struct nomination *nomination, const struct gang_member *member)
{
	return nomination->pod->occupancy == OCCUPANCY_WAITING &&
	       strcmp(nomination->shadow.facts.uid, member->facts.uid) != 0;
}

/* now: beside those who are there, too; otherwise as if they had gone. */
static struct gpu_room gpu_room(const struct node_ledger *node, const struct gpu_ledger *gpu,
	const struct gang_member *member, bool now)
{
	struct gpu_room room = {.gpu = gpu,
		.units = (int64_t)gpu->units_total - (now ? gpu->units_used : 0),
		.core = (int64_t)CORE_PER_GPU - (now ? gpu->core_used : 0),
		.instances = gpu->instances_max ? (int64_t)gpu->instances_max - (now ? gpu->instances : 0)
						: INT64_MAX};

	list_for_each (item, &node->nominations) {
		const struct nomination *nomination = list_entry(item, struct nomination, item);
		const struct ledger_pod *kept = &nomination->shadow;
		uint32_t units = placement_units_on(&kept->placement, &kept->facts.request, gpu->uuid);

		if (!units || !is_kept_for_other(nomination, member))
			continue;
		room.units -= units;
		room.core -= placement_core_on(&kept->placement, &kept->facts.request, gpu->uuid);
		if (gpu->instances_max)
			room.instances -= kept->facts.request.instances;
	}
	return room;
}

static bool room_suits(const struct gpu_room *room, const struct request *request)
{
	return room->gpu->healthy && room->units >= (int64_t)request_units_per_gpu(request) &&
	       room->core >= (int64_t)request->core && room->instances >= (int64_t)request->instances;
}

/* Pods with and without a percentage may not meet there, and what is kept is for the other kind. */
static bool kept_mixes(const struct node_ledger *node, const struct gang_member *member)
{
	if (node->facts.mode != GPU_MODE_CORE_MEM || node->facts.mixing)
		return false;
	list_for_each (item, &node->nominations) {
		const struct nomination *nomination = list_entry(item, struct nomination, item);

		if (is_kept_for_other(nomination, member) &&
			!nomination->shadow.facts.request.core != !member->facts.request.core)
			return true;
	}
	return false;
}

static bool node_suits(const struct node_ledger *node, const struct gang_member *member)
{
	return node_ledger_serves(node, &member->facts.request) == FITS && !kept_mixes(node, member);
}

bool gang_place_suits(const struct node_ledger *node, const struct placement *placement,
	const struct gang_member *member, bool now)
{
	const struct request *request = &member->facts.request;
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	size_t n = placement_gpus(placement, gpus);

	if (!node_suits(node, member) || (now && !node_ledger_has_room(node, request, placement)))
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct gpu_ledger *gpu = node_ledger_gpu(node, gpus[i]->uuid);
		struct gpu_room room;

		if (!gpu)
			return false;
		room = gpu_room(node, gpu, member, now);
		if (!room_suits(&room, request))
			return false;
	}
	return true;
}

static int compare_room(const void *pa, const void *pb)
{
	const struct gpu_room *a = pa, *b = pb;

	if (a->units != b->units)
		return a->units > b->units ? -1 : 1;
	return a->gpu->index < b->gpu->index ? -1 : a->gpu->index > b->gpu->index;
}

/* A GPU where the member has waited long enough: perhaps it never becomes free. */
static bool is_avoided(const struct nomination *avoid, const struct node_ledger *node,
	const struct gpu_ledger *gpu, const struct gang_member *member)
{
	struct gpu_room room;

	if (!avoid || avoid->node != node ||
		!placement_units_on(&avoid->shadow.placement, &avoid->shadow.facts.request, gpu->uuid))
		return false;
	room = gpu_room(node, gpu, member, true);
	return !room_suits(&room, &member->facts.request);
}

size_t gang_emptiest_gpus(const struct node_ledger *node, const struct gang_member *member,
	const struct nomination *avoid, struct gpu_room rooms[NODE_GPUS_MAX])
{
	size_t n = 0;

	if (!node_suits(node, member))
		return 0;
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		struct gpu_room room = gpu_room(node, &node->gpus[i], member, false);

		if (room_suits(&room, &member->facts.request) &&
			!is_avoided(avoid, node, &node->gpus[i], member))
			rooms[n++] = gpu_room(node, &node->gpus[i], member, true);
	}
	qsort(rooms, n, sizeof(*rooms), compare_room);
	return n;
}
