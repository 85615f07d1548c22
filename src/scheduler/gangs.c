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
#include "kube/client.h"
#include "kube/event.h"
#include "kube/eviction.h"
#include "kube/gang.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/pod.h"
#include "model/gang.h"
#include "net/loop.h"
#include "scheduler/bind.h"
#include "scheduler/gang-groups.h"
#include "scheduler/gang-tales.h"
#include "scheduler/lease.h"
#include "scheduler/record.h"
#include "scheduler/recorder.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"
#include "scheduler/waiting.h"

#define LOOK_DELAY_NS (50 * NS_PER_MS) /* one look for a burst of events */
#define TIMEOUT_MS 3000
#define REQUESTS_MAX 256 /* on their way; what is over comes again */

struct gang_desk {
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
	struct list item; /* desk->requests: a client that is freed calls nobody back */
	struct gang_desk *desk;
	struct pod_facts pod;
	char key[128]; /* of its gang, for people */
};

static void gang_desk_on_timer(void *userdata);

static void look_within(struct gang_desk *desk, int64_t delay_ns)
{
	int64_t due_ns = monotonic_ns() + delay_ns;

	if (desk->stopped || (desk->look_ns && desk->look_ns <= due_ns))
		return;
	desk->look_ns = due_ns;
	loop_timer_set(desk->timer, delay_ns);
}

static void on_groups_changed(void *userdata)
{
	look_within(userdata, LOOK_DELAY_NS);
}

int gang_desk_new(struct scheduler *scheduler, const struct gang_rules *rules, struct gang_desk **ret_desk)
{
	struct gang_desk *desk = calloc(1, sizeof(*desk));
	int r;

	if (!desk)
		return -ENOMEM;
	desk->scheduler = scheduler;
	gangs_init(&desk->gangs, rules);
	desk->gangs.listener = gang_tales_listen;
	desk->gangs.listener_data = scheduler;
	list_init(&desk->requests);
	gangs_set_groups_known(&desk->gangs, false);
	r = loop_add_timer(scheduler->loop, gang_desk_on_timer, desk, &desk->timer);
	if (r == 0)
		r = gang_groups_new(scheduler, &desk->gangs, on_groups_changed, desk, &desk->groups);
	if (r < 0) {
		gang_desk_free(desk);
		return r;
	}
	*ret_desk = desk;
	return 0;
}

void gang_desk_stop(struct gang_desk *desk)
{
	if (!desk)
		return;
	desk->stopped = true;
	gang_groups_stop(desk->groups);
}

static void request_free(struct gang_request *request)
{
	list_remove(&request->item);
	request->desk->n_requests--;
	pod_facts_release(&request->pod);
	free(request);
}

void gang_desk_free(struct gang_desk *desk)
{
	if (!desk)
		return;
	list_for_each_safe (item, after, &desk->requests)
		request_free(list_entry(item, struct gang_request, item));
	gang_groups_free(desk->groups);
	gangs_release(&desk->gangs);
	loop_timer_remove(desk->timer);
	free(desk);
}

static struct gang_request *request_new(struct gang_desk *desk, const struct pod_facts *pod)
{
	struct gang_request *request = desk->n_requests < REQUESTS_MAX ? calloc(1, sizeof(*request)) : NULL;

	if (!request)
		return NULL;
	request->desk = desk;
	list_append(&desk->requests, &request->item);
	desk->n_requests++;
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

static void unmark(struct gang_desk *desk, const struct pod_facts *pod)
{
	struct gang_request *request = request_new(desk, pod);
	char path[1024], body[256];

	if (!request)
		return;
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->namespace_, pod->name);
	snprintf(body, sizeof(body),
		"{\"metadata\":{\"uid\":\"%s\",\"annotations\":{\"" ANNOTATION_GANG "\":null}}}", pod->uid);
	if (kube_request(desk->scheduler->client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH, body, TIMEOUT_MS,
		    on_unmarked, request, NULL) < 0)
		request_free(request);
}

static void tell_evicted(struct gang_desk *desk, const struct gang_request *request)
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
	kube_event_post(
		desk->scheduler->client, &ref, "Warning", "GangIncomplete", text, "ration-scheduler", NULL);
	log_info("pod %s/%s: %s", pod->namespace_, pod->name, text);
}

static void on_evicted(void *userdata, const struct kube_response *response)
{
	struct gang_request *request = userdata;
	struct error reason = {0};

	bool accepted = eviction_was_accepted(response, &reason);

	if (accepted || response->status != 404)
		record_gang_end(request->desk->scheduler, &request->pod, DECISION_GANG_EVICT,
			request->pod.node, accepted ? "" : reason.text);
	if (accepted) {
		tell_evicted(request->desk, request);
	} else if (response->status != 404) {
		log_warning(
			"pod %s/%s: its gang %s did not come about in time, but it cannot be evicted: %s, trying again",
			request->pod.namespace_, request->pod.name, request->key, reason.text);
	}
	request_free(request);
}

