#include "node/terms.h"

bool terms_equal(const struct terms *a, const struct terms *b)
{
	/* The unit does not matter in a mode that gives whole GPUs. */
	return a->mode == b->mode &&
	       (a->mode == GPU_MODE_NONE || a->mode == GPU_MODE_TOPOLOGY || a->unit_mib == b->unit_mib);
}

static enum terms_state terms_take(struct terms_change *change, const struct terms *asked)
{
	change->in_force = *asked;
	change->closed_since_ns = 0;
	return TERMS_CHANGED;
}

enum terms_state terms_settle(struct terms_change *change, const struct terms_seen *seen)
{
	if (terms_equal(&change->in_force, &seen->asked)) {
		change->in_force = seen->asked;
		change->closed_since_ns = 0;
		return TERMS_OPEN;
	}
	/* No pod is placed on a node without a mode, so the change needs no wait. */
	if (change->in_force.mode == GPU_MODE_NONE)
		return terms_take(change, &seen->asked);
	if (!seen->closed)
		change->closed_since_ns = 0;
	else if (!change->closed_since_ns)
		change->closed_since_ns = seen->now_ns;
	if (seen->holders)
		return TERMS_HELD;
	if (!seen->following || !change->closed_since_ns ||
		seen->now_ns - change->closed_since_ns < TERMS_CLOSED_NS)
		return TERMS_CLOSED;
	return terms_take(change, &seen->asked);
}
