/* Checks for other device plugins that offer the GPUs of a node a second time. */
#include "cli/doctor/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "cli/doctor/report.h"
#include "cli/fields.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/facts.h"
#include "model/quantity.h"

#define WHERE_SIZE 300
#define MEND_SIZE 1500

/* The label that makes ration use the node; an affinity against it keeps other device plugins away. */
static const char *label_of(struct json_object *labels)
{
	if (json_member(labels, LABEL_SCHEDULE))
		return LABEL_SCHEDULE;
	if (strcmp(json_text_of(labels, LABEL_LEGACY_SHARE), "true") == 0)
		return LABEL_LEGACY_SHARE;
	return strcmp(json_text_of(labels, LABEL_LEGACY_CGPU), "true") == 0 ? LABEL_LEGACY_CGPU
									    : LABEL_SCHEDULE;
}

static void mend_by_operator(const char *node, char mend[MEND_SIZE])
{
	snprintf(
		mend, MEND_SIZE, "kubectl label node %.253s " LABEL_NVIDIA_PLUGIN "=false --overwrite", node);
}

/* The pods of a DaemonSet leave a node that its affinity no longer selects. A patch replaces the whole list
 * of terms, so the user must edit a DaemonSet that has terms. */
static void mend_by_owner(struct json_object *pod, const char *key, char mend[MEND_SIZE])
{
	const char *namespace_ = json_text_of(pod, "namespace"), *owner = json_text_of(pod, "daemonset");

	if (!*owner)
		snprintf(mend, MEND_SIZE,
			"kubectl -n %.253s get pod %.253s -o jsonpath='{.metadata.ownerReferences}'  # keep it off: nodeSelector or affinity !%s",
			namespace_, json_text_of(pod, "pod"), key);
	else if (json_object_get_boolean(json_member(pod, "affinity")))
		snprintf(mend, MEND_SIZE,
			"kubectl -n %.253s edit daemonset %.253s  # add to the matchExpressions of each of its nodeSelectorTerms: {key: %s, operator: DoesNotExist}",
			namespace_, owner, key);
	else
		snprintf(mend, MEND_SIZE,
			"kubectl -n %.253s patch daemonset %.253s -p '{\"spec\":{\"template\":{\"spec\":"
			"{\"affinity\":{\"nodeAffinity\":{"
			"\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":"
			"[{\"matchExpressions\":[{\"key\":\"%s\",\"operator\":\"DoesNotExist\"}]}]}}}}}}}'",
			namespace_, owner, key);
}

/* Reports the device plugins whose pods are known by name or image. Returns their number. */
static size_t tell_pods(
	struct cluster *cluster, struct json_object *labels, const char *node, const char *where)
{
	struct json_object *there = json_member(cluster->pods.foreign, node);
	char mend[MEND_SIZE];

	for (size_t i = 0; i < json_count(there); i++) {
		struct json_object *pod = json_item(there, i);

		if (json_object_get_boolean(json_member(pod, "operator")))
			mend_by_operator(node, mend);
		else
			mend_by_owner(pod, label_of(labels), mend);
		report_find(cluster->report, SEVERITY_ERROR, where, mend,
			"%s runs there too (pod %s/%s) and offers the same GPUs as %s",
			json_text_of(pod, "what"), json_text_of(pod, "namespace"), json_text_of(pod, "pod"),
			json_text_of(pod, "resource"));
	}
	return json_count(there);
}

void check_foreign_plugins(struct cluster *cluster, struct json_object *node, const struct node_facts *facts)
{
	static const char *const resources[] = {RESOURCE_NVIDIA_GPU, RESOURCE_NVIDIA_SHARED};
	/* The kubelet keeps the resource in capacity for 5 minutes after the plugin has ended, but not in
	 * allocatable. */
	struct json_object *allocatable = json_member(json_member(node, "status"), "allocatable");
	struct json_object *labels = json_member(json_member(node, "metadata"), "labels");
	char where[WHERE_SIZE], mend[MEND_SIZE];

	if (!cluster_is_gpu_node(node, facts))
		return;
	snprintf(where, sizeof(where), "node %.253s", facts->name);
	if (tell_pods(cluster, labels, facts->name, where))
		return;
	if (json_member(labels, LABEL_NVIDIA_PLUGIN))
		mend_by_operator(facts->name, mend);
	else
		snprintf(mend, sizeof(mend),
			"kubectl get pods -A -o wide --field-selector spec.nodeName=%.253s | grep -i device-plugin  # keep it off this node: docs/guide/other-gpu-software.md",
			facts->name);
	for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
		int64_t count = 0;

		if (quantity_parse_count(json_text_of(allocatable, resources[i]), &count) == 0 && count > 0)
			report_find(cluster->report, SEVERITY_ERROR, where, mend,
				"it offers its GPUs a second time, as %s: %" PRId64, resources[i], count);
	}
}
