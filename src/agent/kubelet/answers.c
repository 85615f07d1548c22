/* answers.c - compares the agent's record with the kubelet's checkpoint before a container starts, and
 * corrects what the agent deduced wrongly (node/answered.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/container/allotment.h"
#include "agent/container/delivery.h"
#include "agent/kubelet/kubelet-internal.h"
#include "base/error.h"
#include "base/log.h"
#include "node/answered.h"

/* The name of the pod with this uid, for messages. */
static const char *pod_text(const struct node_registry *node, const char *uid, char *buf, size_t size)
{
	const struct node_pod *pod = node_pods_by_uid(&node->pods, uid);

	if (pod)
		snprintf(buf, size, "%s/%s", pod->facts.namespace_, pod->facts.name);
	else
		snprintf(buf, size, "with uid %s", uid);
	return buf;
}

/* Which GPUs this is about, by the placement of a container's pod. */
static const char *gpu_text(
	const struct node_registry *node, const char *uid, const char *container, char *buf, size_t size)
{
	const struct node_pod *pod = node_pods_by_uid(&node->pods, uid);
	const struct container_placement *placed = pod && pod->facts.has_placement
							   ? placement_find(&pod->facts.placement, container)
							   : NULL;
	size_t len = 0;

	snprintf(buf, size, "unknown");
	for (size_t i = 0; placed && i < placed->n_gpus && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, "%s%s", i ? "," : "", placed->gpus[i].uuid);
	return buf;
}

/* Once per container. */
static void tell_mistake(struct kubelet *kubelet, struct served_entry *entry, enum answered answered)
{
	const struct node_registry *node = kubelet->deps.node;
	const struct node_pod *pod = node_pods_by_uid(&node->pods, entry->uid);
	char name[640], other[640], gpus[200], uid[ANSWERED_NAME_SIZE] = "", text[2400];

	if (entry->told || answered == ANSWERED_ITS_OWN)
		return;
	entry->told = true;
	answered_uid(entry->device, uid, sizeof(uid));
	snprintf(text, sizeof(text),
		"the kubelet asked for %zu units (%s%s) for container %s of pod %s, and the agent took the call for one of pod %s and answered with the CDI device %s: %s (GPU by the placement: %s)",
		entry->n_ids, entry->n_ids ? entry->ids[0] : "", entry->n_ids > 1 ? ", .." : "",
		entry->container, pod_text(node, entry->uid, name, sizeof(name)),
		pod_text(node, uid, other, sizeof(other)), entry->device,
		answered == ANSWERED_TWICE
			? "another container needs that device, so this one does not start; delete this pod, so that it is created anew"
		: entry->waits
			? "before the container starts, this device becomes what its pod was placed on"
			: "from the container's next start on, this device is what its pod was placed on; if it runs already, delete the pod",
		gpu_text(node, entry->uid, entry->container, gpus, sizeof(gpus)));
	if (pod)
		event_on_pod(kubelet->deps.events, &pod->facts, "GPUAnswerCorrected", text);
	else
		log_warning("%s", text);
}

int answers_settle(struct kubelet *kubelet, struct error *err)
{
	struct served *served = &kubelet->deps.node->served;
	int result = 0;

	list_for_each (item, &served->entries) {
		struct served_entry *entry = list_entry(item, struct served_entry, item);
		enum answered answered;
		int r = 0;

		if (!entry->device || entry->settled)
			continue;
		answered = answered_check(served, entry);
		if (answered == ANSWERED_ANOTHERS)
			r = delivery_free_name(kubelet->deps.delivery, entry->device, err);
		entry->settled = r == 0 && answered != ANSWERED_TWICE;
		tell_mistake(kubelet, entry, answered);
		result = r < 0 ? r : result;
	}
	return result;
}

/* Without a CDI device the answer has the GPUs themselves, and nothing can be corrected. An answer for a pod
 * without a placement has no GPU ("void"). */
static bool has_others_gpus(const struct kubelet *kubelet, const struct served_entry *entry)
{
	const struct node_registry *node = kubelet->deps.node;
	const struct node_pod *pod = node_pods_by_uid(&node->pods, entry->uid);
	struct allotment allotment;
	struct error err = {""};

	if (!entry->gpus || strcmp(entry->gpus, "void") == 0 || !pod || !pod->facts.has_placement ||
		allotment_build(&node->inventory, &pod->facts, entry->container, false, &allotment, &err) < 0)
		return false;
	for (const char *uuid = entry->gpus; *uuid;) {
		size_t len = strcspn(uuid, ",");
		bool own = false;

		for (size_t i = 0; i < allotment.n_gpus; i++)
			own |= strlen(allotment.gpus[i]->facts.uuid) == len &&
			       strncmp(allotment.gpus[i]->facts.uuid, uuid, len) == 0;
		if (!own)
			return true;
		uuid += len + (uuid[len] == ',');
	}
	return false;
}

static int refuse(struct kubelet *kubelet, struct served_entry *entry, struct error *err)
{
	const struct node_registry *node = kubelet->deps.node;
	const struct node_pod *pod = node_pods_by_uid(&node->pods, entry->uid);
	char name[640];

	error_set(err, EPERM,
		"pod %s: delete this pod, so that it is created anew: the agent answered the kubelet with the GPU of another pod for container %s (%s), and the kubelet keeps this answer",
		pod_text(node, entry->uid, name, sizeof(name)), entry->container,
		entry->device ? entry->device : entry->gpus);
	if (pod && !entry->refused)
		event_on_pod(kubelet->deps.events, &pod->facts, "GPUAnswerRefused", err->text);
	entry->refused = true;
	return -EPERM;
}

int answers_check(
	struct kubelet *kubelet, char *const *ids, size_t n_ids, enum answered *ret, struct error *err)
{
	struct node_registry *node = kubelet->deps.node;
	const struct node_pods *pods = node->pods_listed ? &node->pods : NULL;
	struct error problem = {""};
	int r = checkpoint_look(&kubelet->checkpoint, kubelet->deps.checkpoint, &problem);

	*ret = ANSWERED_UNKNOWN;
	if (r < 0 && !kubelet->checkpoint_told)
		log_warning(
			"%s: it cannot be checked for which pods the kubelet asked for devices; going on with the agent's record",
			problem.text);
	kubelet->checkpoint_told = r < 0;
	if (r == 0 && answered_follow(&node->served, &kubelet->checkpoint.served, pods, ids, n_ids, ret) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (answers_settle(kubelet, err) < 0)
		return -EPERM;
	list_for_each (item, &node->served.entries) {
		struct served_entry *entry = list_entry(item, struct served_entry, item);

		if (served_has_ids(entry, ids, n_ids) &&
			(answered_check(&node->served, entry) == ANSWERED_TWICE ||
				has_others_gpus(kubelet, entry))) {
			*ret = ANSWERED_TWICE;
			return refuse(kubelet, entry, err);
		}
	}
	return 0;
}
