#include "kube/resize.h"

#include <errno.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/registry/resize.h"
#include "kube/json.h"
#include "model/units.h"

int resize_from_json(
	const char *text, const struct request *request, struct placement *target, struct error *err)
{
	_cleanup_json_ struct json_object *root = NULL;
	struct error ignored;
	int r = 0;

	if (json_parse(text, strlen(text), &root, &ignored) < 0 ||
		!json_object_is_type(root, json_type_object) || json_object_object_length(root) == 0)
		return error_set(err, EINVAL,
			"the request is not of the form {\"container\":units, ...}, with whole numbers");
	json_object_object_foreach (root, container, value) {
		int64_t units;

		if (json_whole(value, 1, UNITS_MAX, &units) < 0)
			return error_set(err, EINVAL,
				"container \"%.253s\": units must be a whole number from 1 on", container);
		r = placement_resize(target, request, container, (uint32_t)units, err);
		if (r < 0)
			return r;
	}
	target->resizes++;
	return 0;
}

bool resize_names(const char *text, const char *container)
{
	_cleanup_json_ struct json_object *root = NULL;
	struct error ignored;

	return json_parse(text, strlen(text), &root, &ignored) == 0 && json_member(root, container) != NULL;
}

char *resize_status_json(const char *request, bool applied, const char *message)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	const char *text;

	if (json_set(root, "request", json_object_new_string(request)) < 0 ||
		json_set(root, "applied", json_object_new_boolean(applied)) < 0 ||
		json_set(root, "message", json_object_new_string(message)) < 0)
		return NULL;
	text = json_text(root);
	return text ? strdup(text) : NULL;
}