/* What is not known by the watch may not be so. */
static void evict(struct gang_desk *desk, const struct pod_facts *pod)
{
	struct gang_request *request;

	if (!sync_is_following(desk->scheduler->sync) ||
		ledger_lease_may_bind(desk->scheduler->lease, NULL) < 0)
		return;
	request = request_new(desk, pod);
	if (!request)
		return;
	if (eviction_request(
		    desk->scheduler->client, pod->namespace_, pod->name, pod->uid, on_evicted, request) < 0)
		request_free(request);
}

/* A LIST without the pods that run, and nothing else comes of it: what is not understood says nothing. */
static int read_finished(struct gang_desk *desk, const struct kube_response *response)
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
			r = gangs_has_run(&desk->gangs, &facts);
		if (r == -ENOMEM)
			return r;
	}
	return 0;
}

static void on_recalled(void *userdata, const struct kube_response *response)
{
	struct gang_request *request = userdata;
	struct gang_desk *desk = request->desk;
	int r = response->result;

	/* What is refused once will be refused again. */
	if (r == 0 && response->status == 200)
		r = read_finished(desk, response);
	else if (r == 0 && (response->status / 100 == 5 || response->status == 429))
		r = -EAGAIN;
	if (r < 0)
		log_warning("gang %s: cannot see whether it has run before: %s, trying again", request->key,
			*response->text ? response->text : strerror(-r));
	else
		gangs_recalled(&desk->gangs, request->pod.uid);
	request_free(request);
	look_within(desk, LOOK_DELAY_NS);
}

static void recall(struct gang_desk *desk, const struct pod_facts *pod)
{
	struct gang_request *request;
	char path[1024];

	if (gang_finished_path(pod, path, sizeof(path)) < 0)
		return;
	request = request_new(desk, pod);
	if (request && kube_request(desk->scheduler->client, "GET", path, NULL, NULL, TIMEOUT_MS, on_recalled,
			       request, NULL) < 0)
		request_free(request);
}

static void carry_out(struct gang_desk *desk, const struct gang_order *order)
{
	const struct pod_facts *pod = gangs_facts(&desk->gangs, order->uid);

	switch (order->kind) {
	case GANG_GO:
		bind_queue_go(desk->scheduler->binds, order->uid);
		break;
	case GANG_TURN_AWAY:
		bind_queue_turn_away(desk->scheduler->binds, order->uid);
		break;
	case GANG_NUDGE:
		if (pod)
			waiting_room_wake(desk->scheduler->waiting, pod);
		break;
	case GANG_EVICT:
		if (pod)
			evict(desk, pod);
		break;
	case GANG_SINGLE:
		if (pod)
			waiting_room_found(desk->scheduler->waiting, pod);
		break;
	case GANG_UNMARK:
		if (pod)
			unmark(desk, pod);
		break;
	case GANG_RECALL:
		if (pod)
			recall(desk, pod);
		break;
	}
}

void gang_desk_carry_out(struct gang_desk *desk)
{
	struct gang_order *order;

	/* Carrying out one may bring others, which come after it. */
	if (!desk || desk->carrying_out)
		return;
	desk->carrying_out = true;
	while ((order = gangs_next_order(&desk->gangs))) {
		if (!desk->stopped)
			carry_out(desk, order);
		gang_order_free(order);
	}
	desk->carrying_out = false;
}

static void gang_desk_on_timer(void *userdata)
{
	struct gang_desk *desk = userdata;
	struct scheduler *scheduler = desk->scheduler;
	bool leads = scheduler_is_ready(scheduler) && ledger_lease_may_plan(scheduler->lease, NULL) == 0;
	int64_t again_ns;

	desk->look_ns = 0;
	gangs_set_following(&desk->gangs, sync_is_following(scheduler->sync));
	again_ns = gangs_look(&desk->gangs, &scheduler->ledger, monotonic_ns(), leads);
	desk->looked_generation = scheduler->ledger.generation;
	gang_desk_carry_out(desk);
	waiting_room_look(scheduler->waiting);
	if (again_ns != INT64_MAX)
		look_within(desk, again_ns > NS_PER_MS ? again_ns : NS_PER_MS);
}

void gang_desk_look(struct gang_desk *desk)
{
	if (desk && desk->gangs.by_uid.count && desk->looked_generation != desk->scheduler->ledger.generation)
		look_within(desk, LOOK_DELAY_NS);
}

void gang_desk_tick(struct gang_desk *desk)
{
	if (!desk)
		return;
	gang_groups_tick(desk->groups, monotonic_ns());
	if (desk->gangs.by_uid.count)
		look_within(desk, NS_PER_S);
}

