#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define DISTURBED_NS (15 * NS_PER_S)

const char *const reason_names[REASON_MAX] = {
	"evicted (drawn)",
	"OutOfcpu (drawn)",
	"agent away or not registered",
	"ids of a sick card",
	"agent died during the call",
	"ids not freed yet by a restarted kubelet",
	"over the card's total",
	"API server away",
	"not clear which pod",
	"the node gives no such devices (any more)",
};

const char *const broken_names[BREAK_MAX] = {
	"nothing",
	"oldest-of-equal-size",
	"release-on-timeout",
	"release-in-doubt",
	"free-on-deletion-timestamp",
	"free-on-delete",
	"ignore-hold",
	"no-total-check",
	"never-ask",
	"no-answer-check",
	"oldest-of-equal-size-unchecked",
	"ids-name-the-card",
	"no-nudge",
	"forget-checkpoint",
	"no-list-at-takeover",
	"takeover-by-pause",
	"release-size-on-timeout",
	"ignore-core",
	"ignore-mixing",
	"ignore-health",
	"change-under-pods",
	"change-at-once",
	"gang-in-parts",
	"gang-without-mark",
	"gang-no-eviction",
	"gang-forget-to-release",
	"gang-no-nudge",
	"gang-no-keeping",
	"cards-ignore-links",
	"cards-forget-at-restart",
	"cards-ignore-job",
	"ignore-orphans",
	"silence-is-an-end",
	"silent-watch-is-heard",
	"held-not-restored",
	"gang-labels-count",
	"gang-ignore-changes",
	"evict-equals",
	"evict-nobody",
	"tell-a-size-not-given",
};

const char *const counter_names[COUNT_MAX] = {
	"events",
	"pods",
	"Bindings applied",
	"binds failed",
	"Bindings in doubt",
	"Allocate calls",
	"GetPreferredAllocation calls",
	"pods asked for by the agent",
	"container starts",
	"Allocates with ids of other cards",
	"new LISTs",
	"duplicated events",
	"nudges",
	"Bindings over a card's total by a dead scheduler",
	"pods whose containers outlived them",
	"containers of a pod that is gone, started on the GPU of the next one of its name without a call",
	"answers of Allocate that were another pod's, corrected before the container started",
	"starts refused because two containers were answered one device",
	"deleted pods that run on and that no program could know: no status yet, or a restart before the node told",
	"writes of ration.dev/held",
	"containers started on several cards",
	"pods resized in place",
	"resizes put off for want of healthy ids",
	"other sizes for pods that run",
	"other sizes refused",
	"pods that a lost checkpoint keeps from starting",
	"pods created again under the old name",
	"pods that ended by themselves",
	"pods running in the end",
	"changes of a node's unit",
	"gangs",
	"times that a gang started",
	"times that a part of a gang was placed",
	"members evicted since a part of their gang was placed",
	"gangs for which cards were kept",
	"gangs of which too few were left, and went one by one",
	"gangs of which enough run in the end",
	"gangs that wait in the end",
	"pods that ask for whole cards",
	"sets of cards compared with all others",
	"sets of cards of pods of a job, likewise",
	"sets of cards of members of a gang, likewise",
	"plans of gangs that were not compared: more than one thing had changed",
	"containers that see cards of other pods of their job",
	"changes of a node between memory and whole cards",
	"times that a container had to wait for the end of an orphan",
	"times that ration.dev/held was restored",
	"pods that were not made, since there had been 64",
	"changes of a pod's gang by its label",
	"changes of PodGroups",
	"gangs whose PodGroup changed while some were bound, not judged until they are gone",
	"recordings replayed",
	"pods evicted for more important ones",
	"evictions that the API server refused or did not answer",
	"pods nominated for the node where others were evicted",
	"pods bound after others were evicted for them",
};

void sim_after(struct sim *sim, int64_t delay_ns, enum event_kind kind, uint32_t epoch, int a, int b, int c)
{
	struct event event = {.at_ns = sim->now_ns + delay_ns,
		.kind = (uint16_t)kind,
		.epoch = epoch,
		.a = (int16_t)a,
		.b = (int16_t)b,
		.c = (int16_t)c};

	if (!queue_push(&sim->queue, event))
		sim->truncated = "QUEUE_MAX events are to come";
}

