/* What must hold: after every step, at certain moments, and in the end, when all is quiet. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static bool runs_on(const struct pod *pod, int gpu)
{
	for (int c = 0; c < pod->shape.n_containers; c++)
		if (pod->containers[c].state == C_RUNNING && (pod->containers[c].gpus >> gpu & 1))
			return true;
	return false;
}

/* On isolated nodes. */
static void check_instances(struct sim *sim, int n)
{
	uint32_t there[GPUS_MAX] = {0}, max = terms_whole(sim, n) ? 0 : sim->plan->instances_max[n];

	for (int i = 0; i < sim->n_pods && max && !sim->nodes[n].loose; i++) {
		const struct pod *pod = &sim->pods[i];

		if (pod->state.node != n || !fitting_occupies(pod))
			continue;
		for_each_bit (k, pod->gpus) {
			there[k] += pod->facts.request.instances;
			if (there[k] > max)
				sim_violate(sim, "a card has no more containers than it may",
					"n%d card %d: %u, not %u", n, k, there[k], max);
		}
	}
}

/* On nodes with computing power. */
static void check_power(struct sim *sim, int n)
{
	uint32_t core[GPUS_MAX] = {0};
	bool counts = sim->plan->core_mem[n] && !terms_whole(sim, n) && !sim->nodes[n].loose;
	int with = -1, without = -1;

	for (int i = 0; i < sim->n_pods && counts; i++) {
		const struct pod *pod = &sim->pods[i];

		if (pod->state.node != n || !fitting_occupies(pod))
			continue;
		for_each_bit (k, pod->gpus) {
			core[k] += pod->facts.request.core;
			if (core[k] > CORE_PER_GPU)
				sim_violate(sim, "a card has no more than 100 percent", "n%d card %d: %u", n,
					k, core[k]);
		}
		if (pod->facts.request.core)
			with = i;
		else
			without = i;
	}
	if (with >= 0 && without >= 0 && !sim->plan->mixing[n])
		sim_violate(sim, "pods with and without a percentage do not meet", "n%d: u%d and u%d", n,
			with, without);
}

/* Containers that run, whether or not anybody still knows their pod. Not of a pod that was gone before a
 * kubelet that does not call the agent started it with the grant of the next one of its name: neither the
 * kubelet's list nor the runtime tells the agent of it (COUNT_NAMESAKES). */
static void check_all_containers(struct sim *sim, int n)
{
	uint64_t grants[GPUS_MAX] = {0};

	for (int i = 0; i < sim->n_pods; i++)
		for (int c = 0; sim->pods[i].state.node == n && c < sim->pods[i].shape.n_containers; c++) {
			const struct container *container = &sim->pods[i].containers[c];

			if (container->grant != i && container->unchecked && !sim->pods[i].state.exists)
				continue;
			for_each_bit (k, container->state == C_RUNNING ? container->gpus : 0)
				grants[k] |= BIT(container->grant);
		}
	for (int k = 0; k < GPUS_MAX; k++) {
		uint32_t sum = 0, total = grants[k] ? terms_gpu_units(sim, n, k) : 0;

		for_each_bit (i, grants[k])
			sum += request_units_per_gpu(size_request(&sim->pods[i], sim->pods[i].limit_size));
		if (sum > total)
			sim_violate(sim, "what runs on a card fits on it, whether or not its pod is known",
				"n%d card %d: %u of %u units", n, k, sum, total);
	}
}

/* The truth, not a book: what is bound by the API server, what runs on the node. */
static void check_gpus(struct sim *sim, int n)
{
	const struct node *node = &sim->nodes[n];
	uint32_t bound[GPUS_MAX] = {0}, running[GPUS_MAX] = {0}, orphans[GPUS_MAX] = {0};

	for (int i = 0; i < sim->n_pods; i++) {
		const struct pod *pod = &sim->pods[i];
		uint32_t units = request_units_per_gpu(size_request(pod, pod->state.size));
		uint32_t limit = request_units_per_gpu(size_request(pod, pod->limit_size));

		if (pod->state.node != n || !pod->gpus)
			continue;
		/* What no book can know is counted only: the kubelet started it after the last word about it.
		 * A smaller size that no agent has applied yet counts, as it does while the pod is there. */
		for_each_bit (k, pod->gpus)
			if (!pod->state.exists && !pod->unseen && runs_on(pod, k))
				orphans[k] += units < limit ? units : limit;
		if (!fitting_occupies(pod))
			continue;
		for_each_bit (k, pod->gpus)
			bound[k] += units;
		for (int k = 0; k < GPUS_MAX; k++)
			if (runs_on(pod, k))
				running[k] += limit;
	}
	for (size_t k = 0; k < node->facts.n_gpus; k++) {
		uint32_t total = terms_gpu_units(sim, n, (int)k);

		if (running[k] > total)
			sim_violate(sim, "what runs on a card fits on it", "n%d card %zu: %u of %u units", n,
				k, running[k], total);
		if (bound[k] > total && node->loose)
			count(sim, COUNT_OVERBOOKED);
		else if (bound[k] <= total && bound[k] + orphans[k] > total && !node->loose)
			sim_violate(sim,
				"what is bound to a card fits beside what was deleted and still runs",
				"n%d card %zu: %u + %u of %u units", n, k, bound[k], orphans[k], total);
		else if (bound[k] > total)
			sim_violate(sim, "what is bound to a card fits on it", "n%d card %zu: %u of %u units",
				n, k, bound[k], total);
	}
}

