#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/resource-policy.h"
#include "net/http-server.h"
#include "scheduler/leads.h"
#include "scheduler/lease.h"
#include "scheduler/levels-internal.h"
#include "scheduler/scheduler.h"

#define TIMEOUT_MS 3000
#define IN_FLIGHT_MAX 16
#define AGAIN_NS NS_PER_S
#define LEADS_NS (2 * NS_PER_S)
#define ASK_WHO_LEADS_NS NS_PER_S

struct level_write *level_write_new(struct levels *levels, const char *space, const char *uid)
{
	struct level_write *write = calloc(1, sizeof(*write));

	if (!write)
		return NULL;
	write->levels = levels;
	write->space = strdup(space);
	write->uid = strdup(uid);
	list_append(&levels->requests, &write->item);
	levels->n_requests++;
	if (write->space && write->uid)
		return write;
	level_write_free(write);
	return NULL;
}

void level_write_free(struct level_write *write)
{
	list_remove(&write->item);
	write->levels->n_requests--;
	free(write->space);
	free(write->uid);
	free(write->good);
	free(write->bad);
	free(write->status);
	free(write);
}

static void answer_call(struct level_write *write, bool ok)
{
	if (!write->call)
		return;
	http_call_reply(
		write->call, 200, "application/json", ok ? TAKE_PTR(write->good) : TAKE_PTR(write->bad));
	write->call = NULL;
}

void levels_writes_stop(struct levels *levels)
{
	list_for_each_safe (item, after, &levels->requests) {
		struct level_write *write = list_entry(item, struct level_write, item);

		answer_call(write, false);
		level_write_free(write);
	}
}

static struct level_pod *pod_of(const struct level_write *write)
{
	struct level_space *space = levels_space(write->levels, write->space);

	return space ? level_book_pod(&space->book, write->uid) : NULL;
}

static bool arrived(const struct kube_response *response)
{
	return response->result == 0 && response->status / 100 == 2;
}

static int patch(struct levels *levels, const struct level_pod_facts *pod, const char *type, const char *body,
	kube_response_fn fn, struct level_write *write)
{
	char path[1024];

	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->namespace_, pod->name);
	levels->writes++;
	return kube_request(
		levels->scheduler->client, "PATCH", path, type, body, TIMEOUT_MS, fn, write, NULL);
}

/* ---- marks: podLabels and podAnnotations, before the answer ---- */

static void add_pairs(struct json_object *object, const struct label_pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++)
		json_set(object, pairs->list[i].key, json_object_new_string(pairs->list[i].value));
}

/* Those of another level that the pod was given before. */
static void drop_pairs(struct json_object *object, const struct label_pairs *pairs, const char *labels)
{
	for (size_t i = 0; i < pairs->n; i++)
		if (labels_have(labels, pairs->list[i].key, pairs->list[i].value))
			json_object_object_add(object, pairs->list[i].key, NULL);
}

static char *marks_text(const struct level_pod *pod, size_t level)
{
	struct json_object *root = json_object_new_object(), *metadata = json_object_new_object(),
			   *labels = json_object_new_object(), *annotations = json_object_new_object();
	const struct level_policy *policy = pod->policy;
	char *text;

	for (size_t i = 0; i < policy->n_levels; i++) {
		if (i == level)
			continue;
		drop_pairs(labels, &policy->levels[i].pod_labels, pod->facts.labels);
		drop_pairs(annotations, &policy->levels[i].pod_annotations, pod->facts.annotations);
	}
	add_pairs(labels, &policy->levels[level].pod_labels);
	add_pairs(annotations, &policy->levels[level].pod_annotations);
	json_set(metadata, "uid", json_object_new_string(pod->facts.uid));
	json_set(metadata, "labels", labels);
	json_set(metadata, "annotations", annotations);
	json_set(root, "metadata", metadata);
	text = json_text(root) ? strdup(json_text(root)) : NULL;
	json_object_put(root);
	return text;
}

static void on_marked(void *userdata, const struct kube_response *response)
{
	struct level_write *write = userdata;
	struct level_pod *pod = pod_of(write);

	if (!arrived(response)) {
		log_warning("pod %s/%s: the labels of its level cannot be written: %s, trying again",
			write->space, pod ? pod->facts.name : write->uid, response->text);
		if (pod) {
			level_book_drop_claim(&levels_space(write->levels, write->space)->book, pod);
			pod->waits = true;
			pod->waits_since_ns = monotonic_ns();
			pod->wake_ns = monotonic_ns() + AGAIN_NS;
		}
	}
	answer_call(write, arrived(response));
	level_write_free(write);
}

