#include "scheduler/gangs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "core/gang/gang-plan.h"
#include "core/gang/gang.h"
#include "kube/client.h"
#include "kube/eviction.h"
#include "kube/gang.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "scheduler/actuator.h"
#include "scheduler/gang-groups.h"
#include "scheduler/record.h"
#include "scheduler/recorder.h"
#include "scheduler/scheduler.h"

#define TIMEOUT_MS 3000
#define REQUESTS_MAX 256 /* on their way at once; an order that is skipped is repeated */

struct gang_controller {
	struct scheduler *scheduler;
	struct gang_groups *groups;
	bool stopped;
	struct list requests;
	size_t n_requests;
};

/* A PATCH, an eviction or a LIST on its way. */
struct gang_request {
	struct list item; /* in controller->requests, because a freed client does not call back */
	struct gang_controller *controller;
	struct pod_facts pod;
	char key[128]; /* of its gang, for users */
};

/* Decisions about gangs go into the flight recorder. */

/* Each waiting gang is evaluated after each change. If it has no room, only the answers to kube-scheduler are
 * recorded. */
static void on_plan(struct scheduler *scheduler, const struct gang_event *event)
{
	char text[600];

	if (!event->placed && !event->asked)
		return;
	snprintf(text, sizeof(text), "%zu of %zu pods of gang %s have room, %zu are needed", event->placed,
		event->n_slots, event->gang->key, event->needed);
	for (size_t i = 0; i < event->n_slots; i++)
		if (event->slots[i].node)
			record_gang_place(scheduler, event->slots[i].pod, DECISION_GANG_PLAN,
				event->slots[i].node->facts.name, &event->slots[i].placement, text);
}

static void on_given_up(struct scheduler *scheduler, const struct gang_event *event)
{
	static const char *const stages[] = {
		[GANG_PLANNED] = "kube-scheduler had not asked for it",
		[GANG_ANSWERED] = "it had its node and was not at bind",
		[GANG_AT_BIND] = "it was at bind",
	};
	char text[600];

	list_for_each (item, &event->gang->members) {
		const struct gang_member *member = list_entry(item, struct gang_member, item);
		const struct ledger_pod *known = ledger_pod(&scheduler->core.ledger, member->facts.uid);

		if (member->stage < GANG_PLANNED || member->stage > GANG_AT_BIND)
			continue;
		snprintf(text, sizeof(text), "%s; %s", event->text, stages[member->stage]);
		record_gang_end(scheduler, &member->facts, DECISION_GANG_GIVEN_UP,
			known && known->node ? known->node : "", text);
	}
}

static void on_gang_event(void *userdata, const struct gang_event *event)
{
	struct scheduler *scheduler = userdata;

	switch (event->kind) {
	case GANG_EVENT_PLAN:
		on_plan(scheduler, event);
		break;
	case GANG_EVENT_GIVEN_UP:
		on_given_up(scheduler, event);
		break;
	case GANG_EVENT_KEPT:
		record_gang_place(scheduler, event->slots[0].pod, DECISION_GANG_KEPT,
			event->slots[0].node->facts.name, &event->slots[0].placement, "");
		break;
	}
}

int gang_controller_new(struct scheduler *scheduler, struct gang_controller **ret_controller)
{
	struct gang_controller *controller = calloc(1, sizeof(*controller));
	struct gangs *gangs = &scheduler->core.gangs;
	int r;

	if (!controller)
		return -ENOMEM;
	controller->scheduler = scheduler;
	gangs->listener = on_gang_event;
	gangs->listener_data = scheduler;
	list_init(&controller->requests);
	core_set_groups_known(&scheduler->core, false, monotonic_ns());
	r = gang_groups_new(scheduler, &controller->groups);
	if (r < 0) {
		gang_controller_free(controller);
		return r;
	}
	*ret_controller = controller;
	return 0;
}

void gang_controller_stop(struct gang_controller *controller)
{
	if (!controller)
		return;
	controller->stopped = true;
	gang_groups_stop(controller->groups);
}

static void request_free(struct gang_request *request)
{
	list_remove(&request->item);
	request->controller->n_requests--;
	pod_facts_release(&request->pod);
	free(request);
}

void gang_controller_free(struct gang_controller *controller)
{
	if (!controller)
		return;
	list_for_each_safe (item, after, &controller->requests)
		request_free(list_entry(item, struct gang_request, item));
	gang_groups_free(controller->groups);
	free(controller);
}

static struct gang_request *request_new(struct gang_controller *controller, const struct pod_facts *pod)
{
	struct gang_request *request = controller->n_requests < REQUESTS_MAX ? calloc(1, sizeof(*request))
									     : NULL;

	if (!request)
		return NULL;
	request->controller = controller;
	list_append(&controller->requests, &request->item);
	controller->n_requests++;
	snprintf(request->key, sizeof(request->key), "%s", pod->gang ? pod->gang : "");
	if (pod_facts_copy(pod, &request->pod) == 0)
		return request;
	request_free(request);
	return NULL;
}

static void on_unmarked(void *userdata, const struct kube_response *response)
{
	struct gang_request *request = userdata;

	if (response->result < 0 || (response->status / 100 != 2 && response->status != 404))
		log_warning("pod %s/%s: cannot take away " ANNOTATION_GANG ": %s, trying again",
			request->pod.namespace_, request->pod.name, response->text);
	request_free(request);
}

