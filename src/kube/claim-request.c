#include "kube/claim-request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/error.h"
#include "kube/device-slice.h"
#include "kube/json.h"
#include "kube/members.h"
#include "kube/names.h"

#define REQUESTS_MAX 32
#define ALTERNATIVES_MAX 8

/* ---- selectors ---- */

static int read_selectors(struct json_object *object, struct claim_request *request, struct error *err)
{
	struct json_object *list;
	size_t n;
	int r = member_list(object, "selectors", CLAIM_SELECTORS_MAX, &list, &n, err);

	if (r < 0 || n == 0)
		return r;
	request->selectors = calloc(n, sizeof(*request->selectors));
	if (!request->selectors)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const char *text = json_member_string(
			json_member(json_object_array_get_idx(list, i), "cel"), "expression");

		if (!text || strlen(text) > CLAIM_SELECTOR_BYTES_MAX)
			return error_set(err, EINVAL,
				"selectors[%zu] is not a CEL expression of at most %d bytes", i,
				CLAIM_SELECTOR_BYTES_MAX);
		request->selectors[i] = strdup(text);
		if (!request->selectors[i])
			return error_set(err, ENOMEM, "out of memory");
		request->n_selectors++;
	}
	return 0;
}

/* ---- tolerations ---- */

static int read_toleration(
	struct json_object *object, struct device_toleration *toleration, struct error *err)
{
	const char *key = json_member_string(object, "key"), *value = json_member_string(object, "value");
	const char *operator= json_member_string(object, "operator");

	if ((key && strlen(key) >= TAINT_KEY_SIZE) || (value && strlen(value) >= TAINT_VALUE_SIZE))
		return error_set(err, EINVAL, "the key or the value of a toleration is too long");
	strcpy(toleration->key, key ? key : "");
	strcpy(toleration->value, value ? value : "");
	toleration->any_value = operator&& strcmp(operator, "Exists") == 0;
	toleration->effect = taint_effect_read(object);
	return 0;
}

static int read_tolerations(struct json_object *object, struct claim_request *request, struct error *err)
{
	struct json_object *list;
	size_t n;
	int r = member_list(object, "tolerations", CLAIM_TOLERATIONS_MAX, &list, &n, err);

	if (r < 0 || n == 0)
		return r;
	request->tolerations = calloc(n, sizeof(*request->tolerations));
	if (!request->tolerations)
		return error_set(err, ENOMEM, "out of memory");
	for (; request->n_tolerations < n; request->n_tolerations++) {
		r = read_toleration(json_object_array_get_idx(list, request->n_tolerations),
			&request->tolerations[request->n_tolerations], err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- capacities ---- */

static int read_capacity(struct json_object *object, struct claim_request *request, struct error *err)
{
	struct json_object *list = json_member(json_member(object, "capacity"), "requests");

	if (!json_object_is_type(list, json_type_object))
		return list ? error_set(err, EINVAL, "capacity.requests is not an object of quantities") : 0;
	json_object_object_foreach (list, name, value) {
		bool memory = strcmp(name, DRA_CAPACITY_MEMORY) == 0,
		     cores = strcmp(name, DRA_CAPACITY_CORES) == 0;
		int64_t amount;
		int r;

		/* kube-scheduler compares the names as they are written. */
		if (!memory && !cores) {
			snprintf(request->other, sizeof(request->other), "%s", name);
			continue;
		}
		r = member_amount(value, name, INT64_MAX, &amount, err);
		if (r < 0)
			return r;
		request->has_memory |= memory;
		request->has_cores |= cores;
		*(memory ? &request->memory : &request->cores) = (uint64_t)amount;
	}
	return 0;
}

/* ---- requests ---- */

static int read_count(struct json_object *object, struct claim_request *request, struct error *err)
{
	struct json_object *count = json_member(object, "count");

	request->all = json_member_is(object, "allocationMode", "All");
	request->count = 1;
	if (count && json_whole(count, 1, INT64_MAX, &request->count) < 0)
		return error_set(err, EINVAL, "count is not a number above 0");
	return 0;
}

static int read_request(struct json_object *object, const char *name, const char *alternative,
	struct claim_requests *requests, struct error *err)
{
	struct claim_request *request = &requests->list[requests->n++];
	int r = member_name(
		object, "deviceClassName", NAME_DNS, request->class_, sizeof(request->class_), err);

	snprintf(request->name, sizeof(request->name), "%s%s%s", name, alternative ? "/" : "",
		alternative ? alternative : "");
	if (r == 0)
		r = read_count(object, request, err);
	if (r == 0)
		r = member_bool(object, "adminAccess", &request->admin_access, err);
	if (r == 0)
		r = read_capacity(object, request, err);
	if (r == 0)
		r = read_selectors(object, request, err);
	return r < 0 ? r : read_tolerations(object, request, err);
}

static int read_alternatives(
	struct json_object *object, const char *name, struct claim_requests *requests, struct error *err)
{
	struct json_object *list;
	size_t n;
	int r = member_list(object, "firstAvailable", ALTERNATIVES_MAX, &list, &n, err);

	if (r == 0 && n == 0)
		return error_set(err, EINVAL, "neither exactly nor firstAvailable is set");
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct json_object *alternative = json_object_array_get_idx(list, i);
		char text[CLAIM_LABEL_SIZE];

		r = member_name(alternative, "name", NAME_LABEL, text, sizeof(text), err);
		if (r == 0)
			r = read_request(alternative, name, text, requests, err);
	}
	return r;
}

int claim_requests_from_json(struct json_object *spec, struct claim_requests *ret_requests, struct error *err)
{
	struct json_object *list;
	size_t n;
	int r = member_list(json_member(spec, "devices"), "requests", REQUESTS_MAX, &list, &n, err);

	*ret_requests = (struct claim_requests){0};
	if (r < 0 || n == 0)
		return r;
	ret_requests->list = calloc(n * ALTERNATIVES_MAX, sizeof(*ret_requests->list));
	if (!ret_requests->list)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		struct json_object *object = json_object_array_get_idx(list, i);
		struct json_object *exactly = json_member(object, "exactly");
		char name[CLAIM_LABEL_SIZE];

		r = member_name(object, "name", NAME_LABEL, name, sizeof(name), err);
		if (r == 0)
			r = exactly ? read_request(exactly, name, NULL, ret_requests, err)
				    : read_alternatives(object, name, ret_requests, err);
		if (r < 0) {
			error_prefix(err, "requests[%zu]", i);
			return r;
		}
	}
	return 0;
}
