#include "agent/kubelet/matching.h"

#include <string.h>

#include "agent/kubelet/room.h"
#include "agent/kubelet/served.h"
#include "model/ledger.h"
#include "model/units.h"

/* The kubelet serves init containers in spec order, then containers in spec order; request->containers has
 * them so. */
static const struct container_request *next_container(
	const struct pod_facts *facts, const struct served *served)
{
	for (size_t i = 0; i < facts->request.n_containers; i++) {
		const struct container_request *c = &facts->request.containers[i];

		/* A container of computing power only does not ask for our resource. */
		if (c->asked && !served_find(served, facts->uid, c->name))
			return c;
	}
	return NULL;
}

/* PodResources leaves out init containers that are not sidecars (server_v1.go:83 at 1.36.3). */
static bool shows_devices(const struct pod_facts *facts)
{
	for (size_t i = 0; i < facts->request.n_containers; i++)
		if (facts->request.containers[i].asked && facts->request.containers[i].kind != CONTAINER_INIT)
			return true;
	return false;
}

static bool asks_for_gpu(const struct matching_pod *pod)
{
	return pod->facts && !pod->asks_otherwise && !request_is_empty(&pod->facts->request);
}

static bool is_candidate(const struct matching_pod *pod, const struct served *served)
{
	return asks_for_gpu(pod) && !pod->facts->finished && next_container(pod->facts, served);
}

/* All was served, but the kubelet shows no devices. */
static bool lost_its_devices(const struct matching_pod *pod, const struct served *served)
{
	return !next_container(pod->facts, served) && !pod->lists_devices && shows_devices(pod->facts);
}

/* What we know of this name may be another pod's: a StatefulSet's re-created x-0 has the old name, and
 * PodResources has no uid. If all was served but the kubelet shows no devices, it is not the one we served;
 * and a pod that has ended is not on the kubelet's list (GetActivePods, kubelet_pods.go:208 at 1.36.3).
 */
static bool is_suspicious(const struct matching_pod *pod, const struct served *served)
{
	if (!asks_for_gpu(pod))
		return false;
	if (pod->facts->finished)
		return !pod->lists_devices || !served_knows(served, pod->facts->uid);
	return lost_its_devices(pod, served);
}

/* The other way round: the kubelet shows devices, but we served none. It has not heard yet that the pod which
 * had them was deleted, and we already know the next one of that name. */
static bool is_namesake(const struct matching_pod *pod, const struct served *served)
{
	return pod->lists_devices && !served_knows(served, pod->facts->uid);
}

static size_t mark_unknown(
	const struct matching_pod *pods, size_t n, const struct served *served, bool *ret_ask)
{
	size_t marked = 0;

	for (size_t i = 0; i < n; i++) {
		ret_ask[i] = !pods[i].fresh && (!pods[i].facts || is_suspicious(&pods[i], served));
		marked += ret_ask[i];
	}
	return marked;
}

/* Nobody lacks devices: one of those that we believe to be served, or over, must be another pod by now. */
static size_t mark_all(const struct matching_pod *pods, size_t n, bool *ret_ask)
{
	size_t marked = 0;

	for (size_t i = 0; i < n; i++) {
		ret_ask[i] = !pods[i].fresh && (!pods[i].facts || asks_for_gpu(&pods[i]));
		marked += ret_ask[i];
	}
	return marked;
}

static void mark_one(size_t n, size_t pod, bool *ret_ask)
{
	for (size_t i = 0; i < n; i++)
		ret_ask[i] = i == pod;
}

static bool same_cards(const struct container_placement *a, const struct container_placement *b)
{
	if (a->n_cards != b->n_cards)
		return false;
	for (size_t i = 0; i < a->n_cards; i++)
		if (!container_share(b, a->cards[i].uuid))
			return false;
	return true;
}

static bool same_answer(const struct pod_facts *a, const struct pod_facts *b, const struct served *served)
{
	return a->has_placement && b->has_placement && placement_equal(&a->placement, &b->placement) &&
	       strcmp(next_container(a, served)->name, next_container(b, served)->name) == 0;
}

