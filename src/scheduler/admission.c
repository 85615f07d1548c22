#include "scheduler/admission.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/parse.h"
#include "kube/json.h"
#include "kube/names.h"

#define API_VERSION "admission.k8s.io/v1"
#define PATH_SCHEDULER "/scheduler-name"
#define PATH_UNIT "/unit/"
#define UNIT_MAX 99999 /* five digits, as the policy ration-placement-keys has it */
#define PATCH_ANNOTATIONS "/metadata/annotations"
/* ANNOTATION_UNIT in a JSON pointer, where "/" is "~1" (RFC 6901, 3). */
#define PATCH_UNIT PATCH_ANNOTATIONS "/ration.dev~1unit"

static bool limits_name(struct json_object *containers, const char *const *resources, size_t n)
{
	if (!json_object_is_type(containers, json_type_array))
		return false;
	for (size_t i = 0; i < json_object_array_length(containers); i++) {
		struct json_object *container = json_object_array_get_idx(containers, i);
		struct json_object *limits = json_member(json_member(container, "resources"), "limits");

		for (size_t k = 0; k < n; k++)
			if (json_member(limits, resources[k]))
				return true;
	}
	return false;
}

/* True if a container or an init container of the pod has one of these resources among its limits. */
static bool asks_for(struct json_object *pod, const char *const *resources, size_t n)
{
	struct json_object *spec = json_member(pod, "spec");

	return limits_name(json_member(spec, "containers"), resources, n) ||
	       limits_name(json_member(spec, "initContainers"), resources, n);
}

static bool is_text(const char *text)
{
	return text && text[0];
}

/* [{"op":"add","path":path,"value":value}], a JSON patch (RFC 6902). Takes value over in any case; NULL when
 * out of memory. */
static struct json_object *patch_add(const char *path, struct json_object *value)
{
	_cleanup_json_ struct json_object *list = json_object_new_array();
	struct json_object *step = json_new_pair("op", "add");

	if (!list || !step || json_object_array_add(list, step) < 0) {
		json_object_put(step);
		json_object_put(value);
		return NULL;
	}
	if (json_set(step, "path", json_new_text(path)) < 0) {
		json_object_put(value);
		return NULL;
	}
	return json_set(step, "value", value) < 0 ? NULL : TAKE_PTR(list);
}

/* The conditions of the policy ration-scheduler-name. */
static bool wants_scheduler(struct json_object *pod)
{
	static const char *const ours[] = {
		RESOURCE_GPU_MEM, RESOURCE_GPU_CORE, RESOURCE_GPU, RESOURCE_GPU_COUNT};
	struct json_object *spec = json_member(pod, "spec");
	const char *name = json_member_string(spec, "schedulerName");

	return (!is_text(name) || strcmp(name, DEFAULT_SCHEDULER_NAME) == 0) &&
	       !is_text(json_member_string(spec, "nodeName")) && asks_for(pod, ours, 4);
}

/* The conditions of the policy ration-unit-stamp. */
static bool wants_unit(struct json_object *pod, struct json_object *annotations, const char *mib)
{
	static const char *const memory[] = {RESOURCE_GPU_MEM};
	const char *now = json_member_string(annotations, ANNOTATION_UNIT);

	return asks_for(pod, memory, 1) && (!now || strcmp(now, mib) != 0);
}

/* *ret_patch is NULL if the pod needs no change. mib NULL: the patch sets the scheduler's name. */
static int make_patch(struct json_object *pod, const char *mib, struct json_object **ret_patch)
{
	struct json_object *annotations = json_member(json_member(pod, "metadata"), "annotations");

	*ret_patch = NULL;
	if (mib ? !wants_unit(pod, annotations, mib) : !wants_scheduler(pod))
		return 0;
	if (!mib)
		*ret_patch = patch_add("/spec/schedulerName", json_new_text(SCHEDULER_NAME));
	else if (annotations)
		*ret_patch = patch_add(PATCH_UNIT, json_new_text(mib));
	else
		*ret_patch = patch_add(PATCH_ANNOTATIONS, json_new_pair(ANNOTATION_UNIT, mib));
	return *ret_patch ? 0 : -ENOMEM;
}

/* The patch in the form of the API's JSON: []byte, hence base64. */
static struct json_object *patch_text(struct json_object *patch)
{
	const char *text = json_text(patch);
	struct json_object *encoded;
	gnutls_datum_t raw, base64;

	if (!text)
		return NULL;
	raw = (gnutls_datum_t){(unsigned char *)text, (unsigned)strlen(text)};
	if (gnutls_base64_encode2(&raw, &base64) < 0)
		return NULL;
	encoded = json_object_new_string_len((const char *)base64.data, (int)base64.size);
	gnutls_free(base64.data);
	return encoded;
}

static char *review_text(const char *uid, struct json_object *patch)
{
	_cleanup_json_ struct json_object *review = json_new_pair("apiVersion", API_VERSION);
	struct json_object *response = json_new_pair("uid", uid);
	const char *text;

	if (!review || json_set(review, "response", response) < 0) {
		if (!review)
			json_object_put(response);
		return NULL;
	}
	if (json_set(review, "kind", json_new_text("AdmissionReview")) < 0 ||
		json_set(response, "allowed", json_object_new_boolean(true)) < 0)
		return NULL;
	if (patch && (json_set(response, "patchType", json_new_text("JSONPatch")) < 0 ||
			     json_set(response, "patch", patch_text(patch)) < 0))
		return NULL;
	text = json_text(review);
	return text ? strdup(text) : NULL;
}

char *admission_answer(
	const char *path, const char *body, size_t len, unsigned *ret_status, struct error *err)
{
	_cleanup_json_ struct json_object *review = NULL, *patch = NULL;
	const char *mib = strncmp(path, PATH_UNIT, strlen(PATH_UNIT)) == 0 ? path + strlen(PATH_UNIT) : NULL;
	struct json_object *request;
	const char *kind, *version, *uid;
	uint32_t value;
	char *answer;

	if (strcmp(path, PATH_SCHEDULER) != 0 &&
		(!mib || mib[0] == '0' || parse_u32(mib, UNIT_MAX, &value) < 0)) {
		*ret_status = 404;
		error_set(err, ENOENT,
			"POST " PATH_SCHEDULER " or " PATH_UNIT "MIB, as the webhooks of the charts do");
		return NULL;
	}
	*ret_status = 400;
	if (json_parse(body, len, &review, err) < 0)
		return NULL;
	kind = json_member_string(review, "kind");
	version = json_member_string(review, "apiVersion");
	request = json_member(review, "request");
	uid = json_member_string(request, "uid");
	if (!kind || strcmp(kind, "AdmissionReview") != 0 || !version || strcmp(version, API_VERSION) != 0 ||
		!is_text(uid)) {
		error_set(err, EINVAL, "the body is no AdmissionReview of " API_VERSION " with a request");
		return NULL;
	}
	answer = make_patch(json_member(request, "object"), mib, &patch) == 0 ? review_text(uid, patch)
									      : NULL;
	if (!answer) {
		*ret_status = 500;
		error_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	*ret_status = 200;
	return answer;
}
