/* matching-totals.c - whether a container that the kubelet asks for still fits on its GPUs beside the other
 * pods. */
#include "model/units.h"
#include "node/matching-internal.h"
#include "node/room.h"

/* A pod that neither the agent nor the kubelet remembers (after a lost checkpoint) may run, too. Its limit
 * must be what its placement says before others start. */
static bool counts_on(const struct matching_pod *pod, const char *uuid, const struct served *served)
{
	if (!asks_for_gpu(pod) || pod->facts->finished || !room_units(pod->facts, uuid, 0))
		return false;
	if (pod->has_grant)
		return true;
	for (size_t i = 0; i < pod->facts->request.n_containers; i++)
		if (served_find(served, pod->facts->uid, pod->facts->request.containers[i].name))
			return true;
	return false;
}

static enum matching_verdict check_gpu(const struct matching_pod *pods, size_t n,
	const struct matching *found, const struct served *served, const struct gpu_facts *gpu,
	uint32_t unit_mib, bool *ret_ask, struct error *err)
{
	bool whole = pods[found->pod].facts->request.whole;
	uint32_t total = whole ? 1 : units_of_gpu(gpu->mib, unit_mib), sum = 0, core = 0;
	bool unasked = false;

	for (size_t i = 0; i < n; i++) {
		bool counts = i == found->pod || counts_on(&pods[i], gpu->uuid, served);

		ret_ask[i] = counts && !pods[i].fresh && i != found->pod;
		unasked |= ret_ask[i];
		if (!counts)
			continue;
		sum = units_add(sum, room_units(pods[i].facts, gpu->uuid, unit_mib));
		core = units_add(core, room_core(pods[i].facts, gpu->uuid));
	}
	if (sum <= total && core <= CORE_PER_GPU)
		return MATCHING_FOUND;
	if (unasked)
		return MATCHING_ASK;
	if (sum <= total) {
		error_set(err, 0,
			"pod %s/%s: GPU %s has %u percent of computing power, with this pod its pods would hold %u; delete this pod, so that it is placed anew",
			pods[found->pod].namespace_, pods[found->pod].name, gpu->uuid, CORE_PER_GPU, core);
		return MATCHING_REFUSED;
	}
	error_set(err, 0,
		"pod %s/%s: GPU %s has %u units, with this pod its pods would hold %u; delete this pod, so that it is placed anew",
		pods[found->pod].namespace_, pods[found->pod].name, gpu->uuid, total, sum);
	return MATCHING_REFUSED;
}

/* Marks pods whose listed devices the agent knows under another uid, or not at all. What such a pod holds
 * must be counted, and its limit must be what its placement says (resized.c). */
static size_t mark_namesakes(
	const struct matching_pod *pods, size_t n, size_t found, const struct served *served, bool *ret_ask)
{
	size_t marked = 0;

	for (size_t i = 0; i < n; i++) {
		ret_ask[i] = i != found && !pods[i].fresh && pods[i].may_return && pods[i].facts &&
			     is_namesake(&pods[i], served);
		marked += ret_ask[i];
	}
	return marked;
}

enum matching_verdict matching_check_totals(const struct matching_pod *pods, size_t n,
	const struct matching *found, const struct served *served, const struct gpu_facts *gpus,
	size_t n_gpus, uint32_t unit_mib, bool *ret_ask, struct error *err)
{
	if (mark_namesakes(pods, n, found->pod, served, ret_ask))
		return MATCHING_ASK;
	for (size_t k = 0; k < n_gpus; k++) {
		enum matching_verdict verdict;

		if (!room_units(pods[found->pod].facts, gpus[k].uuid, unit_mib))
			continue;
		verdict = check_gpu(pods, n, found, served, &gpus[k], unit_mib, ret_ask, err);
		if (verdict != MATCHING_FOUND)
			return verdict;
	}
	return MATCHING_FOUND;
}
