/* The pods of a gang at bind: all of them get their GPUs reserved, and only then the first Binding leaves.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "core/registry/ledger.h"
#include "net/http-server.h"
#include "scheduler/bind-internal.h"
#include "scheduler/bind.h"
#include "scheduler/gangs.h"
#include "scheduler/scheduler.h"

#define NOT_IN_TIME "not enough pods of its gang came to bind in time, trying again"

bool bind_gathers(struct bind *bind, const struct pod_facts *facts)
{
	struct bind_queue *queue = bind->queue;
	struct gang_controller *controller = queue->scheduler->gangs;

	gang_controller_see(controller, facts, false);
	if (!gang_controller_gathers(controller, facts->uid))
		return false;
	list_append(&queue->gathering, &bind->item);
	queue->n_pending++;
	gang_controller_carry_out(controller);
	return true;
}

static void leave(struct bind *bind)
{
	list_remove(&bind->item);
	bind->queue->n_pending--;
}

void bind_queue_turn_away(struct bind_queue *queue, const char *uid)
{
	list_for_each_safe (item, after, &queue->gathering) {
		struct bind *bind = list_entry(item, struct bind, item);

		if (strcmp(bind->what.uid, uid) != 0)
			continue;
		leave(bind);
		bind_refuse(bind, http_call_is_gone(bind->call) ? BIND_ABANDONED : BIND_GANG, NOT_IN_TIME);
		return;
	}
}

/* Those of the gang that wait, moved to `going`. */
static void gather(struct bind_queue *queue, const char *uid, struct list *going)
{
	list_init(going);
	list_for_each_safe (item, after, &queue->gathering) {
		struct bind *bind = list_entry(item, struct bind, item);

		if (!gang_controller_are_mates(queue->scheduler->gangs, bind->what.uid, uid))
			continue;
		leave(bind);
		list_append(going, &bind->item);
	}
}

static int reserve_one(struct scheduler *scheduler, struct bind *bind, struct error *err)
{
	const struct pod_facts *facts = gang_controller_facts(scheduler->gangs, bind->what.uid);

	if (http_call_is_gone(bind->call))
		return error_set(err, EPIPE, "kube-scheduler has closed the connection");
	if (bind_is_late(bind) || !facts)
		return error_set(err, ETIMEDOUT, NOT_IN_TIME);
	bind->text = bind_reserve(scheduler, bind, facts, err);
	return bind->text ? 0 : -ENOSPC;
}

static int reserve_all(struct scheduler *scheduler, struct list *going, struct error *err)
{
	list_for_each (item, going) {
		int r = reserve_one(scheduler, list_entry(item, struct bind, item), err);

		if (r < 0)
			return r;
	}
	return 0;
}

static void refuse_all(struct scheduler *scheduler, struct list *going, const struct error *err)
{
	list_for_each_safe (item, after, going) {
		struct bind *bind = list_entry(item, struct bind, item);

		list_remove(item);
		ledger_release_reservation(&scheduler->ledger, bind->what.uid);
		bind_refuse(bind, http_call_is_gone(bind->call) ? BIND_ABANDONED : BIND_GANG, err->text);
	}
}

void bind_queue_go(struct bind_queue *queue, const char *uid)
{
	struct scheduler *scheduler = queue->scheduler;
	struct error err = {0};
	struct list going;

	gather(queue, uid, &going);
	if (list_empty(&going))
		return;
	if (reserve_all(scheduler, &going, &err) < 0) {
		gang_controller_failed(scheduler->gangs, uid, err.text);
		refuse_all(scheduler, &going, &err);
		return;
	}
	list_for_each_safe (item, after, &going) {
		struct bind *bind = list_entry(item, struct bind, item);
		_cleanup_free_ char *text = TAKE_PTR(bind->text);

		list_remove(item);
		gang_controller_sent(scheduler->gangs, bind->what.uid);
		bind_post(bind, text, &err);
	}
}
