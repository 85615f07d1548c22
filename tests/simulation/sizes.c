/* Other sizes for pods that run: what the scheduler's resize.c, the API server and the agent's resized.c do
 * around the real ledger. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/placement/decide.h"
#include "core/registry/resize.h"
#include "sim.h"

#define DEADLINE_NS (3 * NS_PER_S)
#define AGAIN_NS (300 * MS)

const struct request *size_request(const struct pod *pod, int size)
{
	return size ? &pod->sizes[size].request : &pod->facts.request;
}

const struct placement *size_placement(const struct pod *pod, int size)
{
	return size ? &pod->sizes[size].placement : &pod->placement;
}

void size_release(struct pod *pod)
{
	for (int i = 1; i < SIZES_MAX; i++) {
		request_release(&pod->sizes[i].request);
		placement_release(&pod->sizes[i].placement);
	}
}

/* The container whose size is changed. */
static const struct container_request *chosen(const struct pod *pod)
{
	const struct request *request = &pod->facts.request;

	return &request->containers[request->n_containers - 1];
}

/* Somebody asks for another size of one of the pods that are bound on isolated nodes. */
void size_input(struct sim *sim, const struct input *input)
{
	int candidates[PODS_MAX], n = 0;
	struct state state;

	for (int i = 0; i < sim->n_pods; i++) {
		const struct pod *pod = &sim->pods[i];

		if (pod->state.exists && pod->state.placed && pod->state.phase < PHASE_SUCCEEDED &&
			sim->plan->instances_max[pod->state.node] && !pod->shape.whole)
			candidates[n++] = i;
	}
	if (!n || api_is_away(sim))
		return;
	state = sim->pods[candidates[input->a % n]].state;
	state.wanted = input->b;
	say(sim, "u%d is to have %u units per card", candidates[input->a % n], input->b);
	api_set(sim, candidates[input->a % n], &state);
}

/* ---- ration-scheduler ---- */

static void again(struct sim *sim, int pair, int pod, int64_t after_ns)
{
	sim_after(sim, after_ns, EVENT_SET_BEGIN, sim->rations[pair].epoch, pair, pod, 0);
}

void size_seen(struct sim *sim, int pair, int pod, const struct state *state)
{
	struct ration *ration = &sim->rations[pair];

	if (!state->wanted || (ration->sizing & BIT(pod)))
		return;
	ration->sizing |= BIT(pod);
	again(sim, pair, pod, sim_delay(&sim->pods[pod].random, 1000, 20000));
}

static void begin(struct sim *sim, int pair, int pod)
{
	struct ration *ration = &sim->rations[pair];
	const struct kube_scheduler *ks = &sim->kube_schedulers[pair];
	bool unclear = ration->unclear & BIT(pod);

	if (!unclear && (!sim->pods[pod].state.exists || !sim->pods[pod].state.wanted)) {
		ration->sizing &= ~BIT(pod);
		return;
	}
	if (api_is_away(sim) ||
		(!unclear && (!core_is_ready(&ration->core) || !ks->alive || !ks->leads ||
				     !sim->watchers[pair_watcher(pair, W_RATION_PODS)].connected)))
		again(sim, pair, pod, AGAIN_NS);
	else
		sim_after(sim, sim_delay(&sim->pods[pod].random, 1000, 300000), EVENT_SET_LISTED,
			ration->epoch, pair, pod, sim->n_log);
}

static void send(struct sim *sim, int index)
{
	struct size_patch *patch = &sim->patches[index];
	struct random *random = &sim->pods[patch->pod].random;

	patch->sends++;
	sim_after(sim,
		random_one_in(random, 8) ? random_between(random, 1000, 8000) * MS
					 : sim_delay(random, 1000, 60000),
		EVENT_SET_PATCH, 0, index, patch->sends, 0);
	sim_after(sim, DEADLINE_NS, EVENT_SET_ANSWER, patch->ration_epoch, index, patch->sends, -1);
}