void sim_goes_on(struct sim *sim, int64_t for_ns)
{
	int64_t end_ns = sim->now_ns + for_ns + (sim->plan->n_gangs ? GANG_AFTERMATH_NS : AFTERMATH_NS);

	if (sim->end_ns < end_ns)
		sim->end_ns = end_ns;
}

/* Mostly short, sometimes very long: what breaks things is the one that comes too late. */
int64_t sim_delay(struct random *random, int64_t usual_us, int64_t most_us)
{
	int64_t most = random_one_in(random, 8) ? most_us : usual_us;

	return random_between(random, usual_us / 8 + 1, most + 1) * 1000;
}

uint64_t *sim_digest;

void sim_say(const struct sim *sim, const char *format, ...)
{
	char line[400];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (!sim_digest) {
		printf("%9.3f  %s\n", (double)sim->now_ns / 1e9, line);
		return;
	}
	*sim_digest = (*sim_digest ^ (uint64_t)sim->now_ns) * 0x100000001b3ULL;
	for (const char *p = line; *p; p++)
		*sim_digest = (*sim_digest ^ (unsigned char)*p) * 0x100000001b3ULL;
}

const char *sim_invariant;

void sim_violate(struct sim *sim, const char *invariant, const char *format, ...)
{
	va_list args;
	int n;

	if (*sim->violation || (sim_invariant && strcmp(invariant, sim_invariant) != 0))
		return;
	sim->violated = invariant;
	n = snprintf(sim->violation, sizeof(sim->violation), "at %.3f s: %s: ", (double)sim->now_ns / 1e9,
		invariant);
	va_start(args, format);
	vsnprintf(sim->violation + n, sizeof(sim->violation) - (size_t)n, format, args);
	va_end(args);
	say(sim, "VIOLATION %s", sim->violation);
}

static void node_start(struct sim *sim, int i)
{
	struct node *node = &sim->nodes[i];
	struct node_facts *facts = &node->facts;

	snprintf(node->name, sizeof(node->name), "n%d", i);
	node_facts_init(facts);
	facts->name = facts->uid = node->name;
	facts->policy = sim->plan->spread[i] ? GPU_POLICY_SPREAD : GPU_POLICY_BINPACK;
	facts->n_gpus = sim->plan->n_gpus[i];
	for (size_t k = 0; k < facts->n_gpus; k++) {
		facts->gpus[k].index = (int)k;
		facts->gpus[k].healthy = true;
		memcpy(facts->details[k].links, sim->plan->links[i][k], sizeof(sim->plan->links[i][k]));
		snprintf(facts->gpus[k].uuid, sizeof(facts->gpus[k].uuid), "GPU-%d-%zu", i, k);
	}
	node->asked_whole = node->state.whole = sim->plan->topology[i];
	terms_set(sim, i, facts, sim->plan->topology[i], false);
	random_seed(&node->random, sim->plan->seed, 200 + (uint64_t)i);
}

static void start(struct sim *sim)
{
	int64_t last_ms = 0;

	for (int w = 0; w < WATCHERS_MAX; w++) {
		random_seed(&sim->watchers[w].random, sim->plan->seed, 300 + (uint64_t)w);
		sim->watchers[w].stopped = true;
	}
	for (int i = 0; i < sim->n_nodes; i++)
		node_start(sim, i);
	gpus_start(sim);
	for (int i = 0; i < sim->n_nodes; i++) {
		kubelet_start(sim, i);
		agent_start_process(sim, i);
	}
	for (int i = 0; i < sim->n_pairs; i++) {
		ration_start(sim, i);
		ks_start(sim, i);
	}
	for (int i = 0; i < sim->plan->n_inputs; i++) {
		const struct input *input = &sim->plan->inputs[i];
		int64_t over = input->at_ms + (input->kind == INPUT_POD ? 0 : input->ms);

		if (over > last_ms)
			last_ms = over;
		/* everything has started by then */
		sim_after(sim, (input->at_ms + 3000) * MS, EVENT_INPUT, 0, i, 0, 0);
	}
	sim_goes_on(sim, (last_ms + 3000) * MS);
}

