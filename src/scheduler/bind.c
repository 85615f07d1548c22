#include "scheduler/bind.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "core/placement/decide.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "net/http-server.h"
#include "net/loop.h"
#include "scheduler/bind-internal.h"
#include "scheduler/binding.h"
#include "scheduler/extender.h"
#include "scheduler/gangs.h"
#include "scheduler/lease.h"
#include "scheduler/policies.h"
#include "scheduler/record.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"

#define IN_FLIGHT_MAX 64
/* Well inside kube-scheduler's httpTimeout of 10 s: after that it forgets the pod, and nothing of ours may
 * land. */
#define DEADLINE_MS 3000
/* No request of a bind starts later than this after the call came in, however long it waited for its turn:
 * the last one is over after 8 s. */
#define START_MAX_NS (5 * NS_PER_S)

static void bind_free(struct bind *bind)
{
	if (!bind)
		return;
	list_remove(&bind->item);
	binding_release(&bind->what);
	free(bind->text);
	free(bind);
}

static void bind_queue_on_doubt_timer(void *userdata);

int bind_queue_new(struct scheduler *scheduler, struct bind_queue **ret_queue)
{
	struct bind_queue *queue = calloc(1, sizeof(*queue));
	int r;

	if (!queue)
		return -ENOMEM;
	queue->scheduler = scheduler;
	list_init(&queue->pending);
	list_init(&queue->in_flight);
	list_init(&queue->doubtful);
	list_init(&queue->waiting);
	list_init(&queue->gathering);
	r = loop_add_timer(scheduler->loop, bind_queue_on_doubt_timer, queue, &queue->doubt_timer);
	if (r < 0) {
		free(queue);
		return r;
	}
	*ret_queue = queue;
	return 0;
}

void bind_queue_free(struct bind_queue *queue)
{
	if (!queue)
		return;
	list_for_each_safe (item, after, &queue->doubtful)
		bind_free(list_entry(item, struct bind, item));
	loop_timer_remove(queue->doubt_timer);
	free(queue);
}

size_t bind_queue_busy(const struct bind_queue *queue)
{
	return queue->n_pending + queue->n_in_flight;
}

size_t bind_queue_doubtful(const struct bind_queue *queue)
{
	size_t n = 0;

	list_for_each (item, &queue->doubtful)
		n++;
	return n;
}

static void bind_answer(struct bind *bind, enum bind_outcome result, const char *error)
{
	struct scheduler_metrics *metrics = &bind->queue->scheduler->metrics;

	metrics->bind_results[result]++;
	histogram_observe(&metrics->bind, monotonic_ns() - bind->submitted_ns);
	if (*error)
		log_warning("bind of pod %s/%s to node %s: %s", bind->what.namespace_, bind->what.name,
			bind->what.node, error);
	record_outcome(bind->queue->scheduler, bind->what.uid, bind->what.namespace_, bind->what.name,
		bind->what.node, error, monotonic_ns() - bind->submitted_ns);
	http_call_reply(bind->call, 200, "application/json", extender_error(error));
	bind->call = NULL;
}

/* The Binding may have been applied although we do not know it: the GPU stays reserved until the watch shows
 * the truth, at most for WATCH_LAG_MAX_NS. */
static void bind_doubt(struct bind *bind)
{
	struct bind_queue *queue = bind->queue;
	bool first = list_empty(&queue->doubtful);

	bind->doubt_ends_ns = monotonic_ns() + WATCH_LAG_MAX_NS;
	list_append(&queue->doubtful, &bind->item);
	if (first)
		loop_timer_set(queue->doubt_timer, WATCH_LAG_MAX_NS);
}

static void bind_queue_on_doubt_timer(void *userdata)
{
	struct bind_queue *queue = userdata;
	int64_t now = monotonic_ns();

	/* Without a watch nobody can tell us yet: what is in doubt stays so. */
	if (!sync_is_following(queue->scheduler->sync)) {
		loop_timer_set(queue->doubt_timer, NS_PER_S);
		return;
	}
	list_for_each_safe (item, after, &queue->doubtful) {
		struct bind *bind = list_entry(item, struct bind, item);

		if (bind->doubt_ends_ns > now) {
			loop_timer_set(queue->doubt_timer, bind->doubt_ends_ns - now);
			break;
		}
		ledger_release_reservation(&queue->scheduler->ledger, bind->what.uid);
		bind_free(bind);
	}
	requeuer_look(queue->scheduler->requeuer);
}

static void bind_queue_advance(struct bind_queue *queue);