static void check_ledger(struct sim *sim, int pair)
{
	struct ration *ration = &sim->rations[pair];
	size_t wrong = ledger_check(&ration->core.ledger, NULL);

	ration->changed = false;
	if (wrong)
		sim_violate(sim, "the ledger's sums are those of its pods", "pair %d: %zu sums", pair, wrong);
	for (int n = 0; n < sim->n_nodes; n++) {
		const struct node_ledger *node = ledger_node(&ration->core.ledger, sim->nodes[n].name);

		if (node && node->recounts)
			sim_violate(sim, "no sum of the ledger goes below zero", "pair %d n%d", pair, n);
	}
}

void invariants_after_step(struct sim *sim)
{
	for (int i = 0; i < sim->n_pairs; i++)
		if (sim->rations[i].alive && sim->rations[i].changed)
			check_ledger(sim, i);
	gang_checks_after_step(sim, sim->truth_changed);
	if (!sim->truth_changed)
		return;
	sim->truth_changed = false;
	for (int n = 0; n < sim->n_nodes; n++) {
		check_gpus(sim, n);
		check_all_containers(sim, n);
		check_instances(sim, n);
		check_power(sim, n);
	}
}

/* Each container has GPUs of its own, and sees those of the job's other pods that were there before it. */
static void check_whole(struct sim *sim, int n, int pod, int c)
{
	const struct pod *p = &sim->pods[pod];
	uint8_t sees = p->own[c];

	for (size_t i = 0; i < p->placement.n_visible; i++)
		for (size_t k = 0; k < sim->nodes[n].facts.n_gpus; k++)
			if (strcmp(p->placement.visible[i], sim->nodes[n].facts.gpus[k].uuid) == 0)
				sees |= (uint8_t)(1 << k);
	if (p->containers[c].sees != sees)
		sim_violate(sim, "a container sees its cards and those of its job",
			"u%d/c%d sees %#x, not %#x", pod, c, p->containers[c].sees, sees);
	if (sees != p->own[c])
		count(sim, COUNT_SEES_OTHERS);
	for (int other = 0; other < p->shape.n_containers; other++)
		if (other != c && p->containers[other].state == C_RUNNING &&
			(p->containers[other].gpus & p->containers[c].gpus))
			sim_violate(sim, "containers of a pod that run at once have different cards",
				"u%d: c%d and c%d", pod, c, other);
}

void invariant_container_started(struct sim *sim, int n, int pod, int c)
{
	const struct pod *p = &sim->pods[pod];
	const struct container *container = &p->containers[c];

	if (!p->shape.units[c])
		return;
	/* The kubelet has not heard of its end, and the agent knows the next one of its name only. At
	 * PreStartContainer the kubelet's checkpoint tells them apart. */
	if (!p->state.exists && container->unchecked && container->gpus != p->own[c]) {
		count(sim, COUNT_NAMESAKES);
		return;
	}
	if (!p->gpus)
		sim_violate(sim, "a pod that nobody placed gets no card", "u%d/c%d on n%d cards %#x", pod, c,
			n, container->gpus);
	else if (container->gpus != p->own[c])
		sim_violate(sim, "a container runs on the GPUs of its placement",
			"u%d/c%d on n%d cards %#x, placed on %#x", pod, c, n, container->gpus, p->own[c]);
	if (p->shape.whole && p->state.exists)
		check_whole(sim, n, pod, c);
}

/* PodResources has no uid: while the kubelet still admits or lists a pod whose successor of the same name is
 * bound to the same node, a call can be taken for the other's. Never a wrong GPU, but one of them may be
 * refused. */
static bool has_namesakes(const struct sim *sim, int n)
{
	for (int i = 0; i < sim->n_pods; i++)
		for (int k = 0; k < i; k++)
			if (sim->pods[i].name == sim->pods[k].name && sim->pods[i].state.node == n &&
				sim->pods[k].state.node == n)
				return true;
	return false;
}

/* Each rejection has a cause that is not ours, or the last line of defence was needed. */
void invariant_rejected(struct sim *sim, int n, int pod, enum reason reason)
{
	const struct node *node = &sim->nodes[n];

	switch (reason) {
	case REASON_OVER_TOTAL:
		if (!node->loose)
			sim_violate(sim,
				"the agent's last line is needed after a dead scheduler's Binding only",
				"u%d on n%d", pod, n);
		break;
	case REASON_NOT_CLEAR:
		if (!node->kubelet.lost_checkpoint && sim->pods[pod].state.exists && !has_namesakes(sim, n))
			sim_violate(
				sim, "the agent knows which pod an Allocate is for", "u%d on n%d", pod, n);
		break;
	case REASON_OTHER_MODE:
		if (!node->loose)
			sim_violate(sim, "a pod comes to a node of its mode", "u%d on n%d", pod, n);
		break;
	case REASON_NO_IDS:
		if (!node->kubelet.restarted && !node->loose && !node->was_sick)
			sim_violate(sim, "a placed pod finds device ids", "u%d on n%d", pod, n);
		break;
	case REASON_SICK:
		if (!node->was_sick)
			sim_violate(sim, "ids of healthy cards are healthy", "u%d on n%d", pod, n);
		break;
	default:
		break;
	}
}

