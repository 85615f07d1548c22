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
#include "core/registry/node-ledger.h"
#include "kube/client.h"
#include "kube/event.h"
#include "kube/eviction.h"
#include "kube/gang.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "net/loop.h"
#include "scheduler/bind.h"
#include "scheduler/gang-groups.h"
#include "scheduler/journal.h"
#include "scheduler/lease.h"
#include "scheduler/record.h"
#include "scheduler/recorder.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"

#define LOOK_DELAY_NS (50 * NS_PER_MS) /* one look for a burst of events */
#define TIMEOUT_MS 3000
#define REQUESTS_MAX 256 /* on their way; what is over comes again */

struct gang_controller {
	struct scheduler *scheduler;
	struct gangs gangs;
	struct gang_groups *groups;
	struct loop_timer *timer;
	int64_t look_ns; /* when the timer is due, 0 if it is not armed */
	uint64_t looked_generation;
	bool carrying_out, stopped;
	struct list requests;
	size_t n_requests;
};

/* A PATCH, an eviction or a LIST on its way. */
struct gang_request {
	struct list item; /* controller->requests: a client that is freed calls nobody back */
	struct gang_controller *controller;
	struct pod_facts pod;
	char key[128]; /* of its gang, for people */
};

static void gang_controller_on_timer(void *userdata);

static void look_within(struct gang_controller *controller, int64_t delay_ns)
{
	int64_t due_ns = monotonic_ns() + delay_ns;

	if (controller->stopped || (controller->look_ns && controller->look_ns <= due_ns))
		return;
	controller->look_ns = due_ns;
	loop_timer_set(controller->timer, delay_ns);
}

static void on_groups_changed(void *userdata)
{
	look_within(userdata, LOOK_DELAY_NS);
}

/* What is decided about gangs goes into the flight recorder, and plans into the journal. */

/* That there is no room is looked at after each change, for each gang that waits: only the answers that
 * kube-scheduler gets are kept. */
