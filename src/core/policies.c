#include "core/policies.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/events-internal.h"
#include "core/policies-internal.h"

/* The time after the first answer in a unit whose pods may be preempted. kube-scheduler has tried preemption
 * by then. */
#define PREEMPTION_TRY_NS NS_PER_S
/* By then, the watch has shown each pod that kube-scheduler knows. */
#define FORGET_NS (60 * NS_PER_S)

void policy_spaces_init(struct policy_spaces *spaces)
{
	*spaces = (struct policy_spaces){.known = true};
	table_init(&spaces->by_name);
	policy_nodes_init(&spaces->nodes);
}

static void space_free(struct policy_space *space)
{
	policy_book_release(&space->book);
	free(space->name);
	free(space);
}

void policy_spaces_release(struct policy_spaces *spaces)
{
	struct policy_space *space;

	table_for_each (&spaces->by_name, cursor, space)
		space_free(space);
	policy_nodes_release(&spaces->nodes);
	table_release(&spaces->by_name);
}

struct policy_space *core_add_policy_space(struct core *core, const char *namespace_)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POLICY_SPACE_BEGINS, .namespace_ = namespace_});
	struct policy_space *space = core_policy_space(core, namespace_);

	if (space)
		return space;
	space = calloc(1, sizeof(*space));
	if (!space)
		return NULL;
	policy_book_init(&space->book, &core->policies.nodes, &core->requeues);
	space->name = strdup(namespace_);
	if (!space->name || table_set(&core->policies.by_name, namespace_, space) < 0) {
		space_free(space);
		return NULL;
	}
	return space;
}

void core_remove_policy_space(struct core *core, const char *namespace_)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POLICY_SPACE_ENDS, .namespace_ = namespace_});
	struct policy_space *space = table_remove(&core->policies.by_name, namespace_);

	if (space)
		space_free(space);
}

struct policy_space *core_policy_space(const struct core *core, const char *namespace_)
{
	return table_get(&core->policies.by_name, namespace_);
}

bool policy_space_is_ready(const struct core *core, const struct policy_space *space)
{
	return space->is_read && core_is_ready(core);
}

/* ---- pods that wait for a unit ---- */

static struct pod_facts requeue_facts(const struct policy_pod *pod)
{
	return (struct pod_facts){.uid = pod->facts.uid,
		.namespace_ = pod->facts.namespace_,
		.name = pod->facts.name,
		.priority = pod->facts.priority};
}

int core_policy_wait_until(struct core *core, struct policy_space *space, const struct policy_pod *pod,
	int64_t until_ns, int64_t now_ns)
{
	const struct pod_facts facts = requeue_facts(pod);

	return requeue_list_has_no_unit(&core->requeues, &facts, space->book.freed, until_ns, now_ns);
}

int core_policy_found_waiting(
	struct core *core, struct policy_space *space, const struct policy_pod *pod, int64_t now_ns)
{
	const struct pod_facts facts = requeue_facts(pod);

	return requeue_list_found_without_unit(&core->requeues, &facts, space->book.freed, now_ns);
}

static void pod_waits(struct core *core, struct policy_decision *decision, int64_t until_ns, int64_t now_ns)
{
	struct policy_pod *pod = decision->pod;

	pod->asked = true;
	snprintf(pod->text, sizeof(pod->text), "%s", decision->text);
	decision->requeue_error = core_policy_wait_until(core, decision->space, pod, until_ns, now_ns);
	core->policies.waited++;
}

/* ---- questions ---- */

struct policy_pod *policies_select(struct core *core, const struct policy_asked *asked, int64_t now_ns,
	struct policy_decision *ret_decision)
{
	struct policy_space *space = asked->space;
	struct policy_pod *pod = NULL;

	*ret_decision = (struct policy_decision){.space = space};
	if (space && asked->facts)
		pod = policy_book_set_pod(&space->book, asked->facts, false);
	else if (asked->facts)
		policy_pod_facts_release(asked->facts);
	if (pod)
		pod->forget_ns = now_ns + FORGET_NS;
	if (space && !pod && policy_book_is_gone(&space->book, asked->uid)) {
		ret_decision->selected = ret_decision->gone = true;
		snprintf(ret_decision->text, sizeof(ret_decision->text), "the pod has been deleted");
	}
	if (pod && !pod->policy)
		requeue_list_stop(&core->requeues, pod->facts.uid, REQUEUE_UNIT);
	if (!pod || !pod->policy)
		return NULL;
	ret_decision->selected = true;
	ret_decision->pod = pod;
	return pod;
}

