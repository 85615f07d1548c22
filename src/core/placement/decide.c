#include "core/placement/decide.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "core/registry/ledger.h"

/* PreBind may wait for volumes for up to 600 s by default, and bind comes only after it. */
#define HOLD_NS (600 * NS_PER_S)

int decide_hold(struct ledger *ledger, const struct pod_facts *pod, const char *node, int64_t now_ns)
{
	_cleanup_placement_ struct placement placement;
	int r;

	placement_init(&placement);
	r = ledger_choose(ledger, node, pod, &placement);
	return r == FITS ? ledger_hold(ledger, pod, node, &placement, now_ns + HOLD_NS) : r;
}

size_t decide_expire(struct ledger *ledger, int64_t now_ns, bool following)
{
	size_t n = ledger_expire(ledger, now_ns);

	list_for_each_safe (item, after, &ledger->holds) {
		const struct ledger_pod *pod = list_entry(item, struct ledger_pod, hold);

		if (!following || pod->listed || pod->occupancy != OCCUPANCY_TENTATIVE ||
			pod->expires_ns > now_ns + HOLD_NS - WATCH_LAG_MAX_NS)
			continue;
		ledger_drop_hold(ledger, pod->facts.uid);
		n++;
	}
	return n;
}

static const struct placement *held_placement(
	const struct ledger *ledger, const struct pod_facts *pod, const char *node)
{
	const struct ledger_pod *known = ledger_pod(ledger, pod->uid);

	if (known && known->occupancy == OCCUPANCY_TENTATIVE && known->has_placement &&
		strcmp(known->node, node) == 0)
		return &known->placement;
	return NULL;
}

int decide_reserve(
	struct ledger *ledger, const struct pod_facts *pod, const char *node, struct placement *ret_placement)
{
	const struct placement *held = held_placement(ledger, pod, node);
	_cleanup_placement_ struct placement placement;
	int r = -ENOSPC;

	placement_init(&placement);
	if (held) {
		r = placement_copy(held, &placement);
		if (r == 0)
			r = ledger_reserve(ledger, pod, node, &placement);
	}
	/* The held GPU may be gone meanwhile: a pod that another replica bound has taken it, or it is
	 * unhealthy. */
	if (r == -ENOSPC) {
		placement_release(&placement);
		r = ledger_choose(ledger, node, pod, &placement);
		if (r == FITS)
			r = ledger_reserve(ledger, pod, node, &placement);
	}
	/* The hold is useless now, and pods that wait for its GPU must not wait for its time-out. If the
	 * watch has not shown the pod, dropping the hold would free its facts, which may be the argument of
	 * this function. decide_expire() ends such a hold. */
	if (r > 0 && held && ledger_pod(ledger, pod->uid)->listed)
		ledger_drop_hold(ledger, pod->uid);
	if (r != FITS)
		return r;
	*ret_placement = placement;
	placement_init(&placement);
	return FITS;
}

/* 409 means that the pod is bound already (perhaps by a request of this process that timed out), is being
 * deleted, or has another uid by now. 5xx and no answer at all can mean anything. */
enum binding_outcome binding_outcome(int result, long status)
{
	if (result < 0)
		return BINDING_UNKNOWN;
	if (status / 100 == 2)
		return BINDING_APPLIED;
	return status / 100 == 4 && status != 409 ? BINDING_REFUSED : BINDING_UNKNOWN;
}
