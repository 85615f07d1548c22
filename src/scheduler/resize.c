/* resize.c - the requests to the API server for resizes (core/resizing.h), and the PATCH that answers one. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "core/registry/node-ledger.h"
#include "core/registry/resize.h"
#include "kube/annotations.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "kube/resize.h"
#include "scheduler/actuator.h"
#include "scheduler/leadership.h"
#include "scheduler/lease.h"
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

#define SENTENCE_MAX 4096

/* Computes a limit as in the contract: whole MiB of the GPU's own size (section 3). */
static uint64_t limit_mib(const struct gpu_ledger *gpu, uint32_t units)
{
	return gpu->units_total ? gpu->facts.mib * units / gpu->units_total : 0;
}

/* Describes the sizes of the containers that the request names. */
static char *describe(const struct node_ledger *node, const char *request, const struct placement *placement)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out, SENTENCE_MAX);
	for (size_t i = 0; i < placement->n_containers; i++)
		if (resize_names(request, placement->containers[i].name)) {
			const struct container_placement *container = &placement->containers[i];
			strbuf_addf(&out, "%scontainer %s:", out.len ? "; " : "", container->name);
			for (size_t k = 0; k < container->n_gpus; k++) {
				const struct gpu_ledger *gpu = node_ledger_gpu(node, container->gpus[k].uuid);

				if (gpu)
					strbuf_addf(&out, "%s %" PRIu32 " units of GPU %d (%" PRIu64 " MiB)",
						k ? "," : "", container->gpus[k].units, gpu->facts.index,
						limit_mib(gpu, container->gpus[k].units));
			}
		}
	return strdup(strbuf_cstr(&out));
}

/* All annotations of the placement, except those that only apply to its start. */
static struct json_object *annotations_of(
	const struct scheduler *scheduler, const struct pod_facts *pod, const struct placement *target)
{
	const struct node_ledger *node = ledger_node(&scheduler->core.ledger, pod->node);
	_cleanup_request_ struct request request = {0};
	struct json_object *annotations = NULL;

	if (request_copy(&pod->request, &request) == 0 && request_resize(&request, target) == 0)
		annotations = placement_annotations(target, &request, node, 0);
	if (annotations) {
		json_object_object_del(annotations, ANNOTATION_MEM_ASSIGNED);
		json_object_object_del(annotations, ANNOTATION_MEM_ASSUME_TIME);
	}
	return annotations;
}

/* Adds the answer to the changes of the PATCH. said NULL: without an answer; an earlier one is removed.
 * -EAGAIN when out of memory. */
static int add_answer(struct json_object *changes, const char *request, bool applied, const char *said)
{
	_cleanup_free_ char *status = said ? resize_status_json(request, applied, said) : NULL;

	if (!changes || (said && !status) || json_object_object_add(changes, ANNOTATION_RESIZE, NULL) < 0)
		return -EAGAIN;
	if (status)
		return json_set(changes, ANNOTATION_RESIZE_STATUS, json_object_new_string(status)) < 0
			       ? -EAGAIN
			       : 0;
	return json_object_object_add(changes, ANNOTATION_RESIZE_STATUS, NULL) < 0 ? -EAGAIN : 0;
}

static struct json_object *annotations_member(struct json_object *pod)
{
	return json_member(json_member(pod, "metadata"), "annotations");
}

static int set_text(struct resize_answer *answer, struct json_object *pod, struct json_object *changes)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	struct json_object *metadata = json_object_new_object();
	const char *version = json_member_string(json_member(pod, "metadata"), "resourceVersion");
	const char *text = NULL;

	if (version && json_set(metadata, "resourceVersion", json_object_new_string(version)) == 0 &&
		json_set(metadata, "annotations", json_object_get(changes)) == 0 &&
		json_set(root, "metadata", json_object_get(metadata)) == 0)
		text = json_text(root);
	json_object_put(metadata);
	answer->text = text ? strdup(text) : NULL;
	return answer->text ? 0 : -EAGAIN;
}

static bool have_room(struct json_object *pod, struct json_object *changes)
{
	return annotations_size_with(annotations_member(pod), changes) <= ANNOTATIONS_MAX;
}

/* A yes that would make the annotations too long becomes a no. A no that would do so only removes the
 * request. */
static int resize_patch_yes(void *userdata, void *shown, const struct pod_facts *pod,
	const struct placement *target, bool same, struct resize_answer *ret_answer, struct error *err)
{
	const struct scheduler *scheduler = userdata;
	_cleanup_json_ struct json_object *changes = same ? json_object_new_object()
							  : annotations_of(scheduler, pod, target);

	ret_answer->said = describe(ledger_node(&scheduler->core.ledger, pod->node), pod->resize, target);
	if (!ret_answer->said || add_answer(changes, pod->resize, true, ret_answer->said) < 0)
		return -EAGAIN;
	/* A no is shorter than a yes, so it may still fit. */
	if (!have_room(shown, changes))
		return error_set(err, EFBIG, "its annotations are full: remove one");
	return set_text(ret_answer, shown, changes);
}

static int resize_patch_no(void *userdata, void *shown, const struct pod_facts *pod, const struct error *why,
	struct resize_answer *ret_answer)
{
	_cleanup_json_ struct json_object *changes = json_object_new_object();

	ret_answer->said = strdup(why->text);
	if (!ret_answer->said || add_answer(changes, pod->resize, false, ret_answer->said) < 0)
		return -EAGAIN;
	/* If there is no room for an answer, the request is removed nevertheless. */
	if (!have_room(shown, changes) && add_answer(changes, pod->resize, false, NULL) < 0)
		return -EAGAIN;
	return set_text(ret_answer, shown, changes);
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

		if (json_member_is(json_member(pod, "metadata"), "uid", uid))
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
		if (resizing->order == RESIZE_REPORT) {
			const struct pod_facts pod = {.namespace_ = resizing->namespace_,
				.name = resizing->name,
				.uid = resizing->uid};
			char text[1024];

			snprintf(text, sizeof(text),
				"the request for another size, %.200s, cannot be answered: the API server refuses to change the pod: %.500s",
				resizing->request, resizing->refusal);
			post_pod_event(scheduler, &pod, "Warning", EVENT_RESIZE_UNANSWERED, text);
		} else if (send(scheduler, resizing) < 0)
			core_resize_not_asked(&scheduler->core, resizing, monotonic_ns());
	}
}
