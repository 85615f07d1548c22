/* Checks of the ConfigMaps that declare GPUs faulty. */
#include "cli/doctor/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/doctor/report.h"
#include "cli/fields.h"
#include "kube/fault-list.h"
#include "kube/json.h"
#include "kube/names.h"

#define NAME_SIZE 300

struct place {
	char where[400], mend[400];
};

static void place_set(struct place *place, const char *name)
{
	snprintf(place->where, sizeof(place->where), "configmap " NAMESPACE_SYSTEM "/%.253s", name);
	snprintf(place->mend, sizeof(place->mend), "kubectl -n " NAMESPACE_SYSTEM " edit configmap %.253s",
		name);
}

static bool has_gpu(const struct node_facts *facts, const struct fault *fault)
{
	for (size_t i = 0; i < facts->n_gpus; i++)
		if (fault_is_about(fault, facts->gpus[i].index, facts->gpus[i].uuid))
			return true;
	return false;
}

static int parse(struct json_object *map, const char *key, struct fault_list *list, struct error *err)
{
	const char *text = json_text_of(json_member(map, "data"), key);
	struct json_object *annotations = json_member(json_member(map, "metadata"), "annotations");

	if (strcmp(key, CONFIG_MAP_DEVICE_STATUS_KEY) == 0)
		return fault_list_from_device_status(text, list, err);
	return fault_list_from_gpus(text, json_member_string(annotations, ANNOTATION_CORDONED), list, err);
}

static void check_map(
	struct cluster *cluster, const char *name, const char *key, const struct node_facts *facts)
{
	struct json_object *map = json_member(cluster->configmaps, name);
	_cleanup_free_ struct fault_list *list = calloc(1, sizeof(*list));
	struct error err = {""};
	struct place place;

	if (!map || !list)
		return;
	place_set(&place, name);
	if (!json_member(json_member(map, "data"), key))
		report_find(cluster->report, SEVERITY_ERROR, place.where, place.mend,
			"it has no data.%s, and is ignored", key);
	else if (parse(map, key, list, &err) < 0)
		report_find(cluster->report, SEVERITY_ERROR, place.where, place.mend,
			"it is malformed, and is ignored: %.400s", err.text);
	else
		for (size_t i = 0; facts->n_gpus && i < list->n; i++)
			if (!has_gpu(facts, &list->faults[i]))
				report_find(cluster->report, SEVERITY_WARNING, place.where, place.mend,
					"it names GPU %d%s%s, which node %.253s does not have",
					list->faults[i].index, *list->faults[i].uuid ? " " : "",
					list->faults[i].uuid, facts->name);
	json_object_object_del(cluster->configmaps, name);
}

void check_fault_lists(struct cluster *cluster, struct json_object *node, const struct node_facts *facts)
{
	char name[NAME_SIZE];

	snprintf(name, sizeof(name), "%.253s" CONFIG_MAP_DEVICE_STATUS_SUFFIX, facts->name);
	check_map(cluster, name, CONFIG_MAP_DEVICE_STATUS_KEY, facts);
	snprintf(name, sizeof(name), CONFIG_MAP_UNHEALTHY_PREFIX "%.253s", facts->name);
	check_map(cluster, name, CONFIG_MAP_UNHEALTHY_KEY, facts);
}

/* check_fault_lists() has removed the lists of all nodes. The remaining ones name nodes that do not exist. */
void check_fault_lists_left(struct cluster *cluster)
{
	json_object_object_foreach (cluster->configmaps, name, map) {
		struct place place;

		(void)map;
		place_set(&place, name);
		snprintf(place.mend, sizeof(place.mend),
			"kubectl -n " NAMESPACE_SYSTEM " delete configmap %.253s", name);
		report_find(cluster->report, SEVERITY_NOTE, place.where, place.mend,
			"it declares GPUs faulty, and their node does not exist");
	}
}
