/* Events of nodes, their agents, the watches, the owner of the ledger and PodGroups; and what is due by time.
 */
#include "core/events.h"

#include "core/events-internal.h"
#include "core/gang/gang.h"
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