static void on_plan(struct scheduler *scheduler, const struct gang_event *event)
{
	char text[600];

	if (!event->placed && !event->asked)
		return;
	journal_planned(scheduler->journal, event);
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
		const struct ledger_pod *known = ledger_pod(&scheduler->ledger, member->facts.uid);

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

int gang_controller_new(
	struct scheduler *scheduler, const struct gang_rules *rules, struct gang_controller **ret_controller)
{
	struct gang_controller *controller = calloc(1, sizeof(*controller));
	int r;

	if (!controller)
		return -ENOMEM;
	controller->scheduler = scheduler;
	gangs_init(&controller->gangs, rules, &scheduler->requeues);
	controller->gangs.listener = on_gang_event;
	controller->gangs.listener_data = scheduler;
	list_init(&controller->requests);
	gangs_set_groups_known(&controller->gangs, false);
	r = loop_add_timer(scheduler->loop, gang_controller_on_timer, controller, &controller->timer);
	if (r == 0)
		r = gang_groups_new(
			scheduler, &controller->gangs, on_groups_changed, controller, &controller->groups);
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
	gangs_release(&controller->gangs);
	loop_timer_remove(controller->timer);
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

static void tell_evicted(struct gang_controller *controller, const struct gang_request *request)
{
	const struct pod_facts *pod = &request->pod;
	const struct kube_object_ref ref = {.api_version = "v1",
		.kind = "Pod",
		.namespace_ = pod->namespace_,
		.name = pod->name,
		.uid = pod->uid};
	char text[512];

	snprintf(text, sizeof(text),
		"evicted: only a part of its gang %s could be placed in time, and no part of a gang runs alone",
		request->key);
	kube_event_post(controller->scheduler->client, &ref, "Warning", "GangIncomplete", text,
		"ration-scheduler", NULL);
	log_info("pod %s/%s: %s", pod->namespace_, pod->name, text);
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
		tell_evicted(request->controller, request);
	} else if (response->status != 404) {
		log_warning(
			"pod %s/%s: its gang %s did not start in time, but it cannot be evicted: %s, trying again",
			request->pod.namespace_, request->pod.name, request->key, reason.text);
	}
	request_free(request);
}

/* What is not known by the watch may not be so. */
static void evict(struct gang_controller *controller, const struct pod_facts *pod)
{
	struct gang_request *request;

	if (!sync_is_following(controller->scheduler->sync) ||
		ledger_lease_may_bind(controller->scheduler->lease, NULL) < 0)
		return;
	request = request_new(controller, pod);
	if (!request)
		return;
	if (eviction_request(controller->scheduler->client, pod->namespace_, pod->name, pod->uid, on_evicted,
		    request) < 0)
		request_free(request);
}

/* A LIST without the pods that run, and nothing else comes of it: what is not understood says nothing. */
static int read_finished(struct gang_controller *controller, const struct kube_response *response)
{
	_cleanup_json_ struct json_object *list = NULL;
	struct json_object *items;

	if (json_parse(response->body, response->body_len, &list, NULL) < 0)
		return -EBADMSG;
	items = json_member(list, "items");
	for (size_t i = 0; json_object_is_type(items, json_type_array) && i < json_object_array_length(items);
		i++) {
		_cleanup_pod_facts_ struct pod_facts facts;
		int r = pod_facts_from_json(json_object_array_get_idx(items, i), &facts, NULL);

		if (r == 0)
			r = gangs_has_run(&controller->gangs, &facts);
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

	/* What is refused once will be refused again. */
	if (r == 0 && response->status == 200)
		r = read_finished(controller, response);
	else if (r == 0 && (response->status / 100 == 5 || response->status == 429))
		r = -EAGAIN;
	if (r < 0)
		log_warning("gang %s: cannot see whether it has run before: %s, trying again", request->key,
			*response->text ? response->text : strerror(-r));
	else
		gangs_recalled(&controller->gangs, request->pod.uid);
	request_free(request);
	look_within(controller, LOOK_DELAY_NS);
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

static void carry_out(struct gang_controller *controller, const struct gang_order *order)
{
	const struct pod_facts *pod = gangs_facts(&controller->gangs, order->uid);

	switch (order->kind) {
	case GANG_GO:
		bind_queue_go(controller->scheduler->binds, order->uid);
		break;
	case GANG_TURN_AWAY:
		bind_queue_turn_away(controller->scheduler->binds, order->uid);
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

void gang_controller_carry_out(struct gang_controller *controller)
{
	struct gang_order *order;

	/* Carrying out one may bring others, which come after it. */
	if (!controller || controller->carrying_out)
		return;
	controller->carrying_out = true;
	while ((order = gangs_next_order(&controller->gangs))) {
		if (!controller->stopped)
			carry_out(controller, order);
		gang_order_free(order);
	}
	controller->carrying_out = false;
	if (!controller->stopped)
		requeuer_look(controller->scheduler->requeuer); /* members may have a place now */
}

static void gang_controller_on_timer(void *userdata)
{
	struct gang_controller *controller = userdata;
	struct scheduler *scheduler = controller->scheduler;
	bool leads = scheduler_is_ready(scheduler) && ledger_lease_may_plan(scheduler->lease, NULL) == 0;
	int64_t again_ns;

	controller->look_ns = 0;
	gangs_set_following(&controller->gangs, sync_is_following(scheduler->sync));
	again_ns = gangs_look(&controller->gangs, &scheduler->ledger, monotonic_ns(), leads);
	controller->looked_generation = scheduler->ledger.generation;
	gang_controller_carry_out(controller);
	requeuer_look(scheduler->requeuer);
	if (again_ns != INT64_MAX)
		look_within(controller, again_ns > NS_PER_MS ? again_ns : NS_PER_MS);
}

void gang_controller_look(struct gang_controller *controller)
{
	if (controller && controller->gangs.by_uid.count &&
		controller->looked_generation != controller->scheduler->ledger.generation)
		look_within(controller, LOOK_DELAY_NS);
}

void gang_controller_tick(struct gang_controller *controller)
{
	if (!controller)
		return;
	gang_groups_tick(controller->groups, monotonic_ns());
	if (controller->gangs.by_uid.count)
		look_within(controller, NS_PER_S);
}

void gang_controller_see(struct gang_controller *controller, const struct pod_facts *pod, bool listed)
{
	if (!controller || (!pod->gang && !controller->gangs.by_uid.count))
		return;
	gangs_set_following(&controller->gangs, sync_is_following(controller->scheduler->sync));
	if (gangs_see_pod(&controller->gangs, &controller->scheduler->ledger, pod, listed, monotonic_ns()) <
		0)
		log_error("pod %s/%s: out of memory", pod->namespace_, pod->name);
	gang_controller_carry_out(controller);
	if (pod->gang)
		look_within(controller, LOOK_DELAY_NS);
}

void gang_controller_forget(struct gang_controller *controller, const char *uid, bool ended)
{
	if (!controller ||
		(!gangs_facts(&controller->gangs, uid) && !table_get(&controller->gangs.done, uid)))
		return;
	if (ended)
		gangs_forget_pod(&controller->gangs, uid);
	else
		gangs_delete_pod(&controller->gangs, uid);
	gang_controller_carry_out(controller);
	look_within(controller, LOOK_DELAY_NS);
}

bool gang_controller_filter(struct gang_controller *controller, const struct pod_facts *pod,
	const char *const *names, size_t n, const char **ret_node, const char **ret_text)
{
	struct ledger *ledger = controller ? &controller->scheduler->ledger : NULL;
	enum gang_answer answer;

	/* kube-scheduler may know before our watch that a pod has left its gang. */
	if (!controller || (!pod->gang && !gangs_facts(&controller->gangs, pod->uid)))
		return false;
	*ret_node = NULL;
	ledger_expire(ledger, monotonic_ns());
	answer = gangs_filter(&controller->gangs, ledger, pod, names, n, monotonic_ns(), ret_node, ret_text);
	gang_controller_carry_out(controller);
	if (answer == GANG_NONE)
		return false;
	look_within(controller, LOOK_DELAY_NS);
	return true;
}

bool gang_controller_seek(struct gang_controller *controller, const struct pod_facts *pod, size_t *ret_needed,
	const char **ret_mate)
{
	return controller && gangs_seek(&controller->gangs, &controller->scheduler->ledger, pod,
				     monotonic_ns(), ret_needed, ret_mate);
}

bool gang_controller_fit_on(
	struct gang_controller *controller, const char *uid, const struct table *nodes, size_t needed)
{
	return gangs_fit_on(&controller->gangs, &controller->scheduler->ledger, uid, nodes, needed);
}

void gang_controller_for_waiting(const struct gang_controller *controller, const char *uid,
	void (*call)(void *userdata, const char *uid), void *userdata)
{
	gangs_for_waiting(&controller->gangs, uid, call, userdata);
}

bool gang_controller_has_none(const struct gang_controller *controller, const char *uid)
{
	return controller && gangs_has_none(&controller->gangs, uid);
}

bool gang_controller_gathers(struct gang_controller *controller, const char *uid)
{
	if (!controller ||
		!gangs_bind(&controller->gangs, &controller->scheduler->ledger, uid, monotonic_ns()))
		return false;
	look_within(controller, LOOK_DELAY_NS);
	return true;
}

void gang_controller_sent(struct gang_controller *controller, const char *uid)
{
	gangs_sent(&controller->gangs, uid);
}

void gang_controller_failed(struct gang_controller *controller, const char *uid, const char *why)
{
	gangs_give_up(&controller->gangs, &controller->scheduler->ledger, uid, why, monotonic_ns());
	look_within(controller, LOOK_DELAY_NS);
}

const struct pod_facts *gang_controller_facts(const struct gang_controller *controller, const char *uid)
{
	return controller ? gangs_facts(&controller->gangs, uid) : NULL;
}

bool gang_controller_are_mates(const struct gang_controller *controller, const char *uid, const char *other)
{
	return controller && gangs_are_mates(&controller->gangs, uid, other);
}

bool gang_controller_is_forming(const struct gang_controller *controller, const char *uid)
{
	return controller && gangs_is_forming(&controller->gangs, uid);
}

bool gang_controller_rules_out(const struct gang_controller *controller, const struct pod_facts *pod)
{
	return controller && gangs_rules_out(&controller->gangs, pod);
}

bool gang_controller_holds(const struct gang_controller *controller, const char *uid)
{
	return controller && gangs_holds(&controller->gangs, uid);
}

bool gang_controller_find(
	const struct gang_controller *controller, const char *uid, struct gang_view *ret_view)
{
	return controller &&
	       gangs_find(&controller->gangs, &controller->scheduler->ledger, uid, monotonic_ns(), ret_view);
}
