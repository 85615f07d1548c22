/* The kubelet: its list of pods, its main loop, the workers that start and stop containers, and the
 * containers themselves, which live on without it. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum op_kind { OP_ADD, OP_UPDATE, OP_REMOVE, OP_READY };

#define RETRY_NS (2 * NS_PER_S)
#define HOUSEKEEPING_NS (2 * NS_PER_S)

static void pump(struct sim *sim, int n)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	if (kubelet->admitting < 0 && kubelet->ops_head != kubelet->ops_tail)
		sim_after(sim, sim_delay(&sim->nodes[n].random, 200, 3000), EVENT_KUBELET_OP, kubelet->epoch,
			n, 0, 0);
}

static void push(struct sim *sim, int n, enum op_kind kind, int pod, const struct state *state)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;
	bool idle = kubelet->ops_head == kubelet->ops_tail;
	uint16_t tail = (uint16_t)((kubelet->ops_tail + 1) % OPS_MAX);

	if (tail == kubelet->ops_head) {
		sim->truncated = "a kubelet has OPS_MAX operations to do";
		return;
	}
	kubelet->ops[kubelet->ops_tail] = (struct op){.kind = (uint8_t)kind, .pod = (int8_t)pod};
	if (state)
		kubelet->ops[kubelet->ops_tail].state = *state;
	kubelet->ops_tail = tail;
	if (idle)
		pump(sim, n);
}

uint64_t kubelet_active(const struct sim *sim, int n)
{
	const struct kubelet *kubelet = &sim->nodes[n].kubelet;
	uint64_t active = kubelet->managed & ~kubelet->terminated;

	for_each_bit (pod, active)
		if ((sim->pods[pod].rejected || (kubelet->finished & BIT(pod))) &&
			!(kubelet->terminating & BIT(pod)))
			active &= ~BIT(pod);
	return active;
}

/* PodResources.List: it also frees the ids of pods that are no longer active; init containers are left out.
 */
void kubelet_list(struct sim *sim, int n, uint64_t *ret_listed, uint64_t *ret_shows)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	*ret_listed = kubelet_active(sim, n);
	*ret_shows = 0;
	devices_update(sim, n);
	for_each_bit (pod, *ret_listed & kubelet->has_devices)
		for (int c = 0; c < sim->pods[pod].shape.n_containers; c++)
			if (sim->pods[pod].shape.kinds[c] != CONTAINER_INIT && kubelet->devices[pod][c].given)
				*ret_shows |= BIT(pod);
}

void kubelet_start(struct sim *sim, int n)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	if (n >= sim->n_nodes || kubelet->alive)
		return;
	kubelet->alive = true;
	kubelet->restarted = kubelet->epoch > 0;
	kubelet->sources_ready = false;
	kubelet->epoch++;
	kubelet->managed = kubelet->admitted = kubelet->terminating = kubelet->terminated =
		kubelet->finished = 0;
	kubelet->end_wanted = 0;
	memcpy(kubelet->devices, kubelet->checkpoint, sizeof(kubelet->devices));
	kubelet->has_devices = kubelet->checkpoint_has;
	kubelet->allocated = devices_in_record(kubelet);
	kubelet->healthy = 0;
	kubelet->endpoint = false;
	kubelet->ops_head = kubelet->ops_tail = 0;
	kubelet->admitting = -1;
	kubelet->call.busy = false;
	for (int c = 0; c < CONTAINERS_MAX; c++) {
		kubelet->running_at_start[c] = 0;
		for (int pod = 0; pod < sim->n_pods; pod++)
			if (sim->pods[pod].state.node == n && sim->pods[pod].containers[c].state == C_RUNNING)
				kubelet->running_at_start[c] |= BIT(pod);
	}
	watch_cut(sim, kubelet_watcher(n), 0);
	agent_see_kubelet(sim, n);
}