static void on_bound(void *userdata, const struct kube_response *response)
{
	struct bind *bind = userdata;
	struct bind_queue *queue = bind->queue;
	struct scheduler *scheduler = queue->scheduler;
	enum binding_outcome outcome = binding_outcome(response->result, response->status);
	char text[700];

	list_remove(&bind->item);
	queue->n_in_flight--;
	if (outcome == BINDING_APPLIED) {
		ledger_confirm(&scheduler->ledger, bind->what.uid);
		requeuer_leave(scheduler->requeuer, bind->what.uid);
		log_info("pod %s/%s bound to node %s", bind->what.namespace_, bind->what.name,
			bind->what.node);
		bind_answer(bind, BIND_BOUND, "");
		bind_free(bind);
	} else {
		snprintf(text, sizeof(text), "Binding failed: %s", response->text);
		bind_answer(bind, outcome == BINDING_REFUSED ? BIND_REFUSED : BIND_IN_DOUBT, text);
		if (outcome == BINDING_REFUSED) {
			ledger_release_reservation(&scheduler->ledger, bind->what.uid);
			bind_free(bind);
		} else {
			bind_doubt(bind);
		}
		requeuer_look(scheduler->requeuer);
	}
	bind_queue_advance(queue);
}

void bind_refuse(struct bind *bind, enum bind_outcome result, const char *text)
{
	/* kube-scheduler asks filter again before it binds the pod, if it still wants to: until then nobody
	 * waits for this GPU. If it has hung up, it may have asked already. */
	if (result != BIND_ABANDONED && result != BIND_LATE)
		ledger_drop_hold(&bind->queue->scheduler->ledger, bind->what.uid);
	bind_answer(bind, result, text);
	bind_free(bind);
}

/* text: the Binding, NULL with the sentence in err. GPUs, if any, are reserved. */
void bind_post(struct bind *bind, const char *text, const struct error *err)
{
	struct bind_queue *queue = bind->queue;
	struct error lost = {0};
	char path[1024];
	int r;

	if (!text) {
		bind_refuse(bind, bind->refusal, err->text);
		return;
	}
	if (ledger_lease_may_bind(queue->scheduler->lease, &lost) < 0) {
		ledger_release_reservation(&queue->scheduler->ledger, bind->what.uid);
		bind_refuse(bind, BIND_NOT_OWNER, lost.text);
		return;
	}
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s/binding", bind->what.namespace_,
		bind->what.name);
	r = kube_request(queue->scheduler->client, "POST", path, KUBE_CONTENT_JSON, text, DEADLINE_MS,
		on_bound, bind, NULL);
	if (r < 0) {
		ledger_release_reservation(&queue->scheduler->ledger, bind->what.uid);
		bind_refuse(bind, BIND_FAILED, strerror(-r));
		return;
	}
	list_append(&queue->in_flight, &bind->item);
	queue->n_in_flight++;
}

static void bind_with_gpu(struct bind *bind, const struct pod_facts *facts)
{
	struct error err = {0};
	_cleanup_free_ char *text = NULL;

	if (facts->gang && bind_gathers(bind, facts))
		return;
	text = bind_reserve(bind->queue->scheduler, bind, facts, &err);
	bind_post(bind, text, &err);
}

/* A pod that asks for "0" of our resources is still ours to bind, but needs no GPU. */
static void bind_without_gpu(struct bind *bind)
{
	struct json_object *none = json_object_new_object();
	struct error err = {.text = "out of memory"};
	_cleanup_free_ char *text = NULL;

	if (policies_confirm(bind->queue->scheduler->policies, bind->what.namespace_, bind->what.uid,
		    bind->what.node, &err) == 0)
		text = binding_text(&bind->what, none);
	json_object_put(none);
	bind_post(bind, text, &err);
}

bool bind_is_late(const struct bind *bind)
{
	return monotonic_ns() - bind->submitted_ns > START_MAX_NS;
}

#define LATE_TEXT "the API server is too slow to bind the pod in time, trying again"

/* Between filter and bind we may have been restarted, the watch may lag, or the pod needs no GPU: ask for
 * it. */
static void on_pod(void *userdata, const struct kube_response *response)
{
	struct bind *bind = userdata;
	struct bind_queue *queue = bind->queue;
	_cleanup_pod_facts_ struct pod_facts facts;
	struct json_object *pod = NULL;
	struct error err = {0};
	char text[700];

	list_remove(&bind->item);
	queue->n_in_flight--;
	pod_facts_init(&facts);
	if (response->result == 0 && response->status == 200)
		pod = json_tokener_parse(response->body);
	if (!pod) {
		snprintf(text, sizeof(text), "cannot read the pod: %s", response->text);
		bind_refuse(bind, BIND_POD_UNREADABLE, text);
	} else if (pod_facts_read(pod, &facts, &err) < 0) {
		bind_refuse(bind, BIND_POD_UNREADABLE, err.text);
	} else if (strcmp(facts.uid, bind->what.uid) != 0) {
		bind_refuse(bind, BIND_POD_REPLACED, "the pod was deleted and created anew meanwhile");
	} else if (bind_is_late(bind)) {
		bind_refuse(bind, BIND_LATE, LATE_TEXT);
	} else if (request_is_empty(&facts.request)) {
		bind_without_gpu(bind);
	} else {
		bind_with_gpu(bind, &facts);
	}
	json_object_put(pod);
	bind_queue_advance(queue);
}

