#include "shrink.h"

#include <string.h>

static bool still_violates(struct sim *sim, const struct plan *plan, enum broken broken, const char *violated)
{
	struct statistics statistics = {0};

	return sim_run(sim, plan, broken, false, &statistics) < 0 && strcmp(sim->violated, violated) == 0;
}

static struct plan without(const struct plan *plan, uint16_t from, uint16_t n)
{
	struct plan smaller = *plan;

	memmove(&smaller.inputs[from], &smaller.inputs[from + n],
		(size_t)(plan->n_inputs - from - n) * sizeof(smaller.inputs[0]));
	smaller.n_inputs = (uint16_t)(plan->n_inputs - n);
	return smaller;
}

/* Halves, quarters, ..., single inputs; again as long as something goes. */
static bool drop_inputs(struct sim *sim, struct plan *plan, enum broken broken, const char *violated)
{
	bool dropped = false;

	for (uint16_t size = (uint16_t)((plan->n_inputs + 1) / 2); size; size /= 2)
		for (uint16_t from = 0; from + size <= plan->n_inputs;) {
			struct plan smaller = without(plan, from, size);

			if (still_violates(sim, &smaller, broken, violated)) {
				*plan = smaller;
				dropped = true;
			} else {
				from = (uint16_t)(from + size);
			}
		}
	return dropped;
}

/* Each pod and the cluster as plain as possible. */
static void simplify(struct plan *plan, int what, struct shape *shape)
{
	switch (what) {
	case 0:
		shape->crashes = shape->remakes = 0;
		break;
	case 1:
		shape->fate = FATE_NONE;
		break;
	case 2:
		shape->end = END_NEVER;
		break;
	case 3:
		shape->prebind_ms = 0;
		break;
	case 4:
		shape->grace_ms = 20;
		break;
	case 5:
		shape->kinds[0] = CONTAINER_MAIN;
		shape->units[0] = shape->units[shape->n_containers - 1];
		shape->n_containers = 1;
		break;
	case 6:
		shape->owner = 0;
		break;
	case 7:
		for (uint8_t c = 0; shape->gpus > 1 && c < shape->n_containers; c++)
			shape->units[c] = (uint8_t)(shape->units[c] / shape->gpus);
		shape->gpus = 0;
		break;
	case 8:
		shape->priority = 0;
		break;
	case 9:
		memset(shape->core, 0, sizeof(shape->core));
		break;
	case 10:
		shape->job = shape->job_pods = 0;
		break;
	default:
		break;
	}
}

static bool simplify_pods(struct sim *sim, struct plan *plan, enum broken broken, const char *violated)
{
	bool changed = false;

	for (uint16_t i = 0; i < plan->n_inputs; i++)
		for (int what = 0; plan->inputs[i].kind == INPUT_POD && what < 11; what++) {
			struct plan smaller = *plan;

			simplify(&smaller, what, &smaller.inputs[i].shape);
			if (memcmp(&smaller, plan, sizeof(smaller)) == 0 ||
				!still_violates(sim, &smaller, broken, violated))
				continue;
			*plan = smaller;
			changed = true;
		}
	return changed;
}

/* In doubt: of some kinds it is another number. */
static bool names_node(const struct plan *plan, int node)
{
	for (uint16_t i = 0; i < plan->n_inputs; i++)
		if (plan->inputs[i].kind != INPUT_POD && plan->inputs[i].a == node)
			return true;
	return false;
}

static bool simplify_cluster(struct sim *sim, struct plan *plan, enum broken broken, const char *violated)
{
	bool changed = false;

	for (int what = 0; what < WATCHERS_MAX + 2; what++) {
		struct plan smaller = *plan;

		if (what == WATCHERS_MAX && plan->n_pairs > 1)
			smaller.n_pairs--;
		else if (what == WATCHERS_MAX + 1 && plan->n_nodes > 1 &&
			 !names_node(plan, plan->n_nodes - 1))
			smaller.n_nodes--;
		else if (what < WATCHERS_MAX)
			smaller.slow_watch[what] = 30;
		if (memcmp(&smaller, plan, sizeof(smaller)) == 0 ||
			!still_violates(sim, &smaller, broken, violated))
			continue;
		*plan = smaller;
		changed = true;
	}
	return changed;
}

void shrink(struct sim *sim, struct plan *plan, enum broken broken)
{
	const char *violated = sim->violated;

	for (int round = 0; round < 20; round++) {
		bool changed = drop_inputs(sim, plan, broken, violated);

		changed |= simplify_cluster(sim, plan, broken, violated);
		changed |= simplify_pods(sim, plan, broken, violated);
		if (!changed)
			return;
	}
}
