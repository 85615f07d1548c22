/* policies-write.c - writes labels, annotations, tolerations and deletion costs of a ResourcePolicy to pods.
 */
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
#include "scheduler/leadership.h"
#include "scheduler/lease.h"
#include "scheduler/policies-internal.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"

#define TIMEOUT_MS 3000
#define IN_FLIGHT_MAX 16
#define AGAIN_NS NS_PER_S
#define LEADS_NS (2 * NS_PER_S)
#define ASK_WHO_LEADS_NS NS_PER_S

static void policy_write_free(struct policy_write *write)
{
	list_remove(&write->item);
	write->policies->n_requests--;
	free(write->ns);
	free(write->uid);
	free(write->good);
	free(write->bad);
	free(write->status);
	free(write);
}

static struct policy_write *policy_write_new(struct policies *policies, const char *ns, const char *uid)
{
	struct policy_write *write = calloc(1, sizeof(*write));

	if (!write)
		return NULL;
	write->policies = policies;
	write->ns = strdup(ns);
	write->uid = strdup(uid);
	list_append(&policies->requests, &write->item);
	policies->n_requests++;
	if (write->ns && write->uid)
		return write;
	policy_write_free(write);
	return NULL;
}

static void answer_call(struct policy_write *write, bool ok)
{
	if (!write->call)
		return;
	http_call_reply(
		write->call, 200, "application/json", ok ? TAKE_PTR(write->good) : TAKE_PTR(write->bad));
	write->call = NULL;
}

void policies_writes_stop(struct policies *policies)
{
	list_for_each_safe (item, after, &policies->requests) {
		struct policy_write *write = list_entry(item, struct policy_write, item);

		answer_call(write, false);
		policy_write_free(write);
	}
}

static struct policy_pod *pod_of(const struct policy_write *write)
{
	struct policy_namespace *ns = policies_namespace(write->policies, write->ns);

	return ns ? policy_book_pod(&ns->space->book, write->uid) : NULL;
}

static bool arrived(const struct kube_response *response)
{
	return response->result == 0 && response->status / 100 == 2;
}

static int patch(struct policies *policies, const struct policy_pod_facts *pod, const char *type,
	const char *body, kube_response_fn fn, struct policy_write *write)
{
	char path[1024];

	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", pod->namespace_, pod->name);
	policies->writes++;
	return kube_request(
		policies->scheduler->client, "PATCH", path, type, body, TIMEOUT_MS, fn, write, NULL);
}

/* ---- marks: podLabels and podAnnotations, before the answer ---- */

static void add_pairs(struct json_object *object, const struct label_pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++)
		json_set(object, pairs->list[i].key, json_object_new_string(pairs->list[i].value));
}

/* Removes the pairs of another unit that the pod was given before. */
static void drop_pairs(struct json_object *object, const struct label_pairs *pairs, const char *labels)
{
	for (size_t i = 0; i < pairs->n; i++)
		if (labels_have(labels, pairs->list[i].key, pairs->list[i].value))
			json_object_object_add(object, pairs->list[i].key, NULL);
}

static char *marks_text(const struct policy_pod *pod, size_t unit)
{
	struct json_object *root = json_object_new_object(), *metadata = json_object_new_object(),
			   *labels = json_object_new_object(), *annotations = json_object_new_object();
	const struct resource_policy *policy = pod->policy;
	char *text;

	for (size_t i = 0; i < policy->n_units; i++) {
		if (i == unit)
			continue;
		drop_pairs(labels, &policy->units[i].pod_labels, pod->facts.labels);
		drop_pairs(annotations, &policy->units[i].pod_annotations, pod->facts.annotations);
	}
	add_pairs(labels, &policy->units[unit].pod_labels);
	add_pairs(annotations, &policy->units[unit].pod_annotations);
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
	struct policy_write *write = userdata;
	struct policy_namespace *ns = policies_namespace(write->policies, write->ns);
	struct policy_pod *pod = pod_of(write);

	if (!arrived(response)) {
		log_warning("pod %s/%s: the labels of its level cannot be written: %s, trying again",
			write->ns, pod ? pod->facts.name : write->uid, response->text);
		if (pod) {
			int64_t now = monotonic_ns();
			int r = core_policy_marks_failed(&write->policies->scheduler->core, ns->space,
				write->uid, now + AGAIN_NS, now);

			if (r < 0)
				requeue_log_refused(pod->facts.namespace_, pod->facts.name, r);
		}
	}
	answer_call(write, arrived(response));
	policy_write_free(write);
}

