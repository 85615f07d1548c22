/* Checks of each node: its agent, the resources that it offers, its GPUs, its kubelet, and MIG. */
#include "cli/doctor/cluster.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "cli/doctor/report.h"
#include "cli/fields.h"
#include "kube/gpu-name.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/facts.h"
#include "model/quantity.h"

#define WHERE_SIZE 300
#define MEND_SIZE 700

static const char *node_text(const char *name, char buf[WHERE_SIZE])
{
	snprintf(buf, WHERE_SIZE, "node %.253s", name);
	return buf;
}

static const char *annotation(struct json_object *node, const char *key)
{
	return json_text_of(json_member(json_member(node, "metadata"), "annotations"), key);
}

/* The mode that the labels ask for; GPU_MODE_NONE if this version does not serve it. */
static enum gpu_mode mode_asked(struct json_object *labels)
{
	enum gpu_mode mode = GPU_MODE_NONE;

	if (json_member(labels, LABEL_SCHEDULE))
		return gpu_mode_parse(json_text_of(labels, LABEL_SCHEDULE), &mode) == 0 &&
				       gpu_mode_is_served(mode)
			       ? mode
			       : GPU_MODE_NONE;
	if (strcmp(json_text_of(labels, LABEL_LEGACY_SHARE), "true") == 0)
		return GPU_MODE_SHARE;
	return strcmp(json_text_of(labels, LABEL_LEGACY_CGPU), "true") == 0 ? GPU_MODE_CGPU : GPU_MODE_NONE;
}

bool cluster_is_gpu_node(struct json_object *node, const struct node_facts *facts)
{
	return facts->mode != GPU_MODE_NONE ||
	       mode_asked(json_member(json_member(node, "metadata"), "labels")) != GPU_MODE_NONE;
}

/* The agent offers all devices: the node takes new pods. */
static bool is_open(struct json_object *node)
{
	return !*annotation(node, ANNOTATION_NODE_PROBLEM) &&
	       !*annotation(node, ANNOTATION_NODE_MODE_PENDING) &&
	       !*annotation(node, ANNOTATION_NODE_UNIT_PENDING);
}

/* Reports a change that waits for the last GPU pod of the node to end, and that keeps new pods away until
 * then. */
static void tell_pending(
	struct report *report, struct json_object *node, const char *where, const char *key, const char *what)
{
	if (*annotation(node, key))
		report_find(report, SEVERITY_NOTE, where, "",
			"its %s changes to %.60s when the last GPU pod there has ended; until then no new ones go there",
			what, annotation(node, key));
}

/* Reports the reasons of the node's condition with which the node still serves. check_foreign_plugins()
 * reports GPUs that are advertised twice. */
static void tell_noted(struct report *report, struct json_object *node, const char *where)
{
	struct json_object *conditions = json_member(json_member(node, "status"), "conditions");

	for (size_t i = 0; i < json_count(conditions); i++) {
		struct json_object *condition = json_item(conditions, i);

		const char *reason = json_text_of(condition, "reason");

		if (strcmp(json_text_of(condition, "type"), NODE_CONDITION_PROBLEM) == 0 &&
			(strcmp(reason, NODE_REASON_UNKNOWN_FUNCTIONS) == 0 ||
				strcmp(reason, NODE_REASON_DEVICE_LOSS) == 0))
			report_find(report, SEVERITY_WARNING, where, "", "its ration-agent says: %.500s",
				json_text_of(condition, "message"));
	}
}

