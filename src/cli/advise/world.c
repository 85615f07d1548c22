#include "cli/advise/world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/array.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/fields.h"
#include "cli/list-read.h"
#include "cli/options.h"
#include "cli/top-cluster.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "model/claim.h"
#include "model/units.h"

#define KEY_SIZE 600
#define PATH_SIZE 400

void advise_world_init(struct advise_world *world)
{
	*world = (struct advise_world){0};
	table_init(&world->by_key);
	progress_begin(&world->progress);
}

static void container_free(struct advise_container *container)
{
	for (size_t i = 0; i < container->n_gpus; i++)
		json_object_put(container->uses[i]);
	free(container->uses);
	free(container->uuids);
	free(container->gpus);
	free(container->node);
	free(container->uid);
	free(container->namespace_);
	free(container->pod);
	free(container->container);
	free(container->owner);
	free(container);
}

void advise_world_release(struct advise_world *world)
{
	for (size_t i = 0; i < world->n_gpus; i++)
		free(world->gpus[i].node);
	for (size_t i = 0; i < world->n_containers; i++)
		container_free(world->containers[i]);
	free(world->gpus);
	free(world->containers);
	table_release(&world->by_key);
}

static const char *key_of(const char *uid, const char *container, char *buf)
{
	snprintf(buf, KEY_SIZE, "%.255s/%.255s", uid, container);
	return buf;
}

struct advise_container *advise_world_find(
	const struct advise_world *world, const char *uid, const char *container)
{
	char key[KEY_SIZE];

	return table_get(&world->by_key, key_of(uid, container, key));
}

/* ---- the agents' pages ---- */

/* A negative number counts as 0. */
static uint64_t count_of(struct json_object *object, const char *key)
{
	int64_t value = number_of(object, key);

	return value > 0 ? (uint64_t)value : 0;
}

static uint32_t units_in(struct json_object *object, const char *key)
{
	uint64_t units = count_of(object, key);

	return units < UNITS_MAX ? (uint32_t)units : UNITS_MAX;
}

static int take_gpu(struct advise_world *world, const char *node, struct json_object *item)
{
	struct advise_gpu *gpu;
	uint32_t units = units_in(item, "units"), granted = units_in(item, "granted");

	if (world->n_gpus == ADVISE_GPUS_MAX)
		return -E2BIG;
	if (array_room(&world->gpus, world->n_gpus, sizeof(*gpu)) < 0)
		return -ENOMEM;
	gpu = &world->gpus[world->n_gpus];
	*gpu = (struct advise_gpu){.node = strdup(node),
		.mib = count_of(item, "mib"),
		.free = units > granted ? units - granted : 0};
	snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", json_text_of(item, "uuid"));
	world->n_gpus++;
	return gpu->node ? 0 : -ENOMEM;
}

static struct advise_gpu *find_gpu(const struct advise_world *world, const char *node, const char *uuid)
{
	for (size_t i = 0; i < world->n_gpus; i++)
		if (strcmp(world->gpus[i].uuid, uuid) == 0 && strcmp(world->gpus[i].node, node) == 0)
			return &world->gpus[i];
	return NULL;
}

static struct advise_container *container_new(
	struct advise_world *world, const char *node, struct json_object *item)
{
	struct advise_container *container;
	char key[KEY_SIZE];

	if (world->n_containers == ADVISE_CONTAINERS_MAX ||
		array_room(&world->containers, world->n_containers, sizeof(struct advise_container *)) < 0)
		return NULL;
	container = calloc(1, sizeof(*container));
	if (!container)
		return NULL;
	world->containers[world->n_containers++] = container;
	container->node = strdup(node);
	container->uid = strdup(json_text_of(item, "uid"));
	container->namespace_ = strdup(json_text_of(item, "namespace"));
	container->pod = strdup(json_text_of(item, "pod"));
	container->container = strdup(json_text_of(item, "container"));
	container->owner = strdup(json_text_of(item, "owner"));
	container->facts.seen_s = UINT64_MAX;
	if (!container->node || !container->uid || !container->namespace_ || !container->pod ||
		!container->container || !container->owner ||
		table_set(&world->by_key, key_of(container->uid, container->container, key), container) < 0)
		return NULL;
	return container;
}

static int container_grow(struct advise_container *container)
{
	const size_t n = container->n_gpus;
	int r = array_room(&container->uuids, n, sizeof(*container->uuids));

	if (r == 0)
		r = array_room(&container->gpus, n, sizeof(*container->gpus));
	container->facts.gpus = container->gpus;
	return r < 0 ? r : array_room(&container->uses, n, sizeof(*container->uses));
}

