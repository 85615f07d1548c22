#include "core/events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/bind.h"
#include "core/events-internal.h"
#include "core/policies.h"
#include "core/resizing.h"

/* No answer of the API server comes later than this, because requests of this process time out after 5 s. */
#define FORGOTTEN_S 15

void core_init(struct core *core, const struct gang_rules *rules)
{
	static const struct gang_rules no_times;

	*core = (struct core){0};
	ledger_init(&core->ledger);
	requeue_list_init(&core->requeues);
	gangs_init(&core->gangs, rules ? rules : &no_times, &core->requeues);
	policy_spaces_init(&core->policies);
	ownership_always(&core->ownership);
	leadership_init(&core->leadership);
	binds_init(&core->binds);
	resizings_init(&core->resizings);
	budgets_init(&core->budgets);
	evictions_init(&core->evictions);
	list_init(&core->gang_orders);
	table_init(&core->forgotten);
	table_init(&core->verdicts);
	table_init(&core->failed);
}

static void failed_pod_free(struct pod_facts *facts)
{
	pod_facts_release(facts);
	free(facts);
}

void core_release(struct core *core)
{
	struct pod_facts *facts;

	binds_release(&core->binds);
	resizings_release(&core->resizings);
	evictions_release(&core->evictions);
	budgets_release(&core->budgets);
	list_for_each_safe (item, after, &core->gang_orders)
		gang_order_free(list_entry(item, struct gang_order, item));
	gangs_release(&core->gangs);
	policy_spaces_release(&core->policies); /* first, because this takes pods out of the requeues */
	requeue_list_release(&core->requeues);
	leadership_release(&core->leadership);
	ledger_release(&core->ledger);
	table_for_each (&core->failed, cursor, facts)
		failed_pod_free(facts);
	table_release(&core->failed);
	table_release(&core->verdicts);
	table_release(&core->forgotten);
}

/* ---- gangs ---- */

/* Carries out one order after the other, because one may add others at the end. */
void core_follow_gangs(struct core *core, int64_t now_ns)
{
	struct gang_order *order;

	while ((order = gangs_next_order(&core->gangs))) {
		if (order->kind == GANG_GO) {
			bind_go(core, order->uid, now_ns);
		} else if (order->kind == GANG_TURN_AWAY) {
			bind_turn_away(core, order->uid);
		} else {
			list_append(&core->gang_orders, &order->item);
			core_tell(core, &(struct core_output){GAVE_GANG_ORDER, .uid = order->uid,
						.outcome = (int)order->kind});
			continue;
		}
		gang_order_free(order);
	}
}

struct gang_order *core_next_gang_order(struct core *core)
{
	struct gang_order *order;

	if (list_empty(&core->gang_orders))
		return NULL;
	order = list_entry(core->gang_orders.next, struct gang_order, item);
	list_remove(&order->item);
	return order;
}

/* The due time never moves later: otherwise a stream of events would postpone the evaluation forever. */
void core_look_at_gangs_within(struct core *core, int64_t delay_ns, int64_t now_ns)
{
	int64_t due_ns = now_ns + delay_ns;

	if (!core->gangs_look_ns || due_ns < core->gangs_look_ns)
		core->gangs_look_ns = due_ns;
}

void core_gangs_may_look(struct core *core, int64_t now_ns)
{
	_event_ struct core *event = NULL;
	int64_t due_ns = now_ns + CORE_LOOK_DELAY_NS;

	if (!core->gangs.by_uid.count || core->gangs_looked_at == core->ledger.generation ||
		(core->gangs_look_ns && core->gangs_look_ns <= due_ns))
		return;
	event = core_begin(core, &(struct core_event){CORE_GANGS_MAY_LOOK, now_ns});
	core->gangs_look_ns = due_ns;
}

void core_look_at_gangs(struct core *core, int64_t now_ns)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_GANGS_LOOK, now_ns});
	bool leads = core_is_ready(core) && ownership_may_plan(&core->ownership, NULL) == 0;
	int64_t again_ns;

	core->gangs_look_ns = 0;
	gangs_set_following(&core->gangs, core->following);
	again_ns = gangs_look(&core->gangs, &core->ledger, now_ns, leads);
	core->gangs_looked_at = core->ledger.generation;
	core_follow_gangs(core, now_ns);
	if (again_ns != INT64_MAX)
		core_look_at_gangs_within(core, again_ns > NS_PER_MS ? again_ns : NS_PER_MS, now_ns);
}

