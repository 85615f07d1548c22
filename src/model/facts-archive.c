#include "model/facts-archive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/units.h"

static void archive_share(struct archive *archive, struct gpu_share *share)
{
	archive_chars(archive, "uuid", share->uuid, sizeof(share->uuid));
	archive_uint32(archive, "units", &share->units, UINT32_MAX);
	archive_uint32(archive, "core", &share->core, UINT32_MAX);
	if (!*share->uuid)
		archive_fail(archive, EINVAL, "a share of a GPU without \"uuid\"");
}

void archive_host(struct archive *archive, struct host_amount *host)
{
	archive_uint32(archive, "cpuMilli", &host->cpu_milli, UINT32_MAX);
	archive_uint32(archive, "memoryMiB", &host->memory_mib, UINT32_MAX);
}

void archive_placement(struct archive *archive, struct placement *placement)
{
	struct archive_place at, gpus_at;
	size_t n;

	archive_uint32(archive, "unit", &placement->unit_mib, UINT32_MAX);
	archive_uint32(archive, "resizes", &placement->resizes, UINT32_MAX);
	n = archive_list(archive, "containers", placement->n_containers, REQUEST_CONTAINERS_MAX, &at);
	placement->n_containers = archive_room(
		archive, n, sizeof(*placement->containers), (void **)&placement->containers);
	for (size_t i = 0; i < placement->n_containers; i++) {
		struct container_placement *container = &placement->containers[i];

		archive_item(archive, i);
		archive_need_text(archive, "name", &container->name);
		n = archive_list(archive, "gpus", container->n_gpus, NODE_GPUS_MAX, &gpus_at);
		container->n_gpus = archive_room(
			archive, n, sizeof(*container->gpus), (void **)&container->gpus);
		for (size_t k = 0; k < container->n_gpus; k++) {
			archive_item(archive, k);
			archive_share(archive, &container->gpus[k]);
			archive_item_end(archive);
		}
		archive_list_end(archive, &gpus_at);
		archive_item_end(archive);
	}
	archive_list_end(archive, &at);
	n = archive_list(archive, "visible", placement->n_visible, NODE_GPUS_MAX, &at);
	for (size_t i = 0; i < n; i++) {
		const char *uuid = archive_item_text(
			archive, i, archive_reads(archive) ? NULL : placement->visible[i]);

		if (archive_reads(archive) && uuid && placement_add_visible(placement, uuid) < 0)
			archive_fail(archive, EINVAL, "\"visible\" cannot be read");
	}
	archive_list_end(archive, &at);
}

/* The choice of GPUs relies on these sums. If a pod is known only from the agent, the agent reports its
 * instances. */
static void check_sums(struct archive *archive, const struct request *request)
{
	struct request right = *request;

	request_recompute(&right);
	if (right.units != request->units || right.asked != request->asked || right.core != request->core ||
		right.gpus != request->gpus || (!request->whole && request->gpus > REQUEST_GPUS_MAX))
		archive_fail(archive, EINVAL, "the sums of a request are not those of its containers");
}

void archive_request(struct archive *archive, struct request *request)
{
	struct archive_place at;
	size_t n = archive_list(archive, "containers", request->n_containers, REQUEST_CONTAINERS_MAX, &at);

	request->n_containers = archive_room(
		archive, n, sizeof(*request->containers), (void **)&request->containers);
	for (size_t i = 0; i < request->n_containers; i++) {
		struct container_request *container;

		archive_item(archive, i);
		container = &request->containers[i];
		archive_need_text(archive, "name", &container->name);
		archive_enum(archive, "kind", &container->kind, CONTAINER_MAIN + 1);
		archive_int(archive, "index", &container->index, 0, INT32_MAX);
		archive_uint32(archive, "units", &container->units, UINT32_MAX);
		archive_uint32(archive, "asked", &container->asked, UINT32_MAX);
		archive_uint32(archive, "core", &container->core, UINT32_MAX);
		archive_item_end(archive);
	}
	archive_list_end(archive, &at);
	archive_uint32(archive, "units", &request->units, UINT32_MAX);
	archive_uint32(archive, "asked", &request->asked, UINT32_MAX);
	archive_uint32(archive, "core", &request->core, UINT32_MAX);
	archive_uint32(archive, "instances", &request->instances, INT32_MAX);
	archive_uint32(archive, "gpus", &request->gpus, UNITS_MAX); /* many, for whole GPUs */
	archive_uint32(archive, "unit", &request->unit_mib, UNIT_MIB_NONE);
	archive_bool(archive, "whole", &request->whole);
	archive_text(archive, "group", &request->group);
	archive_uint32(archive, "groupPods", &request->group_pods, UINT32_MAX);
	if (archive_reads(archive) && !archive->failed)
		check_sums(archive, request);
}

