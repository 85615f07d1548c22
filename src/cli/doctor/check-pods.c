/* Checks of each pod that asks for a GPU of ration. */
#include "cli/doctor/cluster.h"

#include <stdio.h>
#include <string.h>

#include "cli/doctor/report.h"
#include "cli/fields.h"
#include "cli/leader.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/facts.h"

struct place {
	char where[600], mend[700];
};

static void place_set(struct place *place, const struct pod_facts *facts)
{
	snprintf(place->where, sizeof(place->where), "pod %.253s/%.253s", facts->namespace_, facts->name);
	snprintf(place->mend, sizeof(place->mend), "kubectl -n %.253s delete pod %.253s", facts->namespace_,
		facts->name);
}

void check_requests(
	struct cluster *cluster, struct json_object *pod, const struct pod_facts *facts, const char *problem)
{
	struct place place;

	/* check_unplaced() reports a placement that is malformed. */
	if (!*problem || !request_is_empty(&facts->request))
		return;
	place_set(&place, facts);
	report_find(cluster->report, SEVERITY_WARNING, place.where, place.mend,
		"its request is not valid: %.500s", problem);
}

static const char *resource_of(const struct pod_facts *facts)
{
	return facts->request.whole ? RESOURCE_GPU : RESOURCE_GPU_MEM;
}

void check_unplaced(
	struct cluster *cluster, struct json_object *pod, const struct pod_facts *facts, const char *problem)
{
	struct place place;

	if (request_is_empty(&facts->request) || !*facts->node || facts->finished || facts->has_placement)
		return;
	place_set(&place, facts);
	report_find(cluster->report, SEVERITY_ERROR, place.where, place.mend,
		"it asks for %u of %s and is bound to node %.253s, but ration-scheduler has not chosen its GPU (spec.nodeName was set, or schedulerName is \"%.63s\"): it is not started%s%.300s",
		facts->request.units, resource_of(facts), facts->node,
		json_text_of(json_member(pod, "spec"), "schedulerName"), *problem ? "; " : "", problem);
}

void check_scheduler_name(
	struct cluster *cluster, struct json_object *pod, const struct pod_facts *facts, const char *problem)
{
	const char *name = json_text_of(json_member(pod, "spec"), "schedulerName");
	struct place place;

	if (request_is_empty(&facts->request) || *facts->node ||
		leader_serves(cluster_ledger_owner(cluster), name))
		return;
	place_set(&place, facts);
	report_find(cluster->report, SEVERITY_ERROR, place.where, place.mend,
		"it asks for %u of %s but its schedulerName is \"%.63s\": no scheduler chooses a GPU for it; create it again with schedulerName: " SCHEDULER_NAME,
		facts->request.units, resource_of(facts), name);
}
