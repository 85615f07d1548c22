#include "agent/node/other-plugin.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "agent/events.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/quantity.h"
#include "node/registry.h"

/* The resource under which another plugin offers whole GPUs, or parts of them; NULL if there is none.
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
