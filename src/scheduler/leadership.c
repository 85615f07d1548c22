#include "scheduler/leadership.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "net/http-server.h"
#include "scheduler/scheduler.h"

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

#define TIMEOUT_MS 5000

struct verification {
	struct scheduler *scheduler;
	char *uid;
};

static void verification_free(struct verification *verification)
{
	free(verification->uid);
	free(verification);
}

static enum pod_verified state_of(
	const char *uid, const struct kube_response *response, struct pod_facts *facts)
{
	struct json_object *pod = NULL;
	enum pod_verified state = POD_UNCLEAR;

	if (response->result == 0 && response->status == 404)
		return POD_GONE;
	if (response->result == 0 && response->status == 200)
		pod = json_tokener_parse(response->body);
	/* The pod may ask for something impossible, but it is nevertheless the requested pod. */
	if (pod && pod_facts_from_json(pod, facts, NULL) != -ENOMEM && facts->uid && *facts->uid)
		state = strcmp(facts->uid, uid) != 0 ? POD_GONE : facts->finished ? POD_ENDED : POD_IS_THERE;
	json_object_put(pod);
	return state;
}

static void on_answer(void *userdata, const struct kube_response *response)
{
	struct verification *verification = userdata;
	struct scheduler *scheduler = verification->scheduler;
	_cleanup_pod_facts_ struct pod_facts facts;
	enum pod_verified state;

	pod_facts_init(&facts);
	state = state_of(verification->uid, response, &facts);
	if (core_pod_is_verified(&scheduler->core, verification->uid, state, &facts, monotonic_ns()))
		log_info("pod %s %s while the watch was cut", verification->uid,
			state == POD_GONE ? "was deleted" : "ended");
	verification_free(verification);
}

static int verify_pod(struct scheduler *scheduler, const struct ledger_pod *pod)
{
	struct verification *verification = calloc(1, sizeof(*verification));
	char path[1024];
	int r;

	if (!verification)
		return -ENOMEM;
	verification->scheduler = scheduler;
	verification->uid = strdup(pod->facts.uid);
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->facts.namespace_, pod->facts.name);
	r = verification->uid ? kube_request(scheduler->client, "GET", path, NULL, NULL, TIMEOUT_MS,
					on_answer, verification, NULL)
			      : -ENOMEM;
	if (r < 0)
		verification_free(verification);
	return r;
}

void verify_unlisted_later(struct scheduler *scheduler)
{
	if (!scheduler->verify_at_ns)
		scheduler->verify_at_ns = monotonic_ns() + CORE_VERIFY_AGAIN_NS;
}

void verify_unlisted(struct scheduler *scheduler)
{
	const struct ledger_pod *pod;

	scheduler->verify_at_ns = 0;
	table_for_each (&scheduler->core.ledger.pods, cursor, pod) {
		if (!core_is_unlisted(pod))
			continue;
		if (verify_pod(scheduler, pod) < 0)
			log_warning("cannot ask for pod %s/%s now, trying again", pod->facts.namespace_,
				pod->facts.name);
		verify_unlisted_later(scheduler);
	}
}

void verify_unlisted_tick(struct scheduler *scheduler)
{
	if (scheduler->verify_at_ns && monotonic_ns() >= scheduler->verify_at_ns)
		verify_unlisted(scheduler);
}