void archive_held(struct archive *archive, struct held *held)
{
	struct archive_place at, gpus_at;
	size_t n;

	archive_chars(archive, "at", held->at, sizeof(held->at));
	archive_bool(archive, "namesEnded", &held->names_ended);
	n = archive_list(archive, "pods", held->n_pods, HELD_PODS_MAX, &at);
	held->n_pods = archive_room(archive, n, sizeof(*held->pods), (void **)&held->pods);
	for (size_t i = 0; i < held->n_pods; i++) {
		struct held_pod *pod = &held->pods[i];

		archive_item(archive, i);
		archive_need_text(archive, "uid", &pod->uid);
		archive_need_text(archive, "namespace", &pod->namespace_);
		archive_need_text(archive, "name", &pod->name);
		archive_uint32(archive, "instances", &pod->instances, INT32_MAX);
		n = archive_list(archive, "gpus", pod->n_gpus, NODE_GPUS_MAX, &gpus_at);
		pod->n_gpus = archive_room(archive, n, sizeof(*pod->gpus), (void **)&pod->gpus);
		for (size_t k = 0; k < pod->n_gpus; k++) {
			archive_item(archive, k);
			archive_share(archive, &pod->gpus[k]);
			archive_item_end(archive);
		}
		archive_list_end(archive, &gpus_at);
		archive_item_end(archive);
		if (!pod->n_gpus || !pod->instances)
			archive_fail(archive, EINVAL, "a pod that a node holds has no GPU");
	}
	archive_list_end(archive, &at);
	n = archive_list(archive, "ended", held->n_ended, SIZE_MAX, &at);
	for (size_t i = 0; i < n && !archive->failed; i++) {
		const char *uid = archive_item_text(
			archive, i, archive_reads(archive) ? NULL : held->ended[i]);

		if (archive_reads(archive) && uid && held_add_ended(held, uid) < 0)
			archive_fail(archive, EINVAL, "\"ended\" cannot be read");
	}
	archive_list_end(archive, &at);
}

void archive_gpu_facts(struct archive *archive, struct gpu_facts *gpu)
{
	int64_t mib = (int64_t)gpu->mib;

	archive_chars(archive, "uuid", gpu->uuid, sizeof(gpu->uuid));
	archive_int(archive, "index", &gpu->index, 0, INT32_MAX);
	archive_int64(archive, "mib", &mib, 0, INT64_MAX);
	archive_bool(archive, "healthy", &gpu->healthy);
	if (archive_reads(archive))
		gpu->mib = (uint64_t)mib;
	if (!*gpu->uuid)
		archive_fail(archive, EINVAL, "a GPU without \"uuid\"");
}

static void archive_gpu_details(struct archive *archive, struct gpu_details *details, size_t n_gpus)
{
	bool reads = archive_reads(archive);
	struct archive_place at;
	size_t n = 0;

	archive_chars(archive, "model", details->model, sizeof(details->model));
	archive_chars(archive, "reason", details->reason, sizeof(details->reason));
	archive_uint32(archive, "nvlinkGBps", &details->nvlink_gbps, UINT32_MAX);
	for (size_t i = 0; !reads && i < n_gpus; i++)
		if (details->links[i].kind)
			n = n_gpus;
	n = archive_list(archive, "links", n, NODE_GPUS_MAX, &at);
	for (size_t i = 0; i < n; i++) {
		char buf[LINK_TEXT_SIZE];
		const char *text = archive_item_text(
			archive, i, reads ? NULL : link_text(details->links[i], buf));

		if (reads && text && strcmp(text, "?") != 0 && link_parse(text, &details->links[i]) < 0)
			archive_fail(archive, EINVAL, "\"%s\" is no link between GPUs", text);
	}
	archive_list_end(archive, &at);
}