/* More than one: the kubelet lost its checkpoint, or a pod was deleted before its admission. */
static bool may_be_dropped(const struct matching_pod *pod, size_t n_ids, const struct served *served)
{
	return pod->facts->deleting || (pod->has_grant && !served_knows(served, pod->facts->uid)) ||
	       next_container(pod->facts, served)->asked != n_ids;
}

static enum matching_verdict refuse_either(
	const struct matching_pod *a, const struct matching_pod *b, size_t n_ids, struct error *err)
{
	error_set(err, 0,
		"pods %s/%s and %s/%s both wait for %zu units and have different placements; the kubelet "
		"does not say which one it means: delete both, their controllers create them anew",
		a->namespace_, a->name, b->namespace_, b->name, n_ids);
	return MATCHING_REFUSED;
}

static enum matching_verdict choose_among(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, bool namesakes, struct matching *ret, struct error *err)
{
	size_t chosen = n;

	for (size_t i = 0; i < n; i++) {
		if (!is_candidate(&pods[i], served) || may_be_dropped(&pods[i], n_ids, served) ||
			(!namesakes && is_namesake(&pods[i], served)))
			continue;
		if (chosen == n) {
			chosen = i;
		} else if (!same_answer(pods[chosen].facts, pods[i].facts, served)) {
			return refuse_either(&pods[chosen], &pods[i], n_ids, err);
		}
	}
	if (chosen == n) {
		error_set(err, 0, "several pods wait for devices, none of them for %zu units at once", n_ids);
		return MATCHING_REFUSED;
	}
	ret->pod = chosen;
	return MATCHING_FOUND;
}

/* Then the call may be that pod's, and nobody's whom we know. */
static bool lists_a_pod_that_is_gone(const struct matching_pod *pods, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!pods[i].facts && pods[i].fresh && !pods[i].unanswered)
			return true;
	return false;
}

static bool has_container_of(const struct pod_facts *facts, size_t n_ids)
{
	for (size_t i = 0; i < facts->request.n_containers; i++)
		if (facts->request.containers[i].asked == n_ids)
			return true;
	return false;
}

/* Asked anew, the API server says that the one we served is the one of this name; the kubelet shows it
 * without devices. So we served its predecessor under its name, before the kubelet had heard of the change.
 */
static bool choose_anew(const struct matching_pod *pods, size_t n, size_t n_ids, const struct served *served,
	struct matching *ret)
{
	struct matching found = {.anew = true};
	size_t candidates = 0;

	for (size_t i = 0; i < n; i++) {
		if (!asks_for_gpu(&pods[i]) || pods[i].facts->finished || pods[i].unanswered ||
			!lost_its_devices(&pods[i], served))
			continue;
		candidates++;
		found.pod = i;
	}
	if (candidates != 1 || !has_container_of(pods[found.pod].facts, n_ids))
		return false;
	*ret = found;
	return true;
}

/* A kubelet that starts without its checkpoint asks anew for what does not run, so a pod that was served in
 * part may wait for nothing more, and the call be another's that was served once. A pod that was never served
 * is the one. */
static const struct matching_pod *find_other_that_lost_its_devices(
	const struct matching_pod *pods, size_t n, size_t n_ids, const struct served *served, size_t found)
{
	const struct pod_facts *facts = pods[found].facts;

	if (!served_knows(served, facts->uid))
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if (i == found || !asks_for_gpu(&pods[i]) || pods[i].facts->finished ||
			!lost_its_devices(&pods[i], served) || !has_container_of(pods[i].facts, n_ids))
			continue;
		if (!facts->has_placement || !pods[i].facts->has_placement ||
			!placement_equal(&facts->placement, &pods[i].facts->placement))
			return &pods[i];
	}
	return NULL;
}

