#include "cli/plan/hold-gpus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cordon.h"
#include "plan/place.h"

#define APPLIED_TIMEOUT_S 30

static int hold_gpu(const struct kubectl *kubectl, const char *uuid, const char *reason,
	const volatile sig_atomic_t *stop, struct held_gpus *held, struct inspect *inspect, struct error *err)
{
	struct cordon_change change = {.node = held->node, .own = true, .fault = {.index = -1}};
	const struct inspect_gpu *gpu;
	bool changed;
	int r = fault_parse_gpu(uuid, &change.fault);

	gpu = r < 0 ? NULL : cordon_gpu(cordon_node(inspect), &change.fault);
	if (!gpu)
		return error_set(err, ENODEV, "node %s no longer shows GPU %.80s", held->node, uuid);
	if (!gpu->healthy) /* it takes no new pods already, and another user decides for how long */
		return 0;
	change.fault.index = gpu->column;
	fault_reason_copy(change.fault.reason, reason);
	held->gpus[held->n++] = change.fault;
	r = cordon_list_change(kubectl, &change, &changed, err);
	held->n -= r == 0 && !changed; /* another user has cordoned it just now */
	return r < 0 ? r : cordon_await(kubectl, &change, APPLIED_TIMEOUT_S, stop, inspect, err);
}

int hold_gpus(const struct kubectl *kubectl, const struct plan_outcome *place, const char *reason,
	const volatile sig_atomic_t *stop, struct held_gpus *held, struct error *err)
{
	const struct gpu_share *shares[NODE_GPUS_MAX];
	size_t n = placement_gpus(&place->placement, shares);
	_cleanup_inspect_ struct inspect inspect;
	int r;

	inspect_init(&inspect);
	*held = (struct held_gpus){.node = place->node, .gpus = calloc(n + 1, sizeof(*held->gpus))};
	if (!held->gpus)
		return error_set(err, ENOMEM, "out of memory");
	r = cordon_look(kubectl, held->node, &inspect, err);
	for (size_t i = 0; r == 0 && i < n && !*stop; i++)
		r = hold_gpu(kubectl, shares[i]->uuid, reason, stop, held, &inspect, err);
	return r;
}

static int tell_cordoned(const struct held_gpus *held, int r, const char *why, struct error *err)
{
	char others[64] = "";

	if (held->n > 1)
		snprintf(others, sizeof(others), ", and so do %zu other GPUs of it", held->n - 1);
	return error_set(err, -r,
		"GPU %d of node %.100s stays cordoned%s: `ration uncordon %.100s %d` gives it back (%.100s)",
		held->gpus[0].index, held->node, others, held->node, held->gpus[0].index, why);
}

int release_gpus(const struct kubectl *kubectl, const volatile sig_atomic_t *stop, struct held_gpus *held,
	struct error *err)
{
	_cleanup_inspect_ struct inspect inspect;
	struct error problem = {""};
	int result = 0, late = 0;
	size_t left = 0;

	inspect_init(&inspect);
	for (size_t i = 0; i < held->n; i++) {
		struct cordon_change change = {
			.node = held->node, .uncordon = true, .own = true, .fault = held->gpus[i]};
		bool changed;
		int r = cordon_list_change(kubectl, &change, &changed, &problem);

		if (r < 0) {
			result = r;
			held->gpus[left++] = held->gpus[i];
		} else if (stop && changed && late == 0) {
			late = cordon_await(kubectl, &change, APPLIED_TIMEOUT_S, stop, &inspect, err);
		}
	}
	held->n = left;
	if (left)
		return tell_cordoned(held, result, problem.text, err);
	free(held->gpus);
	held->gpus = NULL;
	return late;
}

void held_gpus_release(struct held_gpus *held)
{
	free(held->gpus);
	*held = (struct held_gpus){0};
}