static void kill_for(struct sim *sim, int index, const struct input *input)
{
	say(sim, "-- %s %u/%u for %u ms", input_names[input->kind], input->a, input->b, input->ms);
	sim_after(sim, input->ms * MS, EVENT_INPUT_OVER, 0, index, 0, 0);
}

static void reboot(struct sim *sim, int n)
{
	struct node *node = &sim->nodes[n];

	agent_kill(sim, n);
	kubelet_kill(sim, n);
	node->grants = 0; /* /run is a tmpfs */
	for (int pod = 0; pod < sim->n_pods; pod++)
		for (int c = 0; sim->pods[pod].state.node == n && c < CONTAINERS_MAX; c++)
			if (sim->pods[pod].containers[c].state != C_DONE)
				sim->pods[pod].containers[c].state = C_NONE;
	sim->truth_changed = true;
}

static void set_gpu(struct sim *sim, const struct input *input, bool sick)
{
	struct node *node = &sim->nodes[input->a];

	if (input->b >= node->facts.n_gpus)
		return;
	if (sick)
		node->state.sick |= (uint8_t)(1 << input->b);
	else
		node->state.sick &= (uint8_t) ~(1 << input->b);
	node->was_sick = true;
	node->facts.gpus[input->b].healthy = !sick;
	agent_list_devices(sim, input->a);
	api_set_node(sim, input->a);
}

/* What the agent wrote to the Node object is gone, or the whole object is. */
static void change_node(struct sim *sim, const struct input *input)
{
	struct node *node = &sim->nodes[input->a];

	bool lies = input->kind == INPUT_HELD && input->b == HELD_LIE;

	/* Who reads it has no reason to doubt it. */
	for_each_bit (i, lies ? node->state.lives : 0)
		sim->pods[i].unseen = true;
	node->state.ended = lies ? node->state.ended | node->state.lives : 0;
	node->state.lives = 0;
	node->state.at = lies || (input->kind == INPUT_HELD && input->b == HELD_EMPTIED) ? ++node->held_writes
											 : 0;
	node->state.unreadable = input->kind == INPUT_HELD && input->b == HELD_UNREADABLE;
	node->state.gone = node->state.bare = input->kind == INPUT_NODE_ANEW;
	api_set_node(sim, input->a);
	agent_node_changed(sim, input->a, sim_delay(&node->random, 5000, 800000));
}

static void node_comes_back(struct sim *sim, int n)
{
	sim->nodes[n].state.gone = false;
	api_set_node(sim, n);
	ks_node_changed(sim);
}

/* A Binding of theirs may land when its node has changed; who counts by memory then bears it. */
static void disturb(struct sim *sim, const struct input *input)
{
	int64_t until = sim->now_ns + input->ms * MS + DISTURBED_NS;

	if (input->kind != INPUT_GPU && input->kind != INPUT_RESIZE && until > sim->disturbed_until_ns)
		sim->disturbed_until_ns = until;
	if (until > sim->unsettled_until_ns)
		sim->unsettled_until_ns = until;
}