void archive_node_facts(struct archive *archive, struct node_facts *facts)
{
	struct archive_place at;

	archive_need_text(archive, "name", &facts->name);
	archive_need_text(archive, "uid", &facts->uid);
	archive_text(archive, "address", &facts->address);
	archive_enum(archive, "mode", &facts->mode, GPU_MODE_MAX);
	archive_enum(archive, "policy", &facts->policy, GPU_POLICY_SPREAD + 1);
	archive_uint32(archive, "unit", &facts->unit_mib, INT32_MAX);
	archive_uint32(archive, "instancesMax", &facts->instances_max, INT32_MAX);
	archive_bool(archive, "mixing", &facts->mixing);
	if (archive_reads(archive))
		facts->serving = false; /* true after node_facts_init() */
	archive_bool(archive, "serving", &facts->serving);
	archive_bool(archive, "changing", &facts->changing);
	archive_bool(archive, "heldUnreadable", &facts->held_unreadable);
	archive_text(archive, "models", &facts->models);
	archive_host(archive, &facts->host);
	facts->n_gpus = archive_list(archive, "gpus", facts->n_gpus, NODE_GPUS_MAX, &at);
	for (size_t i = 0; i < facts->n_gpus; i++) {
		archive_item(archive, i);
		archive_gpu_facts(archive, &facts->gpus[i]);
		archive_gpu_details(archive, &facts->details[i], facts->n_gpus);
		archive_item_end(archive);
	}
	archive_list_end(archive, &at);
	if (archive_enter(
		    archive, "held", *facts->held.at || facts->held.n_pods || facts->held.n_ended, &at)) {
		archive_held(archive, &facts->held);
		archive_leave(archive, &at);
	}
}

/* The flags that are usually false. */
static void archive_pod_flags(struct archive *archive, struct pod_facts *facts)
{
	archive_bool(archive, "finished", &facts->finished);
	archive_bool(archive, "succeeded", &facts->succeeded);
	archive_bool(archive, "pending", &facts->pending);
	archive_bool(archive, "deleting", &facts->deleting);
	archive_bool(archive, "assigned", &facts->assigned);
	archive_bool(archive, "running", &facts->running);
	archive_bool(archive, "neverPreempts", &facts->never_preempts);
	archive_bool(archive, "mirror", &facts->mirror);
	archive_bool(archive, "annotationsFull", &facts->annotations_full);
	archive_bool(archive, "gangForming", &facts->gang_forming);
	archive_bool(archive, "gangBound", &facts->gang_bound);
}

static void archive_owned_text(struct archive *archive, const char *key, char **text)
{
	if (!archive_reads(archive) && *text && !**text)
		return; /* "", which is the default when reading */
	archive_text(archive, key, text);
	if (archive_reads(archive) && !*text && !(*text = strdup("")))
		archive_fail(archive, ENOMEM, "out of memory");
}

void archive_pod_facts(struct archive *archive, struct pod_facts *facts)
{
	struct archive_place at;
	int priority = facts->priority;

	archive_need_text(archive, "uid", &facts->uid);
	archive_owned_text(archive, "namespace", &facts->namespace_);
	archive_owned_text(archive, "name", &facts->name);
	archive_owned_text(archive, "owner", &facts->owner);
	archive_owned_text(archive, "node", &facts->node);
	archive_int(archive, "priority", &priority, INT32_MIN, INT32_MAX);
	if (archive_reads(archive))
		facts->priority = priority;
	archive_pod_flags(archive, facts);
	archive_int64(archive, "started", &facts->started, INT64_MIN, INT64_MAX);
	archive_int64(archive, "created", &facts->created, INT64_MIN, INT64_MAX);
	archive_text(archive, "nominatedNode", &facts->nominated_node);
	archive_size(archive, "annotationsSize", &facts->annotations_size, INT32_MAX);
	archive_text(archive, "resize", &facts->resize);
	archive_text(archive, "gang", &facts->gang);
	archive_uint32(archive, "gangMin", &facts->gang_min, UINT32_MAX);
	archive_text(archive, "labels", &facts->labels);
	archive_text(archive, "models", &facts->models);
	archive_host(archive, &facts->host);
	if (archive_enter(archive, "request", facts->request.n_containers || facts->request.unit_mib, &at)) {
		archive_request(archive, &facts->request);
		archive_leave(archive, &at);
	}
	if (archive_enter(archive, "placement", facts->has_placement, &at)) {
		archive_placement(archive, &facts->placement);
		archive_leave(archive, &at);
		if (archive_reads(archive))
			facts->has_placement = true;
	}
}
