/* Other sizes for pods that run: what the requests of the scheduler's resize.c, the API server and the
 * agent's resized.c do around the core that ships. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/registry/resize.h"
#include "sim.h"

#define DEADLINE_NS (3 * NS_PER_S)
/* A PATCH that is sent again gets through in the end, or a history would end in doubt about it. */
#define SPOILT_SENDS 4

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

/* ---- ration-scheduler: the requests around core/resizing.h ---- */

static int parse(void *userdata, const struct pod_facts *facts, struct placement *target, struct error *err)
{
	const struct ration *ration = userdata;
	const struct pod *pod = &ration->sim->pods[atoi(facts->uid + 1)];
	int r;

	if (facts->placement.resizes + 1 == SIZES_MAX)
		return error_set(err, EINVAL, "it had so many sizes");
	r = placement_resize(target, &facts->request, chosen(pod)->name,
		(uint32_t)atoi(facts->resize) * request_gpus(&facts->request), err);
	target->resizes++;
	return r;
}

/* The text of a PATCH is its number. */
static int write_patch(struct ration *ration, const struct state *shown, const struct pod_facts *facts,
	uint8_t units, struct resize_answer *ret_answer)
{
	struct sim *sim = ration->sim;
	char text[16];

	if (sim->n_patches == PATCHES_MAX) {
		sim->truncated = "there were PATCHES_MAX patches";
		return -EAGAIN;
	}
	say(sim, "ration %d: %s %s %u units per card", ration->pair, facts->uid,
		units ? "gets" : "does not get", shown->wanted);
	sim->patches[sim->n_patches] = (struct size_patch){.pair = (int8_t)ration->pair,
		.pod = (int8_t)atoi(facts->uid + 1),
		.version = shown->version,
		.units = units,
		.ration_epoch = ration->epoch,
		.term = sim->term};
	snprintf(text, sizeof(text), "%d", sim->n_patches++);
	ret_answer->text = strdup(text);
	return ret_answer->text ? 0 : -EAGAIN;
}

static int write_yes(void *userdata, void *shown, const struct pod_facts *facts,
	const struct placement *target, bool same, struct resize_answer *ret_answer, struct error *err)
{
	const struct state *state = shown;

	return write_patch(userdata, state, facts, same ? 0 : state->wanted, ret_answer);
}

static int write_no(void *userdata, void *shown, const struct pod_facts *facts, const struct error *why,
	struct resize_answer *ret_answer)
{
	return write_patch(userdata, shown, facts, 0, ret_answer);
}

struct resize_ops size_ops(struct ration *ration)
{
	return (struct resize_ops){
		.parse = parse, .write_yes = write_yes, .write_no = write_no, .userdata = ration};
}

static void send(struct sim *sim, int pair, struct resizing *resizing)
{
	int index = atoi(resizing->answer.text);
	struct size_patch *patch = &sim->patches[index];
	struct random *random = &sim->pods[patch->pod].random;

	patch->resizing = resizing;
	patch->answered = false;
	patch->sends++;
	sim_after(sim,
		random_one_in(random, 8) && patch->sends <= SPOILT_SENDS
			? random_between(random, 1000, 8000) * MS
			: sim_delay(random, 1000, 60000),
		EVENT_SET_PATCH, 0, index, patch->sends, 0);
	sim_after(sim, DEADLINE_NS, EVENT_SET_ANSWER, sim->rations[pair].epoch, index, patch->sends, -1);
}

/* Something is asked of the API server for this resize. */
static void ask(struct sim *sim, int pair, struct resizing *resizing, enum event_kind kind)
{
	struct ration *ration = &sim->rations[pair];
	struct random *random = &sim->pods[atoi(resizing->uid + 1)].random;
	int slot = 0;

	while (slot < ASKING_MAX && ration->resizing[slot])
		slot++;
	if (slot == ASKING_MAX || api_is_away(sim)) {
		core_resize_not_asked(&ration->core, resizing, sim->now_ns);
		return;
	}
	ration->resizing[slot] = resizing;
	sim_after(sim, sim_delay(random, 1000, 300000), kind, ration->epoch, pair, slot, sim->n_log);
}

