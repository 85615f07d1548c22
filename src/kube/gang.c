#include "kube/gang.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/parse.h"
#include "core/gang/gang.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/object-name.h"
#include "model/selector.h"

#define LABEL_VALUE_MAX 63
#define JOB_PODS_MAX 65536

static int read_min(struct json_object *labels, struct pod_facts *facts, struct error *err)
{
	struct json_object *label = json_member(labels, LABEL_GANG_MIN);
	const char *text = json_string(label);

	if (!label)
		return 0;
	if (!text || parse_u32(text, GANG_MIN_MAX, &facts->gang_min) < 0 || !facts->gang_min)
		return error_set(err, EINVAL,
			"label " LABEL_GANG_MIN " is \"%.40s\": must be a number from 1 to %d",
			text ? text : "", GANG_MIN_MAX);
	return 0;
}

static bool says_forming(struct json_object *pod)
{
	return json_member_is(
		json_member(json_member(pod, "metadata"), "annotations"), ANNOTATION_GANG, GANG_FORMING);
}

/* Returns what a Binding has recorded; the caller puts it. NULL if it recorded nothing (older versions did
 * not), or if the record is not valid. */
static struct json_object *read_record(struct json_object *pod)
{
	const char *text = json_member_string(
		json_member(json_member(pod, "metadata"), "annotations"), ANNOTATION_BOUND_GANG);
	_cleanup_json_ struct json_object *record = NULL;

	if (!text || json_parse(text, strlen(text), &record, NULL) < 0 ||
		!json_object_is_type(record, json_type_object))
		return NULL;
	return TAKE_PTR(record);
}

/* facts->gang_bound stays false if the Binding recorded nothing. */
static int read_bound_gang(struct json_object *pod, struct pod_facts *facts)
{
	_cleanup_json_ struct json_object *record = read_record(pod);
	const char *name;
	int64_t min = 0;

	if (!record)
		return 0;
	name = json_member_string(record, "name");
	if (name && *name && strlen(name) <= LABEL_VALUE_MAX) {
		facts->gang = strdup(name);
		if (!facts->gang)
			return -ENOMEM;
		json_whole(json_member(record, "min"), 1, GANG_MIN_MAX, &min);
		facts->gang_min = (uint32_t)min;
	}
	facts->gang_bound = true;
	return 0;
}

/* request.group is "namespace/job". */
static const char *job_of(const char *group)
{
	return strchr(group, '/') + 1;
}

int gang_record(struct json_object *annotations, const struct pod_facts *facts)
{
	_cleanup_json_ struct json_object *record = json_object_new_object();
	const char *text;

	if (!record || (facts->gang && json_set(record, "name", json_object_new_string(facts->gang)) < 0) ||
		(facts->gang && facts->gang_min &&
			json_set(record, "min", json_object_new_int64(facts->gang_min)) < 0) ||
		(facts->request.group &&
			json_set(record, "job", json_object_new_string(job_of(facts->request.group))) < 0))
		return -ENOMEM;
	text = json_text(record);
	return text ? json_set(annotations, ANNOTATION_BOUND_GANG, json_object_new_string(text)) : -ENOMEM;
}

static int read_labels(struct json_object *pod, struct pod_facts *facts, struct error *err)
{
	struct json_object *labels = json_member(json_member(pod, "metadata"), "labels");
	const char *name = json_member_string(labels, LABEL_GANG);
	struct error problem = {""};
	int r;

	if (!name || !*name)
		name = json_member_string(labels, LABEL_POD_GROUP);
	if (!name || !*name || strlen(name) > LABEL_VALUE_MAX)
		return 0;
	r = read_min(labels, facts, &problem);
	if (r < 0)
		facts->gang_min = 0;
	if (r < 0 && !*facts->node) {
		*err = problem;
		return r;
	}
	facts->gang = strdup(name);
	return facts->gang ? 0 : -ENOMEM;
}

