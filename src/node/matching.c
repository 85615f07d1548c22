#include "node/matching.h"

#include <string.h>

#include "model/facts.h"
#include "node/matching-internal.h"

static const struct served nothing = {
	.entries = {(struct list *)&nothing.entries, (struct list *)&nothing.entries}};

/* The uid is that of the listed pod, and not of an earlier or later pod of its name. */
static bool uid_is_sure(const struct matching_pod *pod)
{
	return !pod->may_return || (pod->fresh && !pod->unanswered);
}

static bool surely_runs(const struct matching_pod *pod, size_t i)
{
	return i < 64 && (pod->runs_now >> i & 1) && uid_is_sure(pod);
}

static bool container_runs(const struct matching_pod *pod, size_t i)
{
	return i < 64 && ((pod->runs >> i & 1) || surely_runs(pod, i));
}

/* The kubelet serves init containers in spec order, then containers in spec order; request->containers has
 * the same order. A kubelet that has lost its checkpoint skips containers that run (devicesToAllocate(),
 * manager.go:609 at 1.36.3). */
static const struct container_request *next_container(
	const struct matching_pod *pod, const struct served *served)
{
	for (size_t i = 0; i < pod->facts->request.n_containers; i++) {
		const struct container_request *c = &pod->facts->request.containers[i];

		/* A container that asks only for computing power does not ask for this resource. */
		if (c->asked && !container_runs(pod, i) && !served_find(served, pod->facts->uid, c->name))
			return c;
	}
	return NULL;
}

/* Whether PodResources must show devices of this pod. It leaves out init containers that are not sidecars
 * (server_v1.go:83 at 1.36.3). */
static bool shows_devices(const struct pod_facts *facts, const struct served *served)
{
	for (size_t i = 0; i < facts->request.n_containers; i++)
		if (facts->request.containers[i].asked &&
			facts->request.containers[i].kind != CONTAINER_INIT &&
			served_find(served, facts->uid, facts->request.containers[i].name))
			return true;
	return false;
}

static bool is_candidate(const struct matching_pod *pod, const struct served *served)
{
	return asks_for_gpu(pod) && !pod->facts->finished && !pod->had_turn && next_container(pod, served);
}

/* All containers were served, but the kubelet shows no devices. */
static bool lost_its_devices(const struct matching_pod *pod, const struct served *served)
{
	return !pod->had_turn && !pod->lists_devices && !next_container(pod, served) &&
	       shows_devices(pod->facts, served);
}

/* What the agent knows of this name may belong to another pod: a StatefulSet's re-created x-0 has the old
 * name, and PodResources has no uid. If all was served but the kubelet shows no devices, the listed pod is
 * not the one that was served. And a pod that has ended is not on the kubelet's list (GetActivePods,
 * kubelet_pods.go:208 at 1.36.3). */