static void bind_read_pod_or_go_on(struct bind *bind)
{
	struct bind_queue *queue = bind->queue;
	const struct ledger_pod *known = ledger_pod(&queue->scheduler->ledger, bind->what.uid);
	char path[1024];
	int r;

	if (known) {
		bind_with_gpu(bind, &known->facts);
		return;
	}
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", bind->what.namespace_, bind->what.name);
	r = kube_request(queue->scheduler->client, "GET", path, NULL, NULL, DEADLINE_MS, on_pod, bind, NULL);
	if (r < 0) {
		bind_refuse(bind, BIND_FAILED, strerror(-r));
		return;
	}
	list_append(&queue->in_flight, &bind->item);
	queue->n_in_flight++;
}

/* The node's list is there, or failed: who waited for it has its turn again. */
static void bind_queue_wake(struct bind_queue *queue, const char *node)
{
	list_for_each_safe (item, after, &queue->waiting) {
		struct bind *bind = list_entry(item, struct bind, item);

		if (strcmp(bind->what.node, node) != 0)
			continue;
		list_remove(item);
		list_append(&queue->pending, item);
	}
}

static void on_node_listed(void *userdata, const struct kube_response *response)
{
	struct bind *bind = userdata;
	struct bind_queue *queue = bind->queue;
	bool ok = response->result == 0 && response->status == 200;
	char text[700];

	list_remove(&bind->item);
	queue->n_in_flight--;
	if (ok && leadership_read_pods(queue->scheduler, response) < 0)
		ok = false;
	leadership_end(
		&queue->scheduler->leadership, bind->what.node, bind->leadership_period, ok, monotonic_ns());
	bind_queue_wake(queue, bind->what.node);
	if (!ok) {
		snprintf(text, sizeof(text), "cannot read the pods of node %s: %s", bind->what.node,
			response->status == 200 ? "the answer is no list" : response->text);
		bind_refuse(bind, BIND_FAILED, text);
	} else if (http_call_is_gone(bind->call)) {
		bind_refuse(bind, BIND_ABANDONED, "kube-scheduler has closed the connection");
	} else if (bind_is_late(bind)) {
		bind_refuse(bind, BIND_LATE, LATE_TEXT);
	} else {
		bind_read_pod_or_go_on(bind);
	}
	bind_queue_advance(queue);
}

static void bind_start(struct bind *bind)
{
	struct bind_queue *queue = bind->queue;
	struct leadership *leadership = &queue->scheduler->leadership;
	int r;

	switch (leadership_node(leadership, bind->what.node, monotonic_ns())) {
	case LEADERSHIP_GO:
		bind_read_pod_or_go_on(bind);
		return;
	case LEADERSHIP_WAIT:
		list_append(&queue->waiting, &bind->item);
		queue->n_pending++;
		return;
	case LEADERSHIP_LIST:
		break;
	}
	r = leadership_list_node(queue->scheduler, bind->what.node, DEADLINE_MS, on_node_listed, bind);
	if (r < 0) {
		bind_refuse(bind, BIND_FAILED, strerror(-r));
		return;
	}
	bind->leadership_period = leadership_begin(leadership, bind->what.node);
	list_append(&queue->in_flight, &bind->item);
	queue->n_in_flight++;
}

/* A caller that has hung up (time-out, restart) has forgotten the pod: binding it now would be behind its
 * back. */
static void bind_queue_advance(struct bind_queue *queue)
{
	while (queue->n_in_flight < IN_FLIGHT_MAX && !list_empty(&queue->pending)) {
		struct bind *bind = list_entry(queue->pending.next, struct bind, item);

		list_remove(&bind->item);
		queue->n_pending--;
		if (http_call_is_gone(bind->call))
			bind_refuse(bind, BIND_ABANDONED, "kube-scheduler has closed the connection");
		else if (bind_is_late(bind))
			bind_refuse(bind, BIND_LATE, LATE_TEXT);
		else
			bind_start(bind);
	}
}

void bind_queue_submit(struct bind_queue *queue, struct http_call *call, const char *body, size_t len)
{
	bool ready = scheduler_is_ready(queue->scheduler);
	struct bind *bind = ready ? calloc(1, sizeof(*bind)) : NULL;
	struct error err = {0};

	if (!bind || binding_parse(body, len, &bind->what) < 0) {
		const char *problem =
			ready ? "bind needs PodName, PodNamespace, PodUID and Node"
			      : "ration-scheduler has not read the cluster's nodes and pods yet";

		queue->scheduler->metrics.bind_results[ready ? BIND_BAD_REQUEST : BIND_NOT_READY]++;
		http_call_reply(call, 200, "application/json", extender_error(problem));
		free(bind);
		return;
	}
	bind->queue = queue;
	bind->call = call;
	bind->refusal = BIND_FAILED;
	bind->submitted_ns = monotonic_ns();
	if (ledger_lease_may_bind(queue->scheduler->lease, &err) < 0) {
		bind_refuse(bind, BIND_NOT_OWNER, err.text);
		return;
	}
	leadership_note_call(&queue->scheduler->leadership, call, bind->submitted_ns);
	list_append(&queue->pending, &bind->item);
	queue->n_pending++;
	bind_queue_advance(queue);
}
