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
#include "kube/annotations.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "kube/resize.h"
#include "scheduler/scheduler.h"

#define SENTENCE_MAX 4096

void resize_patch_release(struct resize_patch *patch)
{
	free(patch->text);
	free(patch->said);
	*patch = (struct resize_patch){0};
}

/* As the contract computes a limit: whole MiB of the GPU's own size (section 3). */
static uint64_t limit_mib(const struct gpu_ledger *gpu, uint32_t units)
{
	return gpu->units_total ? (uint64_t)gpu->mib * units / gpu->units_total : 0;
}

static void describe_container(
	const struct node_ledger *node, const struct container_placement *container, struct strbuf *out)
{
	strbuf_addf(out, "%scontainer %s:", out->len ? "; " : "", container->name);
	for (size_t k = 0; k < container->n_gpus; k++) {
		const struct gpu_ledger *gpu = node_ledger_gpu(node, container->gpus[k].uuid);

		if (gpu)
			strbuf_addf(out, "%s %" PRIu32 " units of GPU %d (%" PRIu64 " MiB)", k ? "," : "",
				container->gpus[k].units, gpu->index,
				limit_mib(gpu, container->gpus[k].units));
	}
}

/* The containers that the request names. */
static char *describe(const struct node_ledger *node, const char *request, const struct placement *placement)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out, SENTENCE_MAX);
	for (size_t i = 0; i < placement->n_containers; i++)
		if (resize_names(request, placement->containers[i].name))
			describe_container(node, &placement->containers[i], &out);
	return strdup(strbuf_cstr(&out));
}

/* All that says where the pod is, but for what only its start says. */
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

/* The answer, into what the PATCH changes; said NULL: none, and an earlier one goes. -EAGAIN when out of
 * memory. */
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

static char *patch_text(struct json_object *changes, const char *resource_version)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	struct json_object *metadata = json_object_new_object();
	const char *text = NULL;

	if (json_set(metadata, "resourceVersion", json_object_new_string(resource_version)) == 0 &&
		json_set(metadata, "annotations", json_object_get(changes)) == 0 &&
		json_set(root, "metadata", json_object_get(metadata)) == 0)
		text = json_text(root);
	json_object_put(metadata);
	return text ? strdup(text) : NULL;
}

static bool gives_as_much(const struct placement *a, const struct placement *b)
{
	struct placement same = *b;

	same.resizes = a->resizes;
	return placement_equal(a, &same);
}

static bool have_room(struct json_object *annotations, struct json_object *changes)
{
	return annotations_size_with(annotations, changes) <= ANNOTATIONS_MAX;
}

/* -EAGAIN: later; any other error is a no, and err says why. What was reserved stays so in either case. */
static int make_yes(struct scheduler *scheduler, const struct pod_facts *pod, struct json_object *annotations,
	struct resize_patch *patch, struct json_object **ret_changes, struct error *err)
{
	_cleanup_placement_ struct placement target = {0};
	_cleanup_json_ struct json_object *changes = NULL;
	int r;

	if (!pod->has_placement)
		return error_set(err, ENOENT, "the pod has no card of ration's");
	if (placement_copy(&pod->placement, &target) < 0)
		return -EAGAIN;
	r = resize_from_json(pod->resize, &pod->request, &target, err);
	if (r < 0)
		return r;
	if (gives_as_much(&pod->placement, &target)) {
		changes = json_object_new_object();
	} else {
		r = ledger_resize(&scheduler->core.ledger, pod->uid, &target, err);
		if (r < 0)
			return r == -EBUSY || r == -ENOMEM ? -EAGAIN : r;
		patch->reserved = true;
		changes = annotations_of(scheduler, pod, &target);
	}
	patch->said = describe(ledger_node(&scheduler->core.ledger, pod->node), pod->resize, &target);
	if (!patch->said || add_answer(changes, pod->resize, true, patch->said) < 0)
		return -EAGAIN;
	/* Shorter than a yes, so that it may have the room that a yes has not. */
	if (!have_room(annotations, changes))
		return error_set(err, EFBIG, "its annotations are full: remove one");
	*ret_changes = TAKE_PTR(changes);
	return 0;
}

/* Where there is no room to say anything the request is taken away all the same. */
static int make_no(const struct pod_facts *pod, struct json_object *annotations, const struct error *why,
	struct resize_patch *patch, struct json_object **ret_changes)
{
	_cleanup_json_ struct json_object *changes = json_object_new_object();

	free(patch->said);
	patch->said = strdup(why->text);
	if (!patch->said || add_answer(changes, pod->resize, false, patch->said) < 0)
		return -EAGAIN;
	if (!have_room(annotations, changes) && add_answer(changes, pod->resize, false, NULL) < 0)
		return -EAGAIN;
	*ret_changes = TAKE_PTR(changes);
	return 0;
}

int resize_patch_make(struct scheduler *scheduler, const struct pod_facts *pod, struct json_object *object,
	const char *refusal, struct resize_patch *ret_patch)
{
	const struct ledger_pod *known = ledger_pod(&scheduler->core.ledger, pod->uid);
	struct json_object *metadata = json_member(object, "metadata");
	struct json_object *annotations = json_member(metadata, "annotations");
	const char *version = json_member_string(metadata, "resourceVersion");
	_cleanup_json_ struct json_object *changes = NULL;
	struct resize_patch patch = {0};
	struct error err = {""};
	int r;

	if (!version || !ledger_node(&scheduler->core.ledger, pod->node) || !known ||
		(pod->has_placement && known->placement.resizes != pod->placement.resizes))
		return -EAGAIN;
	if (refusal)
		r = error_set(&err, EPERM, "the API server refuses to write the new size: %s", refusal);
	else
		r = make_yes(scheduler, pod, annotations, &patch, &changes, &err);
	patch.applied = r == 0;
	if (r < 0 && patch.reserved) {
		ledger_resize_release(&scheduler->core.ledger, pod->uid);
		patch.reserved = false;
	}
	if (r < 0 && r != -EAGAIN)
		r = make_no(pod, annotations, &err, &patch, &changes);
	if (r == 0)
		patch.text = patch_text(changes, version);
	if (patch.text) {
		*ret_patch = patch;
		return 0;
	}
	if (patch.reserved)
		ledger_resize_release(&scheduler->core.ledger, pod->uid);
	resize_patch_release(&patch);
	return -EAGAIN;
}
