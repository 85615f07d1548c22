#include "agent/container/delivery-internal.h"
#include <stdio.h>
#include <string.h>

#include "agent/container/grants.h"
#include "agent/container/leftovers.h"
#include "agent/container/records.h"
#include "agent/events.h"
#include "base/cleanup.h"
#include "grant/grant.h"
#include "model/units.h"
#include "node/registry.h"

#define MIB (UINT64_C(1) << 20)

static bool has_grant(const struct delivery *delivery, const char *uid)
{
	list_for_each (item, &delivery->grants)
		if (strcmp(list_entry(item, struct node_grant, item)->uid, uid) == 0)
			return true;
	return false;
}

/* What runs without a pod holds its units as well. */
static uint32_t orphan_units(const struct leftovers *leftovers, const char *uuid)
{
	_cleanup_held_ struct held orphans = {.names_ended = false};
	uint32_t units = 0;

	if (leftovers_list(leftovers, &orphans) < 0)
		return UNITS_MAX;
	for (size_t i = 0; i < orphans.n_pods; i++)
		for (size_t k = 0; k < orphans.pods[i].n_gpus; k++)
			if (strcmp(orphans.pods[i].gpus[k].uuid, uuid) == 0)
				units = units_add(units, orphans.pods[i].gpus[k].units);
	return units;
}

/* What the pods that have devices hold of a GPU. Our record may lack who has a grant: after a restart it is
 * the kubelet's, which may be lost. */
static uint32_t units_held(
	const struct delivery *delivery, const struct leftovers *leftovers, const char *uuid)
{
	const struct node_pod *pod;
	uint32_t units = orphan_units(leftovers, uuid);

	table_for_each (&delivery->deps.node->pods.by_uid, cursor, pod)
		if (pod->facts.has_placement && !pod->facts.finished &&
			(has_grant(delivery, pod->facts.uid) ||
				served_knows(&delivery->deps.node->served, pod->facts.uid)))
			units = units_add(
				units, placement_units_on(&pod->facts.placement, &pod->facts.request, uuid));
	return units;
}

/* True if the pod's placement gives this container more than it has on this GPU; uuid NULL: on any GPU. */
static bool grows_on(const struct node_grant *g, const struct pod_facts *pod, const char *uuid)
{
	const struct container_placement *placed = placement_find(&pod->placement, g->container);

	for (unsigned int i = 0; placed && i < g->grant->gpu_count; i++) {
		const struct grant_file_gpu *gpu = &g->grant->gpus[i];
		const struct gpu_share *share = container_share(placed, gpu->uuid);

		if (share && (!uuid || strcmp(gpu->uuid, uuid) == 0) &&
			units_limit_bytes(gpu->physical_bytes / MIB, share->units, pod->placement.unit_mib) >
				grant_file_limit_bytes(g->grant, i))
			return true;
	}
	return false;
}

static bool grows(const struct delivery *delivery, const struct pod_facts *pod, const char *uuid)
{
	list_for_each (item, &delivery->grants) {
		const struct node_grant *g = list_entry(item, struct node_grant, item);

		if (strcmp(g->uid, pod->uid) == 0 && grows_on(g, pod, uuid))
			return true;
	}
	return false;
}

/* A GPU that has less than the pod is to get there; NULL if all have enough. */
static const struct gpu *find_short(
	const struct delivery *delivery, const struct leftovers *leftovers, const struct pod_facts *pod)
{
	for (size_t i = 0; i < delivery->deps.node->inventory.n_gpus; i++) {
		const struct gpu *gpu = &delivery->deps.node->inventory.gpus[i];

		if (placement_units_on(&pod->placement, &pod->request, gpu->facts.uuid) &&
			units_held(delivery, leftovers, gpu->facts.uuid) > gpu->units &&
			grows(delivery, pod, gpu->facts.uuid))
			return gpu;
	}
	return NULL;
}

static void refuse(const struct delivery *delivery, const struct leftovers *leftovers, struct node_pod *pod,
	const struct gpu *gpu)
{
	char text[500];

	if (pod->size.refused == pod->facts.placement.resizes)
		return;
	pod->size.refused = pod->facts.placement.resizes;
	snprintf(text, sizeof(text),
		"GPU %d has %u units, and its pods would hold %u with the new size of this one: it keeps the memory that it had until others have gone; `ration set` can give it less",
		gpu->facts.index, gpu->units, units_held(delivery, leftovers, gpu->facts.uuid));
	event_on_pod(delivery->deps.events, &pod->facts, "GPUResizeRefused", text);
}

/* What the placement gives counts as what the pod has. So a container that has more gets less in any case:
 * also if another one of the pod may not get more, and if the pod has finished, since its containers may run
 * on. */
static void follow(struct delivery *delivery, const struct leftovers *leftovers, struct node_pod *pod)
{
	const struct pod_facts *facts = &pod->facts;
	const struct gpu *gpu;

	if (!facts->has_placement || pod->size.applied == facts->placement.resizes ||
		!has_grant(delivery, facts->uid))
		return;
	grants_apply_what_is_less(delivery, facts);
	if (facts->finished && grows(delivery, facts, NULL))
		return;
	gpu = find_short(delivery, leftovers, facts);
	if (gpu) {
		refuse(delivery, leftovers, pod, gpu);
		return;
	}
	/* The next agent believes the record, and this one may be killed at any moment. So the record changes
	 * after containers have less, and before any gets more. */
	records_replace(delivery->deps.state_dir, facts);
	grants_apply_placement(delivery, facts);
	pod->size.applied = facts->placement.resizes;
}

void delivery_follow_sizes(struct delivery *delivery, const struct leftovers *leftovers)
{
	struct node_pod *pod;

	if (!gpu_mode_is_isolated(delivery->deps.node->in_force))
		return;
	table_for_each (&delivery->deps.node->pods.by_uid, cursor, pod)
		follow(delivery, leftovers, pod);
}
