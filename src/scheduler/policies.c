#include "scheduler/policies.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "kube/json.h"
#include "kube/resource-policy.h"
#include "net/loop.h"
#include "scheduler/policies-internal.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"

#define LOOK_DELAY_NS (50 * NS_PER_MS) /* one look for a burst of events */
/* After the first answer in a unit whose pods may be preempted: kube-scheduler has tried it by then. */
#define PREEMPTION_TRY_NS NS_PER_S
/* The watch shows a pod that kube-scheduler knows by then. */
#define FORGET_NS (60 * NS_PER_S)

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
	policy_nodes_init(&policies->nodes);
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
	policy_nodes_release(&policies->nodes);
	table_release(&policies->namespaces);
	table_release(&policies->namespace_names);
	free(policies);
}

bool policies_are_known(const struct policies *policies)
{
	return !policies || policies->known;
}

bool policies_are_used(const struct policies *policies)
{
	return policies && policies->namespaces.count;
}

struct policy_namespace *policies_namespace(const struct policies *policies, const char *namespace_)
{
	return table_get(&policies->namespaces, namespace_);
}

bool policy_namespace_is_ready(const struct policy_namespace *ns)
{
	return ns->is_read && core_is_ready(&ns->policies->scheduler->core);
}

/* ---- questions ---- */

static struct policy_pod *read_pod(struct policy_namespace *ns, struct json_object *object)
{
	struct policy_pod_facts facts;
	struct policy_pod *pod;

	if (policy_pod_facts_from_json(object, &ns->book.annotation_keys, &facts) < 0) {
		policy_pod_facts_release(&facts);
		return NULL;
	}
	pod = policy_book_set_pod(&ns->book, &facts, false);
	if (pod)
		pod->forget_ns = monotonic_ns() + FORGET_NS;
	return pod;
}

struct pod_facts policies_requeue_facts(const struct policy_pod *pod)
{
	return (struct pod_facts){.uid = pod->facts.uid,
		.namespace_ = pod->facts.namespace_,
		.name = pod->facts.name,
		.priority = pod->facts.priority};
}

void policies_wait_until(struct policy_namespace *ns, const struct policy_pod *pod, int64_t until_ns)
{
	const struct pod_facts facts = policies_requeue_facts(pod);

	requeuer_has_no_unit(ns->policies->scheduler->requeuer, &facts, ns->book.freed, until_ns);
}

static void pod_waits(struct policy_namespace *ns, struct policy_pod *pod, int64_t until_ns, const char *text)
{
	pod->asked = true;
	snprintf(pod->text, sizeof(pod->text), "%s", text);
	policies_wait_until(ns, pod, until_ns);
	ns->policies->waited++;
}

bool policies_cannot_say(
	struct policy_namespace *ns, struct policy_pod *pod, struct policy_decision *decision)
{
	if (!policy_namespace_is_ready(ns))
		snprintf(decision->text, sizeof(decision->text),
			"ResourcePolicy %.63s: the pods of its namespace are not read yet",
			pod->policy->name);
	else if (!pod->group)
		snprintf(decision->text, sizeof(decision->text),
			"ResourcePolicy %.63s: the pod lacks a label of its matchLabelKeys",
			pod->policy->name);
	else
		return false;
	decision->preempt = pod->preempt = 0;
	pod_waits(ns, pod, 0, decision->text);
	return true;
}

static uint64_t room_of(const struct policy_book *book, const struct resource_policy *policy,
	const char *const *names, size_t n, const bool *usable)
{
	uint64_t room = 0, all = (UINT64_C(1) << policy->n_units) - 1;

	for (size_t i = 0; i < n && room != all; i++)
		if (usable[i])
			room |= policy_book_units_of(book, policy, names[i]);
	return room;
}

static int64_t wait_ends(const struct policy_pod *pod, const struct policy_answer *answer, int64_t now)
{
	if (answer->verdict == POLICY_WAIT && pod->policy->preempts_each && !pod->facts.nominated)
		return now + PREEMPTION_TRY_NS;
	return answer->until_ns == INT64_MAX ? 0 : answer->until_ns;
}