void kubelet_kill(struct sim *sim, int n)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	if (n >= sim->n_nodes || !kubelet->alive)
		return;
	kubelet->alive = false;
	kubelet->epoch++;
	kubelet->call.busy = false;
	kubelet->admitting = -1;
	for (int pod = 0; pod < sim->n_pods; pod++)
		for (int c = 0; sim->pods[pod].state.node == n && c < CONTAINERS_MAX; c++)
			if (sim->pods[pod].containers[c].state == C_STARTING ||
				sim->pods[pod].containers[c].state == C_BACKOFF)
				sim->pods[pod].containers[c].state = C_NONE;
	watch_stop(sim, kubelet_watcher(n));
}

void kubelet_register(struct sim *sim, int n, uint64_t all, uint64_t healthy)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	kubelet->all = all;
	kubelet->healthy = healthy;
	kubelet->endpoint = true;
}

/* The plugin's stream has ended: all its devices are unhealthy at once, a call in progress fails. */
void kubelet_devices_gone(struct sim *sim, int n)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	if (!kubelet->alive)
		return;
	kubelet->healthy = 0;
	if (kubelet->call.busy) {
		kubelet->call.busy = false;
		devices_answered(sim, n, false, 0, -1, REASON_CALL_LOST);
	}
}

/* In-place resize: the pod goes through admission again. There is nothing to allocate, so nothing is asked,
 * but ids that are no longer healthy put it off (devicemanager/manager.go devicesToAllocate(), 1.36.3). */
void kubelet_resize(struct sim *sim, int n)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	if (!kubelet->alive || !kubelet->sources_ready)
		return;
	for_each_bit (pod, kubelet->admitted & kubelet->has_devices & ~kubelet->terminating) {
		bool healthy = kubelet->healthy;

		for (int c = 0; c < CONTAINERS_MAX; c++)
			healthy &= !(kubelet->devices[pod][c].ids & ~kubelet->healthy);
		count(sim, healthy ? COUNT_RESIZED : COUNT_RESIZE_DEFERRED);
		if (!healthy && kubelet->endpoint && sim->pods[pod].state.exists &&
			sim->nodes[n].agent.alive && sim->nodes[n].agent.registered)
			sim_violate(
				sim, "ids in use are healthy: a resize is not put off", "u%d on n%d", pod, n);
	}
}

void kubelet_see(struct sim *sim, int n, int pod, const struct state *state, bool deleted, bool added)
{
	push(sim, n, deleted ? OP_REMOVE : added ? OP_ADD : OP_UPDATE, pod, state);
}

/* The first batch: sorted by creation; the sources are ready when it is handled. */
void kubelet_listed(struct sim *sim, int n, const struct state *states, int count)
{
	struct watcher *watcher = &sim->watchers[kubelet_watcher(n)];

	if (sim->nodes[n].kubelet.sources_ready)
		return; /* only the watch was cut: what differs comes one by one */
	for (int i = 0; i < count; i++)
		if (states[i].exists && states[i].node == n && !(watcher->known & BIT(i))) {
			watcher->known |= BIT(i);
			push(sim, n, OP_ADD, i, &states[i]);
		}
	push(sim, n, OP_READY, -1, NULL);
}

void kubelet_reject(struct sim *sim, int n, int pod, enum reason reason)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	say(sim, "kubelet n%d rejects u%d: %s", n, pod, reason_names[reason]);
	sim->pods[pod].rejected = true;
	sim->pods[pod].reason = (uint8_t)reason;
	sim->statistics->reasons[reason]++;
	invariant_rejected(sim, n, pod, reason);
	sim_after(sim, sim_delay(&sim->nodes[n].random, 3000, 300000), EVENT_STATUS, 0, pod, PHASE_FAILED, 0);
	sim_after(sim, HOUSEKEEPING_NS, EVENT_KUBELET_CLEANUP, kubelet->epoch, n, 0, 0);
}

/* Containers. */

static bool all_stopped(const struct pod *pod)
{
	for (int c = 0; c < pod->shape.n_containers; c++)
		if (pod->containers[c].state == C_RUNNING || pod->containers[c].state == C_STARTING)
			return false;
	return true;
}

