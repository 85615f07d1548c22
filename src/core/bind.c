#include "core/bind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "core/core.h"
#include "core/events-internal.h"
#include "core/events.h"
#include "core/policies.h"
#include "core/registry/node-ledger.h"

/* How many requests may be under way at once. */
#define IN_FLIGHT_MAX 64
/* No request of a bind starts later than this after the call came in, even if the bind had to wait. Each
 * request has a deadline of 3 s, so the last one is over after 8 s. kube-scheduler's httpTimeout is 10 s.
 * After that it forgets the pod, and none of these requests may be applied. */
#define START_MAX_NS (5 * NS_PER_S)

static const char late[] = "the API server is too slow to bind the pod in time, trying again";
static const char not_in_time[] = "not enough pods of its gang came to bind in time, trying again";
static const char hung_up[] = "kube-scheduler has closed the connection";

void bind_target_release(struct bind_target *target)
{
	if (!target)
		return;
	free(target->uid);
	free(target->namespace_);
	free(target->name);
	free(target->node);
	*target = (struct bind_target){0};
}

static void bind_free(struct bind *bind)
{
	list_remove(&bind->item);
	list_remove(&bind->order_item);
	bind_target_release(&bind->what);
	free(bind->text);
	free(bind);
}

void binds_init(struct binds *binds)
{
	*binds = (struct binds){0};
	list_init(&binds->queued);
	list_init(&binds->awaiting_list);
	list_init(&binds->gathering);
	list_init(&binds->in_flight);
	list_init(&binds->ended);
	list_init(&binds->doubtful);
	list_init(&binds->orders);
}

void binds_release(struct binds *binds)
{
	struct list *lists[] = {&binds->queued, &binds->awaiting_list, &binds->gathering, &binds->in_flight,
		&binds->ended, &binds->doubtful};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		list_for_each_safe (item, after, lists[i])
			bind_free(list_entry(item, struct bind, item));
}

struct bind *binds_find(const struct binds *binds, uint64_t number)
{
	const struct list *lists[] = {&binds->in_flight, &binds->ended, &binds->queued, &binds->awaiting_list,
		&binds->gathering, &binds->doubtful};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		list_for_each (item, lists[i])
			if (list_entry(item, struct bind, item)->number == number)
				return list_entry(item, struct bind, item);
	return NULL;
}

size_t binds_doubtful(const struct binds *binds)
{
	size_t n = 0;

	list_for_each (item, &binds->doubtful)
		n++;
	return n;
}

static void give_order(struct core *core, struct bind *bind, enum bind_order order)
{
	bind->order = order;
	list_append(&core->binds.orders, &bind->order_item);
	core_tell(core, &(struct core_output){GAVE_BIND_ORDER, .bind = bind->number, .uid = bind->what.uid,
				.name = bind->what.node, .outcome = (int)order,
				.text = order == BIND_ANSWER ? bind->error.text : NULL});
	if (order == BIND_ANSWER) {
		list_append(&core->binds.ended, &bind->item);
		return;
	}
	list_append(&core->binds.in_flight, &bind->item);
	core->binds.n_in_flight++;
}

/* The bind's request is over. */
static void land(struct core *core, struct bind *bind)
{
	list_remove(&bind->item);
	core->binds.n_in_flight--;
}

static void end(struct core *core, struct bind *bind, enum bind_outcome outcome, const char *why)
{
	bind->outcome = outcome;
	if (why != bind->error.text)
		error_set(&bind->error, 0, "%s", why);
	free(TAKE_PTR(bind->text));
	give_order(core, bind, BIND_ANSWER);
}

/* Ends a bind before its Binding was sent. If kube-scheduler still wants to bind the pod, it asks filter
 * again first; until then the GPU is free for other pods. If it has hung up, it may already have asked again,
 * so a hold of the pod stays. */
