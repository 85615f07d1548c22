#include "model/decide.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/ledger.h"

int decide_hold(struct ledger *ledger, const struct pod_facts *pod, const char *node, int64_t expires_ns)
{
	_cleanup_placement_ struct placement placement;
	int r;

	placement_init(&placement);
	r = ledger_choose(ledger, node, pod, &placement);
	return r == FITS ? ledger_hold(ledger, pod, node, &placement, expires_ns) : r;
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
	/* The held card may be gone meanwhile: taken by a pod that another replica bound, or sick. */
	if (r == -ENOSPC) {
		placement_release(&placement);
		r = ledger_choose(ledger, node, pod, &placement);
		if (r == FITS)
			r = ledger_reserve(ledger, pod, node, &placement);
	}
	if (r != FITS)
		return r;
	*ret_placement = placement;
	placement_init(&placement);
	return FITS;
}

/* 409: the pod is bound already (perhaps by a request of ours that timed out), being deleted, or another pod
 * by now. 5xx and no answer at all: anything. */
enum binding_outcome binding_outcome(int result, long status)
{
	if (result < 0)
		return BINDING_UNKNOWN;
	if (status / 100 == 2)
		return BINDING_APPLIED;
	return status / 100 == 4 && status != 409 ? BINDING_REFUSED : BINDING_UNKNOWN;
}
