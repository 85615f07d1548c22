#include "scheduler/takeover.h"

#include <errno.h>
#include <stdio.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "net/http-server.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"

#define PAUSE_NS (2 * NS_PER_S)
#define FRESH_NS (5 * NS_PER_S)
#define GOOD_NS (200 * NS_PER_MS)

void takeover_release(struct takeover *takeover)
{
	table_release(&takeover->nodes);
}

static void takeover_start(struct takeover *takeover, int64_t now_ns)
{
	table_release(&takeover->nodes);
	takeover->period++;
	takeover->fresh_until_ns = now_ns + FRESH_NS;
}

void takeover_note_call(struct takeover *takeover, struct http_call *call, int64_t now_ns)
{
	if (!takeover->last_call_ns || now_ns - takeover->last_call_ns > PAUSE_NS ||
		(call && !http_call_has_company(call, takeover->period)))
		takeover_start(takeover, now_ns);
	if (call)
		http_call_mark(call, takeover->period);
	takeover->last_call_ns = now_ns;
}

/* In place of the time of the list: monotonic time is past its first nanosecond. */
#define BEING_LISTED ((void *)1)

enum takeover_node takeover_node(const struct takeover *takeover, const char *node, int64_t now_ns)
{
	const void *known;

	if (now_ns >= takeover->fresh_until_ns)
		return TAKEOVER_GO;
	known = table_get(&takeover->nodes, node);
	if (known == BEING_LISTED)
		return TAKEOVER_WAIT;
	return known && now_ns - (int64_t)(intptr_t)known < GOOD_NS ? TAKEOVER_GO : TAKEOVER_LIST;
}

int64_t takeover_begin(struct takeover *takeover, const char *node)
{
	int r = table_set(&takeover->nodes, node, BEING_LISTED);

	return r < 0 ? r : (int64_t)takeover->period;
}

void takeover_end(struct takeover *takeover, const char *node, int64_t period, bool known, int64_t now_ns)
{
	if (period != (int64_t)takeover->period)
		return;
	if (known)
		table_set(&takeover->nodes, node, (void *)(intptr_t)now_ns); /* there already: cannot fail */
	else
		table_remove(&takeover->nodes, node);
}

int takeover_list_node(struct scheduler *scheduler, const char *node, int timeout_ms,
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

int takeover_read_pods(struct scheduler *scheduler, const struct kube_response *response)
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
