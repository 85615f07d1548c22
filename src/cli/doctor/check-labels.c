/* Checks of node labels: misspelt keys, invalid values, and labels without effect. */
#include "cli/doctor/cluster.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "cli/doctor/report.h"
#include "cli/fields.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/facts.h"
#include "model/shares.h"

#define PREFIX "ack.node.gpu."
#define TYPO_MAX 3
#define KEY_MAX 63

struct place {
	struct report *report;
	const char *node;
	char where[300], mend[800];
};

static size_t least(size_t a, size_t b, size_t c)
{
	size_t two = a < b ? a : b;

	return two < c ? two : c;
}

/* The edit distance: how many letters must be changed, added or removed. */
static size_t distance(const char *a, const char *b)
{
	size_t row[KEY_MAX + 1], len_a = strlen(a), len_b = strlen(b);

	if (len_a > KEY_MAX || len_b > KEY_MAX)
		return SIZE_MAX;
	for (size_t k = 0; k <= len_b; k++)
		row[k] = k;
	for (size_t i = 1; i <= len_a; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t k = 1; k <= len_b; k++) {
			size_t above = row[k];

			row[k] = least(row[k] + 1, row[k - 1] + 1,
				corner + (tolower((unsigned char)a[i - 1]) !=
						 tolower((unsigned char)b[k - 1])));
			corner = above;
		}
	}
	return row[len_b];
}

/* The key of ration that the user probably meant. NULL if the key is correct, or resembles none of them. */
static const char *meant(const char *key)
{
	static const char *const keys[] = {LABEL_SCHEDULE, LABEL_PLACEMENT};
	const char *best = NULL;
	size_t best_distance = SIZE_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		size_t d = distance(key, keys[i]);

		if (d == 0)
			return NULL;
		if (d < best_distance) {
			best_distance = d;
			best = keys[i];
		}
	}
	return best_distance <= TYPO_MAX || strncmp(key, PREFIX, strlen(PREFIX)) == 0 ? best : NULL;
}

static void check_key(struct place *place, const char *key, const char *value)
{
	const char *right = meant(key);

	if (!right)
		return;
	snprintf(place->mend, sizeof(place->mend), "kubectl label node %s %s=%s %s-", place->node, right,
		value, key);
	report_find(place->report, SEVERITY_WARNING, place->where, place->mend,
		"the label %.100s has no effect; was %s meant?", key, right);
}

static void check_schedule(struct place *place, struct json_object *labels)
{
	const char *value = json_text_of(labels, LABEL_SCHEDULE);
	enum gpu_mode mode;

	if (!json_member(labels, LABEL_SCHEDULE))
		return;
	snprintf(place->mend, sizeof(place->mend),
		"kubectl label node %s " LABEL_SCHEDULE "=share --overwrite  # or cgpu, core_mem, default",
		place->node);
	if (gpu_mode_parse(value, &mode) < 0)
		report_find(place->report, SEVERITY_ERROR, place->where, place->mend,
			"the label " LABEL_SCHEDULE "=%.63s is not a mode, so the node offers no GPU", value);
	else if (mode != GPU_MODE_NONE && !gpu_mode_is_served(mode))
		report_find(place->report, SEVERITY_ERROR, place->where, place->mend,
			"the mode of the label " LABEL_SCHEDULE
			"=%.63s is not served by this version, so the node offers no GPU",
			value);
}

static void check_placement(struct place *place, struct json_object *labels)
{
	const char *value = json_text_of(labels, LABEL_PLACEMENT);

	enum gpu_policy policy;

	if (!json_member(labels, LABEL_PLACEMENT) || gpu_policy_parse(value, &policy) == 0)
		return;
	snprintf(place->mend, sizeof(place->mend),
		"kubectl label node %s " LABEL_PLACEMENT "=spread --overwrite", place->node);
	report_find(place->report, SEVERITY_WARNING, place->where, place->mend,
		"the label " LABEL_PLACEMENT "=%.63s is neither binpack nor spread: binpack is used", value);
}

/* The labels of gpushare and of the old cGPU. Only "true" has an effect, and LABEL_SCHEDULE overrides it. */
static void check_legacy(struct place *place, struct json_object *labels, const char *key)
{
	const char *value = json_text_of(labels, key), *schedule = json_text_of(labels, LABEL_SCHEDULE);

	if (!json_member(labels, key))
		return;
	snprintf(place->mend, sizeof(place->mend), "kubectl label node %s %s-", place->node, key);
	if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
		report_find(place->report, SEVERITY_WARNING, place->where, place->mend,
			"the label %s=%.63s is neither true nor false, and does nothing", key, value);
	else if (*schedule && strcmp(value, "true") == 0)
		report_find(place->report, SEVERITY_NOTE, place->where, place->mend,
			"of its labels %s=true and " LABEL_SCHEDULE "=%.63s the second counts", key,
			schedule);
}

static void check_policy(struct place *place, struct json_object *annotations)
{
	const char *value = json_text_of(annotations, ANNOTATION_NODE_POLICY);
	uint32_t policy;

	if (!json_member(annotations, ANNOTATION_NODE_POLICY) ||
		parse_u32(value, SHARE_POLICY_MAX - 1, &policy) == 0)
		return;
	snprintf(place->mend, sizeof(place->mend), "kubectl annotate node %s " ANNOTATION_NODE_POLICY "-",
		place->node);
	report_find(place->report, SEVERITY_WARNING, place->where, place->mend,
		"the annotation " ANNOTATION_NODE_POLICY
		"=%.63s is not a policy from 0 to 5: the cluster's is used",
		value);
}

void check_labels(struct cluster *cluster, struct json_object *node, const struct node_facts *facts)
{
	struct place place = {.report = cluster->report, .node = facts->name};
	struct json_object *metadata = json_member(node, "metadata"),
			   *labels = json_member(metadata, "labels");

	snprintf(place.where, sizeof(place.where), "node %.253s", facts->name);
	check_schedule(&place, labels);
	check_placement(&place, labels);
	check_legacy(&place, labels, LABEL_LEGACY_SHARE);
	check_legacy(&place, labels, LABEL_LEGACY_CGPU);
	check_policy(&place, json_member(metadata, "annotations"));
	if (!json_object_is_type(labels, json_type_object))
		return;
	json_object_object_foreach (labels, key, value)
		check_key(&place, key, json_string(value) ? json_string(value) : "");
}