static enum matching_verdict choose_candidate(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, bool *ret_ask, struct matching *ret, struct error *err)
{
	/* Namesakes only if there is nobody else: then it is our record that lacks something. */
	for (int namesakes = 0; namesakes < (lists_a_pod_that_is_gone(pods, n) ? 1 : 2); namesakes++) {
		size_t candidates = 0;

		for (size_t i = 0; i < n; i++) {
			if (!is_candidate(&pods[i], served) || (!namesakes && is_namesake(&pods[i], served)))
				continue;
			candidates++;
			ret->pod = i;
		}
		if (namesakes && candidates && choose_anew(pods, n, n_ids, served, ret))
			return MATCHING_FOUND; /* the kubelet asks for who has nothing */
		if (candidates == 1)
			return MATCHING_FOUND;
		if (candidates > 1)
			return choose_among(pods, n, n_ids, served, namesakes, ret, err);
	}
	if (mark_all(pods, n, ret_ask))
		return MATCHING_ASK;
	if (choose_anew(pods, n, n_ids, served, ret))
		return MATCHING_FOUND;
	error_set(err, 0,
		"the kubelet asks for %zu units, but no pod on its list waits for any that the API server "
		"knows: static pods, from a file on the node, cannot have a GPU",
		n_ids);
	return MATCHING_REFUSED;
}

static enum matching_verdict choose(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, bool *ret_ask, struct matching *ret, struct error *err)
{
	enum matching_verdict verdict = choose_candidate(pods, n, n_ids, served, ret_ask, ret, err);
	const struct matching_pod *other = NULL;

	if (verdict == MATCHING_FOUND)
		other = find_other_that_lost_its_devices(pods, n, n_ids, served, ret->pod);
	return other ? refuse_either(&pods[ret->pod], other, n_ids, err) : verdict;
}

/* A pod that gets nothing, whatever it asks for. */
static enum matching_verdict judge_pod(const struct matching_pod *pod, struct error *err)
{
	if (pod->may_return && pod->unanswered) {
		error_set(err, 0,
			"pod %s/%s: the API server does not say whether this is still the pod that was "
			"placed; delete the pod, so that it is created anew",
			pod->namespace_, pod->name);
		return MATCHING_REFUSED;
	}
	if (pod->is_static) {
		error_set(err, 0,
			"pod %s/%s comes from a file on the node: static pods have no scheduler that could "
			"place them, so they get no GPU; run it as a Deployment or DaemonSet",
			pod->namespace_, pod->name);
		return MATCHING_REFUSED;
	}
	return MATCHING_FOUND;
}

/* Of whole cards each container has its own, and the kubelet says no name. */
static bool cards_depend_on_container(const struct pod_facts *facts)
{
	const struct request *request = &facts->request;

	for (size_t i = 1; request->whole && facts->has_placement && i < request->n_containers; i++) {
		const struct container_placement *a = placement_find(
			&facts->placement, request->containers[i].name);

		for (size_t k = 0; k < i; k++) {
			const struct container_placement *b = placement_find(
				&facts->placement, request->containers[k].name);

			if (request->containers[i].asked == request->containers[k].asked &&
				(!a || !b || !same_cards(a, b)))
				return true;
		}
	}
	return false;
}

/* The pod was served before: the kubelet has lost its checkpoint, and asks only for those of its containers
 * that do not run. Our order is then not the kubelet's, and a container would get the cards of another one
 * that runs. */
static bool is_guesswork(const struct matching_pod *pod, const struct served *served, bool anew)
{
	return (anew || (pod->has_grant && !served_knows(served, pod->facts->uid))) &&
	       cards_depend_on_container(pod->facts);
}

/* Which of the pod's containers so many units are for. */
static enum matching_verdict find_container(const struct matching_pod *pod, size_t n_ids,
	const struct served *served, struct matching *found, struct error *err)
{
	const struct served nothing = {
		.entries = {(struct list *)&nothing.entries, (struct list *)&nothing.entries}};

	found->container = next_container(pod->facts, found->anew ? &nothing : served);
	/* Served in part, but the kubelet shows nothing: again a predecessor's call may have been the first.
	 */
	if (found->container->asked != n_ids && pod->fresh && !pod->unanswered && !pod->lists_devices &&
		next_container(pod->facts, &nothing)->asked == n_ids) {
		found->anew = true;
		found->container = next_container(pod->facts, &nothing);
	}
	if (found->container->asked == n_ids)
		return MATCHING_FOUND;
	error_set(err, 0,
		"pod %s/%s: its next container %s asks for %u units, but the kubelet gives %zu: delete the "
		"pod, so that it is created anew",
		pod->namespace_, pod->name, found->container->name, found->container->asked, n_ids);
	return MATCHING_REFUSED;
}