static void refuse(struct core *core, struct bind *bind, enum bind_outcome outcome, const char *why)
{
	if (outcome != BIND_ABANDONED && outcome != BIND_LATE)
		ledger_drop_hold(&core->ledger, bind->what.uid);
	end(core, bind, outcome, why);
}

static bool is_late(const struct bind *bind, int64_t now_ns)
{
	return now_ns - bind->asked_ns > START_MAX_NS;
}

static bool is_abandoned(const struct core *core, const struct bind *bind)
{
	const struct bind_ops *ops = &core->binds.ops;

	if (!ops->caller_is_gone || !ops->caller_is_gone(ops->userdata, bind))
		return false;
	core_tell(core, &(struct core_output){TOLD_CALLER_GONE, .bind = bind->number});
	return true;
}

/* Refuses a bind if kube-scheduler no longer waits for it, or if it is too late. */
static bool refuse_if_too_late(struct core *core, struct bind *bind, int64_t now_ns)
{
	if (is_abandoned(core, bind))
		refuse(core, bind, BIND_ABANDONED, hung_up);
	else if (is_late(bind, now_ns))
		refuse(core, bind, BIND_LATE, late);
	else
		return false;
	return true;
}

static int confirm_unit(struct core *core, const struct bind *bind, int64_t now_ns, struct error *err)
{
	return core_policy_confirm(core, bind->what.namespace_, bind->what.uid, bind->what.node, now_ns, err);
}

static int write_binding(struct core *core, struct bind *bind, const struct pod_facts *facts,
	const struct placement *placement, struct error *err)
{
	const struct bind_ops *ops = &core->binds.ops;
	bool forming = placement && gangs_is_forming(&core->gangs, bind->what.uid);

	bind->text = ops->write_binding(ops->userdata, bind, facts, placement, forming, err);
	if (bind->text)
		core_tell(core, &(struct core_output){GAVE_BINDING, .bind = bind->number,
					.placement = placement, .yes = forming});
	else
		core_tell(core,
			&(struct core_output){TOLD_NO_BINDING, .bind = bind->number, .text = err->text});
	return bind->text ? 0 : -ENOMEM;
}

/* Reserves the GPU and writes the Binding. On failure it does neither, and bind->outcome and bind->error say
 * why. */
static int reserve(struct core *core, struct bind *bind, const struct pod_facts *facts, int64_t now_ns)
{
	_cleanup_placement_ struct placement placement;
	char reason[64];
	int r;

	placement_init(&placement);
	bind->outcome = BIND_FAILED;
	if (confirm_unit(core, bind, now_ns, &bind->error) < 0)
		return -EBUSY;
	if (core->binds.ops.about_to_reserve)
		core->binds.ops.about_to_reserve(core->binds.ops.userdata);
	r = decide_reserve(&core->ledger, facts, bind->what.node, &placement);
	if (r > 0) {
		bind->outcome = BIND_NO_GPU;
		reject_reason_text((enum reject_reason)r, &facts->request, reason, sizeof(reason));
		return error_set(&bind->error, ENOSPC, "%s on node %s (any more)", reason, bind->what.node);
	}
	if (r < 0)
		return error_set(&bind->error, -r, "cannot reserve a GPU on node %s: %s", bind->what.node,
			strerror(-r));
	/* If this fails, the pod's containers see only their own GPUs. */
	if (facts->request.group)
		node_ledger_see_group(
			ledger_node(&core->ledger, bind->what.node), &facts->request, &placement);
	r = write_binding(core, bind, facts, &placement, &bind->error);
	if (r < 0)
		ledger_release_reservation(&core->ledger, bind->what.uid);
	return r;
}

/* Sends the Binding, which is written; what the pod needs is reserved. */
static void send_bind(struct core *core, struct bind *bind, int64_t now_ns)
{
	struct error lost = {0};

	if (ownership_may_bind(&core->ownership, now_ns, &lost) == 0) {
		give_order(core, bind, BIND_SEND);
		return;
	}
	ledger_release_reservation(&core->ledger, bind->what.uid);
	refuse(core, bind, BIND_NOT_OWNER, lost.text);
}