static void start_container(struct sim *sim, int n, int pod, int c)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	sim->pods[pod].containers[c].state = C_STARTING;
	sim_after(
		sim, sim_delay(&sim->pods[pod].random, 3000, 400000), EVENT_START, kubelet->epoch, n, pod, c);
}

static bool mains_done(const struct pod *pod)
{
	for (int c = 0; c < pod->shape.n_containers; c++)
		if (pod->shape.kinds[c] == CONTAINER_MAIN && pod->containers[c].state != C_DONE)
			return false;
	return true;
}

/* All its containers are over: only now does the kubelet report a terminal phase, or let the object go. */
static void pod_ends(struct sim *sim, int n, int pod)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	kubelet->terminated |= BIT(pod);
	kubelet->finished |= BIT(pod);
	if (sim->pods[pod].state.deleting) {
		sim_after(sim, sim_delay(&sim->pods[pod].random, 3000, 200000), EVENT_STATUS, 0, pod, -1, 0);
	} else if (mains_done(&sim->pods[pod]) && !sim->pods[pod].rejected) {
		count(sim, COUNT_FINISHED);
		sim_after(sim, sim_delay(&sim->pods[pod].random, 3000, 200000), EVENT_STATUS, 0, pod,
			PHASE_SUCCEEDED, 0);
	}
}

static void stop_containers(struct sim *sim, int n, int pod)
{
	struct pod *p = &sim->pods[pod];

	for (int c = 0; c < p->shape.n_containers; c++) {
		if (p->containers[c].state == C_RUNNING) {
			sim_after(sim, p->shape.grace_ms * MS, EVENT_STOPPED, 0, n, pod, c);
			sim_goes_on(sim, p->shape.grace_ms * MS);
		} else if (p->containers[c].state != C_DONE)
			p->containers[c].state = C_NONE;
	}
}

static void terminate(struct sim *sim, int n, int pod)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	if (kubelet->terminated & BIT(pod)) {
		pod_ends(sim, n, pod);
		return;
	}
	if (kubelet->terminating & BIT(pod))
		return;
	kubelet->terminating |= BIT(pod);
	stop_containers(sim, n, pod);
	if (all_stopped(&sim->pods[pod]))
		pod_ends(sim, n, pod);
}

void kubelet_sync(struct sim *sim, int n, int pod)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;
	struct pod *p = &sim->pods[pod];

	if (!kubelet->alive || !(kubelet->admitted & BIT(pod)) || (kubelet->terminating & BIT(pod)))
		return;
	if (mains_done(p)) {
		terminate(sim, n, pod);
		return;
	}
	for (int c = 0; c < p->shape.n_containers; c++) {
		uint8_t state = p->containers[c].state;

		if (state == C_NONE) {
			start_container(sim, n, pod, c);
			return;
		}
		if (state == C_STARTING || (p->shape.kinds[c] != CONTAINER_MAIN && state == C_BACKOFF) ||
			(p->shape.kinds[c] == CONTAINER_INIT && state != C_DONE))
			return;
	}
}

static void back_off(struct sim *sim, int n, int pod, int c)
{
	struct container *container = &sim->pods[pod].containers[c];

	container->state = C_BACKOFF;
	if (container->tries < 3)
		container->tries++;
	sim_after(sim, RETRY_NS << container->tries, EVENT_RETRY, sim->nodes[n].kubelet.epoch, n, pod, c);
	kubelet_sync(sim, n, pod); /* the others go on */
}

