#include "scheduler/resize.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/event.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "kube/resize.h"
#include "scheduler/leadership.h"
#include "scheduler/lease.h"
#include "scheduler/resize-patch.h"
#include "scheduler/scheduler.h"

#define TIMEOUT_MS 3000

static struct scheduler *scheduler_of(const struct resizing *resizing)
{
	return resizing->resizings->ops.userdata;
}

static int parse(void *userdata, const struct pod_facts *facts, struct placement *target, struct error *err)
{
	return resize_from_json(facts->resize, &facts->request, target, err);
}

void resizes_start(struct scheduler *scheduler)
{
	scheduler->core.resizings.ops = (struct resize_ops){.parse = parse,
		.write_yes = resize_patch_yes,
		.write_no = resize_patch_no,
		.userdata = scheduler};
}

static void on_lease(void *userdata, const struct kube_response *response)
{
	struct resizing *resizing = userdata;
	struct scheduler *scheduler = scheduler_of(resizing);

	core_resize_leads(&scheduler->core, resizing, leadership_is_here(response), monotonic_ns());
}

static struct json_object *find_pod(struct json_object *list, const char *uid)
{
	struct json_object *items = json_member(list, "items");

	for (size_t i = 0; i < json_count(items); i++) {
		struct json_object *pod = json_object_array_get_idx(items, i);
		const char *of_pod = json_member_string(json_member(pod, "metadata"), "uid");

		if (of_pod && strcmp(of_pod, uid) == 0)
			return pod;
	}
	return NULL;
}

static void on_listed(void *userdata, const struct kube_response *response)
{
	struct resizing *resizing = userdata;
	struct scheduler *scheduler = scheduler_of(resizing);
	_cleanup_json_ struct json_object *list = NULL;
	_cleanup_pod_facts_ struct pod_facts facts;
	struct json_object *pod = NULL;
	bool ok = response->result == 0 && response->status == 200 &&
		  leadership_read_pods(scheduler, response) == 0 &&
		  json_parse(response->body, response->body_len, &list, NULL) == 0;

	pod_facts_init(&facts);
	if (ok)
		pod = find_pod(list, resizing->uid);
	if (pod && pod_facts_from_json(pod, &facts, NULL) < 0)
		pod = NULL;
	core_resize_listed(&scheduler->core, resizing, ok, pod ? &facts : NULL, pod, monotonic_ns());
}

static void on_patched(void *userdata, const struct kube_response *response)
{
	struct resizing *resizing = userdata;
	struct scheduler *scheduler = scheduler_of(resizing);
	enum patch_outcome outcome = patch_outcome(response->result, response->status);

	if (outcome == PATCH_APPLIED) {
		scheduler->metrics.resizes[resizing->answer.applied]++;
		log_info(
			"pod %s/%s: resize: %s", resizing->namespace_, resizing->name, resizing->answer.said);
	} else if (outcome == PATCH_UNKNOWN) {
		log_warning("pod %s/%s: the answer to its resize has an unknown outcome: %s, trying again",
			resizing->namespace_, resizing->name, response->text);
	} else if (outcome != PATCH_CONFLICT) {
		log_warning("pod %s/%s: its resize cannot be answered: %s", resizing->namespace_,
			resizing->name, response->text);
	}
	core_resize_answered(&scheduler->core, resizing, outcome, response->text, monotonic_ns());
}

static void report(struct scheduler *scheduler, const struct resizing *resizing)
{
	const struct kube_object_ref ref = {.api_version = "v1",
		.kind = "Pod",
		.namespace_ = resizing->namespace_,
		.name = resizing->name,
		.uid = resizing->uid};
	char text[1024];

	snprintf(text, sizeof(text),
		"the request for another size, %.200s, cannot be answered: the API server refuses to change the pod: %.500s",
		resizing->request, resizing->refusal);
	kube_event_post(
		scheduler->client, &ref, "Warning", EVENT_RESIZE_UNANSWERED, text, "ration-scheduler", NULL);
}

static int send(struct scheduler *scheduler, struct resizing *resizing)
{
	char path[1024];

	switch (resizing->order) {
	case RESIZE_CHECK_LEADER:
		if (ledger_lease_path(scheduler->lease, path, sizeof(path)) < 0)
			return -ENOENT;
		return kube_request(
			scheduler->client, "GET", path, NULL, NULL, TIMEOUT_MS, on_lease, resizing, NULL);
	case RESIZE_LIST_NODE:
		return leadership_list_node(scheduler, resizing->node, TIMEOUT_MS, on_listed, resizing);
	default:
		snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", resizing->namespace_,
			resizing->name);
		return kube_request(scheduler->client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH,
			resizing->answer.text, TIMEOUT_MS, on_patched, resizing, NULL);
	}
}

void resizes_carry_out(struct scheduler *scheduler)
{
	struct resizing *resizing;

	while ((resizing = core_next_resize_order(&scheduler->core))) {
		if (resizing->order == RESIZE_REPORT)
			report(scheduler, resizing);
		else if (send(scheduler, resizing) < 0)
			core_resize_not_asked(&scheduler->core, resizing, monotonic_ns());
	}
}
