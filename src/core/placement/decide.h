/* decide.h - what ration-scheduler decides between two calls of kube-scheduler, without HTTP and JSON. The
 * daemon and the deterministic simulation (tests/simulation) use the same code. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ledger;
struct placement;
struct pod_facts;

/* decide_hold() - filter offers this node as the best one: its GPU is kept for the pod until bind, at most 10
 * minutes. Returns 0, a reject reason (> 0), or a negative errno of ledger_hold(). A failure costs a failed
 * bind at worst, never a wrong GPU. */
int decide_hold(struct ledger *ledger, const struct pod_facts *pod, const char *node, int64_t now_ns);

/* decide_expire() - ledger_expire(). While the watch is open, it also ends the holds of pods that the watch
 * has not shown within 10 s. They were deleted just before kube-scheduler asked, and no event will tell of
 * them again. Returns how many ended. */
size_t decide_expire(struct ledger *ledger, int64_t now_ns, bool following);

/* decide_reserve() - for bind: reserves the GPU that filter held for the pod on this node, or else a new
 * choice. FITS (0): it is reserved, and *ret_placement, which the caller releases, goes into the Binding.
 * Otherwise the function returns the reject reason (> 0), and a hold of the pod has ended, or a negative
 * errno of ledger_reserve(). */
int decide_reserve(struct ledger *ledger, const struct pod_facts *pod, const char *node,
	struct placement *ret_placement);

/* The effect of a Binding, by its answer. */
enum binding_outcome {
	BINDING_APPLIED,
	BINDING_REFUSED, /* surely without effect: the reservation may be released */
	BINDING_UNKNOWN, /* it may have been applied, now or later: the GPU stays reserved until the watch
			    tells */
};

/* binding_outcome() - result: 0 if there was an answer, else a negative errno; status: HTTP. */
enum binding_outcome binding_outcome(int result, long status);
