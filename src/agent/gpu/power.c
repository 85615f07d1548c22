#include "agent/gpu/power.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/events.h"
#include "agent/gpu/power-gpu.h"
#include "agent/gpu/power-policy.h"
#include "agent/gpu/watched.h"
#include "base/clock.h"
#include "grant/grant.h"
#include "kube/names.h"
#include "model/shares.h"
#include "net/loop.h"
#include "node/claims.h"
#include "node/pods.h"
#include "node/registry.h"

/* The period in which SHARE_SOFT, the only policy that needs it, samples which containers have work. With
 * more than ROUND_CONTAINERS containers the period grows in proportion, up to ROUND_LONGEST_NS, so that the
 * cost stays the same. */
#define ROUND_NS (20 * NS_PER_MS)
#define ROUND_LONGEST_NS (75 * NS_PER_MS)
#define ROUND_CONTAINERS 42

/* The containers with a grant for one GPU, in the order of their grants. */
struct division {
	struct watched_part *gpus[SHARE_HOLDERS_MAX];
	struct share_holder holders[SHARE_HOLDERS_MAX];
	uint32_t shares[SHARE_HOLDERS_MAX];
	size_t n;
};

struct power {
	struct power_deps deps;
	struct policy *policy;
	struct loop_timer *round;
	bool round_runs;
	struct division all, counted; /* scratch for divide(), for one GPU at a time */
};

/* ---- what a container may ask for -----------------------------------------------------------------------
 */

static void complain_about_weight(const struct events *events, struct node_pod *pod, const char *container)
{
	char text[500];

	if (pod->reported.weight)
		return;
	pod->reported.weight = true;
	snprintf(text, sizeof(text),
		"container %.100s: " ENV_SCHD_WEIGHT
		" is no weight: it must be written in the spec as a whole number from 1 to %d; the container has the weight 1, or its " RESOURCE_GPU_CORE,
		container, (int)SHARE_WEIGHT_MAX);
	event_on_pod(events, &pod->facts, "GPUWeightIgnored", text);
}

static void gpu_know(struct watched_part *gpu, const struct node_pod *pod, const struct power_facts *facts)
{
	const struct container_placement *placed = placement_find(&pod->facts.placement, gpu->of->container);
	const struct gpu_share *share = placed ? container_share(placed, gpu->uuid) : NULL;

	gpu->power.known = true;
	gpu->power.percent = share ? share->core : 0;
	gpu->power.weight = facts ? facts->weight : 0;
	gpu->power.counted = !pod->facts.finished && power_facts_counts(pod->shown.power, pod->shown.n_power,
							     &pod->facts.request, gpu->of->container);
}

/* For a container whose pod is gone from the API server: what was known of the pod stays. If the agent never
 * saw the pod, the percentage follows from the share, under the policies in which nothing else gives shares.
 */
static void gpu_guess(const struct power *power, struct watched_part *gpu)
{
	enum share_policy policy = policy_in_force(power->policy);

	if (gpu->power.known)
		return;
	gpu->power.counted = true;
	if (policy == SHARE_FIXED || policy == SHARE_NATIVE)
		gpu->power.percent = (uint32_t)(gpu->power.share * 100 / SHARE_WHOLE);
}

static void know_holders(struct power *power)
{
	list_for_each (item, watched_list(power->deps.set)) {
		struct watched *watched = list_entry(item, struct watched, item);
		struct node_pod *pod = node_claims_served(power->deps.node, watched->uid);
		const struct power_facts *facts = pod ? power_facts_find(pod->shown.power, pod->shown.n_power,
								watched->container)
						      : NULL;

		for (unsigned i = 0; i < watched->n_gpus; i++)
			if (pod && pod->facts.has_placement)
				gpu_know(&watched->gpus[i], pod, facts);
			else
				gpu_guess(power, &watched->gpus[i]);
		if (facts && facts->weight_refused)
			complain_about_weight(power->deps.events, pod, watched->container);
	}
}

/* ---- what it gets ---------------------------------------------------------------------------------------
 */

/* Writes the grant and does not read it, since reading a page also maps its neighbours into this process. */
static void gpu_grant(struct watched_part *gpu, uint32_t share, enum share_policy policy)
{
	struct power_gpu *power = &gpu->power;
	uint64_t rate = share < SHARE_WHOLE ? correction_rate(&power->correction, share) : share;
	uint64_t number = (uint64_t)policy + 1;

	if (power->share == share && power->rate == rate && power->policy == number)
		return;
	grant_file_set_power(gpu->of->grant, gpu->index, share, rate, number);
	power->share = share;
	power->rate = rate;
	power->policy = number;
}

