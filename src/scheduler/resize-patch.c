#include "scheduler/resize-patch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "kube/resize.h"
#include "model/node-ledger.h"
#include "model/resize.h"
#include "scheduler/scheduler.h"

#define SENTENCE_MAX 4096

void resize_patch_release(struct resize_patch *patch)
{
	free(patch->text);
	free(patch->said);
	*patch = (struct resize_patch){0};
}

/* As the contract computes a limit: whole MiB of the card's own size (section 3). */
static uint64_t limit_mib(const struct gpu_ledger *gpu, uint32_t units)
{
	return gpu->units_total ? (uint64_t)gpu->mib * units / gpu->units_total : 0;
}

static void describe_container(
	const struct node_ledger *node, const struct container_placement *container, struct strbuf *out)
{
	strbuf_addf(out, "%scontainer %s:", out->len ? "; " : "", container->name);
	for (size_t k = 0; k < container->n_cards; k++) {
		const struct gpu_ledger *gpu = node_ledger_gpu(node, container->cards[k].uuid);

		if (gpu)
			strbuf_addf(out, "%s %" PRIu32 " units of GPU %d (%" PRIu64 " MiB)", k ? "," : "",
				container->cards[k].units, gpu->index,
				limit_mib(gpu, container->cards[k].units));
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
	const struct node_ledger *node = ledger_node(&scheduler->ledger, pod->node);
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

/* annotations: taken over; NULL: out of memory. */
static char *patch_text(struct json_object *annotations, const char *resource_version, const char *status)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	struct json_object *metadata = json_object_new_object();
	const char *text = NULL;

	if (annotations && status &&
		json_set(annotations, ANNOTATION_RESIZE_STATUS, json_object_new_string(status)) == 0 &&
		json_object_object_add(annotations, ANNOTATION_RESIZE, NULL) == 0 &&
		json_set(metadata, "resourceVersion", json_object_new_string(resource_version)) == 0 &&
		json_set(metadata, "annotations", json_object_get(annotations)) == 0 &&
		json_set(root, "metadata", json_object_get(metadata)) == 0)
		text = json_text(root);
	json_object_put(annotations);
	json_object_put(metadata);
	return text ? strdup(text) : NULL;
}

/* annotations: those of a yes, taken over. */
static int fill(struct json_object *annotations, const struct pod_facts *pod, const char *resource_version,
	bool applied, char *said, struct resize_patch *patch)
{
	_cleanup_free_ char *status = said ? resize_status_json(pod->resize, applied, said) : NULL;

	patch->text = patch_text(annotations, resource_version, status);
	patch->said = said;
	patch->applied = applied;
	if (patch->text)
		return 0;
	resize_patch_release(patch);
	return -EAGAIN;
}

static bool gives_as_much(const struct placement *a, const struct placement *b)
{
	struct placement same = *b;

	same.resizes = a->resizes;
	return placement_equal(a, &same);
}

int resize_patch_make(struct scheduler *scheduler, const struct pod_facts *pod, const char *resource_version,
	struct resize_patch *ret_patch)
{
	const struct ledger_pod *known = ledger_pod(&scheduler->ledger, pod->uid);
	const struct node_ledger *node = ledger_node(&scheduler->ledger, pod->node);
	_cleanup_placement_ struct placement target = {0};
	struct resize_patch patch = {0};
	struct error err = {""};
	int r;

	if (!resource_version || !node || !known ||
		(pod->has_placement && known->placement.resizes != pod->placement.resizes))
		return -EAGAIN;
	if (!pod->has_placement)
		r = error_set(&err, ENOENT, "the pod has no card of ration's");
	else if (placement_copy(&pod->placement, &target) < 0)
		return -EAGAIN;
	else
		r = resize_from_json(pod->resize, &pod->request, &target, &err);
	if (r == 0 && !gives_as_much(&pod->placement, &target)) {
		r = ledger_resize(&scheduler->ledger, pod->uid, &target, &err);
		if (r == -EBUSY || r == -ENOMEM)
			return -EAGAIN;
		patch.reserved = r == 0;
	}
	r = fill(patch.reserved ? annotations_of(scheduler, pod, &target) : json_object_new_object(), pod,
		resource_version, r == 0, r == 0 ? describe(node, pod->resize, &target) : strdup(err.text),
		&patch);
	if (r < 0) {
		ledger_resize_release(&scheduler->ledger, pod->uid);
		return r;
	}
	*ret_patch = patch;
	return 0;
}