static void unmark(struct gang_controller *controller, const struct pod_facts *pod)
{
	struct gang_request *request = request_new(controller, pod);
	char path[1024], body[256];

	if (!request)
		return;
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->namespace_, pod->name);
	snprintf(body, sizeof(body),
		"{\"metadata\":{\"uid\":\"%s\",\"annotations\":{\"" ANNOTATION_GANG "\":null}}}", pod->uid);
	if (kube_request(controller->scheduler->client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH, body,
		    TIMEOUT_MS, on_unmarked, request, NULL) < 0)
		request_free(request);
}

static void on_evicted(void *userdata, const struct kube_response *response)
{
	struct gang_request *request = userdata;
	struct error reason = {0};

	bool accepted = eviction_was_accepted(response, &reason);

	if (accepted || response->status != 404)
		record_gang_end(request->controller->scheduler, &request->pod, DECISION_GANG_EVICT,
			request->pod.node, accepted ? "" : reason.text);
	if (accepted) {
		const struct pod_facts *pod = &request->pod;
		char text[512];

		snprintf(text, sizeof(text),
			"evicted: only a part of its gang %s could be placed in time, and no part of a gang runs alone",
			request->key);
		post_pod_event(request->controller->scheduler, pod, "Warning", "GangIncomplete", text);
		log_info("pod %s/%s: %s", pod->namespace_, pod->name, text);
	} else if (response->status != 404) {
		log_warning(
			"pod %s/%s: its gang %s did not start in time, but it cannot be evicted: %s, trying again",
			request->pod.namespace_, request->pod.name, request->key, reason.text);
	}
	request_free(request);
}

/* Without an open watch the facts may be out of date, so no pod is evicted. */
static void evict(struct gang_controller *controller, const struct pod_facts *pod)
{
	struct gang_request *request;

	if (!controller->scheduler->core.following ||
		ownership_may_bind(&controller->scheduler->core.ownership, monotonic_ns(), NULL) < 0)
		return;
	request = request_new(controller, pod);
	if (!request)
		return;
	if (eviction_request(controller->scheduler->client, pod->namespace_, pod->name, pod->uid, on_evicted,
		    request) < 0)
		request_free(request);
}

/* Reads a LIST without the running pods. Pods that are not valid are ignored, because nothing else depends on
 * this LIST. */
static int read_finished(struct gang_controller *controller, const struct kube_response *response)
{
	_cleanup_json_ struct json_object *list = NULL;
	struct json_object *items;

	if (json_parse(response->body, response->body_len, &list, NULL) < 0)
		return -EBADMSG;
	items = json_member(list, "items");
	for (size_t i = 0; i < json_count(items); i++) {
		_cleanup_pod_facts_ struct pod_facts facts;
		int r = pod_facts_from_json(json_object_array_get_idx(items, i), &facts, NULL);

		if (r == 0)
			r = core_gang_has_run(&controller->scheduler->core, &facts);
		if (r == -ENOMEM)
			return r;
	}
	return 0;
}

static void on_recalled(void *userdata, const struct kube_response *response)
{
	struct gang_request *request = userdata;
	struct gang_controller *controller = request->controller;
	int r = response->result;

	/* Other refusals would be repeated, so they count as an answer. */
	if (r == 0 && response->status == 200)
		r = read_finished(controller, response);
	else if (r == 0 && (response->status / 100 == 5 || response->status == 429))
		r = -EAGAIN;
	if (r < 0)
		log_warning("gang %s: cannot see whether it has run before: %s, trying again", request->key,
			*response->text ? response->text : strerror(-r));
	core_gang_recalled(&controller->scheduler->core, request->pod.uid, r >= 0, monotonic_ns());
	request_free(request);
}

static void recall(struct gang_controller *controller, const struct pod_facts *pod)
{
	struct gang_request *request;
	char path[1024];

	if (gang_finished_path(pod, path, sizeof(path)) < 0)
		return;
	request = request_new(controller, pod);
	if (request && kube_request(controller->scheduler->client, "GET", path, NULL, NULL, TIMEOUT_MS,
			       on_recalled, request, NULL) < 0)
		request_free(request);
}

void gang_controller_carry_out(struct gang_controller *controller)
{
	struct gang_order *order;

	if (!controller)
		return;
	while ((order = core_next_gang_order(&controller->scheduler->core))) {
		if (!controller->stopped) {
			const struct pod_facts *pod = gangs_facts(
				&controller->scheduler->core.gangs, order->uid);

			switch (order->kind) {
			case GANG_GO: /* the core carries it out */
			case GANG_TURN_AWAY:
				break;
			case GANG_EVICT:
				if (pod)
					evict(controller, pod);
				break;
			case GANG_UNMARK:
				if (pod)
					unmark(controller, pod);
				break;
			case GANG_RECALL:
				if (pod)
					recall(controller, pod);
				break;
			}
		}
		gang_order_free(order);
	}
}

void gang_controller_tick(struct gang_controller *controller)
{
	if (controller)
		gang_groups_tick(controller->groups, monotonic_ns());
}