int gang_read(struct json_object *pod, struct pod_facts *facts, struct error *err)
{
	int r = *facts->node ? read_bound_gang(pod, facts) : 0;

	if (r == 0 && !facts->gang_bound)
		r = read_labels(pod, facts, err);
	if (facts->gang)
		facts->gang_forming = says_forming(pod);
	return r;
}

/* An invalid number of pods counts as a single pod. */
int gang_read_job(struct json_object *pod, struct pod_facts *facts)
{
	struct json_object *labels = json_member(json_member(pod, "metadata"), "labels");
	_cleanup_json_ struct json_object *record = facts->gang_bound ? read_record(pod) : NULL;
	const char *job = facts->gang_bound ? json_member_string(record, "job")
					    : json_member_string(labels, LABEL_GPU_TOPOLOGY);
	const char *replica = json_member_string(labels, LABEL_GPU_TOPOLOGY_REPLICA);
	uint32_t pods = 1;

	if (!facts->request.whole || !job || !*job || strlen(job) > LABEL_VALUE_MAX)
		return 0;
	if (replica)
		parse_u32(replica, JOB_PODS_MAX, &pods);
	if (request_set_group(&facts->request, facts->namespace_, job, pods) < 0)
		return -ENOMEM;
	if (facts->gang || facts->gang_bound || pods < 2 || pods > GANG_MIN_MAX)
		return 0;
	facts->gang_forming = says_forming(pod);
	facts->gang_min = pods;
	facts->gang = strdup(job);
	return facts->gang ? 0 : -ENOMEM;
}

/* True if the text has only characters of a label's value, none of which is special in a query. */
static bool is_label_value(const char *text)
{
	return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
	       strlen(text);
}

int gang_finished_path(const struct pod_facts *pod, char *path, size_t size)
{
	static const char *const keys[] = {LABEL_GANG, LABEL_POD_GROUP, LABEL_GPU_TOPOLOGY};

	for (size_t i = 0; pod->gang && is_label_value(pod->gang) && i < ARRAY_SIZE(keys); i++) {
		int n;

		if (!labels_have(pod->labels, keys[i], pod->gang))
			continue;
		n = snprintf(path, size,
			"/api/v1/namespaces/%s/pods?labelSelector=%s%%3D%s&fieldSelector=status.phase%%21%%3DPending%%2Cstatus.phase%%21%%3DRunning&limit=%d",
			pod->namespace_, keys[i], pod->gang, GANG_FINISHED_MAX);
		return n < 0 || (size_t)n >= size ? -ENOBUFS : 0;
	}
	return -EINVAL;
}

int pod_group_from_json(
	struct json_object *object, char **ret_key, struct gang_group *ret_group, struct error *err)
{
	struct json_object *metadata = json_member(object, "metadata"), *spec = json_member(object, "spec");
	const char *namespace_ = json_member_string(metadata, "namespace"),
		   *name = json_member_string(metadata, "name");
	int64_t min = 0, seconds = 0;
	int r = 0;

	if (!namespace_ || !name || !object_name_is_valid(namespace_) || !object_name_is_valid(name))
		return error_set(err, EINVAL, "PodGroup without a name or a namespace");
	if (asprintf(ret_key, "%s/%s", namespace_, name) < 0) {
		*ret_key = NULL;
		return error_set(err, ENOMEM, "out of memory");
	}
	if (json_whole(json_member(spec, "minMember"), 1, GANG_MIN_MAX, &min) < 0)
		r = error_set(err, EINVAL, "PodGroup %s: minMember must be a number from 1 to %d", *ret_key,
			GANG_MIN_MAX);
	json_whole(json_member(spec, "scheduleTimeoutSeconds"), 1, INT32_MAX, &seconds);
	*ret_group = (struct gang_group){.min = (uint32_t)min, .timeout_ns = seconds * NS_PER_S};
	return r;
}