/* What to answer; the list is in the ledger. False: not now. */
static bool decide(struct sim *sim, int pair, int pod, const struct state *state, uint8_t *ret_units)
{
	struct ration *ration = &sim->rations[pair];
	const struct ledger_pod *known = ledger_pod(&ration->core.ledger, sim->pods[pod].uid_text);
	_cleanup_placement_ struct placement target = {0};
	uint32_t units = state->wanted * request_gpus(&sim->pods[pod].facts.request);
	int r;

	*ret_units = 0;
	if (!known || known->placement.resizes != state->size)
		return false;
	if (state->size + 1 == SIZES_MAX)
		return true;
	if (placement_copy(&known->placement, &target) < 0 ||
		placement_resize(&target, &known->facts.request, chosen(&sim->pods[pod])->name, units, NULL) <
			0) {
		sim->truncated = "out of memory";
		return false;
	}
	target.resizes++;
	r = ledger_resize(&ration->core.ledger, known->facts.uid, &target, NULL);
	if (r == 0)
		*ret_units = state->wanted;
	return r != -EBUSY;
}

static void listed(struct sim *sim, int pair, int pod, int position)
{
	struct ration *ration = &sim->rations[pair];
	struct state state = api_state_at(sim, pod, position);
	struct size_patch patch = {.pair = (int8_t)pair, .pod = (int8_t)pod, .version = state.version};

	ration_read_node(sim, pair, state.node, position);
	if (ration->unclear & BIT(pod)) {
		ration->unclear &= ~BIT(pod);
		ledger_resize_release(&ration->core.ledger, sim->pods[pod].uid_text);
		again(sim, pair, pod, AGAIN_NS);
		return;
	}
	if (!state.exists || !state.wanted || state.deleting || state.phase >= PHASE_SUCCEEDED) {
		ration->sizing &= ~BIT(pod);
		return;
	}
	if (sim->n_patches == PATCHES_MAX) {
		sim->truncated = "there were PATCHES_MAX patches";
		return;
	}
	if (!decide(sim, pair, pod, &state, &patch.units)) {
		again(sim, pair, pod, AGAIN_NS);
		return;
	}
	patch.ration_epoch = ration->epoch;
	patch.term = sim->term;
	say(sim, "ration %d: u%d %s %u units per card", pair, pod, patch.units ? "gets" : "does not get",
		state.wanted);
	sim->patches[sim->n_patches] = patch;
	send(sim, sim->n_patches++);
}

static void answered(struct sim *sim, int index, int nth, int status)
{
	struct size_patch *patch = &sim->patches[index];
	struct ration *ration = &sim->rations[patch->pair];
	const char *uid = sim->pods[patch->pod].uid_text;

	if (patch->done || nth != patch->sends)
		return;
	if (status < 0 && sim->broken == BREAK_RELEASE_SIZE_ON_TIMEOUT)
		status = 404;
	if (status < 0 || status / 100 == 5) {
		send(sim, index); /* as it was: by the resourceVersion it lands once, or never */
		return;
	}
	patch->done = true;
	/* In conflict with its own landing? */
	if (status == 409 && patch->units && patch->sends > 1 &&
		sim->broken != BREAK_RELEASE_SIZE_ON_CONFLICT)
		ration->unclear |= BIT(patch->pod);
	else if (status == 200)
		ledger_resize_confirm(&ration->core.ledger, uid);
	else
		ledger_resize_release(&ration->core.ledger, uid);
	if (status == 409)
		again(sim, patch->pair, patch->pod, 1);
	else
		ration->sizing &= ~BIT(patch->pod);
	ration_carry_out(sim, patch->pair);
}

/* ---- API server ---- */

static int make_size(struct pod *pod, uint8_t size, uint8_t units)
{
	struct placement *placement = &pod->sizes[size].placement;
	struct request *request = &pod->sizes[size].request;

	if (placement_copy(size_placement(pod, size - 1), placement) < 0 ||
		request_copy(&pod->facts.request, request) < 0 ||
		placement_resize(placement, request, chosen(pod)->name, units * request_gpus(request), NULL) <
			0)
		return -1;
	placement->resizes = size;
	return request_resize(request, placement);
}

static int apply(struct sim *sim, const struct size_patch *patch)
{
	struct pod *pod = &sim->pods[patch->pod];
	const struct ration *sender = &sim->rations[patch->pair];
	struct state state = pod->state;

	if (!state.exists)
		return 404;
	if (state.version != patch->version)
		return 409;
	state.wanted = 0;
	if (patch->units) {
		if (make_size(pod, ++state.size, patch->units) < 0)
			sim->truncated = "out of memory";
		count(sim, COUNT_SIZES);
		/* Nobody who lives could know of it when it was decided. */
		if (!sender->alive || sender->epoch != patch->ration_epoch ||
			!sim->kube_schedulers[patch->pair].leads || sim->term != patch->term)
			sim->nodes[state.node].loose = true;
	} else {
		count(sim, COUNT_SIZES_REFUSED);
	}
	api_set(sim, patch->pod, &state);
	return 200;
}