void size_carry_out(struct sim *sim, int pair)
{
	struct resizing *resizing;

	while ((resizing = core_next_resize_order(&sim->rations[pair].core))) {
		if (resizing->order == RESIZE_CHECK_LEADER)
			ask(sim, pair, resizing, EVENT_SET_BEGIN);
		else if (resizing->order == RESIZE_LIST_NODE)
			ask(sim, pair, resizing, EVENT_SET_LISTED);
		else if (resizing->order == RESIZE_SEND)
			send(sim, pair, resizing);
	}
}

static struct resizing *take_asking(struct sim *sim, int pair, int slot)
{
	struct resizing *resizing = sim->rations[pair].resizing[slot];

	sim->rations[pair].resizing[slot] = NULL;
	return resizing;
}

static void leader_checked(struct sim *sim, int pair, int slot)
{
	const struct kube_scheduler *ks = &sim->kube_schedulers[pair];

	core_resize_leads(
		ration_core(sim, pair), take_asking(sim, pair, slot), ks->alive && ks->leads, sim->now_ns);
}

static void listed(struct sim *sim, int pair, int slot, int position)
{
	struct resizing *resizing = take_asking(sim, pair, slot);
	int pod = atoi(resizing->uid + 1);
	struct state state = api_state_at(sim, pod, position);
	struct pod_facts facts = api_facts(sim, pod, &state);

	ration_read_node(sim, pair, sim->pods[pod].state.node, position);
	core_resize_listed(
		ration_core(sim, pair), resizing, true, state.exists ? &facts : NULL, &state, sim->now_ns);
}

static void answered(struct sim *sim, int index, int nth, int status)
{
	struct size_patch *patch = &sim->patches[index];
	enum patch_outcome outcome = status < 0 ? PATCH_UNKNOWN : patch_outcome(0, status);

	if (patch->answered || nth != patch->sends)
		return;
	patch->answered = true;
	if (status < 0 && sim->broken == BREAK_RELEASE_SIZE_ON_TIMEOUT)
		outcome = PATCH_GONE;
	core_resize_answered(ration_core(sim, patch->pair), patch->resizing, outcome, "", sim->now_ns);
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
	status = random_one_in(random, 12) && nth <= SPOILT_SENDS ? 500 : apply(sim, patch);
	say(sim, "PATCH of the size of u%d: %d", patch->pod, status);
	if (random_one_in(random, 8) && nth <= SPOILT_SENDS)
		return; /* the answer is lost */
	if (random_one_in(random, 12) && nth <= SPOILT_SENDS)
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
				sum += request_units_per_gpu(orphan_request(sim, n, i));
		}
		if (sum > terms_gpu_units(sim, n, (int)k))
			return true;
	}
	return false;
}

void size_follow_pod(struct sim *sim, int n, const struct node_pod *known)
{
	struct pod *pod = &sim->pods[atoi(known->facts.uid + 1)];
	uint32_t size = known->facts.placement.resizes;

	bool more = units_at(pod, (int)size) > units_at(pod, pod->limit_size);

	if (!known->facts.has_placement || size == pod->limit_size || !has_grant(sim, n, known->facts.uid))
		return;
	if (more &&
		(known->facts.finished || (is_short(sim, n, known) && sim->broken != BREAK_NO_TOTAL_CHECK)))
		return;
	say(sim, "n%d: the limit of u%d is %u units per card", n, atoi(known->facts.uid + 1),
		units_at(pod, (int)size));
	pod->limit_size = (uint8_t)size;
	sim->truth_changed = true;
}

void size_follow(struct sim *sim, int n)
{
	const struct node_pod *known;

	table_for_each (&sim->nodes[n].agent.pods.by_uid, cursor, known)
		size_follow_pod(sim, n, known);
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
		leader_checked(sim, event->a, event->b);
	else
		listed(sim, event->a, event->b, event->c);
	ration_carry_out(sim, event->a);
}
