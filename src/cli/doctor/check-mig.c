/* Checks for GPUs that are divided by MIG on nodes of ration. */
#include "cli/doctor/cluster.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "cli/doctor/report.h"
#include "cli/fields.h"
#include "kube/gpu-name.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/facts.h"

static void tell(struct cluster *cluster, const char *node, struct json_object *gpu)
{
	const char *uuid = json_text_of(gpu, "uuid");
	char where[300], mend[1000];
	int64_t index;

	if (json_whole(json_member(gpu, "index"), 0, INT_MAX, &index) < 0 || !gpu_name_is_valid(uuid))
		return;
	snprintf(where, sizeof(where), "node %.253s", node);
	snprintf(mend, sizeof(mend),
		"nvidia-smi -i %" PRId64
		" -mig 0  # on the node, while no program uses the GPU; then: kubectl -n " NAMESPACE_SYSTEM
		" delete pod -l name=gpushare-device-plugin-ds --field-selector spec.nodeName=%.253s. Or leave the GPU to NVIDIA's device plugin",
		index, node);
	report_find(cluster->report, SEVERITY_WARNING, where, mend,
		"GPU %" PRId64 " (%s) is divided by MIG, and is not shared", index, uuid);
}

void check_mig(struct cluster *cluster, struct json_object *node, const struct node_facts *facts,
	const char *problem)
{
	const char *text = json_text_of(
		json_member(json_member(node, "metadata"), "annotations"), ANNOTATION_NODE_MIG);
	_cleanup_json_ struct json_object *list = NULL;

	if (!*text || json_parse(text, strlen(text), &list, NULL) < 0)
		return;
	for (size_t i = 0; i < json_count(list) && i < NODE_GPUS_MAX; i++)
		tell(cluster, facts->name, json_item(list, i));
}