/* One GPU of one container. */
static int take_use(
	struct advise_world *world, const char *node, enum gpu_mode mode, struct json_object *item)
{
	struct advise_container *container = advise_world_find(
		world, json_text_of(item, "uid"), json_text_of(item, "container"));
	const struct advise_gpu *gpu = find_gpu(world, node, json_text_of(item, "uuid"));
	uint64_t seen_s = count_of(item, "seenSeconds"), waited_s = count_of(item, "waitedSeconds");
	struct advice_gpu *part;

	if (!container)
		container = container_new(world, node, item);
	if (!container || container_grow(container) < 0)
		return -ENOMEM;
	part = &container->gpus[container->n_gpus];
	*part = (struct advice_gpu){.mib = gpu ? gpu->mib : 0,
		.used_bytes = count_of(item, "usedBytes"),
		.peak_bytes = count_of(item, "peakBytes"),
		.wanted_bytes = count_of(item, "wantedBytes")};
	snprintf(container->uuids[container->n_gpus], GPU_UUID_SIZE, "%s", json_text_of(item, "uuid"));
	container->uses[container->n_gpus++] = json_object_get(item);
	container->facts.n_gpus = container->n_gpus;
	container->facts.is_claim = mode == GPU_MODE_DRA &&
				    strcmp(container->container, CLAIM_CONTAINER) == 0;
	container->facts.unlimited = mode == GPU_MODE_SHARE;
	container->facts.refused += count_of(item, "refused");
	container->facts.seen_s = seen_s < container->facts.seen_s ? seen_s : container->facts.seen_s;
	container->limit_bytes += count_of(item, "limitBytes");
	container->used_bytes += part->used_bytes;
	container->peak_bytes += part->peak_bytes;
	container->waited_s = waited_s > container->waited_s ? waited_s : container->waited_s;
	container->waited_known |= json_member(item, "waitedSeconds") != NULL;
	container->listed = container->facts.is_claim;
	return 0;
}

static int take_page(
	void *userdata, const char *node, enum gpu_mode mode, const struct strbuf *page, struct error *err)
{
	_cleanup_json_ struct json_object *document = NULL;
	struct advise_world *world = userdata;
	struct json_object *gpus, *containers;
	int r = json_parse(page->data, page->len, &document, err);

	gpus = json_member(document, "gpus");
	containers = json_member(document, "containers");
	for (size_t i = 0; i < json_count(gpus) && r == 0; i++)
		r = take_gpu(world, node, json_item(gpus, i));
	for (size_t i = 0; i < json_count(containers) && r == 0; i++)
		r = take_use(world, node, mode, json_item(containers, i));
	return r;
}

/* ---- the pods ---- */

static void place(
	const struct advise_world *world, struct advise_container *container, const struct pod_facts *pod)
{
	const struct container_placement *placed = placement_find(&pod->placement, container->container);

	container->facts.unit_mib = pod->placement.unit_mib;
	container->listed = placed != NULL;
	for (size_t i = 0; i < container->n_gpus && placed; i++) {
		const struct gpu_share *share = container_share(placed, container->uuids[i]);
		const struct advise_gpu *gpu = find_gpu(world, container->node, container->uuids[i]);

		container->gpus[i].units = share ? share->units : 0;
		container->gpus[i].free = gpu ? gpu->free : 0;
		container->listed &= share && gpu && share->units == container->gpus[0].units;
	}
}

static int take_pod(void *userdata, struct json_object *item, struct error *err)
{
	const struct advise_world *world = userdata;
	_cleanup_pod_facts_ struct pod_facts pod;
	struct error ignored;

	pod_facts_init(&pod);
	if (pod_facts_from_json(item, &pod, &ignored) < 0 || pod.finished || pod.deleting ||
		!pod.has_placement)
		return 0;
	for (size_t i = 0; i < pod.request.n_containers; i++) {
		const struct container_request *request = &pod.request.containers[i];
		struct advise_container *container = advise_world_find(world, pod.uid, request->name);

		if (container && request->kind != CONTAINER_INIT)
			place(world, container, &pod);
	}
	return 0;
}

static int read_pods(struct advise_world *world, const struct advise_options *options, struct error *err)
{
	const struct list_reader reader = {
		.kind = "PodList", .sign = RESOURCE_GPU_MEM, .read = take_pod, .userdata = world};
	char path[PATH_SIZE] = "/api/v1/pods";

	if (options->namespace_)
		snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods", options->namespace_);
	return list_read(&options->kubectl, path, NULL, &reader, err);
}