static void started(struct sim *sim, int n, int pod, int c)
{
	struct pod *p = &sim->pods[pod];
	struct container *container = &p->containers[c];

	container->state = C_RUNNING;
	p->shown |= (uint8_t)BIT(c);
	p->unseen |= !p->state.exists; /* the kubelet has not heard of its end */
	container->tries = 0;
	count(sim, COUNT_STARTS);
	say(sim, "container u%d/c%d runs on n%d cards %#x", pod, c, n, container->gpus);
	if (__builtin_popcount(container->gpus) > 1)
		count(sim, COUNT_SEVERAL_GPUS);
	sim->truth_changed = true;
	invariant_container_started(sim, n, pod, c);
	if (p->state.phase == PHASE_PENDING)
		sim_after(sim, sim_delay(&p->random, 3000, 300000), EVENT_STATUS, 0, pod,
			p->shape.kinds[c] == CONTAINER_MAIN ? PHASE_RUNNING : PHASE_PENDING, 0);
	if (p->shape.kinds[c] == CONTAINER_INIT)
		sim_after(sim, sim_delay(&p->random, 20000, 1000000), EVENT_EXIT, 0, n, pod, c);
	else if (p->shape.kinds[c] == CONTAINER_MAIN && container->crashes < p->shape.crashes)
		sim_after(sim, sim_delay(&p->random, 50000, 1000000), EVENT_EXIT, 0, n, pod, c);
	else if (p->shape.kinds[c] == CONTAINER_MAIN && p->shape.end == END_ITSELF)
		sim_after(sim, p->shape.lifetime_ms * MS, EVENT_EXIT, 0, n, pod, c);
	kubelet_sync(sim, n, pod);
}

/* GetDeviceRunContainerOptions(): PreStartContainer, then the cached answer of Allocate, whose CDI device the
 * runtime looks up. After a kubelet restart and before the plugin is back, PreStartContainer is skipped. */
static void start_now(struct sim *sim, int n, int pod, int c)
{
	struct node *node = &sim->nodes[n];
	struct kubelet *kubelet = &node->kubelet;
	struct container *container = &sim->pods[pod].containers[c];
	const struct devices *given = &kubelet->devices[pod][c];
	int owner;

	if (container->state != C_STARTING)
		return;
	if ((kubelet->terminating & BIT(pod)) || !(kubelet->managed & BIT(pod))) {
		container->state = C_NONE;
		if ((kubelet->terminating & BIT(pod)) && all_stopped(&sim->pods[pod]))
			pod_ends(sim, n, pod);
		return;
	}
	container->gpus = container->sees = 0;
	if (!sim->pods[pod].shape.units[c]) {
		started(sim, n, pod, c);
		return;
	}
	if (kubelet->endpoint &&
		(!given->given || !node->agent.alive || !agent_prestart(sim, n, given->ids))) {
		back_off(sim, n, pod, c);
		return;
	}
	container->unchecked = !kubelet->endpoint;
	owner = given->given ? answers_owner(sim, n, given->cdi) : -1;
	if (owner < 0) {
		back_off(sim, n, pod, c);
		return;
	}
	container->grant = (uint8_t)(owner / CONTAINERS_MAX);
	container->gpus = node->grant[owner / CONTAINERS_MAX][owner % CONTAINERS_MAX].gpus;
	container->sees = node->grant[owner / CONTAINERS_MAX][owner % CONTAINERS_MAX].sees;
	started(sim, n, pod, c);
}

static void container_exits(struct sim *sim, int n, int pod, int c)
{
	struct pod *p = &sim->pods[pod];
	struct container *container = &p->containers[c];

	if (container->state != C_RUNNING)
		return;
	sim->truth_changed = true;
	container->gpus = 0;
	if (sim->nodes[n].kubelet.alive)
		p->shown &= (uint8_t)~BIT(c);
	if (p->shape.kinds[c] == CONTAINER_MAIN && container->crashes < p->shape.crashes) {
		container->crashes++;
		container->state = C_NONE;
		if (sim->nodes[n].kubelet.alive)
			back_off(sim, n, pod, c);
		return;
	}
	container->state = C_DONE;
	kubelet_sync(sim, n, pod);
}

