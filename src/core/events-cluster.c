/* Events of nodes, their agents, the watches, the owner of the ledger and PodGroups; and what is due by time.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "core/core.h"
#include "core/events-internal.h"
#include "core/events.h"
#include "core/gang/gang.h"
#include "core/policies-internal.h"
#include "core/requeue.h"

/* ---- nodes ---- */

int core_see_node(struct core *core, const struct node_facts *facts)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_NODE_SEEN, .node = facts});

	return ledger_set_node(&core->ledger, facts);
}

void core_node_is_gone(struct core *core, const char *name, const char *uid)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_NODE_GONE, .name = name, .uid = uid});

	ledger_remove_node(&core->ledger, name, uid);
}

void core_hear_agent(struct core *core, const char *node, int64_t heard_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_AGENT_HEARD, .name = node, .number = heard_ns});

	ledger_hear_agent(&core->ledger, node, heard_ns);
}

void core_set_agent_lost(struct core *core, const char *node, bool lost)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_AGENT_LOST, .name = node, .yes = lost});

	ledger_set_agent_lost(&core->ledger, node, lost);
}

void core_set_nodes_told(struct core *core, int64_t told_ns)
{
	_event_ struct core *event = NULL;

	if (core->ledger.nodes_told_ns == told_ns)
		return;
	event = core_begin(core, &(struct core_event){CORE_NODES_TOLD, .number = told_ns});
	core->ledger.nodes_told_ns = told_ns;
}

/* ---- the watch of pods, and the owner of the ledger ---- */

void core_set_watch(struct core *core, bool following, int64_t heard_ns)
{
	_event_ struct core *event = NULL;

	if (core->following == following && core->heard_ns == heard_ns)
		return;
	event = core_begin(core, &(struct core_event){CORE_WATCH, .yes = following, .number = heard_ns});
	core->following = following;
	core->heard_ns = heard_ns;
}

void core_set_ownership(struct core *core, const struct ownership *ownership)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_OWNERSHIP, .ownership = ownership});

	core->ownership = *ownership;
}

void core_note_call(struct core *core, bool another, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_CALLED, now_ns, .yes = another});

	leadership_note_call(&core->leadership, another, now_ns);
}

void core_drop_hold(struct core *core, const char *uid)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_DROP_HOLD, .uid = uid});

	ledger_drop_hold(&core->ledger, uid);
}

/* ---- PodDisruptionBudgets ---- */

int core_see_budget(struct core *core, struct budget *budget)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_BUDGET_SEEN, .budget = budget});

	return budgets_set(&core->budgets, budget);
}

void core_budget_is_gone(struct core *core, const char *uid)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_BUDGET_GONE, .uid = uid});

	budgets_remove(&core->budgets, uid);
}

/* ---- gangs ---- */

/* The state of gangs has changed. */
static void gangs_changed(struct core *core, int64_t now_ns)
{
	core_follow_gangs(core, now_ns);
	core_look_at_gangs_within(core, CORE_LOOK_DELAY_NS, now_ns);
}

int core_see_group(struct core *core, const char *key, const struct gang_group *group, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_GROUP_SEEN, now_ns, .name = key, .group = group});
	int r = gangs_set_group(&core->gangs, key, group);

	gangs_changed(core, now_ns);
	return r;
}

void core_group_is_gone(struct core *core, const char *key, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_GROUP_GONE, now_ns, .name = key});

	gangs_remove_group(&core->gangs, key);
	gangs_changed(core, now_ns);
}

void core_set_groups_known(struct core *core, bool known, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_GROUPS_KNOWN, now_ns, .yes = known});

	gangs_set_groups_known(&core->gangs, known);
	if (known)
		gangs_changed(core, now_ns);
}

int core_gang_has_run(struct core *core, const struct pod_facts *finished)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_GANG_HAS_RUN, .pod = finished});

	return gangs_has_run(&core->gangs, finished);
}

void core_gang_recalled(struct core *core, const char *uid, bool all, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_GANG_RECALLED, now_ns, .uid = uid, .yes = all});

	if (all)
		gangs_recalled(&core->gangs, uid);
	gangs_changed(core, now_ns);
}

/* ---- pods that wait ---- */

size_t core_look_at_requeues(struct core *core, int64_t now_ns,
	const struct pod_facts *ret_pods[REQUEUES_PER_LOOK], int64_t *ret_again_ns)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_REQUEUES_LOOK, now_ns});
	size_t n = requeue_list_look(&core->requeues, &core->ledger, now_ns, ret_pods, ret_again_ns);

	for (size_t i = 0; i < n; i++)
		core_tell(core, &(struct core_output){GAVE_REQUEUE, .uid = ret_pods[i]->uid});
	return n;
}

void core_requeue_failed(struct core *core, const char *uid, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_REQUEUE_FAILED, now_ns, .uid = uid});

	requeue_list_failed(&core->requeues, uid, now_ns);
}

/* Events of ResourcePolicies: what the watches show of them and of the pods in their namespaces. */
/* A verdict that the watch shows within this time after a claim may belong to the call before it. */
#define CLAIM_GRACE_NS (2 * NS_PER_S)

/* ---- namespaces and policies ---- */

void core_set_policies_known(struct core *core, bool known)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POLICIES_KNOWN, .yes = known});

	core->policies.known = known;
}