void policies_use(
	struct policy_namespace *ns, struct policy_pod *pod, size_t unit, struct policy_decision *decision)
{
	policy_book_claim(&ns->book, pod, unit, monotonic_ns());
	requeue_list_stop(ns->book.requeues, pod->facts.uid, REQUEUE_UNIT);
	snprintf(pod->text, sizeof(pod->text), "%s", decision->text);
	/* One that somebody has bound meanwhile has no claim, and what it lacks it will not get from us. */
	decision->owes_marks = pod->claim >= 0 && policy_pod_owes_marks(pod, unit);
	ns->policies->given++;
}

void policies_wait(struct policy_namespace *ns, struct policy_pod *pod, const struct policy_answer *answer,
	int64_t now, const struct policy_decision *decision)
{
	pod_waits(ns, pod, wait_ends(pod, answer, now), decision->text);
}

static void narrow_pod(struct policy_namespace *ns, struct policy_pod *pod, const char *const *names,
	size_t n, bool *usable, struct policy_decision *decision)
{
	const struct resource_policy *policy = pod->policy;
	struct policy_answer answer;
	int64_t now = monotonic_ns();
	uint64_t bit = 0;

	policy_book_ask(&ns->book, pod, 1, room_of(&ns->book, policy, names, n, usable), now, &answer);
	policy_answer_text(policy, &answer, decision->text);
	decision->preempt = pod->preempt = answer.preempt;
	pod->asked = pod->fresh = true;
	if (answer.verdict == POLICY_USE_UNIT) {
		bit = UINT64_C(1) << answer.unit;
		policies_use(ns, pod, answer.unit, decision);
	} else {
		policies_wait(ns, pod, &answer, now, decision);
	}
	for (size_t i = 0; i < n; i++)
		usable[i] = usable[i] && (policy_book_units_of(&ns->book, policy, names[i]) & bit);
	policy_status_note(ns, policy, &answer, decision->text);
}

static const char *namespace_of(struct json_object *pod)
{
	const char *namespace_ = json_member_string(json_member(pod, "metadata"), "namespace");

	return namespace_ ? namespace_ : "";
}

static const char *uid_of(struct json_object *pod)
{
	const char *uid = json_member_string(json_member(pod, "metadata"), "uid");

	return uid ? uid : "";
}

struct policy_pod *policies_select(struct policies *policies, struct json_object *object,
	struct policy_namespace **ret_ns, struct policy_decision *ret_decision)
{
	struct policy_pod *pod;

	*ret_decision = (struct policy_decision){.policies = policies};
	*ret_ns = policies->namespaces.count ? policies_namespace(policies, namespace_of(object)) : NULL;
	pod = *ret_ns ? read_pod(*ret_ns, object) : NULL;
	if (*ret_ns && !pod && policy_book_is_gone(&(*ret_ns)->book, uid_of(object))) {
		ret_decision->selected = ret_decision->gone = true;
		snprintf(ret_decision->text, sizeof(ret_decision->text), "the pod has been deleted");
	}
	if (pod && !pod->policy)
		requeue_list_stop((*ret_ns)->book.requeues, pod->facts.uid, REQUEUE_UNIT);
	if (!pod || !pod->policy)
		return NULL;
	ret_decision->selected = true;
	ret_decision->pod = pod;
	return pod;
}

void policies_narrow(struct policies *policies, struct json_object *object, const char *const *names,
	size_t n, bool *usable, struct policy_decision *ret_decision)
{
	struct policy_namespace *ns;
	struct policy_pod *pod = policies_select(policies, object, &ns, ret_decision);

	if (!pod && !ret_decision->gone)
		return;
	if (pod && !policies_cannot_say(ns, pod, ret_decision)) {
		narrow_pod(ns, pod, names, n, usable, ret_decision);
		policies_look_soon(policies);
		return;
	}
	for (size_t i = 0; i < n; i++)
		usable[i] = false;
}

void policies_recall(
	struct policies *policies, struct json_object *object, struct policy_decision *ret_decision)
{
	struct policy_namespace *ns;
	struct policy_pod *pod = policies_select(policies, object, &ns, ret_decision);