/* ---- gangs ---- */

/* If the pod's gang has not started, enough members must reach bind before the first Binding is sent. Then
 * this bind waits, and the function returns true. */
static bool gathers(struct core *core, struct bind *bind, const struct pod_facts *facts, int64_t now_ns)
{
	if (!facts->gang)
		return false;
	core_see_gang_pod(core, facts, false, now_ns);
	if (!gangs_bind(&core->gangs, &core->ledger, bind->what.uid, bind->what.node, now_ns))
		return false;
	list_append(&core->binds.gathering, &bind->item);
	core_look_at_gangs_within(core, CORE_LOOK_DELAY_NS, now_ns);
	core_follow_gangs(core, now_ns);
	return true;
}

void bind_turn_away(struct core *core, const char *uid)
{
	list_for_each_safe (item, after, &core->binds.gathering) {
		struct bind *bind = list_entry(item, struct bind, item);

		if (strcmp(bind->what.uid, uid) != 0)
			continue;
		list_remove(item);
		refuse(core, bind, is_abandoned(core, bind) ? BIND_ABANDONED : BIND_GANG, not_in_time);
		return;
	}
}

/* Moves the waiting binds of the pod's gang to `going`. */
static void gather(struct core *core, const char *uid, struct list *going)
{
	list_init(going);
	list_for_each_safe (item, after, &core->binds.gathering) {
		struct bind *bind = list_entry(item, struct bind, item);

		if (!gangs_are_mates(&core->gangs, bind->what.uid, uid))
			continue;
		list_remove(item);
		list_append(going, item);
	}
}

/* Returns the bind that could not be reserved, with the sentence in its error; NULL: all are reserved. */
static struct bind *reserve_all(struct core *core, struct list *going, int64_t now_ns)
{
	list_for_each (item, going) {
		struct bind *bind = list_entry(item, struct bind, item);
		const struct pod_facts *facts = gangs_facts(&core->gangs, bind->what.uid);

		if (is_abandoned(core, bind))
			error_set(&bind->error, EPIPE, "%s", hung_up);
		else if (is_late(bind, now_ns) || !facts)
			error_set(&bind->error, ETIMEDOUT, "%s", not_in_time);
		else if (reserve(core, bind, facts, now_ns) == 0)
			continue;
		return bind;
	}
	return NULL;
}

void bind_go(struct core *core, const char *uid, int64_t now_ns)
{
	struct list going;
	struct bind *failed;
	struct error why = {0};

	gather(core, uid, &going);
	if (list_empty(&going))
		return;
	failed = reserve_all(core, &going, now_ns);
	if (failed) {
		why = failed->error;
		core_fail_gang(core, uid, why.text, now_ns);
	}
	list_for_each_safe (item, after, &going) {
		struct bind *bind = list_entry(item, struct bind, item);

		list_remove(item);
		if (failed) {
			ledger_release_reservation(&core->ledger, bind->what.uid);
			refuse(core, bind, is_abandoned(core, bind) ? BIND_ABANDONED : BIND_GANG, why.text);
		} else {
			gangs_sent(&core->gangs, bind->what.uid);
			send_bind(core, bind, now_ns);
		}
	}
}

/* ---- from call to answer ---- */

static void bind_pod(struct core *core, struct bind *bind, const struct pod_facts *facts, int64_t now_ns)
{
	if (gathers(core, bind, facts, now_ns))
		return;
	if (reserve(core, bind, facts, now_ns) < 0)
		refuse(core, bind, bind->outcome, bind->error.text);
	else
		send_bind(core, bind, now_ns);
}

/* The ledger may not know the pod: this process may have restarted between filter and bind, the watch may
 * lag, or the pod needs no GPU. Then the pod is read from the API server. */