int core_see_gang_pod(struct core *core, const struct pod_facts *facts, bool listed, int64_t now_ns)
{
	int r;

	if (!facts->gang && !core->gangs.by_uid.count)
		return 0;
	gangs_set_following(&core->gangs, core->following);
	r = gangs_see_pod(&core->gangs, &core->ledger, facts, listed, now_ns);
	core_follow_gangs(core, now_ns);
	if (facts->gang)
		core_look_at_gangs_within(core, CORE_LOOK_DELAY_NS, now_ns);
	return r;
}

static void forget_gang_pod(struct core *core, const char *uid, bool ended, int64_t now_ns)
{
	if (!table_get(&core->gangs.by_uid, uid))
		return;
	if (ended)
		gangs_forget_pod(&core->gangs, uid);
	else
		gangs_delete_pod(&core->gangs, uid);
	core_follow_gangs(core, now_ns);
	core_look_at_gangs_within(core, CORE_LOOK_DELAY_NS, now_ns);
}

enum gang_answer core_filter_gang(struct core *core, const struct pod_facts *pod, const char *const *names,
	size_t n, int64_t now_ns, const char **ret_node, const char **ret_text)
{
	const struct ledger_pod *held;
	enum gang_answer answer;

	/* kube-scheduler may know before the watch that a pod has left its gang. */
	if (!pod->gang && !gangs_facts(&core->gangs, pod->uid))
		return GANG_NONE;
	*ret_node = NULL;
	ledger_expire(&core->ledger, now_ns);
	answer = gangs_filter(&core->gangs, &core->ledger, pod, names, n, now_ns, ret_node, ret_text);
	core_follow_gangs(core, now_ns);
	if (answer == GANG_NONE)
		return answer;
	/* A call of bind for this pod may just have been turned away. Then its hold and the name of its node
	 * are gone. */
	held = ledger_pod(&core->ledger, pod->uid);
	if (*ret_node && !(*ret_node = held ? held->node : NULL))
		answer = GANG_WAIT;
	core_look_at_gangs_within(core, CORE_LOOK_DELAY_NS, now_ns);
	return answer;
}

void core_fail_gang(struct core *core, const char *uid, const char *why, int64_t now_ns)
{
	gangs_give_up(&core->gangs, &core->ledger, uid, why, now_ns);
	core_look_at_gangs_within(core, CORE_LOOK_DELAY_NS, now_ns);
}

/* ---- pods ---- */

/* ended: the pod's containers have ended, too. Otherwise the pod may stay as an orphan. */
static int forget_pod(struct core *core, const char *uid, bool ended, int64_t now_ns)
{
	uintptr_t second = (uintptr_t)(now_ns / NS_PER_S) + 1;
	struct pod_facts *failed = table_remove(&core->failed, uid);
	int r = 0;

	if (failed) /* an interrupted LIST has shown it before */
		failed_pod_free(failed);

	ledger_remove_host_pod(&core->ledger, uid);
	if (ledger_pod(&core->ledger, uid))
		r = table_set(&core->forgotten, uid, (void *)second);
	if (ended)
		ledger_remove_pod(&core->ledger, uid);
	else
		ledger_delete_pod(&core->ledger, uid, now_ns + ORPHAN_NS);
	forget_gang_pod(core, uid, ended, now_ns);
	requeue_list_leave(&core->requeues, uid);
	table_remove(&core->verdicts, uid);
	return r;
}

static bool has_later_size(const struct ledger_pod *pod, const struct pod_facts *shown)
{
	return shown && shown->has_placement && pod->has_placement &&
	       shown->placement.resizes > pod->placement.resizes;
}

/* The pod's containers may run, although the ledger was not told so: it is missing from a new LIST, its
 * Binding was sent and no answer or event has told whether it was applied, or it failed after they had
 * started. shown: the pod as it has failed, maybe with a size that nothing has shown before; NULL: it was not
 * shown. */
static int assume_running(struct core *core, const char *uid, const struct pod_facts *shown)
{
	const struct ledger_pod *pod = ledger_pod(&core->ledger, uid);
	_cleanup_pod_facts_ struct pod_facts facts = {0};
	bool resized;

	ledger_confirm(&core->ledger, uid);
	resized = pod && has_later_size(pod, shown);
	if (!pod || pod->occupancy != OCCUPANCY_BOUND || (pod->facts.running && !resized))
		return 0;
	if (pod_facts_copy(resized ? shown : &pod->facts, &facts) < 0)
		return -ENOMEM;
	facts.running = true;
	facts.finished = false;
	return ledger_set_pod(&core->ledger, &facts);
}