static void division_add(struct division *division, struct watched_part *gpu)
{
	if (division->n == SHARE_HOLDERS_MAX)
		return;
	division->gpus[division->n] = gpu;
	division->holders[division->n++] = (struct share_holder){
		.percent = gpu->power.percent, .weight = gpu->power.weight, .busy = gpu->power.busy};
}

static void division_grant(const struct power *power, struct division *division, bool to_counted)
{
	enum share_policy policy = policy_in_force(power->policy);
	uint32_t most = policy_max_containers(power->policy);

	if (!most)
		most = gpu_instances_max(power->deps.node->in_force, power->deps.node->inventory.unit_mib, 0);
	shares_compute(policy, most, division->holders, division->n, division->shares);
	for (size_t i = 0; i < division->n; i++)
		if (division->gpus[i]->power.counted == to_counted)
			gpu_grant(division->gpus[i], division->shares[i], policy);
}

/* Right after the start of the agent or of a container it is not known which containers have work. Until then
 * the shares in the grants stay. */
static bool is_too_early(const struct power *power)
{
	if (policy_in_force(power->policy) != SHARE_SOFT || power->counted.n < 2)
		return false;
	for (size_t i = 0; i < power->counted.n; i++)
		if (power->counted.gpus[i]->power.looks < POWER_LOOKS)
			return true;
	return false;
}

/* A container that may not run now takes nothing from those that may. It gets the share that it will have
 * when it runs beside them. */
static void divide(struct power *power, const char *uuid)
{
	power->all.n = power->counted.n = 0;
	list_for_each (item, watched_on(power->deps.set, uuid)) {
		struct watched_part *gpu = list_entry(item, struct watched_part, item);

		division_add(&power->all, gpu);
		if (gpu->power.counted)
			division_add(&power->counted, gpu);
	}
	if (is_too_early(power))
		return;
	if (power->counted.n < power->all.n)
		division_grant(power, &power->all, false);
	division_grant(power, &power->counted, true);
}

/* ---- who has work ---------------------------------------------------------------------------------------
 */

/* Returns true if the container's `busy` has changed or is known for the first time. */
static bool gpu_look(struct watched_part *gpu, int64_t now)
{
	bool first = gpu->power.looks + 1 == POWER_LOOKS, busy;
	struct usage_peek_power seen;

	gpu->power.looks += gpu->power.looks < POWER_LOOKS;
	if (usage_peek_power(gpu->of->usage_fd, gpu->index, &seen) < 0)
		return first; /* the usage file is truncated: `busy` stays as it was */
	busy = activity_see(&gpu->power.activity, now, seen.started_ns + seen.copied_ns, seen.asked);
	if (busy == gpu->power.busy)
		return first;
	gpu->power.busy = busy;
	return true;
}

/* Returns the number of containers that were sampled. */
static size_t look_who_has_work(struct power *power, const char *uuid)
{
	const struct list *gpus = watched_on(power->deps.set, uuid);
	int64_t now = monotonic_ns();
	bool changed = false;
	size_t counted = 0;

	list_for_each (item, gpus)
		counted += list_entry(item, struct watched_part, item)->power.counted;
	if (counted < 2)
		return 0;
	list_for_each (item, gpus)
		changed |= gpu_look(list_entry(item, struct watched_part, item), now);
	if (changed)
		divide(power, uuid);
	return counted;
}

static void on_round(void *userdata)
{
	struct power *power = userdata;
	const struct inventory *inventory = &power->deps.node->inventory;
	int64_t again = ROUND_NS;
	size_t looked = 0;

	power->round_runs = false;
	if (policy_in_force(power->policy) != SHARE_SOFT)
		return;
	for (size_t i = 0; i < inventory->n_gpus; i++)
		looked += look_who_has_work(power, inventory->gpus[i].facts.uuid);
	if (!looked)
		return;
	if (looked > ROUND_CONTAINERS)
		again = ROUND_NS * (int64_t)looked / ROUND_CONTAINERS;
	power->round_runs = true;
	loop_timer_set(power->round, again < ROUND_LONGEST_NS ? again : ROUND_LONGEST_NS);
}

void power_changed(struct power *power)
{
	const struct inventory *inventory = power ? &power->deps.node->inventory : NULL;

	/* Until the pods are known, the shares in the grants hold. */
	if (!power || !power->deps.node->settled)
		return;
	know_holders(power);
	for (size_t i = 0; i < inventory->n_gpus; i++)
		divide(power, inventory->gpus[i].facts.uuid);
	if (!power->round_runs)
		on_round(power);
}

/* ---- what was used --------------------------------------------------------------------------------------
 */