/* Drops the containers of ended pods and of other namespaces. */
static void drop_unlisted(struct advise_world *world, const struct advise_options *options)
{
	size_t n = 0;

	for (size_t i = 0; i < world->n_containers; i++) {
		struct advise_container *container = world->containers[i];
		char key[KEY_SIZE];

		if (options->namespace_ && strcmp(options->namespace_, container->namespace_) != 0)
			container->listed = false;
		if (container->listed) {
			world->containers[n++] = container;
			continue;
		}
		table_remove(&world->by_key, key_of(container->uid, container->container, key));
		container_free(container);
	}
	world->n_containers = n;
}

static void say_agent(void *userdata, const char *node, size_t i, size_t n)
{
	struct advise_world *world = userdata;

	progress_say(&world->progress, "asking the agent of node %s, %zu of %zu", node, i, n);
}

int advise_world_read(struct advise_world *world, const struct advise_options *options,
	struct top_cluster *cluster, const char *node, struct strbuf *problems, struct error *err)
{
	const struct top_reader reader = {
		.path = "/use", .node = node, .read = take_page, .userdata = world, .begins = say_agent};
	int r = top_cluster_each(cluster, &reader, problems, err);

	if (r < 0)
		return err->text[0] ? r
				    : error_set(err, -r, "the answer could not be stored: %s", strerror(-r));
	err->text[0] = '\0';
	progress_say(&world->progress, "reading the pods");
	r = read_pods(world, options, err);
	drop_unlisted(world, options);
	return r;
}

/* ---- decisions ---- */

static int64_t order_of(const struct advise_container *container)
{
	switch (container->advice.kind) {
	case ADVICE_MORE:
	case ADVICE_LESS:
		return llabs((int64_t)container->advice.units - container->advice.granted);
	case ADVICE_KEEP:
		return container->waited_s < INT64_MAX ? (int64_t)container->waited_s : INT64_MAX;
	default:
		return 0;
	}
}

static int compare_pods(const struct advise_container *a, const struct advise_container *b)
{
	int r = strcmp(a->namespace_, b->namespace_);

	r = r ? r : strverscmp(a->pod, b->pod);
	return r ? r : strcmp(a->container, b->container);
}

static int compare_advice(const void *pa, const void *pb)
{
	const struct advise_container *a = *(struct advise_container *const *)pa,
				      *b = *(struct advise_container *const *)pb;
	int64_t first = order_of(a), second = order_of(b);
	int r = (int)a->advice.kind - (int)b->advice.kind;

	r = r ? r : (second > first) - (second < first);
	return r ? r : compare_pods(a, b);
}

/* Takes the advised units off the free ones, so that no second container is advised to take them. */
static void take_free(struct advise_world *world, const struct advise_container *container)
{
	uint32_t more = (container->advice.units - container->advice.granted) / (uint32_t)container->n_gpus;

	for (size_t i = 0; i < container->n_gpus; i++) {
		struct advise_gpu *gpu = find_gpu(world, container->node, container->uuids[i]);

		gpu->free -= more < gpu->free ? more : gpu->free;
	}
}

static void decide(
	struct advise_world *world, struct advise_container *container, const struct advice_terms *terms)
{
	for (size_t i = 0; i < container->n_gpus; i++) {
		const struct advise_gpu *gpu = find_gpu(world, container->node, container->uuids[i]);

		container->gpus[i].free = gpu ? gpu->free : 0;
	}
	container->advice = advise_container(&container->facts, terms);
	if (container->advice.kind == ADVICE_MORE)
		take_free(world, container);
}

static int compare_refused(const void *pa, const void *pb)
{
	const struct advise_container *a = *(struct advise_container *const *)pa,
				      *b = *(struct advise_container *const *)pb;
	int r = (b->facts.refused > a->facts.refused) - (b->facts.refused < a->facts.refused);

	return r ? r : compare_pods(a, b);
}

void advise_world_decide(struct advise_world *world, const struct advice_terms *terms)
{
	const size_t size = sizeof(struct advise_container *);

	if (!world->n_containers)
		return;
	/* Free units go to the container that was refused most. */
	qsort(world->containers, world->n_containers, size, compare_refused);
	for (size_t i = 0; i < world->n_containers; i++)
		decide(world, world->containers[i], terms);
	qsort(world->containers, world->n_containers, size, compare_advice);
}