void policies_reply(struct policies *policies, const struct policy_decision *decision, struct http_call *call,
	char *good, char *bad)
{
	const struct policy_pod *pod = decision->pod;
	struct policy_write *write = policy_write_new(policies, pod->facts.namespace_, pod->facts.uid);
	_cleanup_free_ char *text = marks_text(pod, (size_t)pod->claim.unit);
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
		r = patch(policies, &pod->facts, KUBE_CONTENT_MERGE_PATCH, text, on_marked, write);
	if (r == 0)
		return;
	answer_call(write, false);
	policy_write_free(write);
}

/* ---- tolerations and deletion costs ---- */

static void on_written(void *userdata, const struct kube_response *response)
{
	struct policy_write *write = userdata;
	struct policy_namespace *ns = policies_namespace(write->policies, write->ns);
	struct policy_pod *pod = pod_of(write);

	/* On success, the watch shows the pod, which ends busy. After a conflict, it shows the change of the
	 * other writer. */
	if (pod && !arrived(response) && response->status != 404) {
		if (response->status != 409)
			log_warning("pod %s/%s: what its level needs cannot be written: %s, trying again",
				write->ns, pod->facts.name, response->text);
		pod->busy = false;
		pod->not_before_ns = monotonic_ns() + AGAIN_NS;
	}
	if (ns)
		ns->space->changed = true;
	policies_look_soon(write->policies);
	policy_write_free(write);
}

static void send(struct policy_namespace *ns, struct policy_pod *pod, const char *type, const char *body)
{
	struct policy_write *write = policy_write_new(ns->policies, ns->space->name, pod->facts.uid);
	int r = write ? patch(ns->policies, &pod->facts, type, body, on_written, write) : -ENOMEM;

	pod->busy = r == 0;
	pod->not_before_ns = monotonic_ns() + AGAIN_NS;
	if (r < 0 && write)
		policy_write_free(write);
}

#define TOLERATION "{\"key\":\"" TAINT_VIRTUAL_NODE "\",\"operator\":\"Exists\",\"effect\":\"NoSchedule\"}"

static void write_toleration(struct policy_namespace *ns, struct policy_pod *pod)
{
	char body[512];

	snprintf(body, sizeof(body),
		"[{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":\"%.64s\"},"
		"{\"op\":\"add\",\"path\":\"/spec/tolerations%s\",\"value\":%s}]",
		pod->facts.uid, pod->facts.has_tolerations ? "/-" : "",
		pod->facts.has_tolerations ? TOLERATION : "[" TOLERATION "]");
	send(ns, pod, KUBE_CONTENT_JSON_PATCH, body);
}

/* Pods of the first unit have no cost, which counts as 0; pods of the last unit end first. */
static int32_t cost_of(const struct policy_pod *pod)
{
	return pod->policy && pod->unit > 0 ? -pod->unit : 0;
}

static bool needs_cost(const struct policy_pod *pod)
{
	bool wanted = cost_of(pod) != 0;

	if (!*pod->facts.node || pod->facts.terminating || !*pod->facts.version)
		return false;
	if (pod->facts.cost == POLICY_COST_OURS)
		return pod->facts.cost_value != cost_of(pod);
	return wanted && pod->facts.cost == POLICY_COST_NONE && pod->facts.of_replica_set;
}

static void write_pods(struct policy_namespace *ns, int64_t now)
{
	struct policy_pod *pod;

	if (!ns->space->changed || !policy_namespace_is_ready(ns))
		return;
	ns->space->changed = false;
	table_for_each (&ns->space->book.pods, cursor, pod) {
		/* kube-scheduler's own filter keeps the pod from the virtual nodes, and the extender is not
		 * asked about them before the pod has the toleration. Only tolerations can be added to an
		 * existing pod (ValidatePodUpdate, core/validation.go; 1.36.3). */
		bool toleration = pod->policy && !*pod->facts.node && pod->facts.verdict &&
				  !pod->facts.tolerates && !pod->facts.terminating &&
				  (pod->facts.ours || pod->asked) && policy_has_virtual_unit(pod->policy);

		if (!toleration && !needs_cost(pod))
			continue;
		ns->space->changed = true;
		if (pod->busy || pod->not_before_ns > now || ns->policies->n_requests >= IN_FLIGHT_MAX)
			continue;
		if (toleration)
			write_toleration(ns, pod);
		else {
			char value[32] = "null", body[512];

			/* The resourceVersion is a precondition, so that a simultaneous write of the user is
			 * never overwritten. */
			if (cost_of(pod))
				snprintf(value, sizeof(value), "\"%d\"", cost_of(pod));
			snprintf(body, sizeof(body),
				"{\"metadata\":{\"uid\":\"%.64s\",\"resourceVersion\":\"%s\",\"annotations\":{\"" ANNOTATION_DELETION_COST
				"\":%s,\"" ANNOTATION_POLICY_COST "\":%s}}}",
				pod->facts.uid, pod->facts.version, value, value);
			send(ns, pod, KUBE_CONTENT_MERGE_PATCH, body);
		}
	}
}

