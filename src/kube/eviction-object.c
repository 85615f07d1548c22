#include "kube/eviction-object.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/json.h"

struct json_object *eviction_object(const char *namespace_, const char *name, const char *uid)
{
	_cleanup_json_ struct json_object *eviction = json_new_pair("kind", "Eviction");
	struct json_object *metadata = json_new_pair("name", name), *options = json_object_new_object();

	if (json_set(eviction, "metadata", metadata) < 0 ||
		json_set(eviction, "deleteOptions", options) < 0 ||
		json_set(eviction, "apiVersion", json_object_new_string("policy/v1")) < 0 ||
		json_set(metadata, "namespace", json_object_new_string(namespace_)) < 0 ||
		json_set(options, "preconditions", json_new_pair("uid", uid)) < 0)
		return NULL;
	return TAKE_PTR(eviction);
}

bool eviction_is_refused(struct json_object *answer, struct error *ret_reason)
{
	const char *kind = json_member_string(answer, "kind"), *status = json_member_string(answer, "status"),
		   *message = json_member_string(answer, "message");

	if (!kind || strcmp(kind, "Status") != 0 || !status || strcmp(status, "Failure") != 0)
		return false;
	error_set(ret_reason, EACCES, "%s", message ? message : "refused");
	return true;
}