void check_agents(struct cluster *cluster, struct json_object *node, const struct node_facts *facts)
{
	struct json_object *agent = json_member(cluster->pods.agents, facts->name), *lease;
	char where[WHERE_SIZE], mend[MEND_SIZE], name[320];
	struct report *report = cluster->report;

	if (!cluster_is_gpu_node(node, facts))
		return;
	node_text(facts->name, where);
	snprintf(name, sizeof(name), LEASE_NODE_PREFIX "%s", facts->name);
	lease = json_member(cluster->leases, name);
	if (!agent) {
		report_find(report, SEVERITY_ERROR, where,
			"kubectl -n " NAMESPACE_SYSTEM " describe daemonset gpushare-device-plugin-ds",
			"no ration-agent runs there, so no pod gets its GPUs (does it have a taint, or does the chart's nodeSelector leave it out?)");
		return;
	}
	snprintf(mend, sizeof(mend), "kubectl -n %s logs %s -c ration-agent",
		json_text_of(agent, "namespace"), json_text_of(agent, "pod"));
	if (!lease)
		report_find(report, SEVERITY_ERROR, where, mend,
			"its ration-agent has no Lease " NAMESPACE_SYSTEM "/%s: it does not serve", name);
	else if (cluster_lease_is_stale(cluster, lease))
		report_find(report, SEVERITY_ERROR, where, mend,
			"its ration-agent no longer renews the Lease " NAMESPACE_SYSTEM
			"/%s: no new pods go there",
			name);
	if (*annotation(node, ANNOTATION_NODE_PROBLEM))
		report_find(report, SEVERITY_ERROR, where, mend, "its ration-agent says: %.600s",
			annotation(node, ANNOTATION_NODE_PROBLEM));
	else if (!facts->serving)
		report_find(report, SEVERITY_WARNING, where, mend,
			"its ration-agent %s (" ANNOTATION_NODE_SERVING "=false): no new pods go there",
			json_object_get_boolean(json_member(agent, "ends"))
				? "is about to stop"
				: "has started, and the kubelet does not have its devices yet");
	tell_noted(report, node, where);
	tell_pending(report, node, where, ANNOTATION_NODE_MODE_PENDING, "mode");
	tell_pending(report, node, where, ANNOTATION_NODE_UNIT_PENDING, "unit (MiB)");
}

static int64_t quantity(struct json_object *list, const char *resource)
{
	int64_t value = 0;

	return quantity_parse_count(json_text_of(list, resource), &value) == 0 ? value : 0;
}

/* The amounts of gpu-mem, or of whole GPUs on a topology node. */
struct offer {
	const char *resource;
	uint64_t units, healthy;
	int64_t capacity, allocatable, core, count;
};

static struct offer offer_of(struct json_object *node, const struct node_facts *facts)
{
	struct json_object *status = json_member(node, "status");
	struct json_object *capacity = json_member(status, "capacity");
	const char *resource = facts->mode == GPU_MODE_TOPOLOGY ? RESOURCE_GPU : RESOURCE_GPU_MEM;
	struct offer offer = {.resource = resource,
		.capacity = quantity(capacity, resource),
		.allocatable = quantity(json_member(status, "allocatable"), resource),
		.core = quantity(capacity, RESOURCE_GPU_CORE),
		.count = quantity(capacity, RESOURCE_GPU_COUNT)};

	/* Claims get GPUs from a ResourceSlice. */
	for (size_t i = 0; facts->mode != GPU_MODE_DRA && i < facts->n_gpus; i++) {
		uint64_t units = gpu_mode_units(facts->mode, facts->gpus[i].mib, facts->unit_mib);

		offer.units += units;
		offer.healthy += facts->gpus[i].healthy ? units : 0;
	}
	return offer;
}

static void check_offer(struct cluster *cluster, struct json_object *node, const struct node_facts *facts,
	const struct offer *offer, const char *where, const char *mend)
{
	bool whole = facts->mode == GPU_MODE_TOPOLOGY;
	char units[64];

	if (whole)
		snprintf(units, sizeof(units), "%" PRIu64 " of them", offer->units);
	else
		snprintf(units, sizeof(units), "%" PRIu64 " units of %u MiB", offer->units, facts->unit_mib);
	if ((uint64_t)offer->capacity != offer->units)
		report_find(cluster->report, SEVERITY_ERROR, where, mend,
			"capacity has %" PRId64 " of %s, but its GPUs are %s", offer->capacity,
			offer->resource, units);
	else if ((uint64_t)offer->allocatable < offer->healthy && facts->serving && is_open(node))
		report_find(cluster->report, SEVERITY_WARNING, where, mend,
			"only %" PRId64 " of %s are allocatable, but its healthy GPUs are %" PRIu64 "%s",
			offer->allocatable, offer->resource, offer->healthy, whole ? "" : " units");
}

/* Checks gpu-core.percentage and gpu-count. */
static void check_companions(struct cluster *cluster, const struct node_facts *facts,
	const struct offer *offer, const char *where, const char *mend)
{
	int64_t core = facts->mode == GPU_MODE_CORE_MEM ? (int64_t)facts->n_gpus * CORE_PER_GPU : 0;
	bool counted = facts->mode != GPU_MODE_TOPOLOGY && facts->mode != GPU_MODE_DRA;
	int64_t count = counted ? (int64_t)facts->n_gpus : 0;

	if (offer->core != core)
		report_find(cluster->report, SEVERITY_ERROR, where, mend,
			"capacity has %" PRId64 " of " RESOURCE_GPU_CORE ", and %" PRId64 " is right",
			offer->core, core);
	if (offer->count != count)
		report_find(cluster->report, SEVERITY_WARNING, where, mend,
			"capacity has %" PRId64 " of " RESOURCE_GPU_COUNT ", but it has %zu GPUs",
			offer->count, facts->n_gpus);
}

