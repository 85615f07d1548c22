#include "scheduler/leadership.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "net/http-server.h"
#include "scheduler/scheduler.h"
#include "scheduler/verify-unlisted.h"

void leadership_note(struct scheduler *scheduler, struct http_call *call)
{
	struct leadership *leadership = &scheduler->core.leadership;

	/* While a connection is open on which the known leader has called, its process lives and leads. Go's
	 * client keeps at least one connection open while calls go on. */
	core_note_call(
		&scheduler->core, call && !http_call_has_company(call, leadership->period), monotonic_ns());
	if (call)
		http_call_mark(call, leadership->period);
}

int leadership_list_node(struct scheduler *scheduler, const char *node, int timeout_ms,
	void (*fn)(void *userdata, const struct kube_response *response), void *userdata)
{
	char path[1024];

	snprintf(path, sizeof(path),
		"/api/v1/pods?fieldSelector=spec.nodeName%%3D%s%%2Cstatus.phase%%21%%3DSucceeded%%2Cstatus.phase%%21%%3DFailed",
		node);
	return kube_request(scheduler->client, "GET", path, NULL, NULL, timeout_ms, fn, userdata, NULL);
}

int leadership_read_pods(struct scheduler *scheduler, const struct kube_response *response)
{
	_cleanup_json_ struct json_object *list = NULL;
	struct json_object *items;
	int r;

	if (json_parse(response->body, response->body_len, &list, NULL) < 0)
		return -EBADMSG;
	items = json_member(list, "items");
	if (items && !json_object_is_type(items, json_type_array))
		return -EBADMSG;
	for (size_t i = 0; items && i < json_object_array_length(items); i++) {
		_cleanup_pod_facts_ struct pod_facts facts;

		r = pod_facts_from_json(json_object_array_get_idx(items, i), &facts, NULL);
		if (r != -ENOMEM)
			r = core_show_pod(&scheduler->core, &facts);
		if (r < 0)
			return r;
	}
	verify_unlisted_later(scheduler);
	return 0;
}

/* "<host>_<uuid>", cmd/kube-scheduler/app/server.go at 1.36.3. */
bool leadership_is_here(const struct kube_response *response)
{
	_cleanup_json_ struct json_object *lease = NULL;
	char host[256] = "";
	struct error ignored;
	const char *holder;
	size_t len;

	if (response->result == 0 && response->status == 404)
		return true;
	if (response->result < 0 || response->status != 200 ||
		json_parse(response->body, response->body_len, &lease, &ignored) < 0)
		return false;
	if (gethostname(host, sizeof(host) - 1) < 0)
		return false;
	len = strlen(host);
	holder = json_member_string(json_member(lease, "spec"), "holderIdentity");
	return holder && len && strncmp(holder, host, len) == 0 && holder[len] == '_';
}