	if (!pod)
		return;
	if (!pod->fresh)
		policies_narrow(policies, object, NULL, 0, NULL, ret_decision);
	pod->fresh = false;
	ret_decision->preempt = pod->preempt;
}

bool policies_may_preempt(const struct policy_decision *decision, const char *node)
{
	const struct policy_namespace *ns;

	if (!decision->selected || decision->gone)
		return !decision->gone;
	ns = policies_namespace(decision->policies, decision->pod->facts.namespace_);
	return ns && (policy_book_units_of(&ns->book, decision->pod->policy, node) & decision->preempt);
}

/* ---- what goes by time ---- */

/* What was freed is told to the pods that wait for it. Before the pods of the namespace are read, an attempt
 * would be in vain. */
static void look_at(struct policy_namespace *ns)
{
	policy_book_settle(&ns->book);
	if (ns->looked_at == ns->book.freed)
		return;
	ns->unwritten = true; /* pods may be in another unit by now */
	if (!policy_namespace_is_ready(ns))
		return;
	ns->looked_at = ns->book.freed;
	requeue_list_unit_freed(ns->book.requeues, ns->name, ns->book.freed);
}

static void policies_on_timer(void *userdata)
{
	struct policies *policies = userdata;
	struct policy_namespace *ns;

	policies->armed = false;
	table_for_each (&policies->namespaces, cursor, ns)
		look_at(ns);
	policies_write(policies);
	requeuer_look(policies->scheduler->requeuer);
}

void policies_look_soon(struct policies *policies)
{
	if (policies->armed)
		return;
	policies->armed = true;
	loop_timer_set(policies->timer, LOOK_DELAY_NS);
}

/* By what the watch has told, not by the clock: a connection that is dead looks like one on which nothing
 * happens, until a bookmark is due. */
static int64_t shown_until(struct policies *policies, int64_t now)
{
	int64_t heard_ns = policies->scheduler->core.heard_ns;

	if (!heard_ns) {
		policies->watched_ns = 0;
		return 0;
	}
	if (!policies->watched_ns)
		policies->watched_ns = now;
	return heard_ns - policies->watched_ns >= WATCH_LAG_MAX_NS ? heard_ns - WATCH_LAG_MAX_NS : 0;
}

void policies_tick(struct policies *policies)
{
	struct policy_namespace *ns;
	int64_t now = monotonic_ns(), shown_ns = shown_until(policies, now);

	policies_list_again(policies);
	if (!policies->namespaces.count)
		return;
	table_for_each (&policies->namespaces, cursor, ns) {
		policy_book_expire(&ns->book, now, shown_ns);
		policies_drop_given_up(ns);
	}
	policies_follow(policies);
	policies_look_soon(policies);
}

/* ---- what others want to know ---- */

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
	struct policy_namespace *ns = policies_are_used(policies) ? policies_namespace(policies, namespace_)
								  : NULL;
	const struct policy_pod *pod;

	if (!ns)
		return NULL;
	policy_book_settle(&ns->book);
	table_for_each (&ns->book.pods, cursor, pod)
		if (strcmp(pod->facts.name, name) == 0 && pod->policy)
			return explain(&ns->book, pod);
	return NULL;
}

void policies_metrics(const struct policies *policies, struct metrics *page)
{
	const struct policy_namespace *ns;
	uint64_t n_policies = 0;

	if (!policies)
		return;
	table_for_each (&policies->namespaces, cursor, ns)
		list_for_each (item, &ns->book.policies)
			n_policies++;
	metrics_one(page, "ration_resource_policies", "gauge", "ResourcePolicies that are understood.",
		n_policies);
	metrics_one(page, "ration_level_pods_waiting", "gauge",
		"Pods that wait for a level of their ResourcePolicy.",
		requeue_list_count(&policies->scheduler->core.requeues, REQUEUE_UNIT));
	metrics_one(page, "ration_level_answers_total", "counter", "Times that filter gave a pod a level.",
		policies->given);
	metrics_one(page, "ration_level_waits_total", "counter", "Times that filter had no level for a pod.",
		policies->waited);
	metrics_one(page, "ration_level_writes_total", "counter",
		"Writes to pods for their level: labels, annotations, tolerations, deletion cost.",
		policies->writes);
}
