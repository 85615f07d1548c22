#include "scheduler/resize-patch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "core/registry/node-ledger.h"
#include "core/registry/resize.h"
#include "core/resizing.h"
#include "kube/annotations.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "kube/resize.h"
#include "scheduler/scheduler.h"

#define SENTENCE_MAX 4096

/* Computes a limit as in the contract: whole MiB of the GPU's own size (section 3). */
static uint64_t limit_mib(const struct gpu_ledger *gpu, uint32_t units)
{
	return gpu->units_total ? gpu->facts.mib * units / gpu->units_total : 0;
}

static void describe_container(
	const struct node_ledger *node, const struct container_placement *container, struct strbuf *out)
{
	strbuf_addf(out, "%scontainer %s:", out->len ? "; " : "", container->name);
	for (size_t k = 0; k < container->n_gpus; k++) {
		const struct gpu_ledger *gpu = node_ledger_gpu(node, container->gpus[k].uuid);

		if (gpu)
			strbuf_addf(out, "%s %" PRIu32 " units of GPU %d (%" PRIu64 " MiB)", k ? "," : "",
				container->gpus[k].units, gpu->facts.index,
				limit_mib(gpu, container->gpus[k].units));
	}
}

/* Describes the sizes of the containers that the request names. */
static char *describe(const struct node_ledger *node, const char *request, const struct placement *placement)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out, SENTENCE_MAX);
	for (size_t i = 0; i < placement->n_containers; i++)
		if (resize_names(request, placement->containers[i].name))
			describe_container(node, &placement->containers[i], &out);
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

int resize_patch_yes(void *userdata, void *shown, const struct pod_facts *pod, const struct placement *target,
	bool same, struct resize_answer *ret_answer, struct error *err)
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

int resize_patch_no(void *userdata, void *shown, const struct pod_facts *pod, const struct error *why,
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