void gang_desk_see(struct gang_desk *desk, const struct pod_facts *pod, bool listed)
{
	if (!desk || (!pod->gang && !desk->gangs.by_uid.count))
		return;
	gangs_set_following(&desk->gangs, sync_is_following(desk->scheduler->sync));
	if (gangs_see_pod(&desk->gangs, &desk->scheduler->ledger, pod, listed, monotonic_ns()) < 0)
		log_error("pod %s/%s: out of memory", pod->namespace_, pod->name);
	gang_desk_carry_out(desk);
	if (pod->gang)
		look_within(desk, LOOK_DELAY_NS);
}

void gang_desk_forget(struct gang_desk *desk, const char *uid, bool ended)
{
	if (!desk || (!gangs_facts(&desk->gangs, uid) && !table_get(&desk->gangs.done, uid)))
		return;
	if (ended)
		gangs_forget_pod(&desk->gangs, uid);
	else
		gangs_delete_pod(&desk->gangs, uid);
	gang_desk_carry_out(desk);
	look_within(desk, LOOK_DELAY_NS);
}

bool gang_desk_filter(struct gang_desk *desk, const struct pod_facts *pod, const char *const *names, size_t n,
	const char **ret_node, const char **ret_text)
{
	struct ledger *ledger = desk ? &desk->scheduler->ledger : NULL;
	enum gang_answer answer;

	/* kube-scheduler may know before our watch that a pod has left its gang. */
	if (!desk || (!pod->gang && !gangs_facts(&desk->gangs, pod->uid)))
		return false;
	*ret_node = NULL;
	ledger_expire(ledger, monotonic_ns());
	answer = gangs_filter(&desk->gangs, ledger, pod, names, n, monotonic_ns(), ret_node, ret_text);
	gang_desk_carry_out(desk);
	if (answer == GANG_NONE)
		return false;
	/* From now on we wake it: alone it would not help. */
	waiting_room_leave(desk->scheduler->waiting, pod->uid);
	look_within(desk, LOOK_DELAY_NS);
	return true;
}

bool gang_desk_seek(
	struct gang_desk *desk, const struct pod_facts *pod, size_t *ret_needed, const char **ret_mate)
{
	return desk &&
	       gangs_seek(&desk->gangs, &desk->scheduler->ledger, pod, monotonic_ns(), ret_needed, ret_mate);
}

bool gang_desk_fit_on(struct gang_desk *desk, const char *uid, const struct table *nodes, size_t needed)
{
	return gangs_fit_on(&desk->gangs, &desk->scheduler->ledger, uid, nodes, needed);
}

void gang_desk_for_waiting(const struct gang_desk *desk, const char *uid,
	void (*call)(void *userdata, const char *uid), void *userdata)
{
	gangs_for_waiting(&desk->gangs, uid, call, userdata);
}

bool gang_desk_has_none(const struct gang_desk *desk, const char *uid)
{
	return desk && gangs_has_none(&desk->gangs, uid);
}

bool gang_desk_gathers(struct gang_desk *desk, const char *uid)
{
	if (!desk || !gangs_bind(&desk->gangs, &desk->scheduler->ledger, uid, monotonic_ns()))
		return false;
	look_within(desk, LOOK_DELAY_NS);
	return true;
}

void gang_desk_sent(struct gang_desk *desk, const char *uid)
{
	gangs_sent(&desk->gangs, uid);
}

void gang_desk_failed(struct gang_desk *desk, const char *uid, const char *why)
{
	gangs_give_up(&desk->gangs, &desk->scheduler->ledger, uid, why, monotonic_ns());
	look_within(desk, LOOK_DELAY_NS);
}

const struct pod_facts *gang_desk_facts(const struct gang_desk *desk, const char *uid)
{
	return desk ? gangs_facts(&desk->gangs, uid) : NULL;
}

bool gang_desk_are_mates(const struct gang_desk *desk, const char *uid, const char *other)
{
	return desk && gangs_are_mates(&desk->gangs, uid, other);
}

bool gang_desk_is_forming(const struct gang_desk *desk, const char *uid)
{
	return desk && gangs_is_forming(&desk->gangs, uid);
}

bool gang_desk_rules_out(const struct gang_desk *desk, const struct pod_facts *pod)
{
	return desk && gangs_rules_out(&desk->gangs, pod);
}

bool gang_desk_holds(const struct gang_desk *desk, const char *uid)
{
	return desk && gangs_holds(&desk->gangs, uid);
}

bool gang_desk_find(const struct gang_desk *desk, const char *uid, struct gang_view *ret_view)
{
	return desk && gangs_find(&desk->gangs, &desk->scheduler->ledger, uid, monotonic_ns(), ret_view);
}
