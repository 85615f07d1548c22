#include "agent/node/mig.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "agent/events.h"
#include "base/cleanup.h"
#include "kube/json.h"
#include "kube/names.h"
#include "node/registry.h"

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
