#include "agent/node/topology.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/names.h"
#include "node/registry.h"

#define COLLECTION "/api/v1/namespaces/" NAMESPACE_SYSTEM "/configmaps"
#define TIMEOUT_MS 10000
#define RETRY_NS (30 * NS_PER_S)
#define NAME_MAX_LEN 253

struct topology {
	struct kube_client *client;
	const struct node_registry *node;
	struct kube_request *request;
	char *written, *sending; /* bodies */
	bool complained;
	int64_t not_before_ns; /* after a failure */
};

int topology_new(struct kube_client *client, const struct node_registry *node, struct topology **ret_topology)
{
	struct topology *topology = calloc(1, sizeof(*topology));

	if (!topology)
		return -ENOMEM;
	topology->client = client;
	topology->node = node;
	*ret_topology = topology;
	return 0;
}

void topology_free(struct topology *topology)
{
	if (!topology)
		return;
	kube_request_cancel(topology->request);
	free(topology->written);
	free(topology->sending);
	free(topology);
}

/* ---- what it says ---- */

static int add_devices(struct json_object *data, const struct inventory *inventory)
{
	_cleanup_json_ struct json_object *devices = json_object_new_object();
	char index[16];

	for (size_t i = 0; i < inventory->n_gpus; i++) {
		const struct gpu_facts *gpu = &inventory->gpus[i].facts;

		snprintf(index, sizeof(index), "%d", gpu->index);
		if (json_set_text(devices, index, gpu->healthy ? "Healthy" : "Unhealthy") < 0)
			return -ENOMEM;
	}
	return json_set_text(data, "devices", json_text(devices));
}

static struct json_object *cell(const struct inventory *inventory, size_t a, size_t b, bool bandwidth)
{
	const struct gpu_details *gpu = &inventory->gpus[a].details;
	char text[LINK_TEXT_SIZE];

	if (bandwidth)
		return json_object_new_int64(
			a == b ? 0
			       : link_gbps(gpu->links[b], gpu->nvlink_gbps ? gpu->nvlink_gbps : NVLINK_GBPS));
	return json_object_new_string(a == b ? "N-A" : link_text(gpu->links[b], text));
}

static int add_row(struct json_object *rows, const struct inventory *inventory, size_t a, bool bandwidth)
{
	struct json_object *row = json_object_new_array();

	if (!row || json_object_array_add(rows, row) < 0) {
		json_object_put(row);
		return -ENOMEM;
	}
	for (size_t b = 0; b < inventory->n_gpus; b++) {
		struct json_object *value = cell(inventory, a, b, bandwidth);

		if (!value || json_object_array_add(row, value) < 0) {
			json_object_put(value);
			return -ENOMEM;
		}
	}
	return 0;
}