/* ---- status ---- */

static void on_status(void *userdata, const struct kube_response *response)
{
	struct policy_write *write = userdata;
	struct policy_namespace *ns = policies_namespace(write->policies, write->ns);
	struct policy_status *status = ns ? table_get(&ns->statuses, write->uid) : NULL;

	if (status) {
		status->busy = false;
		if (arrived(response)) {
			free(status->written);
			status->written = TAKE_PTR(write->status);
			status->settled = !status->accepted;
		} else if (response->status != 404) {
			log_warning("ResourcePolicy %s/%s: its status cannot be written: %s, trying again",
				write->ns, status->name, response->text);
		}
	}
	policy_write_free(write);
}

static void write_status(struct policy_namespace *ns, struct policy_status *status, int64_t now)
{
	struct policy_write *write;
	char path[1024], *text;
	int r;

	if (ns->policies->n_requests >= IN_FLIGHT_MAX)
		return;
	text = policy_status_text(status, now);
	if (!text)
		return;
	write = policy_write_new(ns->policies, ns->space->name, status->uid);
	if (!write) {
		free(text);
		return;
	}
	write->status = text;
	status->not_before_ns = now + POLICY_STATUS_EVERY_NS;
	snprintf(path, sizeof(path), "%.64s/namespaces/%s/resourcepolicies/%s/status",
		RESOURCE_POLICIES_GROUP, ns->space->name, status->name);
	r = kube_request(ns->policies->scheduler->client, "PATCH", path, KUBE_CONTENT_MERGE_PATCH, text,
		TIMEOUT_MS, on_status, write, NULL);
	status->busy = r == 0;
	if (r < 0)
		policy_write_free(write);
}

static void write_all(struct policies *policies)
{
	struct policy_namespace *ns;
	struct policy_status *status;
	int64_t now = monotonic_ns();

	table_for_each (&policies->namespaces, cursor, ns) {
		write_pods(ns, now);
		if (policy_namespace_is_ready(ns) || list_empty(&ns->space->book.policies))
			table_for_each (&ns->statuses, at, status)
				write_status(ns, status, now);
	}
}

/* ---- only one of the replicas writes ---- */

static void on_lease(void *userdata, const struct kube_response *response)
{
	struct policy_write *write = userdata;
	struct policies *policies = write->policies;

	policies->asking = false;
	policies->leads = leadership_is_here(response);
	policies->leads_checked_ns = monotonic_ns();
	policy_write_free(write);
	if (!policies->leads)
		return;
	core_look_at_policies(&policies->scheduler->core); /* the counts may be out of date */
	write_all(policies);
}

static void ask_who_leads(struct policies *policies)
{
	struct policy_write *write;
	char path[1024];

	if (policies->asking || monotonic_ns() - policies->leads_checked_ns < ASK_WHO_LEADS_NS ||
		ledger_lease_path(policies->scheduler->lease, path, sizeof(path)) < 0)
		return;
	write = policy_write_new(policies, "", "");
	if (!write)
		return;
	policies->asking = kube_request(policies->scheduler->client, "GET", path, NULL, NULL, TIMEOUT_MS,
				   on_lease, write, NULL) == 0;
	if (!policies->asking)
		policy_write_free(write);
}

static bool wants_to_write(struct policies *policies)
{
	struct policy_namespace *ns;
	struct policy_status *status;
	int64_t now = monotonic_ns();

	table_for_each (&policies->namespaces, cursor, ns) {
		if (ns->space->changed)
			return true;
		table_for_each (&ns->statuses, at, status) {
			char *text = policy_status_text(status, now);

			free(text);
			if (text)
				return true;
		}
	}
	return false;
}

void policies_write(struct policies *policies)
{
	struct error ignored;

	if (!policies->scheduler->lease ||
		ownership_may_bind(&policies->scheduler->core.ownership, monotonic_ns(), &ignored) < 0)
		return;
	if (policies->leads && monotonic_ns() - policies->leads_checked_ns < LEADS_NS)
		write_all(policies);
	else if (wants_to_write(policies))
		ask_who_leads(policies);
}