static void container_stopped(struct sim *sim, int n, int pod, int c)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;
	struct container *container = &sim->pods[pod].containers[c];

	if (container->state == C_RUNNING) {
		container->state = C_DONE;
		container->gpus = 0;
		if (kubelet->alive)
			sim->pods[pod].shown &= (uint8_t)~BIT(c);
		sim->truth_changed = true;
	}
	if (kubelet->alive && (kubelet->terminating & BIT(pod)) && !(kubelet->terminated & BIT(pod)) &&
		all_stopped(&sim->pods[pod]))
		pod_ends(sim, n, pod);
}

/* A pod that was being deleted when its turn came goes through admission all the same. */
void kubelet_admitted(struct sim *sim, int n, int pod)
{
	if (sim->nodes[n].kubelet.end_wanted & BIT(pod))
		terminate(sim, n, pod);
	pump(sim, n);
}

/* HandlePodCleanups(): containers of pods that the kubelet does not want (any more). */
static void clean_up(struct sim *sim, int n)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	for (int pod = 0; pod < sim->n_pods; pod++)
		if (sim->pods[pod].state.node == n && !(kubelet->admitted & BIT(pod)) &&
			(sim->pods[pod].rejected || !(kubelet->managed & BIT(pod))))
			stop_containers(sim, n, pod);
}

static void add(struct sim *sim, int n, int pod, const struct state *state)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;

	kubelet->managed |= BIT(pod);
	if (state->phase >= PHASE_SUCCEEDED || sim->pods[pod].rejected) {
		kubelet->finished |= BIT(pod);
		if (sim->pods[pod].rejected && state->phase < PHASE_SUCCEEDED)
			sim_after(sim, 5 * MS, EVENT_STATUS, 0, pod, PHASE_FAILED, 0);
		if (state->deleting)
			terminate(sim, n, pod);
		return;
	}
	if (state->deleting)
		kubelet->end_wanted |= BIT(pod);
	devices_admit(sim, n, pod);
}

static void op_happens(struct sim *sim, int n)
{
	struct kubelet *kubelet = &sim->nodes[n].kubelet;
	struct op op;

	if (kubelet->admitting >= 0 || kubelet->ops_head == kubelet->ops_tail)
		return;
	op = kubelet->ops[kubelet->ops_head];
	kubelet->ops_head = (uint16_t)((kubelet->ops_head + 1) % OPS_MAX);
	switch ((enum op_kind)op.kind) {
	case OP_ADD:
		add(sim, n, op.pod, &op.state);
		break;
	case OP_UPDATE:
		if (op.state.phase >= PHASE_SUCCEEDED)
			kubelet->finished |= BIT(op.pod);
		if (op.state.deleting)
			terminate(sim, n, op.pod);
		break;
	case OP_REMOVE:
		kubelet->managed &= ~BIT(op.pod);
		terminate(sim, n, op.pod);
		break;
	case OP_READY:
		kubelet->sources_ready = true;
		sim_after(sim, HOUSEKEEPING_NS, EVENT_KUBELET_CLEANUP, kubelet->epoch, n, 0, 0);
		break;
	}
	pump(sim, n);
}

void kubelet_on_event(struct sim *sim, const struct event *event)
{
	int n = event->a;
	struct kubelet *kubelet = &sim->nodes[n].kubelet;
	bool current = kubelet->alive && event->epoch == kubelet->epoch;

	switch (event->kind) {
	case EVENT_KUBELET_OP:
		if (current)
			op_happens(sim, n);
		break;
	case EVENT_KUBELET_CLEANUP:
		if (current)
			clean_up(sim, n);
		break;
	case EVENT_START:
		if (current)
			start_now(sim, n, event->b, event->c);
		break;
	case EVENT_RETRY:
		if (current && sim->pods[event->b].containers[event->c].state == C_BACKOFF) {
			sim->pods[event->b].containers[event->c].state = C_NONE;
			kubelet_sync(sim, n, event->b);
		}
		break;
	case EVENT_EXIT:
		container_exits(sim, n, event->b, event->c);
		break;
	case EVENT_STOPPED:
		container_stopped(sim, n, event->b, event->c);
		break;
	default:
		break;
	}
}