/* True if the policy names annotations that the space did not keep until now. */
static bool names_new_annotations(const struct policy_space *space, const struct resource_policy *policy)
{
	for (size_t i = 0; i < policy->n_units; i++)
		for (size_t j = 0; j < policy->units[i].pod_annotations.n; j++)
			if (!table_get(&space->book.annotation_keys,
				    policy->units[i].pod_annotations.list[j].key))
				return true;
	return false;
}

int core_see_policy(struct core *core, struct policy_space *space, struct resource_policy *policy)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POLICY_SEEN, .namespace_ = space->name, .policy = policy});
	bool annotations = names_new_annotations(space, policy);

	space->changed = true;
	if (policy_book_set_policy(&space->book, policy) < 0)
		return -ENOMEM;
	if (annotations)
		space->is_read = false;
	return annotations;
}

void core_policy_is_gone(struct core *core, struct policy_space *space, const char *uid)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POLICY_GONE, .namespace_ = space->name, .uid = uid});

	policy_book_remove_policy(&space->book, uid);
	space->changed = true;
}

/* ---- nodes ---- */

int core_see_policy_node(struct core *core, const char *name, const char *labels)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POLICY_NODE_SEEN, .name = name, .text = labels});

	return policy_nodes_set(&core->policies.nodes, name, labels);
}

void core_policy_node_is_gone(struct core *core, const char *name)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POLICY_NODE_GONE, .name = name});

	policy_nodes_remove(&core->policies.nodes, name);
}

/* ---- pods ---- */

/* If kube-scheduler calls a pod unschedulable after filter gave it a unit, something else has rejected the
 * pod: its claim ends. If filter was not asked, the pod counts as without room in its first unit since then.
 */
static void take_verdict(struct core *core, struct policy_space *space, struct policy_pod *pod,
	uint64_t before, int64_t now_ns)
{
	uint64_t preempted = pod->wait.preempted;
	struct policy_answer ignored;

	if (*pod->facts.node || !pod->facts.verdict || pod->facts.verdict == before || !pod->group)
		return;
	if (pod->claim.unit >= 0 && now_ns - pod->claim.began_ns > CLAIM_GRACE_NS)
		policy_book_drop_claim(&space->book, pod);
	if (pod->claim.unit >= 0 || !policy_space_is_ready(core, space))
		return;
	policy_book_ask(&space->book, pod, 1, 0, now_ns, &ignored);
	pod->wait.preempted = preempted;
}

void core_see_policy_pod(
	struct core *core, struct policy_space *space, struct policy_pod_facts *facts, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){
			      CORE_POLICY_POD_SEEN, now_ns, .namespace_ = space->name, .policy_pod = facts});
	const struct policy_pod *known = policy_book_pod(&space->book, facts->uid);
	uint64_t before = known ? known->facts.verdict : 0;
	struct policy_pod *pod = policy_book_set_pod(&space->book, facts, true);

	if (pod)
		take_verdict(core, space, pod, before, now_ns);
	space->changed = true;
}

void core_policy_pod_is_gone(struct core *core, struct policy_space *space, const char *uid)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POLICY_POD_GONE, .namespace_ = space->name, .uid = uid});

	policy_book_delete_pod(&space->book, uid);
}

void core_policy_pods_list_begins(struct core *core, struct policy_space *space)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POLICY_LIST_BEGINS, .namespace_ = space->name});

	policy_book_begin_list(&space->book);
}

/* kube-scheduler keeps a pod that an earlier process rejected in its unschedulable queue until the pod
 * changes. */
static size_t find_waiting(struct core *core, struct policy_space *space, int64_t now_ns)
{
	const struct policy_pod *pod;
	size_t lost = 0;

	table_for_each (&space->book.pods, cursor, pod)
		if (pod->policy && pod->facts.ours && !*pod->facts.node && !pod->facts.terminating &&
			!pod->asked && core_policy_found_waiting(core, space, pod, now_ns) < 0)
			lost++;
	return lost;
}

size_t core_policy_pods_are_listed(struct core *core, struct policy_space *space, bool older, int64_t now_ns)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_POLICY_PODS_LISTED, now_ns,
							      .namespace_ = space->name, .yes = older});
	size_t lost = 0;

	policy_book_end_list(&space->book);
	if (!space->is_read)
		space->book.freed++; /* counts as freed for pods that were told to wait for this list */
	if (older)
		lost = find_waiting(core, space, now_ns);
	space->is_read = true;
	return lost;
}

int core_policy_marks_failed(
	struct core *core, struct policy_space *space, const char *uid, int64_t until_ns, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POLICY_MARKS_FAILED, now_ns, .namespace_ = space->name,
			      .uid = uid, .number = until_ns});
	struct policy_pod *pod = policy_book_pod(&space->book, uid);

	if (!pod)
		return 0;
	policy_book_drop_claim(&space->book, pod);
	return core_policy_wait_until(core, space, pod, until_ns, now_ns);
}

void core_look_at_policies_anew(struct core *core)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_POLICIES_LOOK_ANEW});
	struct policy_space *space;

	table_for_each (&core->policies.by_name, cursor, space) {
		space->changed = true;
		space->book.freed++;
	}
}