static bool is_suspicious(const struct matching_pod *pod, const struct served *served)
{
	if (!asks_for_gpu(pod))
		return false;
	if (pod->facts->finished)
		return !pod->lists_devices || !served_knows(served, pod->facts->uid);
	return lost_its_devices(pod, served);
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

/* If no pod lacks devices, one of the pods that the agent thinks are served or ended must be another pod by
 * now. */
static size_t mark_all(const struct matching_pod *pods, size_t n, bool *ret_ask)
{
	size_t marked = 0;

	for (size_t i = 0; i < n; i++) {
		ret_ask[i] = !pods[i].fresh && (!pods[i].facts || asks_for_gpu(&pods[i]));
		marked += ret_ask[i];
	}
	return marked;
}

/* The container runtime excludes a pod only if it is certain which uid it has. */
static size_t mark_running(const struct matching_pod *pods, size_t n, bool *ret_ask)
{
	size_t marked = 0;

	for (size_t i = 0; i < n; i++) {
		ret_ask[i] = pods[i].runs_now && pods[i].may_return && !pods[i].fresh;
		marked += ret_ask[i];
	}
	return marked;
}

static void mark_one(size_t n, size_t pod, bool *ret_ask)
{
	for (size_t i = 0; i < n; i++)
		ret_ask[i] = i == pod;
}

static bool same_answer(
	const struct matching_pod *pod_a, const struct matching_pod *pod_b, const struct served *served)
{
	const struct pod_facts *a = pod_a->facts, *b = pod_b->facts;

	return a->has_placement && b->has_placement && placement_equal(&a->placement, &b->placement) &&
	       strcmp(next_container(pod_a, served)->name, next_container(pod_b, served)->name) == 0;
}

/* There is more than one candidate: the kubelet lost its checkpoint, or a pod was deleted before its
 * admission. A pod that the kubelet has never admitted enters its list with its turn. A pod that already has
 * a status from the kubelet may be there for long. */
enum standing { STANDING_NEW, STANDING_SERVED_BEFORE, STANDING_ADMITTED_BEFORE, STANDINGS };

static enum standing standing_of(const struct matching_pod *pod, const struct served *served)
{
	if (pod->facts->running)
		return STANDING_ADMITTED_BEFORE;
	return pod->has_grant && !served_knows(served, pod->facts->uid) ? STANDING_SERVED_BEFORE
									: STANDING_NEW;
}

static enum matching_verdict refuse_either(
	const struct matching_pod *a, const struct matching_pod *b, size_t n_ids, struct error *err)
{
	error_set(err, 0,
		"pods %s/%s and %s/%s both wait for %zu units and have different placements; the kubelet does not say which one it means: delete both, their controllers create them anew",
		a->namespace_, a->name, b->namespace_, b->name, n_ids);
	return MATCHING_REFUSED;
}

static enum matching_verdict choose_among(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, bool namesakes, struct matching *ret, struct error *err)
{
	for (enum standing standing = STANDING_NEW; standing < STANDINGS; standing++) {
		size_t chosen = n;

		for (size_t i = 0; i < n; i++) {
			if (!is_candidate(&pods[i], served) || pods[i].facts->deleting ||
				standing_of(&pods[i], served) != standing ||
				next_container(&pods[i], served)->asked != n_ids ||
				(!namesakes && is_namesake(&pods[i], served)))
				continue;
			if (chosen != n && !same_answer(&pods[chosen], &pods[i], served))
				return refuse_either(&pods[chosen], &pods[i], n_ids, err);
			chosen = chosen == n ? i : chosen;
		}
		if (chosen != n) {
			ret->pod = chosen;
			return MATCHING_FOUND;
		}
	}
	error_set(err, 0, "several pods wait for devices, none of them for %zu units at once", n_ids);
	return MATCHING_REFUSED;
}

/* If so, the call may be for that pod, and for none that the agent knows. */
static bool lists_a_pod_that_is_gone(const struct matching_pod *pods, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!pods[i].facts && pods[i].fresh && !pods[i].unanswered)
			return true;
	return false;
}

/* The kubelet may ask for this number of units for a pod whose devices it has lost. */
static bool may_ask_anew(const struct matching_pod *pod, size_t n_ids, const struct served *served)
{
	const struct container_request *next;

	if (!asks_for_gpu(pod) || pod->facts->finished || !lost_its_devices(pod, served))
		return false;
	next = next_container(pod, &nothing);
	return next && next->asked == n_ids;
}

/* When asked again, the API server says that the pod of this name is the one that was served, and the kubelet
 * shows it without devices. So the agent served the previous pod under this uid, before the kubelet knew of
 * the new one. */
static bool choose_anew(const struct matching_pod *pods, size_t n, size_t n_ids, const struct served *served,
	struct matching *ret)
{
	struct matching found = {.anew = true};
	size_t candidates = 0;

	for (size_t i = 0; i < n; i++) {
		if (pods[i].unanswered || !may_ask_anew(&pods[i], n_ids, served))
			continue;
		candidates++;
		found.pod = i;
	}
	if (candidates != 1)
		return false;
	*ret = found;
	return true;
}

/* A status can be old: a container that ended while the kubelet was away still runs by its status. A pod that
 * has some of its devices may ask for the others. */
