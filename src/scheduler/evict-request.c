#include "scheduler/evict-request.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/registry/ledger.h"
#include "kube/json.h"
#include "kube/names.h"

#define TIMEOUT_MS 5000

static int patch_status(struct kube_client *client, const struct pod_facts *pod, const char *content_type,
	struct json_object *status, kube_response_fn fn, void *userdata)
{
	_cleanup_json_ struct json_object *patch = json_object_new_object();
	_cleanup_free_ char *path = NULL;

	if (json_set(patch, "status", status) < 0 ||
		json_set(patch, "metadata", json_new_pair("uid", pod->uid)) < 0)
		return -ENOMEM;
	if (asprintf(&path, "/api/v1/namespaces/%s/pods/%s/status", pod->namespace_, pod->name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return kube_request(
		client, "PATCH", path, content_type, json_text(patch), TIMEOUT_MS, fn, userdata, NULL);
}

int mark_preempted_request(
	struct kube_client *client, const struct pod_facts *victim, kube_response_fn fn, void *userdata)
{
	struct json_object *status = json_object_new_object(), *conditions = json_object_new_array();
	struct json_object *condition = json_new_pair("type", "DisruptionTarget");

	if (json_set(condition, "status", json_object_new_string("True")) < 0 ||
		json_set(condition, "reason", json_object_new_string("PreemptionByScheduler")) < 0 ||
		json_set(condition, "message",
			json_object_new_string(
				SCHEDULER_NAME ": preempting to accommodate a higher priority pod")) < 0 ||
		!conditions || json_object_array_add(conditions, condition) < 0) {
		json_object_put(condition);
		json_object_put(conditions);
		json_object_put(status);
		return -ENOMEM;
	}
	if (json_set(status, "conditions", conditions) < 0) {
		json_object_put(status);
		return -ENOMEM;
	}
	return patch_status(client, victim, KUBE_CONTENT_STRATEGIC_PATCH, status, fn, userdata);
}

int nominate_request(struct kube_client *client, const struct pod_facts *pod, const char *node,
	kube_response_fn fn, void *userdata)
{
	return patch_status(client, pod, KUBE_CONTENT_MERGE_PATCH, json_new_pair("nominatedNodeName", node),
		fn, userdata);
}