static void patch_arrives(struct sim *sim, int index, int nth)
{
	const struct size_patch *patch = &sim->patches[index];
	struct random *random = &sim->pods[patch->pod].random;
	int status;

	if (api_is_away(sim))
		return;
	status = random_one_in(random, 12) ? 500 : apply(sim, patch);
	say(sim, "PATCH of the size of u%d: %d", patch->pod, status);
	if (random_one_in(random, 8))
		return; /* the answer is lost */
	if (random_one_in(random, 12))
		status = 500;
	sim_after(sim, sim_delay(random, 1000, 20000), EVENT_SET_ANSWER, patch->ration_epoch, index, nth,
		status);
}

/* ---- ration-agent ---- */

static uint32_t units_at(const struct pod *pod, int size)
{
	return request_units_per_gpu(size_request(pod, size));
}

/* Also of those that neither we nor the kubelet remember. */
static bool has_grant(const struct sim *sim, int n, const char *uid)
{
	return (sim->nodes[n].grants & BIT(atoi(uid + 1))) || served_knows(&sim->nodes[n].agent.served, uid);
}

static bool is_short(const struct sim *sim, int n, const struct node_pod *of)
{
	const struct agent *agent = &sim->nodes[n].agent;
	uint64_t orphans = sim->broken == BREAK_IGNORE_ORPHANS ? 0 : agent_orphans(sim, n);

	for (size_t k = 0; k < sim->nodes[n].facts.n_gpus; k++) {
		const char *uuid = sim->nodes[n].facts.gpus[k].uuid;
		const struct node_pod *pod;
		uint32_t sum = 0;

		if (!placement_units_on(&of->facts.placement, &of->facts.request, uuid))
			continue;
		table_for_each (&agent->pods.by_uid, cursor, pod)
			if (pod->facts.has_placement && !pod->facts.finished &&
				has_grant(sim, n, pod->facts.uid))
				sum += placement_units_on(&pod->facts.placement, &pod->facts.request, uuid);
		for_each_bit (i, orphans) {
			const struct node_pod *known = node_pods_by_uid(&agent->pods, sim->pods[i].uid_text);

			if (sim->pods[i].gpus >> k & 1 && (!known || known->facts.finished))
				sum += units_at(&sim->pods[i], sim->pods[i].limit_size);
		}
		if (sum > terms_gpu_units(sim, n, (int)k))
			return true;
	}
	return false;
}

void size_follow(struct sim *sim, int n)
{
	const struct agent *agent = &sim->nodes[n].agent;
	const struct node_pod *known;

	table_for_each (&agent->pods.by_uid, cursor, known) {
		struct pod *pod = &sim->pods[atoi(known->facts.uid + 1)];
		uint32_t size = known->facts.placement.resizes;

		if (!known->facts.has_placement || known->facts.finished || size == pod->limit_size ||
			!has_grant(sim, n, known->facts.uid))
			continue;
		if (units_at(pod, (int)size) > units_at(pod, pod->limit_size) && is_short(sim, n, known) &&
			sim->broken != BREAK_NO_TOTAL_CHECK)
			continue;
		say(sim, "n%d: the limit of u%d is %u units per card", n, atoi(known->facts.uid + 1),
			units_at(pod, (int)size));
		pod->limit_size = (uint8_t)size;
		sim->truth_changed = true;
	}
}

void size_on_event(struct sim *sim, const struct event *event)
{
	if (event->kind == EVENT_SET_PATCH) {
		patch_arrives(sim, event->a, event->b);
		return;
	}
	if (event->kind == EVENT_SET_ANSWER) {
		if (event->epoch == sim->rations[sim->patches[event->a].pair].epoch &&
			sim->rations[sim->patches[event->a].pair].alive)
			answered(sim, event->a, event->b, event->c);
		return;
	}
	if (event->epoch != sim->rations[event->a].epoch || !sim->rations[event->a].alive)
		return;
	if (event->kind == EVENT_SET_BEGIN)
		begin(sim, event->a, event->b);
	else
		listed(sim, event->a, event->b, event->c);
	ration_carry_out(sim, event->a);
}