static bool may_have_ended(
	const struct matching_pod *pod, size_t i, size_t n_ids, const struct served *served)
{
	const struct container_request *container = &pod->facts->request.containers[i];

	return container_runs(pod, i) && !surely_runs(pod, i) && container->asked == n_ids &&
	       !(pod->lists_devices && served_find(served, pod->facts->uid, container->name));
}

/* The call is for a container that may have ended if no other container can be meant. */
static bool choose_running(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, struct matching *ret)
{
	size_t candidates = 0;

	for (size_t i = 0; i < n && !lists_a_pod_that_is_gone(pods, n); i++) {
		if (!asks_for_gpu(&pods[i]) || pods[i].facts->finished || pods[i].unanswered ||
			pods[i].had_turn)
			continue;
		for (size_t c = 0; c < pods[i].facts->request.n_containers; c++) {
			const struct container_request *container = &pods[i].facts->request.containers[c];

			if (!may_have_ended(&pods[i], c, n_ids, served))
				continue;
			candidates++;
			*ret = (struct matching){.pod = i,
				.container = container,
				.anew = served_find(served, pods[i].facts->uid, container->name)};
		}
	}
	return candidates == 1;
}

/* Whether the call may be for this pod, although another pod was found. The kubelet lists a new pod because
 * its turn is now. But if its name may return, the kubelet may still list the previous pod. Then the call is
 * for a pod that lost its devices, by whatever status. */
static bool may_be_meant(const struct matching_pod *pod, size_t n_ids, const struct served *served,
	const struct matching_pod *found)
{
	/* The agent has never served this pod. */
	bool new = !served_knows(served, found->facts->uid) && standing_of(found, served) == STANDING_NEW;

	if (new && !found->may_return)
		return false;
	if (may_ask_anew(pod, n_ids, served))
		return true;
	if (is_candidate(pod, served) && !is_namesake(pod, served) &&
		next_container(pod, served)->asked == n_ids)
		return true;
	if (!new || !asks_for_gpu(pod) || pod->facts->finished || pod->had_turn)
		return false;
	for (size_t i = 0; i < pod->facts->request.n_containers; i++)
		if (may_have_ended(pod, i, n_ids, served))
			return true;
	return false;
}

static bool same_placement(const struct pod_facts *a, const struct pod_facts *b)
{
	return a->has_placement && b->has_placement && placement_equal(&a->placement, &b->placement);
}

/* A kubelet that starts without its checkpoint asks again for what does not run. So the call may be for
 * another pod than the one that was found. */
static enum matching_verdict compare_with_others(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, struct matching *found, struct error *err)
{
	found->alone = true;
	for (size_t i = 0; i < n; i++) {
		if (i == found->pod || !may_be_meant(&pods[i], n_ids, served, &pods[found->pod]))
			continue;
		if (!same_placement(pods[found->pod].facts, pods[i].facts))
			return refuse_either(&pods[found->pod], &pods[i], n_ids, err);
		found->alone = false;
	}
	return MATCHING_FOUND;
}

static enum matching_verdict choose_candidate(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, bool *ret_ask, struct matching *ret, struct error *err)
{
	/* Namesakes are considered only if there is no other candidate: then the agent's record lacks
	 * something. */
	for (int namesakes = 0; namesakes < (lists_a_pod_that_is_gone(pods, n) ? 1 : 2); namesakes++) {
		size_t candidates = 0;

		for (size_t i = 0; i < n; i++) {
			if (!is_candidate(&pods[i], served) || (!namesakes && is_namesake(&pods[i], served)))
				continue;
			candidates++;
			ret->pod = i;
		}
		if (namesakes && candidates && choose_anew(pods, n, n_ids, served, ret))
			return MATCHING_FOUND; /* the kubelet asks for the pod that has nothing */
		if (candidates == 1)
			return MATCHING_FOUND;
		if (candidates > 1)
			return choose_among(pods, n, n_ids, served, namesakes, ret, err);
	}
	if (mark_all(pods, n, ret_ask))
		return MATCHING_ASK;
	if (choose_anew(pods, n, n_ids, served, ret) || choose_running(pods, n, n_ids, served, ret))
		return MATCHING_FOUND;
	error_set(err, 0,
		"the kubelet asks for %zu units, but no pod on its list waits for any that the API server knows: static pods, from a file on the node, cannot have a GPU",
		n_ids);
	return MATCHING_REFUSED;
}

