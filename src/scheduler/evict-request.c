#include "scheduler/evict-request.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/ledger.h"

#define TIMEOUT_MS 5000

static int request(struct kube_client *client, const char *method, const struct pod_facts *pod,
	const char *sub, const char *content_type, const char *body, kube_response_fn fn, void *userdata)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "/api/v1/namespaces/%s/pods/%s/%s", pod->namespace_, pod->name, sub) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return kube_request(client, method, path, content_type, body, TIMEOUT_MS, fn, userdata, NULL);
}

static struct json_object *string_object(const char *key, const char *value)
{
	struct json_object *object = json_object_new_object();

	if (object && json_set(object, key, json_object_new_string(value)) < 0) {
		json_object_put(object);
		return NULL;
	}
	return object;
}

int evict_request(
	struct kube_client *client, const struct pod_facts *victim, kube_response_fn fn, void *userdata)
{
	_cleanup_json_ struct json_object *eviction = string_object("kind", "Eviction");
	struct json_object *metadata = string_object("name", victim->name),
			   *options = json_object_new_object();

	if (json_set(eviction, "metadata", metadata) < 0 ||
		json_set(eviction, "deleteOptions", options) < 0 ||
		json_set(eviction, "apiVersion", json_object_new_string("policy/v1")) < 0 ||
		json_set(metadata, "namespace", json_object_new_string(victim->namespace_)) < 0 ||
		json_set(options, "preconditions", string_object("uid", victim->uid)) < 0)
		return -ENOMEM;
	return request(
		client, "POST", victim, "eviction", KUBE_CONTENT_JSON, json_text(eviction), fn, userdata);
}

bool evict_was_accepted(const struct kube_response *response, struct error *ret_reason)
{
	_cleanup_json_ struct json_object *body = NULL;
	const char *kind, *status, *message;
	struct error ignored;

	error_set(ret_reason, EACCES, "%s", response->text ? response->text : "");
	if (response->result < 0 || response->status / 100 != 2)
		return false;
	if (json_parse(response->body, response->body_len, &body, &ignored) < 0)
		return true;
	kind = json_member_string(body, "kind");
	status = json_member_string(body, "status");
	message = json_member_string(body, "message");
	if (!kind || strcmp(kind, "Status") != 0 || !status || strcmp(status, "Failure") != 0)
		return true;
	error_set(ret_reason, EACCES, "%s", message ? message : "refused");
	return false;
}

static int patch_status(struct kube_client *client, const struct pod_facts *pod, const char *content_type,
	struct json_object *status, kube_response_fn fn, void *userdata)
{
	_cleanup_json_ struct json_object *patch = json_object_new_object();

	if (json_set(patch, "status", status) < 0 ||
		json_set(patch, "metadata", string_object("uid", pod->uid)) < 0)
		return -ENOMEM;
	return request(client, "PATCH", pod, "status", content_type, json_text(patch), fn, userdata);
}

int mark_preempted_request(
	struct kube_client *client, const struct pod_facts *victim, kube_response_fn fn, void *userdata)
{
	struct json_object *status = json_object_new_object(), *conditions = json_object_new_array();
	struct json_object *condition = string_object("type", "DisruptionTarget");

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
	return patch_status(client, pod, KUBE_CONTENT_MERGE_PATCH, string_object("nominatedNodeName", node),
		fn, userdata);
}
