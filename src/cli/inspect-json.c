#include "cli/inspect-text.h"

#include <errno.h>
#include <stdio.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/inspect.h"
#include "kube/json.h"

static int append(struct json_object *list, struct json_object *item)
{
	if (!item)
		return -ENOMEM;
	if (json_object_array_add(list, item) < 0) {
		json_object_put(item);
		return -ENOMEM;
	}
	return 0;
}

static struct json_object *card_object(const struct inspect_card *card)
{
	_cleanup_json_ struct json_object *object = json_object_new_object();

	if (!object || json_set(object, "index", json_object_new_int(card->column)) < 0 ||
		json_set(object, "uuid", json_object_new_string(card->uuid)) < 0 ||
		json_set(object, "model", json_object_new_string(card->model)) < 0 ||
		json_set(object, "healthy", json_object_new_boolean(card->healthy)) < 0 ||
		json_set(object, "total", json_object_new_uint64(card->total)) < 0 ||
		json_set(object, "allocated", json_object_new_uint64(card->allocated)) < 0)
		return NULL;
	return TAKE_PTR(object);
}

static struct json_object *units_object(const struct inspect_pod *pod)
{
	_cleanup_json_ struct json_object *object = json_object_new_object();
	char index[16];

	for (int i = 0; object && i < NODE_GPUS_MAX; i++) {
		if (!pod->units[i])
			continue;
		snprintf(index, sizeof(index), "%d", i);
		if (json_set(object, index, json_object_new_uint64(pod->units[i])) < 0)
			return NULL;
	}
	return TAKE_PTR(object);
}

static struct json_object *pod_object(const struct inspect_pod *pod)
{
	_cleanup_json_ struct json_object *object = json_object_new_object();

	if (!object || json_set(object, "namespace", json_object_new_string(pod->namespace_)) < 0 ||
		json_set(object, "name", json_object_new_string(pod->name)) < 0 ||
		json_set(object, "allocated", units_object(pod)) < 0 ||
		json_set(object, "pending", json_object_new_uint64(pod->pending)) < 0)
		return NULL;
	return TAKE_PTR(object);
}

static struct json_object *node_object(const struct inspect_node *node)
{
	_cleanup_json_ struct json_object *object = json_object_new_object();
	_cleanup_json_ struct json_object *cards = json_object_new_array();
	_cleanup_json_ struct json_object *pods = json_object_new_array();

	if (!object || !cards || !pods)
		return NULL;
	for (size_t i = 0; i < node->n_cards; i++)
		if (append(cards, card_object(&node->cards[i])) < 0)
			return NULL;
	for (size_t i = 0; i < node->n_pods; i++)
		if (append(pods, pod_object(&node->pods[i])) < 0)
			return NULL;
	if (json_set(object, "name", json_object_new_string(node->name)) < 0 ||
		json_set(object, "address", json_object_new_string(node->address)) < 0 ||
		json_set(object, "mode", json_object_new_string(gpu_mode_text(node->mode))) < 0 ||
		json_set(object, "unitMiB", json_object_new_uint64(node->unit_mib)) < 0 ||
		json_set(object, "total", json_object_new_uint64(node->total)) < 0 ||
		json_set(object, "allocated", json_object_new_uint64(node->allocated)) < 0 ||
		json_set(object, "pending", json_object_new_uint64(node->pending)) < 0 ||
		json_set(object, "gpus", TAKE_PTR(cards)) < 0 || json_set(object, "pods", TAKE_PTR(pods)) < 0)
		return NULL;
	return TAKE_PTR(object);
}

int inspect_json(const struct inspect *inspect, struct strbuf *out)
{
	_cleanup_json_ struct json_object *object = json_object_new_object();
	_cleanup_json_ struct json_object *nodes = json_object_new_array();
	uint64_t allocated, total;
	const char *text;

	if (!object || !nodes)
		return -ENOMEM;
	for (size_t i = 0; i < inspect->n_nodes; i++)
		if (append(nodes, node_object(inspect->nodes[i])) < 0)
			return -ENOMEM;
	inspect_totals(inspect, &allocated, &total);
	if (json_set(object, "nodes", TAKE_PTR(nodes)) < 0 ||
		json_set(object, "allocated", json_object_new_uint64(allocated)) < 0 ||
		json_set(object, "total", json_object_new_uint64(total)) < 0 ||
		json_set(object, "percent", json_object_new_uint64(percent_of(allocated, total))) < 0)
		return -ENOMEM;
	text = json_object_to_json_string_ext(
		object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (!text)
		return -ENOMEM;
	return strbuf_addf(out, "%s\n", text);
}
