/* Finds the pods that matter to the checks: agents, schedulers, and other programs with the same purpose. */
#include "cli/doctor/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "cli/doctor/report.h"
#include "cli/fields.h"
#include "kube/json.h"
#include "kube/names.h"

/* Other programs that give the same GPUs to pods. They are recognised by a part of the image or of the pod's
 * name; the texts are from their own charts and manifests. */
static const struct foreign {
	const char *word, *what;
	const char *resource; /* the one that it advertises; NULL: it is an extender of kube-scheduler */
} foreigners[] = {
	{"gpushare-schd-extender", "the extender of gpushare", NULL},
	{"gpushare-scheduler-extender", "the extender of gpushare", NULL},
	{"gpushare-plugin", "the device plugin of gpushare", RESOURCE_GPU_MEM},
	{"gpushare-device-plugin", "the device plugin of gpushare", RESOURCE_GPU_MEM},
	{"cgpu-installer", "ACK's cGPU", RESOURCE_GPU_MEM},
	{"nvidia-device-plugin", "NVIDIA's device plugin", RESOURCE_NVIDIA_GPU},
	{"nvidia-gpu-device-plugin", "NVIDIA's device plugin", RESOURCE_NVIDIA_GPU}, /* on GKE */
	{"nvidia/k8s-device-plugin", "NVIDIA's device plugin", RESOURCE_NVIDIA_GPU},
	{"hami-device-plugin", "HAMi's device plugin", RESOURCE_NVIDIA_GPU},
	{"projecthami/hami", "HAMi's device plugin", RESOURCE_NVIDIA_GPU},
	{"volcano-vgpu-device-plugin", "Volcano's vGPU device plugin", "volcano.sh/vgpu-memory"},
	{"volcano-device-plugin", "Volcano's device plugin", "volcano.sh/gpu-memory"},
};

/* The text after the last colon; "" for an image that is named by its digest only. */
static const char *tag_of(const char *image)
{
	const char *slash = strrchr(image, '/'), *colon = strchr(slash ? slash : image, ':');

	return colon && !strchr(image, '@') ? colon + 1 : "";
}

static bool is_ready(struct json_object *pod)
{
	struct json_object *conditions = json_member(json_member(pod, "status"), "conditions");

	return json_member_is(json_find(conditions, "type", "Ready"), "status", "True");
}

static const char *lease_of(struct json_object *container)
{
	static const char option[] = "--scheduler-lease=";

	for (int i = 0; i < 2; i++) {
		struct json_object *args = json_member(container, i ? "args" : "command");

		for (size_t k = 0; k < json_count(args); k++) {
			const char *arg = json_string(json_item(args, k));

			if (arg && strncmp(arg, option, strlen(option)) == 0)
				return arg + strlen(option);
		}
	}
	return NAMESPACE_SYSTEM "/" SCHEDULER_NAME;
}

/* Fills the object. -ENOMEM, also for NULL. */
static int record(struct json_object *object, struct json_object *pod, const char *what)
{
	struct json_object *metadata = json_member(pod, "metadata");
	const char *release = json_text_of(json_member(metadata, "labels"), "app.kubernetes.io/instance");

	if (json_set_text(object, "namespace", json_text_of(metadata, "namespace")) < 0 ||
		json_set_text(object, "pod", json_text_of(metadata, "name")) < 0 ||
		json_set_text(object, "release", release) < 0 || json_set_text(object, "what", what) < 0)
		return -ENOMEM;
	return json_set(object, "ready", json_object_new_boolean(is_ready(pod)));
}

static int add_agent(struct cluster *cluster, struct json_object *pod, const char *node, const char *image)
{
	struct json_object *agent = json_set_object(cluster->pods.agents, node);
	bool ends = json_member(json_member(pod, "metadata"), "deletionTimestamp");

	if (record(agent, pod, "ration-agent") < 0 || json_set_text(agent, "tag", tag_of(image)) < 0)
		return -ENOMEM;
	return json_set(agent, "ends", json_object_new_boolean(ends));
}