enum matching_verdict matching_decide(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, bool *ret_ask, struct matching *ret, struct error *err)
{
	struct matching found = {0};
	const struct matching_pod *pod;
	enum matching_verdict verdict;

	if (mark_unknown(pods, n, served, ret_ask))
		return MATCHING_ASK;
	verdict = choose(pods, n, n_ids, served, ret_ask, &found, err);
	if (verdict != MATCHING_FOUND)
		return verdict;
	pod = &pods[found.pod];
	if (pod->may_return && !pod->fresh) {
		mark_one(n, found.pod, ret_ask);
		return MATCHING_ASK;
	}
	verdict = judge_pod(pod, err);
	if (verdict == MATCHING_FOUND)
		verdict = find_container(pod, n_ids, served, &found, err);
	if (verdict == MATCHING_FOUND && is_guesswork(pod, served, found.anew)) {
		error_set(err, 0,
			"pod %s/%s: the kubelet has lost its record of the pod's GPUs and does not say for "
			"which of "
			"its containers it asks now; delete the pod, so that it is created anew",
			pod->namespace_, pod->name);
		verdict = MATCHING_REFUSED;
	}
	if (verdict != MATCHING_FOUND)
		return verdict;
	found.placed = pod->facts->has_placement &&
		       placement_find(&pod->facts->placement, found.container->name) != NULL;
	if (!found.placed && !pod->fresh) {
		mark_one(n, found.pod, ret_ask);
		return MATCHING_ASK;
	}
	*ret = found;
	return MATCHING_FOUND;
}

/* Also one that neither we nor the kubelet remember (a lost checkpoint) may run: its limit is to be what its
 * placement says before others start. */
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

static enum matching_verdict check_card(const struct matching_pod *pods, size_t n,
	const struct matching *found, const struct served *served, const struct gpu_facts *gpu,
	uint32_t unit_mib, bool *ret_ask, struct error *err)
{
	bool whole = pods[found->pod].facts->request.whole;
	uint32_t total = whole ? 1 : units_of_card(gpu->mib, unit_mib), sum = 0, core = 0;
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
	if (sum <= total && core <= CORE_PER_CARD)
		return MATCHING_FOUND;
	if (unasked)
		return MATCHING_ASK;
	if (sum <= total) {
		error_set(err, 0,
			"pod %s/%s: GPU %s has %u percent of computing power, with this pod its pods would "
			"hold %u; delete this pod, so that it is placed anew",
			pods[found->pod].namespace_, pods[found->pod].name, gpu->uuid, CORE_PER_CARD, core);
		return MATCHING_REFUSED;
	}
	error_set(err, 0,
		"pod %s/%s: GPU %s has %u units, with this pod its pods would hold %u; delete this pod, so "
		"that "
		"it is placed anew",
		pods[found->pod].namespace_, pods[found->pod].name, gpu->uuid, total, sum);
	return MATCHING_REFUSED;
}

/* Whose devices these are, we know under another uid, or not at all: what that pod holds must be counted, and
 * its limit be what its placement says (resized.h). */
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
		verdict = check_card(pods, n, found, served, &gpus[k], unit_mib, ret_ask, err);
		if (verdict != MATCHING_FOUND)
			return verdict;
	}
	return MATCHING_FOUND;
}

enum matching_verdict matching_answer(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, const struct gpu_facts *gpus, size_t n_gpus, uint32_t unit_mib,
	bool *ret_ask, struct matching *ret, struct error *err)
{
	enum matching_verdict verdict;

	ret->container = NULL;
	verdict = matching_decide(pods, n, n_ids, served, ret_ask, ret, err);
	if (verdict != MATCHING_FOUND || !ret->placed)
		return verdict;
	return matching_check_totals(pods, n, ret, served, gpus, n_gpus, unit_mib, ret_ask, err);
}
