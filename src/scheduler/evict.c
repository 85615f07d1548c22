/* evict.c - the requests to the API server for evictions by ration (core/evicting.h), with their counters,
 * records, Events and log lines; the watch of PodDisruptionBudgets. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "kube/eviction.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/watch.h"
#include "scheduler/actuator.h"
#include "scheduler/record.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"

#define TIMEOUT_MS 5000

static struct scheduler *scheduler_of(const struct eviction_attempt *attempt)
{
	return attempt->evictions->userdata;
}

/* ---- counters, recordings, Events and the log ---- */

static void on_answered(struct scheduler *scheduler, const struct eviction_report *report)
{
	const struct eviction_attempt *attempt = report->attempt;
	const struct pod_facts *pod = &attempt->pod, *victim = eviction_victim(attempt);
	char text[2048];

	if (report->answer == EVICTION_REFUSED) {
		snprintf(text, sizeof(text), "pod %s/%s could not be evicted from %s to make room: %s",
			victim->namespace_, victim->name, attempt->plan.gpu, report->text);
		log_info("pod %s/%s: %s", pod->namespace_, pod->name, text);
		post_pod_event(scheduler, pod, "Warning", "PreemptionBlocked", text);
	}
	scheduler->metrics.evictions[report->answer]++;
	if (report->answer != EVICTION_AGAIN)
		record_eviction(scheduler, pod, victim, eviction_node(attempt), report->text);
	if (report->answer == EVICTION_ACCEPTED) {
		snprintf(text, sizeof(text), "evicted from %s to make room for pod %s/%s of higher priority",
			attempt->plan.gpu, pod->namespace_, pod->name);
		post_pod_event(scheduler, victim, "Normal", "Preempted", text);
	}
}

static void tell_preemptor(const struct eviction_attempt *attempt)
{
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, 1000);
	strbuf_addf(&text, "%s is kept for this pod", attempt->plan.gpu);
	for (size_t i = 0; i < attempt->plan.n_victims; i++)
		strbuf_addf(&text, "%s %s/%s",
			i ? "," : "; evicted for it:", attempt->plan.victims[i].namespace_,
			attempt->plan.victims[i].name);
	post_pod_event(scheduler_of(attempt), &attempt->pod, "Normal", "Preempting", strbuf_cstr(&text));
}

static void on_report(void *userdata, const struct eviction_report *report)
{
	struct scheduler *scheduler = userdata;
	const struct eviction_attempt *attempt = report->attempt;
	const struct pod_facts *pod = &attempt->pod;

	switch (report->kind) {
	case EVICTION_SEARCHED:
		scheduler->metrics.eviction_searches[report->search]++;
		record_eviction_search(scheduler, pod, report->n_names,
			(const char *const *)attempt->nodes.names, attempt->nodes.n, report->text);
		if (report->search == SEARCH_PROTECTED)
			post_pod_event(scheduler, pod, "Warning", "PreemptionBlocked", report->text);
		break;
	case EVICTION_CHOSEN:
		record_eviction_plan(scheduler, pod, report->plan);
		log_info("pod %s/%s: %zu pods are evicted from %s", pod->namespace_, pod->name,
			attempt->plan.n_victims, attempt->plan.gpu);
		break;
	case EVICTION_ANSWERED:
		on_answered(scheduler, report);
		break;
	case EVICTION_NOMINATED:
		tell_preemptor(attempt);
		break;
	case EVICTION_NOT_REQUEUED:
		requeue_log_refused(pod->namespace_, pod->name, report->error);
		break;
	case EVICTION_ENDED:
		if (report->end == ATTEMPT_STUCK || report->end == ATTEMPT_UNUSED)
			log_warning("pod %s/%s: %s: %s", pod->namespace_, pod->name, attempt->plan.gpu,
				report->text);
		scheduler->metrics.eviction_attempts[report->end]++;
		record_eviction_end(scheduler, pod, eviction_node(attempt), report->text);
		break;
	}
}

void evictions_start(struct scheduler *scheduler)
{
	scheduler->core.evictions.report = on_report;
	scheduler->core.evictions.userdata = scheduler;
}

/* ---- requests ---- */

static void on_evicted(void *userdata, const struct kube_response *response)
{
	struct eviction_attempt *attempt = userdata;
	struct error reason;
	bool accepted = eviction_was_accepted(response, &reason);

	core_eviction_answered(&scheduler_of(attempt)->core, attempt,
		eviction_outcome(response->result, response->status, accepted), reason.text, monotonic_ns());
}

static void on_marked(void *userdata, const struct kube_response *response)
{
	struct eviction_attempt *attempt = userdata;

	core_victim_is_marked(&scheduler_of(attempt)->core, attempt);
}

static void on_nominated(void *userdata, const struct kube_response *response)
{
	struct eviction_attempt *attempt = userdata;
	bool written = response->result == 0 && response->status / 100 == 2;

	if (!written)
		log_warning("pod %s/%s: cannot set its nominatedNodeName: %s", attempt->pod.namespace_,
			attempt->pod.name, response->text);
	core_nomination_answered(&scheduler_of(attempt)->core, attempt, written);
}