static void input_happens(struct sim *sim, int index)
{
	const struct input *input = &sim->plan->inputs[index];

	sim->statistics->inputs[input->kind]++;
	if (input->kind == INPUT_POD) {
		api_create_pod(sim, &input->shape, -1);
		return;
	}
	if (input->kind == INPUT_UNIT || input->kind == INPUT_MODE) {
		terms_input(sim, input);
		return;
	}
	if (input->kind == INPUT_SET) {
		size_input(sim, input);
		return;
	}
	disturb(sim, input);
	if (input->kind == INPUT_LABEL) {
		api_label(sim, input);
		return;
	}
	if (input->kind == INPUT_GROUP) {
		controller_change_group(sim, input);
		return;
	}
	kill_for(sim, index, input);
	switch (input->kind) {
	case INPUT_KILL_PAIR:
	case INPUT_KILL_KUBE_SCHEDULER:
		ks_kill(sim, input->a);
		if (input->kind == INPUT_KILL_PAIR)
			ration_kill(sim, input->a);
		break;
	case INPUT_KILL_RATION:
		ration_kill(sim, input->a);
		break;
	case INPUT_KILL_AGENT:
		agent_kill(sim, input->a);
		break;
	case INPUT_LOSE_CHECKPOINT:
		kubelet_kill(sim, input->a);
		sim->nodes[input->a].kubelet.checkpoint_has = 0;
		memset(sim->nodes[input->a].kubelet.checkpoint, 0,
			sizeof(sim->nodes[input->a].kubelet.checkpoint));
		sim->nodes[input->a].kubelet.lost_checkpoint = true;
		break;
	case INPUT_KILL_KUBELET:
		kubelet_kill(sim, input->a);
		break;
	case INPUT_REBOOT:
		reboot(sim, input->a);
		break;
	case INPUT_API_OUTAGE:
		sim->api_away_until_ns = sim->now_ns + input->ms * MS;
		for (int w = 0; w < WATCHERS_MAX; w++)
			watch_cut(sim, w, input->ms * MS);
		break;
	case INPUT_CUT_NODE:
		sim->nodes[input->a].cut_until_ns = sim->now_ns + input->ms * MS;
		watch_cut(sim, agent_watcher(input->a), input->ms * MS);
		watch_cut(sim, kubelet_watcher(input->a), input->ms * MS);
		break;
	case INPUT_CUT_WATCH:
		watch_cut(sim, input->a, input->ms * MS);
		break;
	case INPUT_STALL_WATCH:
		sim->watchers[input->a].stalled_until_ns = sim->now_ns + input->ms * MS;
		break;
	case INPUT_DUPLICATE:
		sim->watchers[input->a].duplicate_until_ns = sim->now_ns + input->ms * MS;
		break;
	case INPUT_BINDING:
		sim->next_fault = (int8_t)input->a;
		break;
	case INPUT_GPU:
		set_gpu(sim, input, true);
		break;
	case INPUT_HELD:
	case INPUT_NODE_ANEW:
		change_node(sim, input);
		break;
	case INPUT_RESIZE:
		kubelet_resize(sim, input->a);
		break;
	case INPUT_SLOW_AGENT:
		sim->nodes[input->a].agent.slow_until_ns = sim->now_ns + input->ms * MS;
		break;
	default:
		break;
	}
}

static void input_over(struct sim *sim, int index)
{
	const struct input *input = &sim->plan->inputs[index];

	switch (input->kind) {
	case INPUT_KILL_PAIR:
		ration_start(sim, input->a);
		ks_start(sim, input->a);
		break;
	case INPUT_KILL_KUBE_SCHEDULER:
		ks_start(sim, input->a);
		break;
	case INPUT_KILL_RATION:
		ration_start(sim, input->a);
		break;
	case INPUT_KILL_AGENT:
		agent_start_process(sim, input->a);
		break;
	case INPUT_KILL_KUBELET:
	case INPUT_LOSE_CHECKPOINT:
		kubelet_start(sim, input->a);
		break;
	case INPUT_REBOOT:
		kubelet_start(sim, input->a);
		agent_start_process(sim, input->a);
		break;
	case INPUT_GPU:
		set_gpu(sim, input, false);
		break;
	case INPUT_NODE_ANEW:
		node_comes_back(sim, input->a);
		break;
	default:
		break;
	}
}

