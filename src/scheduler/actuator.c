#include "scheduler/actuator.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kube/event.h"
#include "model/facts.h"
#include "net/loop.h"
#include "scheduler/event-log.h"
#include "scheduler/gangs.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"

struct actuator {
	struct scheduler *scheduler;
	struct loop_timer *timer;
	int64_t armed_ns; /* when the timer is due; INT64_MAX: it is not armed */
};

/* The due time never moves later: otherwise a stream of events would postpone it forever. */
static void arm(struct actuator *actuator)
{
	const struct core *core = &actuator->scheduler->core;
	int64_t now = monotonic_ns(), due = core_doubts_end_ns(core);

	if (due <= now && !core_doubt_may_end(core, now))
		due = now + NS_PER_S;
	if (core->gangs_look_ns && core->gangs_look_ns < due)
		due = core->gangs_look_ns;
	if (core->evictions.due_ns && core->evictions.due_ns < due)
		due = core->evictions.due_ns;
	if (due == INT64_MAX || (actuator->armed_ns > now && actuator->armed_ns <= due))
		return;
	actuator->armed_ns = due;
	loop_timer_set(actuator->timer, due > now ? due - now : 0);
}

static void on_timer(void *userdata)
{
	struct actuator *actuator = userdata;
	struct core *core = &actuator->scheduler->core;
	int64_t now = monotonic_ns();

	actuator->armed_ns = INT64_MAX;
	core_end_doubts(core, now);
	if (core->gangs_look_ns && core->gangs_look_ns <= now)
		core_look_at_gangs(core, now);
	if (core->evictions.due_ns && core->evictions.due_ns <= now)
		core_continue_evictions(core, now);
}

void actuate(struct scheduler *scheduler)
{
	binds_carry_out(scheduler);
	resizes_carry_out(scheduler);
	evictions_carry_out(scheduler);
	gang_controller_carry_out(scheduler->gangs);
	core_gangs_may_look(&scheduler->core, monotonic_ns());
	requeuer_look(scheduler->requeuer);
	event_log_follow(scheduler->event_log);
	arm(scheduler->actuator);
}

void post_pod_event(struct scheduler *scheduler, const struct pod_facts *pod, const char *type,
	const char *reason, const char *text)
{
	const struct kube_object_ref ref = {.api_version = "v1",
		.kind = "Pod",
		.namespace_ = pod->namespace_,
		.name = pod->name,
		.uid = pod->uid};

	kube_event_post(scheduler->client, &ref, type, reason, text, "ration-scheduler", NULL);
}

static void after_wake_up(void *userdata)
{
	actuate(userdata);
}

int actuator_new(struct scheduler *scheduler, struct actuator **ret_actuator)
{
	struct actuator *actuator = calloc(1, sizeof(*actuator));

	if (!actuator)
		return -ENOMEM;
	actuator->scheduler = scheduler;
	actuator->armed_ns = INT64_MAX;
	if (loop_add_timer(scheduler->loop, on_timer, actuator, &actuator->timer) < 0) {
		free(actuator);
		return -ENOMEM;
	}
	loop_set_after(scheduler->loop, after_wake_up, scheduler);
	*ret_actuator = actuator;
	return 0;
}

void actuator_free(struct actuator *actuator)
{
	if (!actuator)
		return;
	loop_set_after(actuator->scheduler->loop, NULL, NULL);
	loop_timer_remove(actuator->timer);
	free(actuator);
}