bool power_wants_use(struct power *power, const char *uuid)
{
	list_for_each (item, watched_on(power->deps.set, uuid))
		if (list_entry(item, struct watched_part, item)->power.share)
			return true;
	return false;
}

static void complain_about_endless(const struct power *power, const struct watched_part *gpu)
{
	const struct node_pod *pod = node_claims_reader(power->deps.node, gpu->of->uid);
	char owner[NODE_CLAIM_TEXT_SIZE], text[600];

	if (!pod)
		return;
	node_claims_describe(power->deps.node, gpu->of->uid, gpu->of->container, owner);
	snprintf(text, sizeof(text),
		"%s has used %s past its share of %u percent for %d s and started nothing: it runs one kernel, which cannot be interrupted, so the other containers there have less until it ends. If the kernel should not take this long, delete the pod; otherwise divide it into shorter kernels or give the pod the whole GPU",
		owner, gpu->uuid, (unsigned int)(gpu->power.share * 100 / SHARE_WHOLE),
		(int)(ENDLESS_NS / NS_PER_S));
	event_on_pod(power->deps.events, &pod->facts, "GPUKernelPastShare", text);
}

static void gpu_judge(const struct power *power, struct watched_part *gpu, const struct correction_seen *seen)
{
	struct power_gpu *its = &gpu->power;

	if (!its->share)
		return;
	if (endless_sample(
		    &its->endless, seen->elapsed_ns, seen->started_ns, seen->used_ns, (uint32_t)its->share))
		complain_about_endless(power, gpu);
	if (its->endless.for_ns)
		its->unpaid_ns += seen->used_ns;
}

static void gpu_used(
	const struct power *power, struct watched_part *gpu, int64_t now, const struct correction_gpu *said)
{
	struct power_gpu *its = &gpu->power;
	struct correction_look look = {.now_ns = now, .who = its->who, .percent = its->used_percent};
	struct correction_seen seen;
	struct usage_peek_power usage;

	if (usage_peek_power(gpu->of->usage_fd, gpu->index, &usage) < 0)
		return;
	look.started_ns = usage.started_ns;
	if (correction_look(&its->correction, &look, said, &seen)) {
		gpu_judge(power, gpu, &seen);
		use_note_core(&gpu->use, seen.elapsed_ns, seen.used_ns, its->share);
	}
	its->used_ns += seen.used_ns;
	if (its->share)
		gpu_grant(gpu, (uint32_t)its->share, (enum share_policy)(its->policy - 1));
}

void power_used(struct power *power, const char *uuid, const struct correction_gpu *said)
{
	int64_t now = monotonic_ns();

	list_for_each (item, watched_on(power->deps.set, uuid))
		gpu_used(power, list_entry(item, struct watched_part, item), now, said);
}

/* ---- life -----------------------------------------------------------------------------------------------
 */

void power_resume(struct power_gpu *gpu, const struct grant_file *grant, unsigned index)
{
	const struct grant_file_live *live = &grant->live[index];

	gpu->share = atomic_load(&live->core_share);
	gpu->rate = atomic_load(&live->core_rate);
	gpu->policy = atomic_load(&live->core_policy) & GRANT_CORE_POLICY;
	correction_resume(&gpu->correction, gpu->share, gpu->rate);
}

void power_recall(struct power *power)
{
	list_for_each (item, watched_list(power->deps.set)) {
		const struct watched *watched = list_entry(item, struct watched, item);

		for (unsigned i = 0; i < watched->n_gpus; i++)
			policy_recall(power->policy, watched->gpus[i].power.policy);
	}
}

bool power_is_told(const struct power *power)
{
	return policy_is_told(power->policy);
}

enum share_policy power_policy(const struct power *power)
{
	return policy_in_force(power->policy);
}

int power_new(const struct power_deps *deps, struct power **ret_power)
{
	struct power *power = calloc(1, sizeof(*power));
	const struct policy_ops ops = {deps->changed, deps->map_seen, deps->userdata};
	int r;

	if (!power)
		return -ENOMEM;
	power->deps = *deps;
	r = policy_new(deps->otherwise, deps->events, &ops, &power->policy);
	if (r == 0)
		r = loop_add_timer(deps->loop, on_round, power, &power->round);
	if (r < 0)
		power_free(power);
	else
		*ret_power = power;
	return r;
}

void power_free(struct power *power)
{
	if (!power)
		return;
	policy_free(power->policy);
	loop_timer_remove(power->round);
	free(power);
}

int power_start_kube(struct power *power, struct kube_client *client)
{
	return policy_watch(power->policy, client, power->deps.loop);
}

void power_node_seen(struct power *power, struct json_object *annotations)
{
	policy_node_seen(power->policy, annotations);
}
