/* The agent's page /use, for `ration advise`: what each container has used of what it was granted. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/gpu/looks.h"
#include "agent/gpu/shared.h"
#include "agent/gpu/watched.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "grant/grant.h"
#include "kube/json.h"
#include "node/ids.h"
#include "node/registry.h"

static int set_seconds(struct json_object *object, const char *key, const uint64_t *ns)
{
	struct json_object *list = json_set_array(object, key);
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < USE_BUCKETS && r == 0; i++)
		r = json_append(list, json_object_new_int64((int64_t)(ns[i] / NS_PER_S)));
	return r;
}

static int add_gpus(struct json_object *page, const struct node_registry *node)
{
	struct json_object *list = json_set_array(page, "gpus");
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; i < node->inventory.n_gpus && r == 0; i++) {
		const struct gpu *gpu = &node->inventory.gpus[i];
		struct json_object *object = json_append_object(list);

		r = json_set_text(object, "uuid", gpu->facts.uuid);
		if (r == 0)
			r = json_set_number(object, "index", (uint64_t)gpu->facts.index);
		if (r == 0)
			r = json_set_number(object, "mib", gpu->facts.mib);
		if (r == 0)
			r = json_set_number(object, "units",
				gpu_mode_units(node->in_force, gpu->facts.mib, node->inventory.unit_mib));
		if (r == 0)
			r = json_set_number(
				object, "granted", ids_held(IDS_OF_UNITS, &node->pods, gpu->facts.uuid));
	}
	return r;
}

/* How long threads waited for computing power; only where it is controlled. */
static int set_waited(struct json_object *object, const struct watched_part *part)
{
	struct usage_peek_power seen;
	int r;

	if (!part->power.share || usage_peek_power(part->of->usage_fd, part->index, &seen) < 0)
		return 0;
	r = json_set_number(object, "coreShare", part->power.share);
	if (r == 0)
		r = json_set_number(object, "waitedSeconds", seen.waited_ns / NS_PER_S);
	return r < 0 ? r : set_seconds(object, "core", part->use.core_ns);
}

struct row {
	const char *uid, *namespace_, *pod, *container, *owner, *uuid;
	uint64_t limit_bytes, used_bytes, refused;
	const struct use_record *use;
};

static int set_row(struct json_object *object, const struct row *row)
{
	const struct {
		const char *key, *text;
	} texts[] = {{"uid", row->uid}, {"namespace", row->namespace_}, {"pod", row->pod},
		{"container", row->container}, {"owner", row->owner ? row->owner : ""}, {"uuid", row->uuid}};
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {{"limitBytes", row->limit_bytes}, {"usedBytes", row->used_bytes},
		{"peakBytes", row->use->peak_bytes}, {"wantedBytes", row->use->wanted_bytes},
		{"refused", row->refused}, {"seenSeconds", row->use->seen_ns / NS_PER_S}};
	int r = object ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
		r = json_set(object, texts[i].key, json_new_text(texts[i].text));
	for (size_t i = 0; i < ARRAY_SIZE(numbers) && r == 0; i++)
		r = json_set_number(object, numbers[i].key, numbers[i].value);
	return r < 0 ? r : set_seconds(object, "memory", row->use->memory_ns);
}

static int add_part(struct json_object *list, const struct watched_part *part)
{
	const struct watched *watched = part->of;
	struct json_object *object = json_append_object(list);
	const struct row row = {.uid = watched->uid,
		.namespace_ = watched->namespace_,
		.pod = watched->pod,
		.container = watched->container,
		.owner = watched->owner,
		.uuid = part->uuid,
		.limit_bytes = grant_file_limit_bytes(watched->grant, part->index),
		.used_bytes = part->used_bytes,
		.refused = part->refused.refused,
		.use = &part->use};
	int r = set_row(object, &row);

	return r < 0 ? r : set_waited(object, part);
}

/* Containers of a node without isolation. */
static int add_shared(struct json_object *list, const struct looks *looks, const struct node_registry *node)
{
	const struct shared_use *use;
	size_t shown = 0;
	int r = 0;

	table_for_each (&looks_shared(looks)->by_key, cursor, use) {
		const struct node_pod *pod = shared_pod(node, use);

		if (!pod)
			continue;
		if (r < 0 || shown++ == CONTAINERS_SHOWN_MAX)
			break;
		r = set_row(json_append_object(list), &(struct row){.uid = use->uid,
							      .namespace_ = pod->facts.namespace_,
							      .pod = pod->facts.name,
							      .container = use->container,
							      .owner = pod->shown.owner,
							      .uuid = use->uuid,
							      .limit_bytes = use->granted_bytes,
							      .used_bytes = use->used_bytes,
							      .use = &use->use});
	}
	return r;
}

char *looks_use_page(struct looks *looks, const struct node_registry *node)
{
	_cleanup_json_ struct json_object *page = json_object_new_object();
	struct json_object *list = json_set_array(page, "containers");
	int r = page && list ? 0 : -ENOMEM;
	size_t shown = 0;
	const char *text;

	looks_name_owners(looks);
	list_for_each (item, watched_list(looks_set(looks))) {
		const struct watched *watched = list_entry(item, struct watched, item);

		if (shown++ == CONTAINERS_SHOWN_MAX)
			break;
		for (unsigned i = 0; i < watched->n_gpus && r == 0; i++)
			if (watched->gpus[i].looked)
				r = add_part(list, &watched->gpus[i]);
	}
	if (r == 0)
		r = add_shared(list, looks, node);
	if (r == 0)
		r = json_set_number(page, "unitMiB", node->inventory.unit_mib);
	if (r == 0)
		r = add_gpus(page, node);
	text = r == 0 ? json_text(page) : NULL;
	return text ? strdup(text) : NULL;
}
