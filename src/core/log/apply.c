/* Carries out an event: calls the function of the core that the event names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/bind.h"
#include "core/events.h"
#include "core/evicting.h"
#include "core/filter.h"
#include "core/log/replay-internal.h"
#include "core/log/state-internal.h"
#include "core/policies.h"
#include "core/preempt.h"
#include "core/resizing.h"

/* ---- questions of kube-scheduler ---- */

/* Reads one number, or two with '-' between them; then ',' or the end. */
static bool next_range(const char **text, uint32_t *ret_first, uint32_t *ret_last)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	*ret_first = *ret_last = (uint32_t)strtoul(*text, &end, 10);
	if (*end == '-')
		*ret_last = (uint32_t)strtoul(end + 1, &end, 10);
	*text = *end == ',' ? end + 1 : end;
	return true;
}

/* The names of the nodes with these numbers, then the other names. The strings still belong to the ledger and
 * to the answer. */
static int names_of(
	const struct core *core, const struct core_output *asked, const char ***ret_names, size_t *ret_n)
{
	size_t n_ever = core->ledger.n_nodes_ever, n = 0;
	_cleanup_free_ const char **by_number = calloc(n_ever + 1, sizeof(*by_number));
	const char **names = calloc(core->ledger.nodes.count + asked->n_names + 1, sizeof(*names));
	const char *text = asked->text ? asked->text : "";
	const struct node_ledger *node;
	uint32_t first, last;

	if (!by_number || !names) {
		free(names);
		return -ENOMEM;
	}
	table_for_each (&core->ledger.nodes, cursor, node)
		by_number[node->number] = node->facts.name;
	/* The numbers ascend, so a set has each of them once. */
	for (size_t next = 0; next_range(&text, &first, &last) && first >= next; next = (size_t)last + 1)
		for (size_t i = first; i <= last && i < n_ever; i++)
			if (by_number[i])
				names[n++] = by_number[i];
	for (size_t i = 0; i < asked->n_names; i++)
		names[n++] = asked->names[i];
	*ret_names = names;
	*ret_n = n;
	return 0;
}

static int replay_filter(struct replay *replay, struct read_event *read, struct error *err)
{
	const struct core_event *event = &read->event;
	const struct core_output none = {0}, *asked = replay_answer(replay, TOLD_NAMES, 0, NULL, false);
	_cleanup_filter_answer_ struct filter_answer answer = {0};
	_cleanup_free_ const char **names = NULL;
	struct filter_question question = {.pod = event->pod, .best = (size_t)event->number};
	struct core *core = &replay->core;

	if (names_of(core, asked ? asked : &none, &names, &question.n) < 0)
		return error_set(err, ENOMEM, "out of memory");
	question.names = names;
	question.policy = (struct policy_asked){.uid = event->uid ? event->uid : "",
		.space = event->namespace_ ? core_policy_space(core, event->namespace_) : NULL,
		.facts = event->policy_pod ? &read->policy_pod : NULL};
	core_filter(core, &question, event->now_ns, &answer);
	return 0;
}

