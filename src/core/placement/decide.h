/* decide.h - what ration-scheduler decides between two calls of kube-scheduler, free of HTTP and JSON: the
 * daemon and the deterministic simulation (tests/simulation) use the same code. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ledger;
struct placement;
struct pod_facts;

/* decide_hold() - filter offers this node as the best one: its GPU is kept for the pod until bind, at most
 * 10 minutes. Returns 0, a reject reason (> 0), or a negative errno of ledger_hold(). Failure costs a failed
 * bind at worst, never a wrong GPU. */
int decide_hold(struct ledger *ledger, const struct pod_facts *pod, const char *node, int64_t now_ns);

/* decide_expire() - ledger_expire(), and while the watch is open the holds of pods that it has not shown
 * within 10 s: they were deleted just before kube-scheduler asked, and no event will tell of them again.
 * Returns how many ended. */
size_t decide_expire(struct ledger *ledger, int64_t now_ns, bool following);

/* decide_reserve() - bind: the GPU that filter held for the pod on this node, else a fresh choice; reserved
 * when this returns FITS (0), and then *ret_placement, which the caller releases, goes into the Binding.
 * Otherwise the reject reason (> 0) or a negative errno of ledger_reserve(), and with a reject reason a
 * hold of the pod has ended. */
int decide_reserve(struct ledger *ledger, const struct pod_facts *pod, const char *node,
	struct placement *ret_placement);

/* What the answer to a Binding says about its effect. */
enum binding_outcome {
	BINDING_APPLIED,
	BINDING_REFUSED, /* surely: the reservation may be released */
	BINDING_UNKNOWN, /* it may have been applied, now or later: the GPU stays reserved until the watch
			    tells */
};

/* binding_outcome() - result: 0 if there was an answer, else a negative errno; status: HTTP. */
enum binding_outcome binding_outcome(int result, long status);
