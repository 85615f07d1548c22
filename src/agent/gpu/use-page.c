/* The agent's page /use, for `ration advise`: what each container has used of what it was granted. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/gpu/looks.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "grant/grant.h"
#include "kube/json.h"
#include "node/ids.h"
#include "node/registry.h"

/* As many as /metrics shows. */
#define CONTAINERS_MAX 1024

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

static int add_part(struct json_object *list, const struct watched_part *part)
{
	const struct watched *watched = part->of;
	struct json_object *object = json_append_object(list);
	const struct {
		const char *key, *text;
	} texts[] = {{"uid", watched->uid}, {"namespace", watched->namespace_}, {"pod", watched->pod},
		{"container", watched->container}, {"owner", watched->owner ? watched->owner : ""},
		{"uuid", part->uuid}};
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {{"limitBytes", grant_file_limit_bytes(watched->grant, part->index)},
		{"usedBytes", part->used_bytes}, {"peakBytes", part->use.peak_bytes},
		{"wantedBytes", part->use.wanted_bytes}, {"refused", part->refused.refused},
		{"seenSeconds", part->use.seen_ns / NS_PER_S}};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
		r = json_set(object, texts[i].key, json_new_text(texts[i].text));
	for (size_t i = 0; i < ARRAY_SIZE(numbers) && r == 0; i++)
		r = json_set_number(object, numbers[i].key, numbers[i].value);
	if (r == 0)
		r = set_seconds(object, "memory", part->use.memory_ns);
	return r < 0 ? r : set_waited(object, part);
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

		if (shown++ == CONTAINERS_MAX)
			break;
		for (unsigned i = 0; i < watched->n_gpus && r == 0; i++)
			if (watched->gpus[i].looked)
				r = add_part(list, &watched->gpus[i]);
	}
	if (r == 0)
		r = json_set_number(page, "unitMiB", node->inventory.unit_mib);
	if (r == 0)
		r = add_gpus(page, node);
	text = r == 0 ? json_text(page) : NULL;
	return text ? strdup(text) : NULL;
}