static void check_closed(struct cluster *cluster, struct json_object *node, const struct offer *offer,
	const char *where, const char *mend)
{
	if (offer->capacity && !*annotation(node, ANNOTATION_NODE_PROBLEM))
		report_find(cluster->report, SEVERITY_ERROR, where, mend,
			"it offers %" PRId64 " of " RESOURCE_GPU_MEM
			" although no mode is in force there: pods that ask for it wait forever, or get GPUs that another device plugin offers",
			offer->capacity);
}

void check_capacity(struct cluster *cluster, struct json_object *node, const struct node_facts *facts)
{
	struct offer offer = offer_of(node, facts);
	char where[WHERE_SIZE], mend[MEND_SIZE];

	node_text(facts->name, where);
	snprintf(mend, sizeof(mend),
		"kubectl -n " NAMESPACE_SYSTEM
		" delete pod -l name=gpushare-device-plugin-ds --field-selector spec.nodeName=%s",
		facts->name);
	if (*cluster->malformed) {
		report_find(cluster->report, SEVERITY_ERROR, where, mend,
			"the annotations of its ration-agent are malformed: %.500s", cluster->malformed);
		return;
	}
	if (facts->mode == GPU_MODE_NONE) {
		check_closed(cluster, node, &offer, where, mend);
		return;
	}
	check_offer(cluster, node, facts, &offer, where, mend);
	check_companions(cluster, facts, &offer, where, mend);
}

#define DECLARED "declared faulty by ConfigMap " NAMESPACE_SYSTEM "/"

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* The driver reported the fault (nvml/watch.h); the other reasons are from a user. */
static bool is_fault_of_driver(const char *reason)
{
	return begins(reason, "Xid ") || begins(reason, "uncorrectable ECC") ||
	       begins(reason, "does not answer");
}

/* The name of the ConfigMap becomes part of a command, so it must be one of the two names for this node. */
static bool names_list(const char *reason, const char *node, char list[WHERE_SIZE])
{
	const char *name = reason + strlen(DECLARED);

	if (!begins(reason, DECLARED))
		return false;
	if (begins(name, "unhealthy-gpu-"))
		snprintf(list, WHERE_SIZE, "unhealthy-gpu-%.253s", node);
	else
		snprintf(list, WHERE_SIZE, "%.253s-device-status", node);
	return begins(name, list) && strcspn(name, ": ") == strlen(list);
}

/* NVIDIA's catalogue of Xids (docs.nvidia.com/deploy/xid-errors) names a reset of the GPU or a reboot of the
 * node for every fault that no program has caused, and NVIDIA's support if it returns. A GPU can be reset
 * only while no process has it open, not even a monitoring program (nvidia-smi(1), --gpu-reset), and the
 * agent has it open. A driver before 550 does not report that a reset has helped. So the command is a reboot,
 * which also resets. */
static void mend_gpu(const char *node, int index, const char *reason, char mend[MEND_SIZE])
{
	char list[WHERE_SIZE];

	if (begins(reason, "cordoned"))
		snprintf(mend, MEND_SIZE, "ration uncordon %s %d", node, index);
	else if (is_fault_of_driver(reason))
		snprintf(mend, MEND_SIZE,
			"kubectl drain %s --ignore-daemonsets --delete-emptydir-data  # then reboot the node, which resets its GPUs, and: kubectl uncordon %s. If it returns, take the GPU out (ration cordon %s %d) and see docs.nvidia.com/deploy/xid-errors",
			node, node, node, index);
	else if (names_list(reason, node, list))
		snprintf(mend, MEND_SIZE, "kubectl -n " NAMESPACE_SYSTEM " edit configmap %s", list);
	else
		snprintf(mend, MEND_SIZE,
			"kubectl get events --field-selector involvedObject.kind=Node,involvedObject.name=%s",
			node);
}