bool policies_cannot_say(struct core *core, int64_t now_ns, struct policy_decision *decision)
{
	struct policy_pod *pod = decision->pod;

	if (!policy_space_is_ready(core, decision->space))
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
	pod_waits(core, decision, 0, now_ns);
	return true;
}

void policies_ask(uint32_t together, uint64_t room, int64_t now_ns, struct policy_decision *decision)
{
	policy_book_ask(&decision->space->book, decision->pod, together, room, now_ns, &decision->answer);
	policy_answer_text(decision->pod->policy, &decision->answer, decision->text);
	decision->answered = true;
}

void policies_use(struct core *core, size_t unit, int64_t now_ns, struct policy_decision *decision)
{
	struct policy_pod *pod = decision->pod;

	policy_book_claim(&decision->space->book, pod, unit, now_ns);
	requeue_list_stop(&core->requeues, pod->facts.uid, REQUEUE_UNIT);
	snprintf(pod->text, sizeof(pod->text), "%s", decision->text);
	/* A pod that was bound meanwhile has no claim. If it lacks marks, this process does not write them.
	 */
	decision->owes_marks = pod->claim.unit >= 0 && policy_pod_owes_marks(pod, unit);
	core->policies.given++;
}

void policies_wait(struct core *core, int64_t now_ns, struct policy_decision *decision)
{
	const struct policy_pod *pod = decision->pod;
	const struct policy_answer *answer = &decision->answer;
	int64_t until_ns = answer->until_ns == INT64_MAX ? 0 : answer->until_ns;

	if (answer->verdict == POLICY_WAIT && pod->policy->preempts_each && !pod->facts.nominated)
		until_ns = now_ns + PREEMPTION_TRY_NS;
	pod_waits(core, decision, until_ns, now_ns);
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

static void narrow_pod(struct core *core, const char *const *names, size_t n, bool *usable, int64_t now_ns,
	struct policy_decision *decision)
{
	const struct policy_book *book = &decision->space->book;
	struct policy_pod *pod = decision->pod;
	const struct resource_policy *policy = pod->policy;
	uint64_t bit = 0;

	policies_ask(1, room_of(book, policy, names, n, usable), now_ns, decision);
	decision->preempt = pod->preempt = decision->answer.preempt;
	pod->asked = pod->fresh = true;
	if (decision->answer.verdict == POLICY_USE_UNIT) {
		bit = UINT64_C(1) << decision->answer.unit;
		policies_use(core, decision->answer.unit, now_ns, decision);
	} else {
		policies_wait(core, now_ns, decision);
	}
	for (size_t i = 0; i < n; i++)
		usable[i] = usable[i] && (policy_book_units_of(book, policy, names[i]) & bit);
}

void policies_narrow(struct core *core, const char *const *names, size_t n, bool *usable, int64_t now_ns,
	struct policy_decision *decision)
{
	if (!decision->selected)
		return;
	if (!decision->gone && !policies_cannot_say(core, now_ns, decision)) {
		narrow_pod(core, names, n, usable, now_ns, decision);
		return;
	}
	for (size_t i = 0; i < n; i++)
		usable[i] = false;
}

void core_policy_narrow(struct core *core, const struct policy_asked *asked, const char *const *names,
	size_t n, bool *usable, int64_t now_ns, struct policy_decision *ret_decision)
{
	_event_ struct core *event = core_begin(core,
		&(struct core_event){CORE_POLICY_NARROW, now_ns, .uid = asked->uid,
			.namespace_ = asked->space ? asked->space->name : NULL, .policy_pod = asked->facts});
	int64_t left = 0;

	core_tell_names(core, names, NULL, n);
	policies_select(core, asked, now_ns, ret_decision);
	policies_narrow(core, names, n, usable, now_ns, ret_decision);
	for (size_t i = 0; i < n; i++)
		left += usable[i];
	core_tell(core, &(struct core_output){GAVE_NARROWED, .uid = asked->uid, .number = left,
				.text = ret_decision->text});
}

void core_policy_recall(struct core *core, const struct policy_asked *asked, int64_t now_ns,
	struct policy_decision *ret_decision)
{
	_event_ struct core *event = core_begin(core,
		&(struct core_event){CORE_PREEMPT_RECALL, now_ns, .uid = asked->uid,
			.namespace_ = asked->space ? asked->space->name : NULL, .policy_pod = asked->facts});
	struct policy_pod *pod = policies_select(core, asked, now_ns, ret_decision);

	if (!pod)
		return;
	if (!pod->fresh)
		policies_narrow(core, NULL, 0, NULL, now_ns, ret_decision);
	pod->fresh = false;
	ret_decision->preempt = pod->preempt;
}

bool policy_may_preempt(const struct policy_decision *decision, const char *node)
{
	if (!decision->selected || decision->gone)
		return !decision->gone;
	return policy_book_units_of(&decision->space->book, decision->pod->policy, node) & decision->preempt;
}

/* ---- bind ---- */

/* Returns the lowest of these units (bits) in which the pod counts with its present labels; -1: none. */
static int policy_to_confirm(const struct policy_pod *pod, uint64_t policies)
{
	for (size_t i = 0; i < pod->policy->n_units; i++)
		if ((policies & UINT64_C(1) << i) && !policy_pod_owes_marks(pod, i))
			return (int)i;
	return -1;
}

/* The place that filter gave the pod may be lost since: another process may have answered, or other members
 * of its gang may have taken it. The place may also be in other nodes, after a change of the policy or a new
 * plan of the gang. */
int core_policy_confirm(struct core *core, const char *namespace_, const char *uid, const char *node,
	int64_t now_ns, struct error *err)
{
	struct policy_space *space = core_policy_space(core, namespace_);
	struct policy_pod *pod = space ? policy_book_pod(&space->book, uid) : NULL;
	uint64_t bits;
	int unit;

	if (!core->policies.known)
		return error_set(err, EBUSY, "ResourcePolicies are not read yet, trying again");
	/* Another process answered filter. It is not known yet how many pods are in the units of its
	 * policies. */
	if (space && !list_empty(&space->book.policies) && !policy_space_is_ready(core, space))
		return error_set(err, EBUSY,
			"ResourcePolicies: the pods of namespace %s are not read yet, trying again",
			namespace_);
	if (!pod)
		return 0;
	policy_book_settle(&space->book);
	if (!pod->policy || *pod->facts.node)
		return 0;
	if (pod->claim.unit >= 0 && pod->claim.serial != pod->policy->serial)
		policy_book_drop_claim(
			&space->book, pod); /* a unit of another version of the policy, with other labels */
	bits = policy_book_units_of(&space->book, pod->policy, node);
	if (pod->claim.unit >= 0 && (bits & UINT64_C(1) << pod->claim.unit))
		return 0;
	unit = pod->claim.unit < 0 && pod->group
		       ? policy_to_confirm(pod, bits & policy_book_open(&space->book, pod, 1))
		       : -1;
	if (unit < 0)
		return error_set(err, EBUSY,
			"ResourcePolicy %.63s: the pod has no place in a level of node %s any more, trying again",
			pod->policy->name, node);
	policy_book_claim(&space->book, pod, (size_t)unit, now_ns);
	return 0;
}

/* ---- what goes by time ---- */

/* Tells waiting pods that something was freed. Before the pods of the namespace are read, an attempt would be
 * in vain. */
static void look_at(struct core *core, struct policy_space *space)
{
	policy_book_settle(&space->book);
	if (space->looked_at == space->book.freed)
		return;
	space->changed = true; /* pods may be in other units now */
	if (!policy_space_is_ready(core, space))
		return;
	space->looked_at = space->book.freed;
	requeue_list_unit_freed(&core->requeues, space->name, space->book.freed);
}

void core_look_at_policies(struct core *core)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_POLICIES_LOOK});
	struct policy_space *space;

	table_for_each (&core->policies.by_name, cursor, space)
		look_at(core, space);
}

/* Uses the time up to which the watch has told everything, not the clock. A dead connection looks like a
 * quiet one until a bookmark is due. */
static int64_t shown_until(struct core *core, int64_t now_ns)
{
	struct policy_spaces *spaces = &core->policies;

	if (!core->heard_ns) {
		spaces->watched_ns = 0;
		return 0;
	}
	if (!spaces->watched_ns)
		spaces->watched_ns = now_ns;
	return core->heard_ns - spaces->watched_ns >= WATCH_LAG_MAX_NS ? core->heard_ns - WATCH_LAG_MAX_NS
								       : 0;
}

void core_tick_policies(struct core *core, int64_t now_ns)
{
	int64_t shown_ns = shown_until(core, now_ns);
	struct policy_space *space;

	table_for_each (&core->policies.by_name, cursor, space) {
		policy_book_expire(&space->book, now_ns, shown_ns);
		policies_drop_given_up(core, space);
	}
}
