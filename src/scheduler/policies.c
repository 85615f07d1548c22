#include "scheduler/policies.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "kube/json.h"
#include "kube/resource-policy.h"
#include "net/loop.h"
#include "scheduler/policies-internal.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"

static void policies_on_timer(void *userdata);

int policies_start(struct scheduler *scheduler, struct policies **ret_policies)
{
	struct policies *policies = calloc(1, sizeof(*policies));
	int r;

	if (!policies)
		return -ENOMEM;
	policies->scheduler = scheduler;
	table_init(&policies->namespaces);
	table_init(&policies->namespace_names);
	core_set_policies_known(&scheduler->core, false);
	list_init(&policies->requests);
	r = loop_add_timer(scheduler->loop, policies_on_timer, policies, &policies->timer);
	if (r == 0)
		r = policies_watch_start(policies);
	if (r < 0) {
		policies_stop(policies);
		return r;
	}
	*ret_policies = policies;
	return 0;
}

void policies_stop(struct policies *policies)
{
	if (!policies)
		return;
	policies_writes_stop(policies);
	policies_watch_stop(policies);
	loop_timer_remove(policies->timer);
	table_release(&policies->namespaces);
	table_release(&policies->namespace_names);
	free(policies);
}

struct policy_spaces *policies_spaces(const struct policies *policies)
{
	return &policies->scheduler->core.policies;
}

struct policy_namespace *policies_namespace(const struct policies *policies, const char *namespace_)
{
	return table_get(&policies->namespaces, namespace_);
}

bool policy_namespace_is_ready(const struct policy_namespace *ns)
{
	return policy_space_is_ready(&ns->policies->scheduler->core, ns->space);
}

/* ---- calls of kube-scheduler ---- */

static const char *metadata_text(struct json_object *pod, const char *key)
{
	const char *text = json_member_string(json_member(pod, "metadata"), key);

	return text ? text : "";
}

void policies_question(struct policies *policies, struct json_object *pod, struct policy_pod_facts *facts,
	struct policy_asked *ret_asked)
{
	struct policy_namespace *ns = policies ? policies_namespace(policies, metadata_text(pod, "namespace"))
					       : NULL;

	*ret_asked = (struct policy_asked){.uid = metadata_text(pod, "uid")};
	if (!ns)
		return;
	ret_asked->space = ns->space;
	if (policy_pod_facts_from_json(pod, &ns->space->book.annotation_keys, facts) == 0)
		ret_asked->facts = facts;
	else
		policy_pod_facts_release(facts);
}

void policies_note(struct policies *policies, const struct policy_decision *decision)
{
	if (decision->answered)
		policy_status_note(policies_namespace(policies, decision->space->name), decision->pod->policy,
			&decision->answer, decision->text);
	if (decision->requeue_error < 0)
		requeue_log_refused(
			decision->pod->facts.namespace_, decision->pod->facts.name, decision->requeue_error);
	if (decision->selected)
		policies_look_soon(policies);
}

void policies_recall(
	struct policies *policies, struct json_object *object, struct policy_decision *ret_decision)
{
	struct policy_pod_facts facts;
	struct policy_asked asked;

	policies_question(policies, object, &facts, &asked);
	core_policy_recall(&policies->scheduler->core, &asked, monotonic_ns(), ret_decision);
	policies_note(policies, ret_decision);
}

/* ---- what goes by time ---- */

static void policies_on_timer(void *userdata)
{
	struct policies *policies = userdata;

	policies->armed = false;
	core_look_at_policies(&policies->scheduler->core);
	policies_write(policies);
}

void policies_look_soon(struct policies *policies)
{
	if (policies->armed)
		return;
	policies->armed = true;
	loop_timer_set(policies->timer, CORE_LOOK_DELAY_NS);
}

void policies_tick(struct policies *policies)
{
	policies_list_again(policies);
	if (!policies->namespaces.count)
		return;
	policies_follow(policies);
	policies_look_soon(policies);
}

/* ---- for other parts ---- */

static struct json_object *explain(const struct policy_book *book, const struct policy_pod *pod)
{
	struct json_object *object = json_object_new_object();
	struct requeue_state state;
	bool waits = requeue_list_find(book->requeues, pod->facts.uid, REQUEUE_UNIT, &state);

	json_set(object, "policy", json_object_new_string(pod->policy->name));
	json_set(object, "levels", json_object_new_int64((int64_t)pod->policy->n_units));
	if (pod->unit >= 0) {
		json_set(object, "level", json_object_new_int64(pod->unit + 1));
		json_set(object, "resource",
			json_object_new_string(policy_unit_kind_text(pod->policy->units[pod->unit].kind)));
	}
	json_set(object, "waits", json_object_new_boolean(waits));
	if (waits)
		json_set(object, "waitsForMs",
			json_object_new_int64((monotonic_ns() - state.since_ns) / NS_PER_MS));
	json_set(object, "text", json_object_new_string(pod->text));
	return object;
}

struct json_object *policies_explain(
	const struct policies *policies, const char *namespace_, const char *name)
{
	struct policy_namespace *ns = policies ? policies_namespace(policies, namespace_) : NULL;
	const struct policy_pod *pod;

	if (!ns)
		return NULL;
	table_for_each (&ns->space->book.pods, cursor, pod)
		if (strcmp(pod->facts.name, name) == 0 && pod->policy)
			return explain(&ns->space->book, pod);
	return NULL;
}

void policies_metrics(const struct policies *policies, struct metrics *page)
{
	const struct policy_namespace *ns;
	uint64_t n_policies = 0;

	if (!policies)
		return;
	table_for_each (&policies->namespaces, cursor, ns)
		list_for_each (item, &ns->space->book.policies)
			n_policies++;
	metrics_one(page, "ration_resource_policies", "gauge", "ResourcePolicies that are understood.",
		n_policies);
	metrics_one(page, "ration_level_pods_waiting", "gauge",
		"Pods that wait for a level of their ResourcePolicy.",
		requeue_list_count(&policies->scheduler->core.requeues, REQUEUE_UNIT));
	metrics_one(page, "ration_level_answers_total", "counter", "Times that filter gave a pod a level.",
		policies_spaces(policies)->given);
	metrics_one(page, "ration_level_waits_total", "counter", "Times that filter had no level for a pod.",
		policies_spaces(policies)->waited);
	metrics_one(page, "ration_level_writes_total", "counter",
		"Writes to pods for their level: labels, annotations, tolerations, deletion cost.",
		policies->writes);
}
