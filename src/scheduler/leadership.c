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
#include "scheduler/sync.h"

#define PAUSE_NS (2 * NS_PER_S)
#define FRESH_NS (5 * NS_PER_S)
#define GOOD_NS (200 * NS_PER_MS)

void leadership_release(struct leadership *leadership)
{
	table_release(&leadership->nodes);
}

static void leadership_start(struct leadership *leadership, int64_t now_ns)
{
	table_release(&leadership->nodes);
	leadership->period++;
	leadership->fresh_until_ns = now_ns + FRESH_NS;
}

void leadership_note_call(struct leadership *leadership, struct http_call *call, int64_t now_ns)
{
	if (!leadership->last_call_ns || now_ns - leadership->last_call_ns > PAUSE_NS ||
		(call && !http_call_has_company(call, leadership->period)))
		leadership_start(leadership, now_ns);
	if (call)
		http_call_mark(call, leadership->period);
	leadership->last_call_ns = now_ns;
}

/* In place of the time of the list: monotonic time is past its first nanosecond. */
#define BEING_LISTED ((void *)1)

enum leadership_node leadership_node(const struct leadership *leadership, const char *node, int64_t now_ns)
{
	const void *known;

	if (now_ns >= leadership->fresh_until_ns)
		return LEADERSHIP_GO;
	known = table_get(&leadership->nodes, node);
	if (known == BEING_LISTED)
		return LEADERSHIP_WAIT;
	return known && now_ns - (int64_t)(intptr_t)known < GOOD_NS ? LEADERSHIP_GO : LEADERSHIP_LIST;
}

int64_t leadership_begin(struct leadership *leadership, const char *node)
{
	int r = table_set(&leadership->nodes, node, BEING_LISTED);

	return r < 0 ? r : (int64_t)leadership->period;
}

void leadership_end(
	struct leadership *leadership, const char *node, int64_t period, bool known, int64_t now_ns)
{
	if (period != (int64_t)leadership->period)
		return;
	if (known)
		table_set(
			&leadership->nodes, node, (void *)(intptr_t)now_ns); /* there already: cannot fail */
	else
		table_remove(&leadership->nodes, node);
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

/* Another size that the watch has not shown yet. */
static bool is_resized(const struct ledger_pod *known, const struct pod_facts *facts)
{
	return known->occupancy == OCCUPANCY_BOUND && facts->has_placement &&
	       facts->placement.resizes > known->placement.resizes;
}

/* Only what the watch has not shown: everything else it knows better, being later. */
static int read_pod(struct scheduler *scheduler, struct json_object *pod)
{
	_cleanup_pod_facts_ struct pod_facts facts;
	const struct ledger_pod *known;
	bool listed;
	int r = pod_facts_from_json(pod, &facts, NULL);

	if (r == -ENOMEM)
		return r;
	/* One that asks for something impossible has what the kubelet gave it. */
	if (request_is_empty(&facts.request) || sync_has_forgotten(scheduler->sync, facts.uid))
		return 0;
	known = ledger_pod(&scheduler->ledger, facts.uid);
	if (known && known->occupancy >= OCCUPANCY_BOUND && !is_resized(known, &facts))
		return 0;
	listed = known && known->listed;
	if (ledger_set_pod(&scheduler->ledger, &facts) < 0)
		return -ENOMEM;
	/* A watch that is cut before it has shown the pod will not tell of its end. */
	if (!listed)
		ledger_set_unlisted(&scheduler->ledger, facts.uid);
	return 0;
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
		r = read_pod(scheduler, json_object_array_get_idx(items, i));
		if (r < 0)
			return r;
	}
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
