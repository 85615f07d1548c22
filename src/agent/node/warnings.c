#include "agent/node/warnings.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "agent/container/runtime.h"
#include "agent/events.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/placement.h"
#include "model/quantity.h"
#include "node/registry.h"

/* The resource under which another plugin offers whole GPUs, or parts of them; NULL if the node has no such
 * resource.
 * Allocatable is read, not capacity. When a plugin ends, the kubelet removes its devices from allocatable at
 * once, and leaves them in capacity for 5 minutes (devicemanager endpointStopGracePeriod, 1.36.3). Parts made
 * by MIG have resources of other names, and ration does not share such GPUs. */
static const char *find_resource(struct json_object *node)
{
	static const char *const resources[] = {RESOURCE_NVIDIA_GPU, RESOURCE_NVIDIA_SHARED};
	struct json_object *allocatable = json_member(json_member(node, "status"), "allocatable");

	for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
		const char *text = json_member_string(allocatable, resources[i]);
		int64_t count = 0;

		if (text && quantity_parse_count(text, &count) == 0 && count > 0)
			return resources[i];
	}
	return NULL;
}

void other_plugin_look(struct node_registry *node, const struct events *events, struct json_object *object)
{
	const char *resource = NULL;
	char text[sizeof(node->problems.other_plugin)] = "";

	if (gpu_mode_is_served(node->in_force) && node->inventory.n_gpus)
		resource = find_resource(object);
	if (resource)
		snprintf(text, sizeof(text),
			"another device plugin offers the GPUs of this node a second time, as %s: a pod that gets a GPU from it has no limit, and ration-scheduler gives the same GPU to other pods. Keep that plugin off this node (NVIDIA's GPU operator: kubectl label node %.253s " LABEL_NVIDIA_PLUGIN
			"=false --overwrite), or remove the node's label " LABEL_SCHEDULE,
			resource, node->name);
	if (strcmp(text, node->problems.other_plugin) == 0)
		return;
	memcpy(node->problems.other_plugin, text, sizeof(text));
	if (*text)
		event_on_node(events, NODE_REASON_ADVERTISED_TWICE, text);
	else
		log_info("no other device plugin offers the GPUs of this node any more");
}

void mig_report(struct node_registry *node, const struct events *events)
{
	char text[1024];

	if (!gpu_mode_is_served(node->asked.mode))
		return;
	for (size_t i = 0; i < node->inventory.n_mig; i++) {
		struct mig_gpu *gpu = &node->inventory.mig[i];

		if (gpu->told)
			continue;
		gpu->told = true;
		/* The driver lists a GPU again only to a process that opens its library again. */
		snprintf(text, sizeof(text),
			"GPU %u (%s) of node %s is divided by MIG, and is not shared: to share it, run \"nvidia-smi -i %u -mig 0\" on the node while no program uses the GPU, then \"kubectl -n " NAMESPACE_SYSTEM
			" delete pod -l name=gpushare-device-plugin-ds --field-selector spec.nodeName=%s\"; or leave it to NVIDIA's device plugin",
			gpu->index, gpu->uuid, node->name, gpu->index, node->name);
		event_on_node(events, "GPUDividedByMIG", text);
	}
}

/* NULL if the node has each GPU of the pod's placement. */
static const char *missing_gpu(const struct inventory *inventory, const struct pod_facts *pod)
{
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	size_t n = placement_gpus(&pod->placement, gpus);

	for (size_t i = 0; i < n; i++)
		if (!inventory_find(inventory, gpus[i]->uuid))
			return gpus[i]->uuid;
	return NULL;
}

void missing_gpus_report(struct node_registry *node, const struct events *events)
{
	void *value;

	if (!node->inventory.n_gpus)
		return;
	table_for_each (&node->pods.by_uid, cursor, value) {
		struct node_pod *pod = value;
		const struct pod_facts *facts = &pod->facts;
		const char *uuid = NULL;
		char text[1024];

		if (!pod->reported.gpu && facts->has_placement && !facts->finished && !facts->deleting)
			uuid = missing_gpu(&node->inventory, facts);
		if (!uuid)
			continue;
		pod->reported.gpu = true;
		snprintf(text, sizeof(text),
			"pod %s/%s was placed on GPU %s, which its node does not have: another machine has taken the node's name, or the GPU was removed. A container that starts there has no GPU. To place the pod anew: kubectl -n %s delete pod %s",
			facts->namespace_, facts->name, uuid, facts->namespace_, facts->name);
		event_on_pod(events, facts, "GPUNotOnNode", text);
	}
}

char *mig_to_json(const struct inventory *inventory)
{
	_cleanup_json_ struct json_object *list = json_object_new_array();
	const char *text;

	for (size_t i = 0; list && i < inventory->n_mig; i++) {
		struct json_object *gpu = json_object_new_object();

		if (!gpu || json_object_array_add(list, gpu) < 0) {
			json_object_put(gpu);
			return NULL;
		}
		if (json_set(gpu, "index", json_object_new_int64(inventory->mig[i].index)) < 0 ||
			json_set(gpu, "uuid", json_object_new_string(inventory->mig[i].uuid)) < 0)
			return NULL;
	}
	text = list ? json_text(list) : NULL;
	return text ? strdup(text) : NULL;
}

#define LOOK_NS (10 * NS_PER_S) /* the links may have been made meanwhile */
#define ASK_NS (60 * NS_PER_S)	/* runc or containerd's configuration may have changed */

/* Reads names and links in /dev of the host. The agent's container has a /dev of its own, without /dev/char.
 */
static void look_at_links(struct device_loss *loss, struct runtime *runtime, const char *proc)
{
	char dev[PATH_MAX];

	if (monotonic_ns() < loss->look_ns)
		return;
	snprintf(dev, sizeof(dev), "%s/1/root/dev", proc);
	loss->links = device_links_look(dev);
	loss->look_ns = monotonic_ns() + LOOK_NS;
	if (monotonic_ns() < loss->ask_ns)
		return;
	if (loss->ask_ns)
		runtime_ask(runtime);
	loss->ask_ns = monotonic_ns() + ASK_NS;
}

void device_loss_look(struct device_loss *loss, struct node_registry *node, const struct events *events,
	struct runtime *runtime, const char *proc)
{
	const char *version = runtime_runc_version(runtime);
	char text[sizeof(node->problems.device_loss)] = "";

	if (gpu_mode_is_served(node->in_force) && node->inventory.n_gpus && runc_drops_devices(version)) {
		look_at_links(loss, runtime, proc);
		if (loss->links == DEVICE_LINKS_MISSING)
			snprintf(text, sizeof(text),
				"containers of this node lose their GPUs at the next \"systemctl daemon-reload\": runc %s with the systemd cgroup driver leaves out devices that have no link in /dev/char (opencontainers/runc#3846), and NVIDIA's devices have none. Run \"" DEVICE_LINKS_COMMAND
				"\" on the node, at each boot before GPU pods start, or install runc 1.1.7 or later; pods that run now have to be started again",
				version);
	}
	if (strcmp(text, node->problems.device_loss) == 0)
		return;
	memcpy(node->problems.device_loss, text, sizeof(text));
	if (*text)
		event_on_node(events, NODE_REASON_DEVICE_LOSS, text);
	else
		log_info("containers keep their GPUs when systemd loads its units anew");
}