static void read_or_bind(struct core *core, struct bind *bind, int64_t now_ns)
{
	const struct ledger_pod *known = ledger_pod(&core->ledger, bind->what.uid);
	_cleanup_pod_facts_ struct pod_facts facts = {
		0}; /* a copy, because the ledger may forget the pod meanwhile */

	if (!known)
		give_order(core, bind, BIND_READ_POD);
	else if (pod_facts_copy(&known->facts, &facts) < 0)
		refuse(core, bind, BIND_FAILED, "out of memory");
	else
		bind_pod(core, bind, &facts, now_ns);
}

static void advance(struct core *core, int64_t now_ns)
{
	struct binds *binds = &core->binds;

	while (binds->n_in_flight < IN_FLIGHT_MAX && !list_empty(&binds->queued)) {
		struct bind *bind = list_entry(binds->queued.next, struct bind, item);

		list_remove(&bind->item);
		if (!refuse_if_too_late(core, bind, now_ns)) {
			switch (leadership_node(&core->leadership, bind->what.node, now_ns)) {
			case LEADERSHIP_GO:
				read_or_bind(core, bind, now_ns);
				break;
			case LEADERSHIP_WAIT:
				list_append(&core->binds.awaiting_list, &bind->item);
				break;
			case LEADERSHIP_LIST:
				bind->leadership_period = leadership_begin(
					&core->leadership, bind->what.node);
				give_order(core, bind, BIND_LIST_NODE);
				break;
			}
		}
	}
}

int core_bind(struct core *core, struct bind_target *target, void *caller, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_BIND, now_ns, .uid = target->uid,
			      .namespace_ = target->namespace_, .name = target->name, .text = target->node});
	struct bind *bind = calloc(1, sizeof(*bind));
	struct error lost = {0};

	if (!bind) {
		bind_target_release(target);
		return -ENOMEM;
	}
	bind->number = ++core->binds.n_begun;
	bind->what = *target;
	*target = (struct bind_target){0};
	bind->caller = caller;
	bind->asked_ns = now_ns;
	core->binds.n_open++;
	if (ownership_may_bind(&core->ownership, now_ns, &lost) < 0) {
		refuse(core, bind, BIND_NOT_OWNER, lost.text);
		return 0;
	}
	list_append(&core->binds.queued, &bind->item);
	advance(core, now_ns);
	return 0;
}

struct bind *core_next_bind_order(struct core *core)
{
	struct bind *bind;

	if (list_empty(&core->binds.orders))
		return NULL;
	bind = list_entry(core->binds.orders.next, struct bind, order_item);
	list_remove(&bind->order_item);
	return bind;
}

/* The list of the node's pods has come or failed. The binds that waited for it are queued again. */
static void requeue_those_of(struct core *core, const char *node)
{
	list_for_each_safe (item, after, &core->binds.awaiting_list) {
		if (strcmp(list_entry(item, struct bind, item)->what.node, node) != 0)
			continue;
		list_remove(item);
		list_append(&core->binds.queued, item);
	}
}

void core_node_listed(struct core *core, struct bind *bind, const char *why, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_BIND_LISTED, now_ns, .bind = bind->number, .text = why});
	struct error err = {0};

	land(core, bind);
	leadership_end(&core->leadership, bind->what.node, bind->leadership_period, !why, now_ns);
	requeue_those_of(core, bind->what.node);
	if (why) {
		error_set(&err, EIO, "cannot read the pods of node %s: %s", bind->what.node, why);
		refuse(core, bind, BIND_FAILED, err.text);
	} else if (!refuse_if_too_late(core, bind, now_ns)) {
		read_or_bind(core, bind, now_ns);
	}
	advance(core, now_ns);
}