/* In the end. */

static void compare_ledger(struct sim *sim, int pair, const struct truth *truth)
{
	for (int n = 0; n < sim->n_nodes; n++) {
		const struct node_ledger *node = ledger_node(
			&sim->rations[pair].core.ledger, sim->nodes[n].name);

		if (!node || node->unplaced_units != truth->unplaced[n])
			sim_violate(sim, "the ledger is what the API server says",
				"pair %d n%d: %u units unplaced, not %u", pair, n,
				node ? node->unplaced_units : 0, truth->unplaced[n]);
		for (size_t k = 0; node && k < node->facts.n_gpus; k++)
			if (node->gpus[k].core_used != truth->core[n][k])
				sim_violate(sim, "the ledger is what the API server says",
					"pair %d n%d card %zu: %u percent used, not %u", pair, n, k,
					node->gpus[k].core_used, truth->core[n][k]);
			else if (node->gpus[k].units_used != truth->used[n][k])
				sim_violate(sim, "the ledger is what the API server says",
					"pair %d n%d card %zu: %u units used, not %u", pair, n, k,
					node->gpus[k].units_used, truth->used[n][k]);
	}
}

static void check_waiting(struct sim *sim, const struct truth *truth)
{
	for (int i = 0; i < sim->n_pods; i++) {
		const struct pod *pod = &sim->pods[i];
		struct truth kept = *truth;

		if (!pod->state.exists || pod->state.node >= 0 || !gang_is_open(sim, i))
			continue;
		fitting_lay_kept(sim, i, &kept);
		for (int n = 0; n < sim->n_nodes; n++)
			if (fitting_fits(sim, &kept, n, &pod->facts.request))
				sim_violate(sim, "no pod that fits waits for ever", "u%d fits on n%d", i, n);
	}
}

static bool runs(const struct pod *pod)
{
	for (int c = 0; c < pod->shape.n_containers; c++)
		if (pod->containers[c].state !=
				(pod->shape.kinds[c] == CONTAINER_INIT ? C_DONE : C_RUNNING) &&
			pod->containers[c].state != C_DONE)
			return false;
	return true;
}

/* Without its checkpoint the kubelet starts no container of a pod that it had admitted before ("no devices
 * found allocated in local cache", devicemanager/manager.go, 1.36.3): nobody but a person can help. */
static bool has_lost_its_record(const struct sim *sim, const struct pod *pod)
{
	return sim->nodes[pod->state.node].kubelet.lost_checkpoint;
}

static void check_bound(struct sim *sim)
{
	for (int i = 0; i < sim->n_pods; i++) {
		const struct pod *pod = &sim->pods[i];

		if (!fitting_occupies(pod) || !pod->gpus)
			continue;
		if (pod->state.deleting)
			sim_violate(sim, "a pod that is deleted goes", "u%d on n%d", i, pod->state.node);
		else if (!pod->rejected && !runs(pod) && has_lost_its_record(sim, pod))
			count(sim, COUNT_WITHOUT_RECORD);
		else if (pod->rejected || !runs(pod))
			sim_violate(sim, "a bound pod runs, or was rejected and says so", "u%d on n%d", i,
				pod->state.node);
		else
			count(sim, COUNT_RUNNING_AT_END);
	}
}

static void check_agent(struct sim *sim, int n)
{
	const struct agent *agent = &sim->nodes[n].agent;

	for (int i = 0; i < sim->n_pods; i++) {
		const struct pod *pod = &sim->pods[i];
		bool here = pod->state.exists && pod->state.node == n;
		bool known = node_pods_by_uid(&agent->pods, pod->uid_text) != NULL;

		if (here != known)
			sim_violate(sim, "the agent knows the pods of its node", "u%d is %son n%d", i,
				here ? "" : "not ", n);
		for (int c = 0; !here && c < pod->shape.n_containers; c++)
			if (served_find(&agent->served, pod->uid_text,
				    (const char[]){'c', (char)('0' + c), '\0'}))
				sim_violate(sim, "the agent's record has no pod that is gone", "u%d on n%d",
					i, n);
	}
}

void invariants_at_end(struct sim *sim)
{
	struct truth truth;

	fitting_recount(sim, &truth);
	for (int i = 0; i < sim->n_pairs; i++)
		compare_ledger(sim, i, &truth);
	check_waiting(sim, &truth);
	evictions_check_at_end(sim);
	check_bound(sim);
	for (int n = 0; n < sim->n_nodes; n++)
		check_agent(sim, n);
	gang_checks_at_end(sim);
}
