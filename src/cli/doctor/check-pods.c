/* Checks of each pod that asks for a GPU of ration. */
#include "cli/doctor/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "cli/doctor/report.h"
#include "cli/fields.h"
#include "cli/leader.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/facts.h"

struct place {
	char where[600], mend[700];
};

static void place_set(struct place *place, const char *namespace_, const char *name)
{
	snprintf(place->where, sizeof(place->where), "pod %.253s/%.253s", namespace_, name);
	snprintf(place->mend, sizeof(place->mend), "kubectl -n %.253s delete pod %.253s", namespace_, name);
}

void check_requests(struct cluster *cluster, struct json_object *pod, const struct pod_facts *facts)
{
	struct place place;

	/* check_unplaced() reports a placement that is malformed. */
	if (!*cluster->malformed || !request_is_empty(&facts->request))
		return;
	place_set(&place, facts->namespace_, facts->name);
	report_find(cluster->report, SEVERITY_WARNING, place.where, place.mend,
		"its request is not valid: %.500s", cluster->malformed);
}

static const char *resource_of(const struct pod_facts *facts)
{
	return facts->request.whole ? RESOURCE_GPU : RESOURCE_GPU_MEM;
}

void check_unplaced(struct cluster *cluster, struct json_object *pod, const struct pod_facts *facts)
{
	struct place place;

	if (request_is_empty(&facts->request) || !*facts->node || facts->finished || facts->has_placement)
		return;
	place_set(&place, facts->namespace_, facts->name);
	report_find(cluster->report, SEVERITY_ERROR, place.where, place.mend,
		"it asks for %u of %s and is bound to node %.253s, but ration-scheduler has not chosen its GPU (spec.nodeName was set, or schedulerName is \"%.63s\"): it is not started%s%.300s",
		facts->request.units, resource_of(facts), facts->node,
		json_text_of(json_member(pod, "spec"), "schedulerName"), *cluster->malformed ? "; " : "",
		cluster->malformed);
}

void check_scheduler_name(struct cluster *cluster, struct json_object *pod, const struct pod_facts *facts)
{
	const char *name = json_text_of(json_member(pod, "spec"), "schedulerName");
	struct place place;

	if (request_is_empty(&facts->request) || *facts->node ||
		leader_serves(cluster_ledger_owner(cluster), name))
		return;
	place_set(&place, facts->namespace_, facts->name);
	report_find(cluster->report, SEVERITY_ERROR, place.where, place.mend,
		"it asks for %u of %s but its schedulerName is \"%.63s\": no scheduler chooses a GPU for it; create it again with schedulerName: " SCHEDULER_NAME,
		facts->request.units, resource_of(facts), name);
}

/* ---- placements ---- */

/* Pods whose placement names a GPU that their node does not have. Either a machine with other GPUs
 * has taken the node's name before Kubernetes' garbage collector had deleted the pods (40 to 60 s,
 * pkg/controller/podgc), or the GPU was removed. The kubelet of a machine without records starts such a pod
 * without any device, before an agent has registered the resource (pkg/kubelet/lifecycle/predicate.go,
 * removeMissingExtendedResources; 1.36.3). */
static int remember(struct json_object *placed, const struct pod_facts *facts)
{
	struct json_object *there = json_member(placed, facts->node), *pod, *list;
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	size_t n = placement_gpus(&facts->placement, gpus);
	int r;

	pod = json_append_object(there ? there : json_set_array(placed, facts->node));
	list = json_set_array(pod, "gpus");
	r = json_set_text(pod, "namespace", facts->namespace_);
	if (r == 0)
		r = json_set_text(pod, "pod", facts->name);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = json_append(list, json_object_new_string(gpus[i]->uuid));
	return r;
}

void collect_placement(struct cluster *cluster, struct json_object *pod, const struct pod_facts *facts)
{
	if (!*facts->node || facts->finished || facts->deleting || !facts->has_placement)
		return;
	if (remember(cluster->pods.placed, facts) < 0)
		report_unknown(cluster->report, "out of memory");
}

static void compare(struct cluster *cluster, struct json_object *pod, const struct node_facts *facts)
{
	struct json_object *gpus = json_member(pod, "gpus");
	struct place place;

	for (size_t i = 0; i < json_count(gpus); i++) {
		const char *uuid = json_string(json_item(gpus, i));

		if (node_facts_has_gpu(facts, uuid))
			continue;
		place_set(&place, json_text_of(pod, "namespace"), json_text_of(pod, "pod"));
		report_find(cluster->report, SEVERITY_ERROR, place.where, place.mend,
			"it is placed on GPU %.*s, which node %.253s does not have: another machine has taken the node's name, or the GPU was removed. A container that starts there has no GPU",
			GPU_UUID_SIZE, uuid, facts->name);
		return;
	}
}

void check_placements(struct cluster *cluster, struct json_object *node, const struct node_facts *facts)
{
	struct json_object *there = json_member(cluster->pods.placed, facts->name);

	/* Without an inventory the GPUs cannot be compared; check_agents() reports why the node has no
	 * inventory. */
	for (size_t i = 0; facts->n_gpus && i < json_count(there); i++)
		compare(cluster, json_item(there, i), facts);
}