void core_bind_pod_read(
	struct core *core, struct bind *bind, const struct pod_facts *facts, const char *why, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){
			      CORE_BIND_POD_READ, now_ns, .bind = bind->number, .pod = facts, .text = why});
	land(core, bind);
	if (!facts)
		refuse(core, bind, BIND_POD_UNREADABLE, why);
	else if (strcmp(facts->uid, bind->what.uid) != 0)
		refuse(core, bind, BIND_POD_REPLACED, "the pod was deleted and created anew meanwhile");
	else if (refuse_if_too_late(core, bind, now_ns)) {
		/* It has its answer. */
	} else if (request_is_empty(&facts->request)) {
		/* A pod that asks for "0" of our resources must still be bound by this process, but needs no
		 * GPU. */
		if (confirm_unit(core, bind, now_ns, &bind->error) < 0 ||
			write_binding(core, bind, facts, NULL, &bind->error) < 0)
			refuse(core, bind, BIND_FAILED, bind->error.text);
		else
			send_bind(core, bind, now_ns);
	} else {
		bind_pod(core, bind, facts, now_ns);
	}
	advance(core, now_ns);
}

void core_binding_answered(
	struct core *core, struct bind *bind, enum binding_outcome outcome, const char *why, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_BINDING_ANSWERED, now_ns, .bind = bind->number,
			      .outcome = (int)outcome, .text = why});
	struct error err = {0};

	land(core, bind);
	if (outcome == BINDING_APPLIED) {
		ledger_confirm(&core->ledger, bind->what.uid);
		requeue_list_leave(&core->requeues, bind->what.uid);
		end(core, bind, BIND_BOUND, "");
	} else {
		error_set(&err, EIO, "Binding failed: %s", why);
		end(core, bind, outcome == BINDING_REFUSED ? BIND_REFUSED : BIND_IN_DOUBT, err.text);
		if (outcome == BINDING_REFUSED)
			ledger_release_reservation(&core->ledger, bind->what.uid);
		else
			bind->doubt_ends_ns = now_ns + WATCH_LAG_MAX_NS;
	}
	advance(core, now_ns);
}

void core_bind_not_asked(struct core *core, struct bind *bind, const char *why, int64_t now_ns)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_BIND_NOT_ASKED, now_ns, .bind = bind->number, .text = why});
	land(core, bind);
	if (bind->order == BIND_LIST_NODE) {
		leadership_end(&core->leadership, bind->what.node, bind->leadership_period, false, now_ns);
		requeue_those_of(core, bind->what.node);
	} else if (bind->order == BIND_SEND) {
		ledger_release_reservation(&core->ledger, bind->what.uid);
	}
	refuse(core, bind, BIND_FAILED, why);
	advance(core, now_ns);
}

void core_bind_is_answered(struct core *core, struct bind *bind)
{
	_event_ struct core *event = core_begin(
		core, &(struct core_event){CORE_BIND_ANSWERED, .bind = bind->number});
	core->binds.n_open--;
	bind->caller = NULL;
	list_remove(&bind->item);
	if (bind->outcome == BIND_IN_DOUBT)
		list_append(&core->binds.doubtful, &bind->item);
	else
		bind_free(bind);
}

int64_t core_doubts_end_ns(const struct core *core)
{
	const struct list *doubtful = &core->binds.doubtful;

	return list_empty(doubtful) ? INT64_MAX
				    : list_entry(doubtful->next, struct bind, item)->doubt_ends_ns;
}

/* While no watch is open, nothing tells whether the Binding was applied. The connection of an open one may be
 * dead. It looks like a quiet one, until a later message comes: at the latest a bookmark, a minute later. */
bool core_doubt_may_end(const struct core *core, int64_t now_ns)
{
	int64_t due_ns = core_doubts_end_ns(core);

	return core->following && due_ns <= now_ns && due_ns <= core->heard_ns;
}

void core_end_doubts(struct core *core, int64_t now_ns)
{
	_event_ struct core *event = core_begin(core, &(struct core_event){CORE_DOUBTS_END, now_ns});

	while (core_doubt_may_end(core, now_ns)) {
		struct bind *bind = list_entry(core->binds.doubtful.next, struct bind, item);

		ledger_release_reservation(&core->ledger, bind->what.uid);
		bind_free(bind);
	}
}