/* Containers of a Failed pod may run. PodGC makes pods of a lost node Failed while their containers run
 * (gc_controller.go, 1.36.3). A kubelet that has lost its record of devices rejects pods that run. */
static int pod_has_finished(struct core *core, const struct pod_facts *facts, int64_t now_ns)
{
	bool may_run = !facts->succeeded && facts->running;
	int assumed = may_run ? assume_running(core, facts->uid, facts) : 0, r = 0;
	int forgotten = forget_pod(core, facts->uid, !may_run, now_ns);

	if (may_run && !core_is_ready(core) && facts->has_placement) {
		struct pod_facts *copy = calloc(1, sizeof(*copy));

		r = copy ? pod_facts_copy(facts, copy) : -ENOMEM;
		if (r == 0)
			r = table_set(&core->failed, copy->uid, copy);
		if (r < 0 && copy)
			failed_pod_free(copy);
	}
	return r < 0 ? r : assumed < 0 ? assumed : forgotten;
}

/* The pod is "Unschedulable" though filter found a node, so something else rejected it, and its hold only
 * blocks others. A late event of an earlier verdict may end a hold that is still needed; bind then chooses
 * again. */
static void end_hold_on_new_verdict(struct core *core, const char *uid, uintptr_t verdict)
{
	if (!verdict || verdict == (uintptr_t)table_get(&core->verdicts, uid))
		return;
	table_set(&core->verdicts, uid, (void *)verdict);
	if (!gangs_holds(&core->gangs, uid))
		ledger_drop_hold(&core->ledger, uid);
}

/* A pod that asks for no GPU uses CPU and memory of its node. */
static int see_host_pod(struct core *core, const struct pod_facts *facts)
{
	if (!facts->finished && facts->node && *facts->node)
		return ledger_set_host_pod(&core->ledger, facts);
	ledger_remove_host_pod(&core->ledger, facts->uid);
	return 0;
}

int core_see_pod(struct core *core, const struct pod_facts *facts, uintptr_t verdict, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POD_SEEN, now_ns, .pod = facts, .number = (int64_t)verdict});
	int gang = core_see_gang_pod(core, facts, true, now_ns), r;

	if (request_is_empty(&facts->request) && !ledger_pod(&core->ledger, facts->uid)) {
		r = see_host_pod(core, facts);
		return gang < 0 ? gang : r;
	}
	if (facts->finished) {
		r = pod_has_finished(core, facts, now_ns);
		return gang < 0 ? gang : r;
	}
	r = ledger_set_pod(&core->ledger, facts);
	if (facts->node && *facts->node) {
		core_see_resize(core, facts, now_ns);
		requeue_list_leave(&core->requeues, facts->uid);
		table_remove(&core->verdicts, facts->uid);
	} else {
		end_hold_on_new_verdict(core, facts->uid, verdict);
		core_follow_nomination(core, facts, now_ns);
	}
	return gang < 0 ? gang : r;
}

int core_pod_is_gone(struct core *core, const char *uid, bool shown, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POD_GONE, now_ns, .uid = uid, .yes = shown});
	int r = shown ? 0 : assume_running(core, uid, NULL), forgotten = forget_pod(core, uid, false, now_ns);

	return r < 0 ? r : forgotten;
}

/* Marks the pod as unlisted: if the watch ends before it has shown the pod, no event tells the pod's end. */
static int take_unlisted(struct core *core, const struct pod_facts *facts)
{
	const struct ledger_pod *known = ledger_pod(&core->ledger, facts->uid);
	bool listed = known && known->listed;
	int r = ledger_set_pod(&core->ledger, facts);

	if (r == 0 && !listed)
		ledger_set_unlisted(&core->ledger, facts->uid);
	return r;
}

/* True if the pod has a later size than the watch has shown. */
static bool is_resized(const struct ledger_pod *known, const struct pod_facts *facts)
{
	return known->occupancy == OCCUPANCY_BOUND && facts->has_placement &&
	       facts->placement.resizes > known->placement.resizes;
}

int core_show_pod(struct core *core, const struct pod_facts *facts)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_POD_SHOWN, .pod = facts});
	const struct ledger_pod *known;

	/* A pod with an invalid request has the devices that the kubelet gave it. */
	if (request_is_empty(&facts->request) || table_get(&core->forgotten, facts->uid))
		return 0;
	known = ledger_pod(&core->ledger, facts->uid);
	if (known && known->occupancy >= OCCUPANCY_BOUND && !is_resized(known, facts))
		return 0;
	return take_unlisted(core, facts);
}

/* ---- lists ---- */