static enum matching_verdict choose(const struct matching_pod *pods, size_t n, size_t n_ids,
	const struct served *served, bool *ret_ask, struct matching *ret, struct error *err)
{
	enum matching_verdict verdict = choose_candidate(pods, n, n_ids, served, ret_ask, ret, err);

	return verdict == MATCHING_FOUND ? compare_with_others(pods, n, n_ids, served, ret, err) : verdict;
}

/* Refuses a pod that gets nothing, whatever it asks for. */
static enum matching_verdict judge_pod(const struct matching_pod *pod, struct error *err)
{
	if (pod->may_return && pod->unanswered) {
		error_set(err, 0,
			"pod %s/%s: the API server does not say whether this is still the pod that was placed; delete the pod, so that it is created anew",
			pod->namespace_, pod->name);
		return MATCHING_REFUSED;
	}
	if (pod->is_static) {
		error_set(err, 0,
			"pod %s/%s comes from a file on the node: static pods have no scheduler that could place them, so they get no GPU; run it as a Deployment or DaemonSet",
			pod->namespace_, pod->name);
		return MATCHING_REFUSED;
	}
	return MATCHING_FOUND;
}

/* With whole GPUs each container has its own, and the kubelet does not name the container. */
static bool gpus_depend_on_container(const struct pod_facts *facts)
{
	const struct request *request = &facts->request;

	for (size_t i = 1; request->whole && facts->has_placement && i < request->n_containers; i++) {
		const struct container_placement *a = placement_find(
			&facts->placement, request->containers[i].name);

		for (size_t k = 0; k < i; k++) {
			const struct container_placement *b = placement_find(
				&facts->placement, request->containers[k].name);

			if (request->containers[i].asked == request->containers[k].asked &&
				(!a || !b || !container_placement_same_gpus(a, b)))
				return true;
		}
	}
	return false;
}

/* The pod was served before, or in part, and the kubelet shows nothing of it. It has lost its checkpoint, and
 * asks only for containers that do not run. Then the agent's order differs from the kubelet's, and a
 * container would get the GPUs of another one. */
static bool is_guesswork(const struct matching_pod *pod, const struct served *served, bool anew)
{
	bool forgotten = !pod->lists_devices && shows_devices(pod->facts, served);
	bool served_before = pod->has_grant && !served_knows(served, pod->facts->uid);

	return (anew || forgotten || served_before) && gpus_depend_on_container(pod->facts);
}

/* Finds the container of the pod that asks for this number of units. */
static enum matching_verdict find_container(const struct matching_pod *pod, size_t n_ids,
	const struct served *served, struct matching *found, struct error *err)
{
	if (found->container)
		return MATCHING_FOUND;
	found->container = next_container(pod, found->anew ? &nothing : served);
	/* The pod was served in part, but the kubelet shows nothing: the first call may have been for the
	 * previous pod of this name. */
	if (found->container->asked != n_ids && pod->fresh && !pod->unanswered && !pod->lists_devices &&
		next_container(pod, &nothing)->asked == n_ids) {
		found->anew = true;
		found->container = next_container(pod, &nothing);
	}
	if (found->container->asked == n_ids)
		return MATCHING_FOUND;
	error_set(err, 0,
		"pod %s/%s: its next container %s asks for %u units, but the kubelet gives %zu: delete the pod, so that it is created anew",
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
	if (verdict == MATCHING_REFUSED && mark_running(pods, n, ret_ask))
		return MATCHING_ASK;
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
			"pod %s/%s: the kubelet has lost its record of the pod's GPUs and does not say for which of its containers it asks now; delete the pod, so that it is created anew",
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