static int add_scheduler(struct cluster *cluster, struct json_object *pod, struct json_object *container)
{
	struct json_object *scheduler = json_append_object(cluster->pods.schedulers);

	if (record(scheduler, pod, "ration-scheduler") < 0 ||
		json_set_text(scheduler, "tag", tag_of(json_text_of(container, "image"))) < 0)
		return -ENOMEM;
	return json_set_text(scheduler, "lease", lease_of(container));
}

static const struct foreign *foreign_find(struct json_object *pod)
{
	struct json_object *containers = json_member(json_member(pod, "spec"), "containers");
	const char *name = json_text_of(json_member(pod, "metadata"), "name");

	for (size_t i = 0; i < ARRAY_SIZE(foreigners); i++) {
		if (strncmp(name, foreigners[i].word, strlen(foreigners[i].word)) == 0)
			return &foreigners[i];
		for (size_t k = 0; k < json_count(containers); k++)
			if (strstr(json_text_of(json_item(containers, k), "image"), foreigners[i].word))
				return &foreigners[i];
	}
	return NULL;
}

/* Remembers what installed the plugin, for the command that keeps it off the node. NVIDIA's GPU operator
 * gives its plugin this nodeSelector (assets/state-device-plugin/0500_daemonset.yaml). The DaemonSet
 * controller adds matchFields to each pod's terms; matchExpressions are the DaemonSet's own. */
static int set_origin(struct json_object *one, struct json_object *pod)
{
	struct json_object *spec = json_member(pod, "spec"), *owner, *terms;
	const char *selected = json_text_of(json_member(spec, "nodeSelector"), LABEL_NVIDIA_PLUGIN);
	bool has_terms = false;
	int r = json_set(one, "operator", json_object_new_boolean(strcmp(selected, "true") == 0));

	owner = json_find(json_member(json_member(pod, "metadata"), "ownerReferences"), "kind", "DaemonSet");
	if (r == 0 && owner)
		r = json_set_text(one, "daemonset", json_text_of(owner, "name"));
	terms = json_member(json_member(json_member(spec, "affinity"), "nodeAffinity"),
		"requiredDuringSchedulingIgnoredDuringExecution");
	terms = json_member(terms, "nodeSelectorTerms");
	for (size_t i = 0; i < json_count(terms); i++)
		has_terms = has_terms || json_count(json_member(json_item(terms, i), "matchExpressions"));
	return r ? r : json_set(one, "affinity", json_object_new_boolean(has_terms));
}

static int add_foreign(struct cluster *cluster, struct json_object *pod, const char *node)
{
	const struct foreign *foreign = foreign_find(pod);
	struct json_object *there, *one;

	if (!foreign)
		return 0;
	if (!foreign->resource)
		return record(json_append_object(cluster->pods.extenders), pod, foreign->what);
	there = json_member(cluster->pods.foreign, node);
	one = json_append_object(there ? there : json_set_array(cluster->pods.foreign, node));
	if (record(one, pod, foreign->what) < 0 || json_set_text(one, "resource", foreign->resource) < 0)
		return -ENOMEM;
	return set_origin(one, pod);
}

void cluster_collect_pod(struct cluster *cluster, struct json_object *pod)
{
	struct json_object *spec = json_member(pod, "spec"), *agent, *scheduler;
	const char *node = json_text_of(spec, "nodeName");
	int r;

	agent = json_find(json_member(spec, "containers"), "name", "ration-agent");
	scheduler = json_find(json_member(spec, "containers"), "name", "ration-scheduler");
	/* ration's pods are recognised by their containers, because the DaemonSet of gpushare has the same
	 * name as ration's. */
	if (agent)
		r = *node ? add_agent(cluster, pod, node, json_text_of(agent, "image")) : 0;
	else if (scheduler)
		r = add_scheduler(cluster, pod, scheduler);
	else
		r = *node ? add_foreign(cluster, pod, node) : 0;
	if (r < 0)
		cluster->report->failed = true;
}