static void on_cleared(void *userdata, const struct kube_response *response)
{
	struct eviction_attempt *attempt = userdata;

	if (response->result < 0 || (response->status / 100 != 2 && response->status != 404))
		log_warning("cannot clear a pod's nominatedNodeName: %s, ignoring", response->text);
	core_nomination_is_cleared(&scheduler_of(attempt)->core, attempt);
}

static int patch_status(struct kube_client *client, const struct pod_facts *pod, const char *content_type,
	struct json_object *status, kube_response_fn fn, void *userdata)
{
	_cleanup_json_ struct json_object *patch = json_object_new_object();
	_cleanup_free_ char *path = NULL;

	if (json_set(patch, "status", status) < 0 ||
		json_set(patch, "metadata", json_new_pair("uid", pod->uid)) < 0)
		return -ENOMEM;
	if (asprintf(&path, "/api/v1/namespaces/%s/pods/%s/status", pod->namespace_, pod->name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return kube_request(
		client, "PATCH", path, content_type, json_text(patch), TIMEOUT_MS, fn, userdata, NULL);
}

/* Sets the condition by which kube-scheduler recognizes pods that leave for a nominated one
 * (DisruptionTarget, PreemptionByScheduler). It replaces the one that the eviction API sets. */
static int mark_victim(struct kube_client *client, struct eviction_attempt *attempt)
{
	struct json_object *status = json_object_new_object(), *conditions = json_object_new_array();
	struct json_object *condition = json_new_pair("type", "DisruptionTarget");

	if (json_set(condition, "status", json_object_new_string("True")) < 0 ||
		json_set(condition, "reason", json_object_new_string("PreemptionByScheduler")) < 0 ||
		json_set(condition, "message",
			json_object_new_string(
				SCHEDULER_NAME ": preempting to accommodate a higher priority pod")) < 0 ||
		!conditions || json_object_array_add(conditions, condition) < 0) {
		json_object_put(condition);
		json_object_put(conditions);
		json_object_put(status);
		return -ENOMEM;
	}
	if (json_set(status, "conditions", conditions) < 0) {
		json_object_put(status);
		return -ENOMEM;
	}
	return patch_status(
		client, eviction_victim(attempt), KUBE_CONTENT_STRATEGIC_PATCH, status, on_marked, attempt);
}

/* node "": ends the nomination. */
static int nominate(
	struct kube_client *client, struct eviction_attempt *attempt, const char *node, kube_response_fn fn)
{
	return patch_status(client, &attempt->pod, KUBE_CONTENT_MERGE_PATCH,
		json_new_pair("nominatedNodeName", node), fn, attempt);
}

static int send(struct kube_client *client, struct eviction_attempt *attempt)
{
	const struct pod_facts *victim;

	switch (attempt->order) {
	case EVICTION_ORDER_EVICT:
		victim = eviction_victim(attempt);
		return eviction_request(
			client, victim->namespace_, victim->name, victim->uid, on_evicted, attempt);
	case EVICTION_ORDER_MARK:
		return mark_victim(client, attempt);
	case EVICTION_ORDER_NOMINATE:
		return nominate(client, attempt, eviction_node(attempt), on_nominated);
	default:
		return nominate(client, attempt, "", on_cleared);
	}
}

void evictions_carry_out(struct scheduler *scheduler)
{
	struct eviction_attempt *attempt;

	while ((attempt = core_next_eviction_order(&scheduler->core)))
		if (send(scheduler->client, attempt) < 0)
			core_eviction_not_asked(&scheduler->core, attempt);
}

struct budget_sync {
	struct scheduler *scheduler;
	struct kube_watch *watch;
};

static void on_budget(void *userdata, struct json_object *object)
{
	struct budget_sync *sync = userdata;
	struct budget *budget;
	struct error err = {0};

	if (budget_from_json(object, &budget, &err) < 0)
		log_warning("a PodDisruptionBudget that cannot be read: %s, ignoring", err.text);
	else if (core_see_budget(&sync->scheduler->core, budget) < 0)
		log_error("PodDisruptionBudget: out of memory");
}

static void on_budget_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct budget_sync *sync = userdata;

	core_budget_is_gone(&sync->scheduler->core, uid);
}

static void on_budgets_synced(void *userdata)
{
	struct budget_sync *sync = userdata;

	log_debug("PodDisruptionBudgets are read: %zu", sync->scheduler->core.budgets.by_uid.count);
}

int budget_sync_start(struct scheduler *scheduler, struct budget_sync **ret_sync)
{
	static const struct kube_watch_ops ops = {
		.object = on_budget, .deleted = on_budget_deleted, .synced = on_budgets_synced};
	struct budget_sync *sync = calloc(1, sizeof(*sync));
	int r;

	if (!sync)
		return -ENOMEM;
	sync->scheduler = scheduler;
	r = kube_watch_start(scheduler->client, scheduler->loop, "/apis/policy/v1/poddisruptionbudgets", NULL,
		&ops, sync, &sync->watch);
	if (r < 0) {
		free(sync);
		return r;
	}
	*ret_sync = sync;
	return 0;
}

void budget_sync_stop(struct budget_sync *sync)
{
	if (!sync)
		return;
	kube_watch_free(sync->watch);
	free(sync);
}
