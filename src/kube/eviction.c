#include "kube/eviction.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/preemption/budget.h"
#include "kube/eviction-object.h"
#include "kube/json.h"
#include "kube/selector.h"

#define TIMEOUT_MS 5000

/* ---- evictions ---- */

int eviction_request(struct kube_client *client, const char *namespace_, const char *name, const char *uid,
	kube_response_fn fn, void *userdata)
{
	_cleanup_json_ struct json_object *eviction = eviction_object(namespace_, name, uid);
	_cleanup_free_ char *path = NULL;

	if (!eviction)
		return -ENOMEM;
	if (asprintf(&path, "/api/v1/namespaces/%s/pods/%s/eviction", namespace_, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return kube_request(
		client, "POST", path, KUBE_CONTENT_JSON, json_text(eviction), TIMEOUT_MS, fn, userdata, NULL);
}

bool eviction_was_accepted(const struct kube_response *response, struct error *ret_reason)
{
	_cleanup_json_ struct json_object *body = NULL;
	struct error ignored;

	error_set(ret_reason, EACCES, "%s", response->text ? response->text : "");
	if (response->result < 0 || response->status / 100 != 2)
		return false;
	if (json_parse(response->body, response->body_len, &body, &ignored) < 0)
		return true;
	return !eviction_is_refused(body, ret_reason);
}

/* ---- the budgets that limit them ---- */

static void budget_free_ptr(struct budget **budget)
{
	budget_free(*budget);
}

static char *member_copy(struct json_object *object, const char *key)
{
	const char *text = json_member_string(object, key);

	return text && *text ? strdup(text) : NULL;
}

int budget_from_json(struct json_object *object, struct budget **ret_budget, struct error *err)
{
	_cleanup_(budget_free_ptr) struct budget *budget = calloc(1, sizeof(*budget));
	struct json_object *metadata = json_member(object, "metadata");
	int r;

	if (!budget)
		return error_set(err, ENOMEM, "out of memory");
	budget->uid = member_copy(metadata, "uid");
	budget->name = member_copy(metadata, "name");
	budget->namespace_ = member_copy(metadata, "namespace");
	if (!budget->uid || !budget->name || !budget->namespace_)
		return error_set(err, EINVAL, "PodDisruptionBudget without a uid, a name or a namespace");
	r = selector_from_json(json_member(json_member(object, "spec"), "selector"), &budget->selector);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	budget->selector.selects_nothing = r < 0;
	json_whole(json_member(json_member(object, "status"), "disruptionsAllowed"), 0, INT32_MAX,
		&budget->allowed);
	*ret_budget = TAKE_PTR(budget);
	return 0;
}