static void step(struct sim *sim, const struct event *event)
{
	switch ((enum event_kind)event->kind) {
	case EVENT_INPUT:
		input_happens(sim, event->a);
		break;
	case EVENT_INPUT_OVER:
		input_over(sim, event->a);
		break;
	case EVENT_POD_END:
		api_delete(sim, event->a, event->b);
		break;
	case EVENT_REMAKE:
		if (api_pod_by_name(sim, sim->pods[event->a].name) < 0) {
			struct shape shape = sim->pods[event->a].shape;

			shape.remakes--;
			shape.fate = FATE_NONE;
			count(sim, COUNT_REMADE);
			api_create_pod(sim, &shape, sim->pods[event->a].name);
		}
		break;
	case EVENT_WATCH:
	case EVENT_LIST:
	case EVENT_LISTED:
	case EVENT_REQUEUE:
	case EVENT_BINDING:
	case EVENT_VERDICT:
	case EVENT_STATUS:
	case EVENT_ASSIGN:
		api_on_event(sim, event);
		break;
	case EVENT_CYCLE:
	case EVENT_BACKOFF_OVER:
	case EVENT_FILTERED:
	case EVENT_PREBIND:
	case EVENT_BOUND:
	case EVENT_BIND_TIMEOUT:
	case EVENT_LEAD:
	case EVENT_LEFTOVERS:
		ks_on_event(sim, event);
		break;
	case EVENT_FILTER:
	case EVENT_BIND:
	case EVENT_BIND_GET:
	case EVENT_BIND_LIST:
	case EVENT_BIND_LISTED:
	case EVENT_BINDING_ANSWER:
	case EVENT_BINDING_DEADLINE:
	case EVENT_LOOK:
	case EVENT_DOUBT_OVER:
	case EVENT_TICK:
	case EVENT_VERIFY:
	case EVENT_RECHECKED:
		ration_on_event(sim, event);
		break;
	case EVENT_GANG_LOOK:
	case EVENT_GANG_GROUPS:
	case EVENT_GANG_EVICT:
	case EVENT_GANG_UNMARK:
	case EVENT_GANG_RECALL:
	case EVENT_GANG_GROUP:
		controller_on_event(sim, event);
		break;
	case EVENT_EVICTIONS:
	case EVENT_EVICTION:
	case EVENT_EVICTION_ANSWER:
	case EVENT_NOMINATION_ENDS:
		evictions_on_event(sim, event);
		break;
	case EVENT_SET_BEGIN:
	case EVENT_SET_LISTED:
	case EVENT_SET_PATCH:
	case EVENT_SET_ANSWER:
		size_on_event(sim, event);
		break;
	case EVENT_CALL:
	case EVENT_CALL_LISTED:
	case EVENT_CALL_ASKED:
	case EVENT_CALL_RUNTIME:
	case EVENT_REGISTER:
	case EVENT_ORPHANS:
	case EVENT_STRAYS:
	case EVENT_TURN:
	case EVENT_RUNTIME:
	case EVENT_HELD:
	case EVENT_SIZES:
	case EVENT_REPORT:
		agent_on_event(sim, event);
		break;
	case EVENT_TERMS:
	case EVENT_TERMS_WRITTEN:
		terms_on_event(sim, event);
		break;
	default:
		kubelet_on_event(sim, event);
		break;
	}
}

static void release(struct sim *sim)
{
	for (int i = 0; i < sim->n_pairs; i++)
		ration_kill(sim, i);
	for (int i = 0; i < sim->n_nodes; i++)
		agent_free(&sim->nodes[i]);
	for (int i = 0; i < sim->n_pods; i++) {
		request_release(&sim->pods[i].facts.request);
		placement_release(&sim->pods[i].placement);
		size_release(&sim->pods[i]);
	}
	for (int i = 0; i < sim->n_bindings; i++)
		placement_release(&sim->bindings[i].placement);
}

/* The queue is by far the largest part, and its entries beyond n are never read. A history must not depend on
 * those that ran before it in the same process. */
static void clear(struct sim *sim)
{
	sim->queue.n = sim->queue.seq = 0;
	memset((char *)sim + offsetof(struct sim, plan), 0, sizeof(*sim) - offsetof(struct sim, plan));
}

int sim_run(struct sim *sim, const struct plan *plan, enum broken broken, bool trace,
	struct statistics *statistics)
{
	struct event event;

	clear(sim);
	sim->plan = plan;
	sim->broken = broken;
	sim->trace = trace;
	sim->statistics = statistics;
	sim->n_nodes = plan->n_nodes;
	sim->n_pairs = plan->n_pairs;
	sim->next_fault = -1;
	random_seed(&sim->random, plan->seed, 1);
	for (int g = 1; g <= plan->n_gangs; g++)
		sim->gangs[g].min = sim->gangs[g].least = plan->gangs[g].min;
	statistics->counts[COUNT_GANGS] += plan->n_gangs;
	start(sim);
	while (!*sim->violation && !sim->truncated && queue_pop(&sim->queue, &event)) {
		if (event.at_ns > sim->end_ns)
			break;
		sim->now_ns = event.at_ns;
		statistics->counts[COUNT_EVENTS]++;
		step(sim, &event);
		invariants_after_step(sim);
	}
	if (!*sim->violation && !sim->truncated)
		invariants_at_end(sim);
	release(sim);
	statistics->histories += !sim->truncated;
	return *sim->violation ? -1 : 0;
}