/* The API server does not say when a pod failed, or whether its containers have ended since. Only pods that
 * fit together can run, so a hundred pods that a kubelet rejected long ago occupy no more than the GPU has.
 */
static void count_failed_pod(struct core *core, struct pod_facts *facts, int64_t now_ns)
{
	_cleanup_free_ char *node = TAKE_PTR(facts->node);

	facts->finished = false;
	if (ledger_reserve(&core->ledger, facts, node, &facts->placement) < 0)
		return;
	ledger_confirm(&core->ledger, facts->uid);
	ledger_delete_pod(&core->ledger, facts->uid, now_ns + ORPHAN_NS);
}

/* After the first LISTs, a pod that failed before this process began stays as an orphan until its node is
 * heard. */
static void count_failed_pods(struct core *core, int64_t now_ns)
{
	struct pod_facts *facts;

	if (!core_is_ready(core))
		return;
	table_for_each (&core->failed, cursor, facts) {
		count_failed_pod(core, facts, now_ns);
		failed_pod_free(facts);
	}
	table_release(&core->failed);
}

void core_nodes_are_listed(struct core *core, int64_t now_ns)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_NODES_LISTED, now_ns});
	core->nodes_listed = true;
	count_failed_pods(core, now_ns);
	core_follow_nominations(core, now_ns);
}

/* kube-scheduler holds a rejected pod back until something happens to it, whichever replica rejected it. This
 * includes pods without an "unschedulable" condition, because kube-scheduler could not write it during an
 * outage of the API server. The replica may also have been about to evict other pods for it. */
static size_t find_waiting(struct core *core, int64_t now_ns)
{
	const struct ledger_pod *pod;
	size_t lost = 0;

	table_for_each (&core->ledger.pods, cursor, pod) {
		if (pod->occupancy != OCCUPANCY_WAITING)
			continue;
		if (requeue_list_found_waiting(&core->requeues, &pod->facts, now_ns) < 0)
			lost++;
		else if (core_may_evict_for(core, &pod->facts) && !gangs_rules_out(&core->gangs, &pod->facts))
			requeue_list_may_evict(&core->requeues, pod->facts.uid);
	}
	return lost;
}

size_t core_pods_are_listed(struct core *core, int64_t now_ns)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_PODS_LISTED, now_ns});
	size_t lost = core->pods_listed ? 0 : find_waiting(core, now_ns);

	core->pods_listed = true;
	count_failed_pods(core, now_ns);
	core_follow_nominations(core, now_ns);
	return lost;
}

bool core_is_unlisted(const struct ledger_pod *pod)
{
	/* A reserved pod counts, too: the answer to its Binding may come after its end. */
	return !pod->listed && (pod->occupancy == OCCUPANCY_BOUND || pod->occupancy == OCCUPANCY_RESERVED);
}

bool core_pod_is_verified(struct core *core, const char *uid, enum pod_verified what,
	const struct pod_facts *facts, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_POD_VERIFIED, now_ns, .uid = uid, .outcome = what,
			      .pod = what == POD_ENDED || what == POD_IS_THERE ? facts : NULL});
	const struct ledger_pod *known = ledger_pod(&core->ledger, uid);
	bool orphan = known && known->occupancy == OCCUPANCY_ORPHAN;

	/* If the watch has told something meanwhile, that is newer. */
	if (what == POD_IS_THERE && !orphan && !table_get(&core->forgotten, uid))
		take_unlisted(core, facts);
	if (!known || what == POD_IS_THERE || what == POD_UNCLEAR || (what == POD_GONE && orphan))
		return false;
	/* The pod is gone, but its containers may still run. */
	if (what == POD_GONE)
		core_pod_is_gone(core, uid, false, now_ns);
	else
		pod_has_finished(core, facts, now_ns);
	return true;
}

void core_tick(struct core *core, int64_t now_ns)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_TICK, now_ns});
	uintptr_t second = (uintptr_t)(now_ns / NS_PER_S);
	const char *uid;
	void *since;

	decide_expire(&core->ledger, now_ns, core->following);
	for (size_t cursor = 0; table_next(&core->forgotten, &cursor, &uid, &since);)
		if (second > (uintptr_t)since + FORGOTTEN_S)
			table_remove(&core->forgotten, uid);
	core_tick_resizes(core, now_ns);
	core_tick_policies(core, now_ns);
	if (core->gangs.by_uid.count)
		core_look_at_gangs_within(core, NS_PER_S, now_ns);
	if (core->following)
		requeue_list_forget_gone(&core->requeues, &core->ledger, now_ns);
}
