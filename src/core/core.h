/* core.h - the state on which the scheduler decides. Its functions are in events.h, filter.h, bind.h,
 * policies.h, resizing.h, preempt.h and evicting.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "core/binds.h"
#include "core/evictions.h"
#include "core/gang/gang.h"
#include "core/leadership.h"
#include "core/log/event.h"
#include "core/policy-spaces.h"
#include "core/preemption/budget.h"
#include "core/registry/ledger.h"
#include "core/requeue.h"
#include "core/resizings.h"

struct core {
	struct ledger ledger;
	struct gangs gangs;
	struct requeue_list requeues;
	struct policy_spaces policies;
	struct ownership ownership;
	struct leadership leadership;
	struct binds binds;
	struct resizings resizings;
	struct budgets budgets;
	struct evictions evictions;
	bool nodes_listed, pods_listed; /* the first LIST of each is complete */
	bool following;			/* the watch of pods is open */
	int64_t heard_ns;	  /* the time up to which the watch has told everything; 0: it is not open */
	struct core_log log;	  /* the caller's functions that record events and outputs; may be empty */
	unsigned depth;		  /* nesting of events: a call inside an event is not an event of its own */
	struct list gang_orders;  /* struct gang_order, for the caller */
	int64_t gangs_look_ns;	  /* when core_look_at_gangs() is due; 0: it is not due */
	uint64_t gangs_looked_at; /* the ledger's generation at that time */
	struct table forgotten;	  /* uid of a pod -> second in which its end became known, plus one */
	struct table verdicts;	  /* uid of an unbound pod -> core_see_pod()'s verdict */
	struct table
		failed; /* uid -> facts (malloc'ed) of a Failed pod of the first LIST that may still run */
};

/* core_is_ready() - the first LISTs are in the ledger. The result stays true through an outage of the API
 * server: the ledger then lags, but this process cannot bind a pod without it either. */
static inline bool core_is_ready(const struct core *core)
{
	return core->nodes_listed && core->pods_listed;
}