void check_gpus(struct cluster *cluster, struct json_object *node, const struct node_facts *facts)
{
	char where[WHERE_SIZE], mend[MEND_SIZE];

	node_text(facts->name, where);
	for (size_t i = 0; i < facts->n_gpus; i++) {
		const struct gpu_facts *gpu = &facts->gpus[i];
		const char *reason = facts->details[i].reason;

		if (gpu->healthy)
			continue;
		mend_gpu(facts->name, gpu->index, reason, mend);
		if (begins(reason, "cordoned"))
			report_find(cluster->report, SEVERITY_WARNING, where, mend,
				"GPU %d (%s) takes no new pods: %s", gpu->index, gpu->uuid, reason);
		else
			report_find(cluster->report,
				is_fault_of_driver(reason) ? SEVERITY_ERROR : SEVERITY_WARNING, where, mend,
				"GPU %d (%s) is faulty: no new pods go there%s%s", gpu->index, gpu->uuid,
				*reason ? "; " : "", reason);
	}
}

/* A kubelet that takes no CDI devices starts a container nevertheless, without its GPU. The feature gate is
 * alpha in 1.28, on by default from 1.29, and removed in 1.34 (Kubernetes 1.36.3, kubelet's devicemanager).
 */
static void check_kubelet(struct cluster *cluster, const char *where, const char *kubelet)
{
	unsigned int major = 0, minor = 0;

	if (sscanf(kubelet, "v%u.%u", &major, &minor) != 2 || major > 1 || minor >= 29)
		return;
	report_find(cluster->report, minor == 28 ? SEVERITY_WARNING : SEVERITY_ERROR, where, "",
		"its kubelet %.60s takes no CDI devices from device plugins%s: containers start without their GPU; upgrade it to 1.29 or later",
		kubelet, minor == 28 ? ", unless its feature gate DevicePluginCDIDevices is set" : "");
}

/* "containerd://2.1.4". ACK's documents name containerd 1.4.3; CDI came with 1.7, and is on since 2.0. */
void check_runtime(struct cluster *cluster, struct json_object *node, const struct node_facts *facts)
{
	struct json_object *info = json_member(json_member(node, "status"), "nodeInfo");
	const char *runtime = json_text_of(info, "containerRuntimeVersion");
	unsigned int major = 0, minor = 0;
	char where[WHERE_SIZE];

	if (!cluster_is_gpu_node(node, facts))
		return;
	node_text(facts->name, where);
	if (sscanf(runtime, "cri-o://%u.%u", &major, &minor) == 2) {
		if (major < 1 || (major == 1 && minor < 34))
			report_find(cluster->report, SEVERITY_WARNING, where, "ration doctor --node",
				"its container runtime is %.60s; the oldest CRI-O that ration was tried with is 1.34",
				runtime);
	} else if (sscanf(runtime, "containerd://%u.%u", &major, &minor) != 2)
		report_find(cluster->report, SEVERITY_WARNING, where, "ration doctor --node",
			"its container runtime is %.60s; ration was tried with containerd and CRI-O only",
			*runtime ? runtime : "unknown");
	else if (major < 1 || (major == 1 && minor < 7))
		report_find(cluster->report, SEVERITY_ERROR, where, "ration doctor --node",
			"%.60s does not support CDI: upgrade to 1.7 or later (with enable_cdi), or to 2.0",
			runtime);
	check_kubelet(cluster, where, json_text_of(info, "kubeletVersion"));
}

/* ---- GPUs that are divided by MIG ---- */

static void tell_mig(struct cluster *cluster, const char *node, struct json_object *gpu)
{
	const char *uuid = json_text_of(gpu, "uuid");
	char where[WHERE_SIZE], mend[MEND_SIZE];
	int64_t index;

	if (json_whole(json_member(gpu, "index"), 0, INT_MAX, &index) < 0 || !gpu_name_is_valid(uuid))
		return;
	snprintf(mend, sizeof(mend),
		"nvidia-smi -i %" PRId64
		" -mig 0  # on the node, while no program uses the GPU; then: kubectl -n " NAMESPACE_SYSTEM
		" delete pod -l name=gpushare-device-plugin-ds --field-selector spec.nodeName=%.253s. Or leave the GPU to NVIDIA's device plugin",
		index, node);
	report_find(cluster->report, SEVERITY_WARNING, node_text(node, where), mend,
		"GPU %" PRId64 " (%s) is divided by MIG, and is not shared", index, uuid);
}

void check_mig(struct cluster *cluster, struct json_object *node, const struct node_facts *facts)
{
	const char *text = annotation(node, ANNOTATION_NODE_MIG);
	_cleanup_json_ struct json_object *list = NULL;

	if (!*text || json_parse(text, strlen(text), &list, NULL) < 0)
		return;
	for (size_t i = 0; i < json_count(list) && i < NODE_GPUS_MAX; i++)
		tell_mig(cluster, facts->name, json_item(list, i));
}