static int replay_prioritize(struct replay *replay, const struct core_event *event, struct error *err)
{
	const struct core_output none = {0}, *asked = replay_answer(replay, TOLD_NAMES, 0, NULL, false);
	_cleanup_free_ const char **names = NULL;
	_cleanup_free_ int *scores = NULL;
	size_t n;

	if (names_of(&replay->core, asked ? asked : &none, &names, &n) == 0)
		scores = calloc(n + 1, sizeof(*scores));
	if (!scores || core_prioritize(&replay->core, event->pod, names, n, scores) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

static int replay_bind(struct replay *replay, const struct core_event *event, struct error *err)
{
	struct bind_target target = {.uid = strdup(event->uid),
		.namespace_ = strdup(event->namespace_),
		.name = strdup(event->name),
		.node = strdup(event->text)};

	if (target.uid && target.namespace_ && target.name && target.node &&
		core_bind(&replay->core, &target, NULL, event->now_ns) == 0)
		return 0;
	bind_target_release(&target);
	return error_set(err, ENOMEM, "out of memory");
}

/* ---- events ---- */

/* Members of struct core_event, as bits. */
enum needs {
	NAME = 1 << 0,
	UID = 1 << 1,
	NAMESPACE = 1 << 2,
	TEXT = 1 << 3,
	NODE = 1 << 4,
	POD = 1 << 5,
	OWNERSHIP = 1 << 6,
	GROUP = 1 << 7,
	POLICY = 1 << 8,
	POLICY_POD = 1 << 9,
	BUDGET = 1 << 10,
	TIME = 1 << 11, /* number is a time */
};

/* What an event of each kind must have. A kind without a row needs nothing. */
static const struct {
	enum needs needs;
	int outcomes; /* its outcome is below this number; 0: it has none, or any is allowed */
} kinds[CORE_KIND_MAX] = {
	[CORE_NODE_SEEN] = {NODE},
	[CORE_NODE_GONE] = {NAME | UID},
	[CORE_AGENT_HEARD] = {NAME | TIME},
	[CORE_AGENT_LOST] = {NAME},
	[CORE_NODES_TOLD] = {TIME},
	[CORE_POD_SEEN] = {POD},
	[CORE_POD_GONE] = {UID},
	[CORE_POD_SHOWN] = {POD},
	[CORE_POD_VERIFIED] = {UID, POD_IS_THERE + 1},
	[CORE_WATCH] = {TIME},
	[CORE_OWNERSHIP] = {OWNERSHIP},
	[CORE_FILTER] = {POD},
	[CORE_PRIORITIZE] = {POD},
	[CORE_DROP_HOLD] = {UID},
	[CORE_BIND] = {UID | NAMESPACE | NAME | TEXT},
	[CORE_BINDING_ANSWERED] = {0, BINDING_UNKNOWN + 1},
	[CORE_RESIZE_LEADS] = {UID},
	[CORE_RESIZE_LISTED] = {UID},
	[CORE_RESIZE_ANSWERED] = {UID, PATCH_UNKNOWN + 1},
	[CORE_RESIZE_NOT_ASKED] = {UID},
	[CORE_BUDGET_SEEN] = {BUDGET},
	[CORE_BUDGET_GONE] = {UID},
	[CORE_PREEMPT] = {POD},
	[CORE_EVICTION_ANSWERED] = {UID, EVICTION_RESULT_MAX},
	[CORE_VICTIM_MARKED] = {UID},
	[CORE_NOMINATION_ANSWERED] = {UID},
	[CORE_NOMINATION_CLEARED] = {UID},
	[CORE_EVICTION_NOT_ASKED] = {UID},
	[CORE_GROUP_SEEN] = {NAME | GROUP},
	[CORE_GROUP_GONE] = {NAME},
	[CORE_GANG_HAS_RUN] = {POD},
	[CORE_GANG_RECALLED] = {UID},
	[CORE_POLICY_SPACE_BEGINS] = {NAMESPACE},
	[CORE_POLICY_SPACE_ENDS] = {NAMESPACE},
	[CORE_POLICY_SEEN] = {NAMESPACE | POLICY},
	[CORE_POLICY_GONE] = {NAMESPACE | UID},
	[CORE_POLICY_NODE_SEEN] = {NAME},
	[CORE_POLICY_NODE_GONE] = {NAME},
	[CORE_POLICY_POD_SEEN] = {NAMESPACE | POLICY_POD},
	[CORE_POLICY_POD_GONE] = {NAMESPACE | UID},
	[CORE_POLICY_LIST_BEGINS] = {NAMESPACE},
	[CORE_POLICY_PODS_LISTED] = {NAMESPACE},
	[CORE_POLICY_MARKS_FAILED] = {NAMESPACE | UID | TIME},
	[CORE_REQUEUE_FAILED] = {UID},
};

static unsigned int members_of(const struct core_event *event)
{
	return (event->name ? NAME : 0) | (event->uid ? UID : 0) | (event->namespace_ ? NAMESPACE : 0) |
	       (event->text ? TEXT : 0) | (event->node ? NODE : 0) | (event->pod ? POD : 0) |
	       (event->ownership ? OWNERSHIP : 0) | (event->group ? GROUP : 0) |
	       (event->policy ? POLICY : 0) | (event->policy_pod ? POLICY_POD : 0) |
	       (event->budget ? BUDGET : 0) |
	       (event->number >= 0 && event->number <= STATE_TIME_MAX ? TIME : 0);
}

bool event_is_whole(const struct core_event *event)
{
	int outcomes = kinds[event->kind].outcomes;

	if ((kinds[event->kind].needs & ~members_of(event)) || (outcomes && event->outcome >= outcomes))
		return false;
	switch (event->kind) {
	case CORE_BIND_LISTED:
		return event->now_ns; /* the time is stored, and 0 is never a time */
	case CORE_GROUP_SEEN:
		return strchr(event->name, '/');
	case CORE_POD_VERIFIED:
		return event->pod || event->outcome < POD_ENDED;
	case CORE_POLICY_SEEN:
		return event->policy->n_units;
	default:
		return true;
	}
}

/* Which order the event answers. BIND_ANSWER is not answered by the events above it. */
static bool answers(enum core_event_kind kind, enum bind_order order)
{
	switch (kind) {
	case CORE_BIND_LISTED:
		return order == BIND_LIST_NODE;
	case CORE_BIND_POD_READ:
		return order == BIND_READ_POD;
	case CORE_BINDING_ANSWERED:
		return order == BIND_SEND;
	default:
		return true;
	}
}

static bool is_in(const struct bind *bind, const struct list *head)
{
	list_for_each (item, head)
		if (item == &bind->item)
			return true;
	return false;
}

static int apply_to_bind(struct replay *replay, const struct core_event *event, struct error *err)
{
	struct core *core = &replay->core;
	struct bind *bind = binds_find(&core->binds, event->bind);
	const struct list *expected = event->kind == CORE_BIND_ANSWERED ? &core->binds.ended
									: &core->binds.in_flight;
	const char *text = event->text ? event->text : "";

	if (!bind || !is_in(bind, expected) || !answers(event->kind, bind->order))
		return error_set(err, EINVAL, "bind %llu does not wait for %s",
			(unsigned long long)event->bind, core_event_kind_text(event->kind));
	if (event->kind == CORE_BIND_LISTED)
		core_node_listed(core, bind, event->text, event->now_ns);
	else if (event->kind == CORE_BIND_POD_READ)
		core_bind_pod_read(core, bind, event->pod, text, event->now_ns);
	else if (event->kind == CORE_BINDING_ANSWERED)
		core_binding_answered(core, bind, (enum binding_outcome)event->outcome, text, event->now_ns);
	else if (event->kind == CORE_BIND_NOT_ASKED)
		core_bind_not_asked(core, bind, text, event->now_ns);
	else
		core_bind_is_answered(core, bind);
	return 0;
}

static int apply_to_resize(struct replay *replay, const struct core_event *event, struct error *err)
{
	struct core *core = &replay->core;
	struct resizing *resizing = resizings_find(&core->resizings, event->uid);

	if (!resizing || !resizing->busy)
		return error_set(err, EINVAL, "the resize of pod %s does not wait for %s", event->uid,
			core_event_kind_text(event->kind));
	if (event->kind == CORE_RESIZE_LEADS)
		core_resize_leads(core, resizing, event->yes, event->now_ns);
	else if (event->kind == CORE_RESIZE_LISTED)
		core_resize_listed(core, resizing, event->yes, event->pod, NULL, event->now_ns);
	else if (event->kind == CORE_RESIZE_ANSWERED)
		core_resize_answered(core, resizing, (enum patch_outcome)event->outcome,
			event->text ? event->text : "", event->now_ns);
	else
		core_resize_not_asked(core, resizing, event->now_ns);
	return 0;
}

/* Events of the watches and of the Lease. False: the event is of another kind. */
static bool apply_seen(struct core *core, const struct core_event *event)
{
	int64_t now_ns = event->now_ns;

	switch (event->kind) {
	case CORE_NODE_SEEN:
		core_see_node(core, event->node);
		return true;
	case CORE_NODE_GONE:
		core_node_is_gone(core, event->name, event->uid);
		return true;
	case CORE_AGENT_HEARD:
		core_hear_agent(core, event->name, event->number);
		return true;
	case CORE_AGENT_LOST:
		core_set_agent_lost(core, event->name, event->yes);
		return true;
	case CORE_NODES_LISTED:
		core_nodes_are_listed(core, now_ns);
		return true;
	case CORE_NODES_TOLD:
		core_set_nodes_told(core, event->number);
		return true;
	case CORE_POD_SEEN:
		core_see_pod(core, event->pod, (uintptr_t)event->number, now_ns);
		return true;
	case CORE_POD_GONE:
		core_pod_is_gone(core, event->uid, event->yes, now_ns);
		return true;
	case CORE_POD_SHOWN:
		core_show_pod(core, event->pod);
		return true;
	case CORE_POD_VERIFIED:
		core_pod_is_verified(core, event->uid, (enum pod_verified)event->outcome, event->pod, now_ns);
		return true;
	case CORE_PODS_LISTED:
		core_pods_are_listed(core, now_ns);
		return true;
	case CORE_WATCH:
		core_set_watch(core, event->yes, event->number);
		return true;
	case CORE_OWNERSHIP:
		core_set_ownership(core, event->ownership);
		return true;
	case CORE_BUDGET_GONE:
		core_budget_is_gone(core, event->uid);
		return true;
	default:
		return false;
	}
}

/* Events of gangs. False: the event is of another kind. */
static bool apply_to_gangs(struct core *core, const struct core_event *event)
{
	switch (event->kind) {
	case CORE_GROUP_SEEN:
		core_see_group(core, event->name, event->group, event->now_ns);
		return true;
	case CORE_GROUP_GONE:
		core_group_is_gone(core, event->name, event->now_ns);
		return true;
	case CORE_GROUPS_KNOWN:
		core_set_groups_known(core, event->yes, event->now_ns);
		return true;
	case CORE_GANG_HAS_RUN:
		core_gang_has_run(core, event->pod);
		return true;
	case CORE_GANG_RECALLED:
		core_gang_recalled(core, event->uid, event->yes, event->now_ns);
		return true;
	default:
		return false;
	}
}

/* Events of ResourcePolicies in one namespace. */
static int apply_to_space(struct core *core, struct read_event *read, struct error *err)
{
	const struct core_event *event = &read->event;
	struct policy_space *space = core_policy_space(core, event->namespace_);

	if (!space)
		return error_set(err, EINVAL, "namespace %s has no ResourcePolicies", event->namespace_);
	switch (event->kind) {
	case CORE_POLICY_SEEN:
		read->policy = NULL;
		core_see_policy(core, space, (struct resource_policy *)event->policy);
		return 0;
	case CORE_POLICY_GONE:
		core_policy_is_gone(core, space, event->uid);
		return 0;
	case CORE_POLICY_POD_SEEN:
		core_see_policy_pod(core, space, &read->policy_pod, event->now_ns);
		return 0;
	case CORE_POLICY_POD_GONE:
		core_policy_pod_is_gone(core, space, event->uid);
		return 0;
	case CORE_POLICY_LIST_BEGINS:
		core_policy_pods_list_begins(core, space);
		return 0;
	case CORE_POLICY_PODS_LISTED:
		core_policy_pods_are_listed(core, space, event->yes, event->now_ns);
		return 0;
	default:
		core_policy_marks_failed(core, space, event->uid, event->number, event->now_ns);
		return 0;
	}
}

static int replay_narrow(struct replay *replay, struct read_event *read, struct error *err)
{
	const struct core_event *event = &read->event;
	const struct core_output none = {0}, *told = replay_answer(replay, TOLD_NAMES, 0, NULL, false);
	_cleanup_free_ const char **names = NULL;
	_cleanup_free_ bool *usable = NULL;
	size_t n = 0;
	struct policy_asked asked = {.uid = event->uid ? event->uid : "",
		.space = event->namespace_ ? core_policy_space(&replay->core, event->namespace_) : NULL,
		.facts = event->policy_pod ? &read->policy_pod : NULL};
	struct policy_decision decision;

	if (names_of(&replay->core, told ? told : &none, &names, &n) < 0 || !(usable = malloc(n + 1)))
		return error_set(err, ENOMEM, "out of memory");
	memset(usable, true, n);
	core_policy_narrow(&replay->core, &asked, names, n, usable, event->now_ns, &decision);
	return 0;
}

static int apply_to_policies(struct replay *replay, struct read_event *read, struct error *err)
{
	const struct core_event *event = &read->event;
	struct core *core = &replay->core;

	switch (event->kind) {
	case CORE_POLICIES_KNOWN:
		core_set_policies_known(core, event->yes);
		return 0;
	case CORE_POLICY_SPACE_BEGINS:
		return core_add_policy_space(core, event->namespace_)
			       ? 0
			       : error_set(err, ENOMEM, "out of memory");
	case CORE_POLICY_SPACE_ENDS:
		core_remove_policy_space(core, event->namespace_);
		return 0;
	case CORE_BUDGET_SEEN:
		read->budget = NULL;
		core_see_budget(core, (struct budget *)event->budget);
		return 0;
	case CORE_POLICY_NODE_SEEN:
		core_see_policy_node(core, event->name, event->text);
		return 0;
	case CORE_POLICY_NODE_GONE:
		core_policy_node_is_gone(core, event->name);
		return 0;
	case CORE_POLICY_NARROW:
		return replay_narrow(replay, read, err);
	case CORE_POLICIES_LOOK_ANEW:
		core_look_at_policies_anew(core);
		return 0;
	case CORE_POLICIES_LOOK:
		core_look_at_policies(core);
		return 0;
	default:
		return apply_to_space(core, read, err);
	}
}

/* Evictions and the verb preempt. */

static int replay_preempt(struct replay *replay, struct read_event *read, struct error *err)
{
	const struct core_event *event = &read->event;
	_cleanup_preempt_answer_ struct preempt_answer answer = {0};
	struct preempt_question question = {.pod = event->pod,
		.policy = {.uid = event->uid ? event->uid : "",
			.space = event->namespace_ ? core_policy_space(&replay->core, event->namespace_)
						   : NULL,
			.facts = event->policy_pod ? &read->policy_pod : NULL},
		.nodes = event->candidates,
		.n = event->n_candidates};

	core_preempt(&replay->core, &question, event->now_ns, &answer);
	return answer.outcome == PREEMPT_FAILED ? error_set(err, ENOMEM, "out of memory") : 0;
}

static int apply_to_attempt(struct core *core, const struct core_event *event, struct error *err)
{
	struct eviction_attempt *attempt = table_get(&core->evictions.attempts, event->uid);
	static const int orders[] = {[CORE_EVICTION_ANSWERED] = EVICTION_ORDER_EVICT,
		[CORE_VICTIM_MARKED] = EVICTION_ORDER_MARK,
		[CORE_NOMINATION_ANSWERED] = EVICTION_ORDER_NOMINATE,
		[CORE_NOMINATION_CLEARED] = EVICTION_ORDER_CLEAR};

	if (!attempt || !attempt->busy ||
		(event->kind != CORE_EVICTION_NOT_ASKED && (int)attempt->order != orders[event->kind]))
		return error_set(err, EINVAL, "the eviction for pod %s does not wait for %s", event->uid,
			core_event_kind_text(event->kind));
	if (event->kind == CORE_EVICTION_ANSWERED)
		core_eviction_answered(core, attempt, (enum eviction_outcome)event->outcome,
			event->text ? event->text : "", event->now_ns);
	else if (event->kind == CORE_VICTIM_MARKED)
		core_victim_is_marked(core, attempt);
	else if (event->kind == CORE_NOMINATION_ANSWERED)
		core_nomination_answered(core, attempt, event->yes);
	else if (event->kind == CORE_NOMINATION_CLEARED)
		core_nomination_is_cleared(core, attempt);
	else
		core_eviction_not_asked(core, attempt);
	return 0;
}

static int replay_recall(struct replay *replay, struct read_event *read)
{
	const struct core_event *event = &read->event;
	struct policy_asked asked = {.uid = event->uid ? event->uid : "",
		.space = event->namespace_ ? core_policy_space(&replay->core, event->namespace_) : NULL,
		.facts = event->policy_pod ? &read->policy_pod : NULL};
	struct policy_decision decision;

	core_policy_recall(&replay->core, &asked, event->now_ns, &decision);
	return 0;
}

/* Events that are due by time. False: the event is of another kind. */
static bool apply_time(struct core *core, const struct core_event *event)
{
	const struct pod_facts *pods[REQUEUES_PER_LOOK];
	int64_t again_ns;

	switch (event->kind) {
	case CORE_TICK:
		core_tick(core, event->now_ns);
		return true;
	case CORE_DOUBTS_END:
		core_end_doubts(core, event->now_ns);
		return true;
	case CORE_FILTER_ANSWERED:
		core_filter_is_answered(core, event->now_ns);
		return true;
	case CORE_EVICTIONS_GO_ON:
		core_continue_evictions(core, event->now_ns);
		return true;
	case CORE_GANGS_MAY_LOOK:
		core_gangs_may_look(core, event->now_ns);
		return true;
	case CORE_GANGS_LOOK:
		core_look_at_gangs(core, event->now_ns);
		return true;
	case CORE_REQUEUES_LOOK:
		core_look_at_requeues(core, event->now_ns, pods, &again_ns);
		return true;
	default:
		return false;
	}
}

int event_apply(struct replay *replay, struct read_event *read, struct error *err)
{
	const struct core_event *event = &read->event;
	struct core *core = &replay->core;

	if (apply_seen(core, event) || apply_to_gangs(core, event) || apply_time(core, event))
		return 0;
	switch (event->kind) {
	case CORE_CALLED:
		core_note_call(core, event->yes, event->now_ns);
		return 0;
	case CORE_FILTER:
		return replay_filter(replay, read, err);
	case CORE_PRIORITIZE:
		return replay_prioritize(replay, event, err);
	case CORE_DROP_HOLD:
		core_drop_hold(core, event->uid);
		return 0;
	case CORE_BIND:
		return replay_bind(replay, event, err);
	case CORE_BIND_LISTED:
	case CORE_BIND_POD_READ:
	case CORE_BINDING_ANSWERED:
	case CORE_BIND_NOT_ASKED:
	case CORE_BIND_ANSWERED:
		return apply_to_bind(replay, event, err);
	case CORE_REQUEUE_FAILED:
		core_requeue_failed(core, event->uid, event->now_ns);
		return 0;
	case CORE_RESIZE_LEADS:
	case CORE_RESIZE_LISTED:
	case CORE_RESIZE_ANSWERED:
	case CORE_RESIZE_NOT_ASKED:
		return apply_to_resize(replay, event, err);
	case CORE_PREEMPT:
		return replay_preempt(replay, read, err);
	case CORE_PREEMPT_RECALL:
		return replay_recall(replay, read);
	case CORE_EVICTION_ANSWERED:
	case CORE_VICTIM_MARKED:
	case CORE_NOMINATION_ANSWERED:
	case CORE_NOMINATION_CLEARED:
	case CORE_EVICTION_NOT_ASKED:
		return apply_to_attempt(core, event, err);
	default:
		return apply_to_policies(replay, read, err);
	}
}
