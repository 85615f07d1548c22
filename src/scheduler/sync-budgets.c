#include "scheduler/sync-budgets.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "kube/eviction.h"
#include "kube/watch.h"
#include "scheduler/scheduler.h"

struct budget_sync {
	struct scheduler *scheduler;
	struct kube_watch *watch;
};

static void on_budget(void *userdata, struct json_object *object)
{
	struct budget_sync *sync = userdata;
	struct budget *budget;
	struct error err = {0};

	if (budget_from_json(object, &budget, &err) < 0)
		log_warning("a PodDisruptionBudget that cannot be read: %s, ignoring", err.text);
	else if (core_see_budget(&sync->scheduler->core, budget) < 0)
		log_error("PodDisruptionBudget: out of memory");
}

static void on_budget_deleted(void *userdata, const char *uid, struct json_object *last)
{
	struct budget_sync *sync = userdata;

	core_budget_is_gone(&sync->scheduler->core, uid);
}

static void on_budgets_synced(void *userdata)
{
	struct budget_sync *sync = userdata;

	log_debug("PodDisruptionBudgets are read: %zu", sync->scheduler->core.budgets.by_uid.count);
}

int budget_sync_start(struct scheduler *scheduler, struct budget_sync **ret_sync)
{
	static const struct kube_watch_ops ops = {
		.object = on_budget, .deleted = on_budget_deleted, .synced = on_budgets_synced};
	struct budget_sync *sync = calloc(1, sizeof(*sync));
	int r;

	if (!sync)
		return -ENOMEM;
	sync->scheduler = scheduler;
	r = kube_watch_start(scheduler->client, scheduler->loop, "/apis/policy/v1/poddisruptionbudgets", NULL,
		&ops, sync, &sync->watch);
	if (r < 0) {
		free(sync);
		return r;
	}
	*ret_sync = sync;
	return 0;
}

void budget_sync_stop(struct budget_sync *sync)
{
	if (!sync)
		return;
	kube_watch_free(sync->watch);
	free(sync);
}