void levels_reply(const struct levels_say *say, struct http_call *call, char *good, char *bad)
{
	const struct level_pod *pod = say->pod;
	struct level_write *write = level_write_new(say->levels, pod->facts.namespace_, pod->facts.uid);
	_cleanup_free_ char *text = marks_text(pod, (size_t)pod->claim);
	int r = -ENOMEM;

	if (!write) {
		free(good);
		http_call_reply(call, 200, "application/json", bad);
		return;
	}
	write->call = call;
	write->good = good;
	write->bad = bad;
	if (text)
		r = patch(say->levels, &pod->facts, KUBE_CONTENT_MERGE_PATCH, text, on_marked, write);
	if (r == 0)
		return;
	answer_call(write, false);
	level_write_free(write);
}

/* ---- tolerations and deletion costs ---- */

static void on_written(void *userdata, const struct kube_response *response)
{
	struct level_write *write = userdata;
	struct level_space *space = levels_space(write->levels, write->space);
	struct level_pod *pod = pod_of(write);

	/* What arrived is shown by the watch, which ends busy. A conflict: somebody was faster, and will be
	 * shown. */
	if (pod && !arrived(response) && response->status != 404) {
		if (response->status != 409)
			log_warning("pod %s/%s: what its level needs cannot be written: %s, trying again",
				write->space, pod->facts.name, response->text);
		pod->busy = false;
		pod->not_before_ns = monotonic_ns() + AGAIN_NS;
	}
	if (space)
		space->unwritten = true;
	levels_look_soon(write->levels);
	level_write_free(write);
}

static void send(struct level_space *space, struct level_pod *pod, const char *type, const char *body)
{
	struct level_write *write = level_write_new(space->levels, space->name, pod->facts.uid);
	int r = write ? patch(space->levels, &pod->facts, type, body, on_written, write) : -ENOMEM;

	pod->busy = r == 0;
	pod->not_before_ns = monotonic_ns() + AGAIN_NS;
	if (r < 0 && write)
		level_write_free(write);
}

static bool has_virtual_level(const struct level_policy *policy)
{
	for (size_t i = 0; i < policy->n_levels; i++)
		if (level_kind_is_virtual(policy->levels[i].kind))
			return true;
	return false;
}

/* kube-scheduler's own filter keeps it from the virtual nodes, and we are not asked about them before it has
 * the toleration. Only tolerations can be added to a pod that exists (ValidatePodUpdate,
 * core/validation.go; 1.36.3). */
static bool needs_toleration(const struct level_pod *pod)
{
	return pod->policy && !*pod->facts.node && pod->facts.verdict && !pod->facts.tolerates &&
	       !pod->facts.terminating && (pod->facts.ours || pod->asked) && has_virtual_level(pod->policy);
}

#define TOLERATION "{\"key\":\"" TAINT_VIRTUAL_NODE "\",\"operator\":\"Exists\",\"effect\":\"NoSchedule\"}"

static void write_toleration(struct level_space *space, struct level_pod *pod)
{
	char body[512];

	snprintf(body, sizeof(body),
		"[{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":\"%.64s\"},"
		"{\"op\":\"add\",\"path\":\"/spec/tolerations%s\",\"value\":%s}]",
		pod->facts.uid, pod->facts.has_tolerations ? "/-" : "",
		pod->facts.has_tolerations ? TOLERATION : "[" TOLERATION "]");
	send(space, pod, KUBE_CONTENT_JSON_PATCH, body);
}

/* Pods of the first level have none, which is 0: those of the last level go first. */
static int32_t cost_of(const struct level_pod *pod)
{
	return pod->policy && pod->level > 0 ? -pod->level : 0;
}

static bool needs_cost(const struct level_pod *pod)
{
	bool wanted = cost_of(pod) != 0;

	if (!*pod->facts.node || pod->facts.terminating || !*pod->facts.version)
		return false;
	if (pod->facts.cost == LEVEL_COST_OURS)
		return pod->facts.cost_value != cost_of(pod);
	return wanted && pod->facts.cost == LEVEL_COST_NONE && pod->facts.of_replica_set;
}

/* With the resourceVersion as precondition: what the user writes meanwhile is never overwritten. */
static void write_cost(struct level_space *space, struct level_pod *pod)
{
	char value[32] = "null", body[512];

	if (cost_of(pod))
		snprintf(value, sizeof(value), "\"%d\"", cost_of(pod));
	snprintf(body, sizeof(body),
		"{\"metadata\":{\"uid\":\"%.64s\",\"resourceVersion\":\"%s\",\"annotations\":{\"" ANNOTATION_DELETION_COST
		"\":%s,\"" ANNOTATION_LEVEL_COST "\":%s}}}",
		pod->facts.uid, pod->facts.version, value, value);
	send(space, pod, KUBE_CONTENT_MERGE_PATCH, body);
}