/* Arena reads the bandwidths under a name that lacks a letter. */
static int add_matrices(struct json_object *data, const struct inventory *inventory)
{
	static const char *const keys[] = {"linkType", "bandwidth", "bandwith"};

	for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
		_cleanup_json_ struct json_object *rows = json_object_new_array();

		for (size_t a = 0; rows && a < inventory->n_gpus; a++)
			if (add_row(rows, inventory, a, k > 0) < 0)
				return -ENOMEM;
		if (json_set_text(data, keys[k], rows ? json_text(rows) : NULL) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_owner(struct json_object *meta, const struct node_registry *node)
{
	struct json_object *list = json_object_new_array(), *owner = json_object_new_object();

	if (json_set(meta, "ownerReferences", list) < 0) {
		json_object_put(owner);
		return -ENOMEM;
	}
	if (!owner || json_object_array_add(list, owner) < 0) {
		json_object_put(owner);
		return -ENOMEM;
	}
	if (json_set_text(owner, "apiVersion", "v1") < 0 || json_set_text(owner, "kind", "Node") < 0 ||
		json_set_text(owner, "name", node->name) < 0)
		return -ENOMEM;
	return json_set_text(owner, "uid", node->uid);
}

static int add_metadata(struct json_object *map, const struct node_registry *node, const char *name)
{
	struct json_object *meta = json_object_new_object(), *labels = json_object_new_object();

	if (json_set(map, "metadata", meta) < 0) {
		json_object_put(labels);
		return -ENOMEM;
	}
	if (json_set(meta, "labels", labels) < 0 || json_set_text(meta, "name", name) < 0 ||
		json_set_text(meta, "namespace", NAMESPACE_SYSTEM) < 0 ||
		json_set_text(labels, LABEL_SCHEDULE, gpu_mode_text(GPU_MODE_TOPOLOGY)) < 0 ||
		json_set_text(labels, CONFIG_MAP_TOPOLOGY_NODE_LABEL, node->name) < 0 ||
		json_set_text(labels, CONFIG_MAP_TOPOLOGY_LABEL, "agent") < 0)
		return -ENOMEM;
	return add_owner(meta, node);
}

static char *map_text(const struct node_registry *node, const char *name)
{
	_cleanup_json_ struct json_object *map = json_object_new_object();
	struct json_object *data = json_object_new_object();
	const char *text;

	if (!map || json_set(map, "data", data) < 0)
		return NULL;
	if (json_set_text(map, "apiVersion", "v1") < 0 || json_set_text(map, "kind", "ConfigMap") < 0 ||
		add_metadata(map, node, name) < 0 || add_devices(data, &node->inventory) < 0 ||
		add_matrices(data, &node->inventory) < 0)
		return NULL;
	text = json_text(map);
	return text ? strdup(text) : NULL;
}

/* ---- writing it ---- */

static int send(struct topology *topology, const char *method, kube_response_fn fn)
{
	bool creates = strcmp(method, "POST") == 0;
	char path[600];

	snprintf(path, sizeof(path), "%s%s%s", COLLECTION, creates ? "" : "/" CONFIG_MAP_TOPOLOGY_PREFIX,
		creates ? "" : topology->node->name);
	return kube_request(topology->client, method, path,
		creates ? KUBE_CONTENT_JSON : KUBE_CONTENT_MERGE_PATCH, topology->sending, TIMEOUT_MS, fn,
		topology, &topology->request);
}

static void ended(struct topology *topology, const struct kube_response *response)
{
	bool ok = response->result == 0 && response->status < 300;

	if (ok) {
		free(topology->written);
		topology->written = TAKE_PTR(topology->sending);
	} else {
		topology->not_before_ns = monotonic_ns() + RETRY_NS;
	}
	if (!ok && !topology->complained)
		log_warning("cannot write the ConfigMap %s/" CONFIG_MAP_TOPOLOGY_PREFIX
			    "%s: %s; trying again. The scheduler does not need it",
			NAMESPACE_SYSTEM, topology->node->name, response->text);
	topology->complained = !ok;
}

static void on_created(void *userdata, const struct kube_response *response)
{
	struct topology *topology = userdata;

	topology->request = NULL;
	ended(topology, response);
}

static void on_patched(void *userdata, const struct kube_response *response)
{
	struct topology *topology = userdata;

	topology->request = NULL;
	if (response->result == 0 && response->status == 404 && send(topology, "POST", on_created) == 0)
		return;
	ended(topology, response);
}

void topology_update(struct topology *topology)
{
	const struct node_registry *node = topology->node;
	char name[sizeof(CONFIG_MAP_TOPOLOGY_PREFIX) + NAME_MAX_LEN];
	char *text;

	/* A node with a longer name cannot have this ConfigMap; and a label's value has at most 63
	 * characters. */
	if (!node_registry_offers(node, IDS_OF_GPUS) || !node->uid[0] || topology->request ||
		monotonic_ns() < topology->not_before_ns || strlen(node->name) > 63)
		return;
	snprintf(name, sizeof(name), CONFIG_MAP_TOPOLOGY_PREFIX "%s", node->name);
	text = map_text(node, name);
	if (!text || (topology->written && strcmp(text, topology->written) == 0)) {
		free(text);
		return;
	}
	free(topology->sending);
	topology->sending = text;
	if (send(topology, "PATCH", on_patched) < 0)
		topology->not_before_ns = monotonic_ns() + RETRY_NS;
}
