#include "scheduler/gang-tales.h"

#include <stdio.h>

#include "model/gang-plan.h"
#include "model/gang.h"
#include "model/node-ledger.h"
#include "scheduler/journal.h"
#include "scheduler/record.h"
#include "scheduler/recorder.h"
#include "scheduler/scheduler.h"

/* That there is no room is looked at after each change, for each gang that waits: only the answers that
 * kube-scheduler gets are kept. */
static void on_plan(struct scheduler *scheduler, const struct gang_tale *tale)
{
	char text[600];

	if (!tale->placed && !tale->asked)
		return;
	journal_planned(scheduler->journal, tale);
	snprintf(text, sizeof(text), "%zu of %zu pods of gang %s have room, %zu are needed", tale->placed,
		tale->n_seats, tale->gang->key, tale->needed);
	for (size_t i = 0; i < tale->n_seats; i++)
		if (tale->seats[i].node)
			record_gang_place(scheduler, tale->seats[i].pod, DECISION_GANG_PLAN,
				tale->seats[i].node->facts.name, &tale->seats[i].placement, text);
}

static void on_given_up(struct scheduler *scheduler, const struct gang_tale *tale)
{
	static const char *const stages[] = {
		[GANG_PLANNED] = "kube-scheduler had not asked for it",
		[GANG_ANSWERED] = "it had its node and was not at bind",
		[GANG_AT_BIND] = "it was at bind",
	};
	char text[600];

	list_for_each (item, &tale->gang->members) {
		const struct gang_member *member = list_entry(item, struct gang_member, item);
		const struct ledger_pod *known = ledger_pod(&scheduler->ledger, member->facts.uid);

		if (member->stage < GANG_PLANNED || member->stage > GANG_AT_BIND)
			continue;
		snprintf(text, sizeof(text), "%s; %s", tale->text, stages[member->stage]);
		record_gang_end(scheduler, &member->facts, DECISION_GANG_GIVEN_UP,
			known && known->node ? known->node : "", text);
	}
}

void gang_tales_listen(void *userdata, const struct gang_tale *tale)
{
	struct scheduler *scheduler = userdata;

	switch (tale->kind) {
	case GANG_TALE_PLAN:
		on_plan(scheduler, tale);
		break;
	case GANG_TALE_GIVEN_UP:
		on_given_up(scheduler, tale);
		break;
	case GANG_TALE_KEPT:
		record_gang_place(scheduler, tale->seats[0].pod, DECISION_GANG_KEPT,
			tale->seats[0].node->facts.name, &tale->seats[0].placement, "");
		break;
	}
}