static void write_pods(struct level_space *space, int64_t now)
{
	struct level_pod *pod;

	if (!space->unwritten || !levels_space_is_ready(space))
		return;
	level_book_settle(&space->book);
	space->unwritten = false;
	table_for_each (&space->book.pods, cursor, pod) {
		bool toleration = needs_toleration(pod);

		if (!toleration && !needs_cost(pod))
			continue;
		space->unwritten = true;
		if (pod->busy || pod->not_before_ns > now || space->levels->n_requests >= IN_FLIGHT_MAX)
			continue;
		if (toleration)
			write_toleration(space, pod);
		else
			write_cost(space, pod);
	}
}

/* ---- status ---- */

static void on_status(void *userdata, const struct kube_response *response)
{
	struct level_write *write = userdata;
	struct level_space *space = levels_space(write->levels, write->space);
	struct level_status *status = space ? table_get(&space->statuses, write->uid) : NULL;

	if (status) {
		status->busy = false;
		if (arrived(response)) {
			free(status->written);
			status->written = TAKE_PTR(write->status);
			status->settled = !status->accepted;
		} else if (response->status != 404) {
			log_warning("ResourcePolicy %s/%s: its status cannot be written: %s, trying again",
				write->space, status->name, response->text);
		}
	}
	level_write_free(write);
}

static void write_status(struct level_space *space, struct level_status *status, int64_t now)
{
	struct level_write *write;
	char path[1024], *text;
	int r;

	if (space->levels->n_requests >= IN_FLIGHT_MAX)
		return;
	text = level_status_text(status, now);
	if (!text)
		return;
	write = level_write_new(space->levels, space->name, status->uid);
	if (!write) {
		free(text);
		return;
	}
	write->status = text;
	status->not_before_ns = now + LEVEL_STATUS_EVERY_NS;
	snprintf(path, sizeof(path), "%.64s/namespaces/%s/resourcepolicies/%s/status",
		RESOURCE_POLICIES_GROUP, space->name, status->name);
	r = kube_request(space->levels->scheduler->client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH, text,
		TIMEOUT_MS, on_status, write, NULL);
	status->busy = r == 0;
	if (r < 0)
		level_write_free(write);
}

static void write_all(struct levels *levels)
{
	struct level_space *space;
	struct level_status *status;
	int64_t now = monotonic_ns();

	table_for_each (&levels->spaces, cursor, space) {
		write_pods(space, now);
		if (levels_space_is_ready(space) || list_empty(&space->book.policies))
			table_for_each (&space->statuses, at, status)
				write_status(space, status, now);
	}
}

/* ---- only one of the replicas writes ---- */

static void on_lease(void *userdata, const struct kube_response *response)
{
	struct level_write *write = userdata;
	struct levels *levels = write->levels;

	levels->asking = false;
	levels->leads = kube_scheduler_leads_here(response);
	levels->leads_checked_ns = monotonic_ns();
	level_write_free(write);
	if (levels->leads)
		write_all(levels);
}

static void ask_who_leads(struct levels *levels)
{
	struct level_write *write;
	char path[1024];

	if (levels->asking || monotonic_ns() - levels->leads_checked_ns < ASK_WHO_LEADS_NS ||
		ledger_lease_path(levels->scheduler->lease, path, sizeof(path)) < 0)
		return;
	write = level_write_new(levels, "", "");
	if (!write)
		return;
	levels->asking = kube_request(levels->scheduler->client, "GET", path, NULL, NULL, TIMEOUT_MS,
				 on_lease, write, NULL) == 0;
	if (!levels->asking)
		level_write_free(write);
}

static bool wants_to_write(struct levels *levels)
{
	struct level_space *space;
	struct level_status *status;
	int64_t now = monotonic_ns();

	table_for_each (&levels->spaces, cursor, space) {
		if (space->unwritten)
			return true;
		table_for_each (&space->statuses, at, status) {
			char *text = level_status_text(status, now);

			free(text);
			if (text)
				return true;
		}
	}
	return false;
}

void levels_write(struct levels *levels)
{
	struct error ignored;

	if (!levels->scheduler->lease || ledger_lease_may_bind(levels->scheduler->lease, &ignored) < 0)
		return;
	if (levels->leads && monotonic_ns() - levels->leads_checked_ns < LEADS_NS)
		write_all(levels);
	else if (wants_to_write(levels))
		ask_who_leads(levels);
}
