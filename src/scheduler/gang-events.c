#include "scheduler/gang-events.h"

#include <stdio.h>

#include "core/gang/gang-plan.h"
#include "core/gang/gang.h"
#include "core/registry/node-ledger.h"
#include "scheduler/journal.h"
#include "scheduler/record.h"
#include "scheduler/recorder.h"
#include "scheduler/scheduler.h"

/* That there is no room is looked at after each change, for each gang that waits: only the answers that
 * kube-scheduler gets are kept. */
static void on_plan(struct scheduler *scheduler, const struct gang_event *event)
{
	char text[600];

	if (!event->placed && !event->asked)
		return;
	journal_planned(scheduler->journal, event);
	snprintf(text, sizeof(text), "%zu of %zu pods of gang %s have room, %zu are needed", event->placed,
		event->n_slots, event->gang->key, event->needed);
	for (size_t i = 0; i < event->n_slots; i++)
		if (event->slots[i].node)
			record_gang_place(scheduler, event->slots[i].pod, DECISION_GANG_PLAN,
				event->slots[i].node->facts.name, &event->slots[i].placement, text);
}

static void on_given_up(struct scheduler *scheduler, const struct gang_event *event)
{
	static const char *const stages[] = {
		[GANG_PLANNED] = "kube-scheduler had not asked for it",
		[GANG_ANSWERED] = "it had its node and was not at bind",
		[GANG_AT_BIND] = "it was at bind",
	};
	char text[600];

	list_for_each (item, &event->gang->members) {
		const struct gang_member *member = list_entry(item, struct gang_member, item);
		const struct ledger_pod *known = ledger_pod(&scheduler->ledger, member->facts.uid);

		if (member->stage < GANG_PLANNED || member->stage > GANG_AT_BIND)
			continue;
		snprintf(text, sizeof(text), "%s; %s", event->text, stages[member->stage]);
		record_gang_end(scheduler, &member->facts, DECISION_GANG_GIVEN_UP,
			known && known->node ? known->node : "", text);
	}
}

void gang_events_listen(void *userdata, const struct gang_event *event)
{
	struct scheduler *scheduler = userdata;

	switch (event->kind) {
	case GANG_EVENT_PLAN:
		on_plan(scheduler, event);
		break;
	case GANG_EVENT_GIVEN_UP:
		on_given_up(scheduler, event);
		break;
	case GANG_EVENT_KEPT:
		record_gang_place(scheduler, event->slots[0].pod, DECISION_GANG_KEPT,
			event->slots[0].node->facts.name, &event->slots[0].placement, "");
		break;
	}
}
