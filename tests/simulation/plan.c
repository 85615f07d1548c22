#include "plan.h"

#include <stdlib.h>

#include "random.h"
#include "sim.h"

const char *const input_names[INPUT_MAX] = {
	[INPUT_POD] = "pod",
	[INPUT_KILL_KUBE_SCHEDULER] = "kill kube-scheduler",
	[INPUT_KILL_RATION] = "kill ration-scheduler",
	[INPUT_KILL_PAIR] = "kill kube-scheduler and ration-scheduler",
	[INPUT_KILL_AGENT] = "kill agent",
	[INPUT_KILL_KUBELET] = "kill kubelet",
	[INPUT_REBOOT] = "reboot node",
	[INPUT_LOSE_CHECKPOINT] = "lose the kubelet's checkpoint",
	[INPUT_API_OUTAGE] = "API server away",
	[INPUT_CUT_WATCH] = "cut a watch",
	[INPUT_STALL_WATCH] = "stall a watch",
	[INPUT_DUPLICATE] = "duplicate events",
	[INPUT_BINDING] = "spoil a Binding",
	[INPUT_GPU] = "sick card",
	[INPUT_SLOW_AGENT] = "slow agent",
	[INPUT_RESIZE] = "resize in place",
	[INPUT_SET] = "ration set",
	[INPUT_UNIT] = "other unit",
	[INPUT_MODE] = "other mode",
	[INPUT_CUT_NODE] = "cut a node off",
	[INPUT_HELD] = "change ration.dev/held",
	[INPUT_NODE_ANEW] = "Node object created again",
	[INPUT_LABEL] = "label a pod",
	[INPUT_GROUP] = "change a PodGroup",
};

struct input *plan_add(struct plan *plan, int64_t at_ms, enum input_kind kind)
{
	struct input *input = &plan->inputs[plan->n_inputs];

	if (plan->n_inputs == INPUTS_MAX)
		abort();
	plan->n_inputs++;
	*input = (struct input){.at_ms = at_ms, .kind = (uint8_t)kind};
	input->shape.by_hand = -1;
	input->shape.grace_ms = 20;
	return input;
}

struct input *plan_add_pod(struct plan *plan, int64_t at_ms, uint8_t units)
{
	struct input *input = plan_add(plan, at_ms, INPUT_POD);

	input->shape.n_containers = 1;
	input->shape.kinds[0] = CONTAINER_MAIN;
	input->shape.units[0] = units;
	return input;
}

/* Many pods of equal size, a few with init containers, sidecars, several containers. */
static void draw_containers(struct random *random, uint8_t usual, struct shape *shape)
{
	static const uint8_t forms[][CONTAINERS_MAX] = {
		{CONTAINER_MAIN, CONTAINER_MAIN},
		{CONTAINER_INIT, CONTAINER_MAIN},
		{CONTAINER_SIDECAR, CONTAINER_MAIN},
		{CONTAINER_INIT, CONTAINER_INIT, CONTAINER_MAIN},
		{CONTAINER_INIT, CONTAINER_SIDECAR, CONTAINER_MAIN},
		{CONTAINER_INIT, CONTAINER_SIDECAR, CONTAINER_MAIN, CONTAINER_MAIN},
	};
	static const uint8_t sizes[] = {2, 2, 2, 3, 3, 4};
	uint32_t form = random_below(random, 18);

	if (form >= 6) {
		shape->n_containers = 1;
		shape->kinds[0] = CONTAINER_MAIN;
		shape->units[0] = random_one_in(random, 3) ? (uint8_t)(1 + random_below(random, 7)) : usual;
		return;
	}
	shape->n_containers = sizes[form];
	for (uint8_t i = 0; i < shape->n_containers; i++) {
		shape->kinds[i] = forms[form][i];
		shape->units[i] = (uint8_t)(random_one_in(random, 8) ? 0 : 1 + random_below(random, 3));
	}
	if (!shape->units[shape->n_containers - 1])
		shape->units[shape->n_containers - 1] = 1;
}

static void draw_pod(struct random *random, const struct plan *plan, uint8_t usual, struct shape *shape)
{
	draw_containers(random, usual, shape);
	shape->end = (uint8_t)random_below(random, END_MAX);
	if (shape->end == END_FORCED && random_one_in(random, 2))
		shape->end = END_DELETED;
	shape->lifetime_ms = (uint32_t)random_between(random, 20, random_one_in(random, 3) ? 12000 : 2500);
	shape->fate = random_one_in(random, 12) ? (uint8_t)(1 + random_below(random, 2)) : FATE_NONE;
	shape->crashes = random_one_in(random, 8) ? (uint8_t)(1 + random_below(random, 3)) : 0;
	shape->remakes = random_one_in(random, 4) ? (uint8_t)(1 + random_below(random, 2)) : 0;
	shape->by_hand = random_one_in(random, 40) ? (int8_t)random_below(random, plan->n_nodes) : -1;
	shape->owner = (uint8_t)random_below(random, 3);
	shape->prebind_ms = random_one_in(random, 10) ? (uint16_t)random_between(random, 100, 4000) : 0;
	shape->grace_ms = (uint16_t)random_between(random, 1, random_one_in(random, 4) ? 3000 : 60);
}

static void draw_fault(struct random *random, const struct plan *plan, struct input *input)
{
	uint8_t node = (uint8_t)random_below(random, plan->n_nodes);
	uint8_t pair = (uint8_t)random_below(random, plan->n_pairs);

	input->ms = (uint32_t)random_between(random, 5, random_one_in(random, 3) ? 4000 : 400);
	switch (input->kind) {
	case INPUT_KILL_KUBE_SCHEDULER:
	case INPUT_KILL_RATION:
	case INPUT_KILL_PAIR:
		input->a = pair;
		break;
	case INPUT_CUT_WATCH:
	case INPUT_STALL_WATCH:
	case INPUT_DUPLICATE:
		input->a = (uint8_t)random_below(random, WATCHERS_MAX);
		break;
	case INPUT_BINDING:
		input->a = (uint8_t)random_below(random, BINDING_FAULT_MAX);
		break;
	case INPUT_GPU:
		input->a = node;
		input->b = (uint8_t)random_below(random, plan->n_gpus[node]);
		break;
	default:
		input->a = node;
		break;
	}
}

static void draw_cluster(struct random *random, struct plan *plan)
{
	static const uint8_t sizes[] = {4, 6, 7, 8, 10};
	uint8_t usual = sizes[random_below(random, 5)];

	plan->n_nodes = (uint8_t)(1 + random_below(random, NODES_MAX));
	plan->n_pairs = random_one_in(random, 3) ? 2 : 1;
	for (uint8_t n = 0; n < plan->n_nodes; n++) {
		plan->n_gpus[n] = (uint8_t)(1 + random_below(random, SHARED_GPUS_MAX));
		plan->spread[n] = random_one_in(random, 3);
		for (uint8_t k = 0; k < plan->n_gpus[n]; k++)
			plan->gpu_units[n][k] = random_one_in(random, 3) ? sizes[random_below(random, 5)]
									 : usual;
	}
	for (size_t i = 0; i < WATCHERS_MAX; i++)
		plan->slow_watch[i] = random_one_in(random, 5) ? (uint16_t)random_between(random, 100, 2500)
							       : 30;
}

/* Drawn by a generator of their own, so that the rest of a seed's history is what it always was: pods on
 * several GPUs, and what happens seldom. */
static void draw_more(struct plan *plan, int64_t span_ms)
{
	struct random random;
	uint16_t n_inputs = plan->n_inputs;

	random_seed(&random, plan->seed, 2);
	for (uint16_t i = 0; i < n_inputs; i++) {
		struct shape *shape = &plan->inputs[i].shape;

		if (plan->inputs[i].kind != INPUT_POD || !random_one_in(&random, 6))
			continue;
		shape->gpus = (uint8_t)(2 + random_one_in(&random, 5));
		for (uint8_t c = 0; c < shape->n_containers; c++)
			shape->units[c] = (uint8_t)(shape->units[c] * shape->gpus);
	}
	if (random_one_in(&random, 10)) {
		struct input *input = plan_add(
			plan, random_between(&random, 0, span_ms + 2000), INPUT_RESIZE);

		input->a = (uint8_t)random_below(&random, plan->n_nodes);
	}
	if (random_one_in(&random, 20))
		draw_fault(&random, plan,
			plan_add(plan, random_between(&random, 0, span_ms + 2000), INPUT_LOSE_CHECKPOINT));
}

/* Again: a node that is cut off, also for longer than an orphan's time, pods that are deleted meanwhile and
 * take long to end, others that want their GPUs, and a scheduler that does not know of them. */
static void draw_cuts(struct plan *plan, int64_t span_ms)
{
	struct random random;
	struct input *input;
	int64_t at_ms;

	random_seed(&random, plan->seed, 6);
	if (!random_one_in(&random, 8) || plan->n_inputs + 5 > INPUTS_MAX)
		return;
	at_ms = random_between(&random, 1000, span_ms + 2000);
	for (uint16_t i = 0; i < plan->n_inputs; i++) {
		struct shape *shape = &plan->inputs[i].shape;

		if (plan->inputs[i].kind != INPUT_POD || plan->inputs[i].at_ms >= at_ms || shape->gang ||
			random_one_in(&random, 3))
			continue;
		shape->end = END_FORCED;
		shape->lifetime_ms = (uint32_t)(at_ms - plan->inputs[i].at_ms +
						random_between(&random, 0, 2000));
		shape->grace_ms = (uint16_t)random_between(&random, 20, 12000);
	}
	input = plan_add(plan, at_ms, INPUT_CUT_NODE);
	input->a = (uint8_t)random_below(&random, plan->n_nodes);
	input->ms = (uint32_t)(random_one_in(&random, 2) ? random_between(&random, 31000, 60000)
							 : random_between(&random, 500, 8000));
	if (random_one_in(&random, 2))
		plan_add(plan, at_ms + random_between(&random, 2000, 3000), INPUT_KILL_RATION)->ms = 300;
	for (int i = 0; i < 3; i++) {
		uint8_t units = (uint8_t)(2 + random_below(&random, 6));

		plan_add_pod(plan, at_ms + random_between(&random, 2000, 6000), units);
	}
}

/* Again: containers that outlive their pods, and persons who change what their node says of them. */
static void draw_held(struct plan *plan, int64_t span_ms)
{
	struct random random;
	struct input *input;
	int64_t at_ms;

	random_seed(&random, plan->seed, 9);
	if (!random_one_in(&random, 8) || plan->n_inputs + 4 > INPUTS_MAX)
		return;
	at_ms = random_between(&random, 1000, span_ms + 2000);
	for (uint16_t i = 0; i < plan->n_inputs; i++) {
		struct shape *shape = &plan->inputs[i].shape;

		if (plan->inputs[i].kind != INPUT_POD || plan->inputs[i].at_ms >= at_ms || shape->gang ||
			random_one_in(&random, 3))
			continue;
		shape->end = END_FORCED;
		shape->lifetime_ms = (uint32_t)(at_ms - plan->inputs[i].at_ms +
						random_between(&random, 0, 2000));
		shape->grace_ms = (uint16_t)random_between(&random, 5000, 60000);
	}
	for (uint32_t n = 1 + random_below(&random, 2); n; n--) {
		enum input_kind kind = random_one_in(&random, 3) ? INPUT_NODE_ANEW : INPUT_HELD;

		input = plan_add(plan, at_ms + random_between(&random, 0, 6000), kind);
		input->a = (uint8_t)random_below(&random, plan->n_nodes);
		input->b = (uint8_t)random_below(&random, HELD_DRAWN_MAX);
		input->ms = (uint32_t)random_between(&random, 5, 4000);
	}
	for (int i = 0; i < 2; i++) {
		uint8_t units = (uint8_t)(2 + random_below(&random, 6));

		plan_add_pod(plan, at_ms + random_between(&random, 0, 8000), units);
	}
}

/* Again a generator of their own: isolated nodes, and other sizes there. */
static void draw_isolation(struct plan *plan, int64_t span_ms)
{
	struct random random;
	bool any = false;

	random_seed(&random, plan->seed, 3);
	for (uint8_t n = 0; n < plan->n_nodes; n++) {
		plan->instances_max[n] = random_one_in(&random, 3) ? (uint8_t)(1 + random_below(&random, 4))
								   : 0;
		any |= plan->instances_max[n] != 0;
	}
	for (uint32_t i = any ? random_below(&random, 6) : 0; i && plan->n_inputs < INPUTS_MAX; i--) {
		struct input *input = plan_add(plan, random_between(&random, 0, span_ms + 4000), INPUT_SET);

		input->a = (uint8_t)random_below(&random, 8);
		input->b = (uint8_t)(1 + random_below(&random, 6));
	}
}

/* Again: nodes with computing power, and pods that ask for some of it. */
static void draw_power(struct plan *plan)
{
	struct random random;
	bool any = false;

	random_seed(&random, plan->seed, 4);
	for (uint8_t n = 0; n < plan->n_nodes; n++) {
		if (!plan->instances_max[n] || !random_one_in(&random, 2))
			continue;
		plan->core_mem[n] = any = true;
		plan->mixing[n] = random_one_in(&random, 3);
	}
	for (uint16_t i = 0; any && i < plan->n_inputs; i++) {
		struct shape *shape = &plan->inputs[i].shape;

		if (plan->inputs[i].kind != INPUT_POD || shape->gpus > 1 || random_one_in(&random, 3))
			continue;
		for (uint8_t c = 0; c < shape->n_containers; c++)
			shape->core[c] = shape->units[c] && !random_one_in(&random, 6)
						 ? (uint8_t)(5 + 5 * random_below(&random, 12))
						 : 0;
	}
}

/* Again: nodes whose unit changes, some of them there and back. */
static void draw_changes(struct plan *plan, int64_t span_ms)
{
	struct random random;

	random_seed(&random, plan->seed, 6);
	if (!random_one_in(&random, 4))
		return;
	plan->changes = true;
	for (uint32_t i = 1 + random_below(&random, 5); i && plan->n_inputs < INPUTS_MAX; i--) {
		struct input *input = plan_add(plan, random_between(&random, 0, span_ms + 6000), INPUT_UNIT);

		input->a = (uint8_t)random_below(&random, plan->n_nodes);
	}
}

/* A leader that is asked all the time, longer than its first seconds; then it is killed, soon the next one,
 * and what one of them has bound is shown late to the other. */
static void draw_leaders(struct plan *plan)
{
	struct random random;
	int64_t at_ms;

	random_seed(&random, plan->seed, 5);
	plan->n_pairs = 2;
	for (at_ms = 0; at_ms < 10000 && plan->n_inputs < INPUTS_MAX;
		at_ms += random_between(&random, 300, 1800)) {
		struct shape *shape =
			&plan_add_pod(plan, at_ms, (uint8_t)(1 + random_below(&random, 6)))->shape;

		shape->end = END_DELETED;
		shape->lifetime_ms = (uint32_t)random_between(&random, 100, 2500);
	}
	at_ms = random_between(&random, 4000, 9000);
	for (int i = 0; i < 4 && plan->n_inputs + 2 <= INPUTS_MAX; i++) {
		struct input *input = plan_add(plan, at_ms, INPUT_KILL_KUBE_SCHEDULER);

		input->a = (uint8_t)random_below(&random, PAIRS_MAX);
		input->ms = (uint32_t)random_between(&random, 5, 400);
		input = plan_add(plan, at_ms, INPUT_STALL_WATCH);
		input->a = (uint8_t)pair_watcher((int)random_below(&random, PAIRS_MAX), W_RATION_PODS);
		input->ms = (uint32_t)random_between(&random, 100, 4000);
		at_ms += random_between(&random, 100, 1500);
	}
}

/* Again: pods that stay, and later more important ones that need a larger part of one GPU. */
static void draw_priorities(struct plan *plan, int64_t span_ms)
{
	struct random random;

	random_seed(&random, plan->seed, 11);
	plan->priorities = true;
	for (uint16_t i = 0; i < plan->n_inputs; i++) {
		struct shape *shape = &plan->inputs[i].shape;

		if (plan->inputs[i].kind != INPUT_POD || shape->gang)
			continue;
		shape->priority = (int8_t)(random_one_in(&random, 3) ? random_below(&random, 3) : 0);
		if (random_one_in(&random, 2))
			shape->end = END_NEVER;
	}
	for (uint32_t i = 1 + random_below(&random, 4); i && plan->n_inputs < INPUTS_MAX; i--) {
		uint8_t units = (uint8_t)(3 + random_below(&random, 6));
		int64_t at_ms = random_between(&random, 0, span_ms + 20000);
		struct shape *shape = &plan_add_pod(plan, at_ms, units)->shape;

		shape->priority = (int8_t)(1 + random_below(&random, 3));
	}
}

void plan_draw(struct plan *plan, uint64_t seed, unsigned int what)
{
	static const uint8_t faults[] = {INPUT_KILL_KUBE_SCHEDULER, INPUT_KILL_RATION, INPUT_KILL_PAIR,
		INPUT_KILL_AGENT, INPUT_KILL_KUBELET, INPUT_KILL_KUBELET, INPUT_REBOOT, INPUT_API_OUTAGE,
		INPUT_CUT_WATCH, INPUT_STALL_WATCH, INPUT_STALL_WATCH, INPUT_DUPLICATE, INPUT_BINDING,
		INPUT_BINDING, INPUT_BINDING, INPUT_GPU, INPUT_SLOW_AGENT};
	struct random random;
	uint8_t usual;
	uint32_t n_pods, n_faults;
	int64_t span_ms;

	random_seed(&random, seed, 0);
	*plan = (struct plan){.seed = seed};
	draw_cluster(&random, plan);
	usual = (uint8_t)(1 + random_below(&random, 5));
	n_pods = 3 + random_below(&random, 8);
	n_faults = random_one_in(&random, 5) ? 0 : random_below(&random, 7);
	span_ms = random_one_in(&random, 3) ? 200 : random_one_in(&random, 2) ? 3000 : 8000;
	for (uint32_t i = 0; i < n_pods; i++) {
		struct input *input = plan_add(plan, random_between(&random, 0, span_ms), INPUT_POD);

		draw_pod(&random, plan, usual, &input->shape);
	}
	for (uint32_t i = 0; i < n_faults; i++) {
		enum input_kind kind = (enum input_kind)faults[random_below(&random, sizeof(faults))];

		draw_fault(&random, plan, plan_add(plan, random_between(&random, 0, span_ms + 2000), kind));
	}
	draw_more(plan, span_ms);
	draw_isolation(plan, span_ms);
	draw_changes(plan, span_ms);
	if (what & DRAW_LEADERS)
		draw_leaders(plan);
	if (what & DRAW_GANGS)
		plan_draw_gangs(plan, span_ms);
	draw_power(plan);
	if (what & DRAW_GPUS)
		plan_draw_gpus(plan, span_ms);
	draw_cuts(plan, span_ms);
	draw_held(plan, span_ms);
	if (what & DRAW_PRIORITIES)
		draw_priorities(plan, span_ms);
}

static void print_pod(const struct input *input, FILE *out)
{
	static const char *const ends[] = {"stays", "ends by itself", "is deleted", "is force-deleted"};
	static const char *const kinds[] = {"init ", "sidecar ", ""};
	const struct shape *shape = &input->shape;

	for (uint8_t i = 0; i < shape->n_containers; i++)
		fprintf(out, shape->core[i] ? "%s%s%u with %u%%" : "%s%s%u", i ? " + " : " ",
			kinds[shape->kinds[i]], shape->units[i], shape->core[i]);
	fputs(shape->whole ? " cards" : " units", out);
	if (shape->job)
		fprintf(out, ", job %u of %u", shape->job, shape->job_pods);
	if (shape->gpus > 1)
		fprintf(out, " on %u cards", shape->gpus);
	if (shape->gang)
		fprintf(out, ", gang %u", shape->gang);
	if (shape->priority)
		fprintf(out, ", priority %d", shape->priority);
	fprintf(out, ", %s", ends[shape->end]);
	if (shape->end != END_NEVER)
		fprintf(out, " after %u ms", shape->lifetime_ms);
	if (shape->fate)
		fprintf(out, ", rejected %s Allocate", shape->fate == FATE_EVICTED ? "before" : "after");
	if (shape->crashes)
		fprintf(out, ", crashes %u times", shape->crashes);
	if (shape->remakes)
		fprintf(out, ", made anew %u times", shape->remakes);
	if (shape->by_hand >= 0)
		fprintf(out, ", bound by hand to n%d", shape->by_hand);
	if (shape->prebind_ms)
		fprintf(out, ", PreBind %u ms", shape->prebind_ms);
	if (shape->grace_ms > 100)
		fprintf(out, ", stops in %u ms", shape->grace_ms);
	fputc('\n', out);
}

void plan_print(const struct plan *plan, FILE *out)
{
	fprintf(out, "%u pair(s) of schedulers; cards:", plan->n_pairs);
	for (uint8_t n = 0; n < plan->n_nodes; n++) {
		fprintf(out, " n%u %s [", n, plan->spread[n] ? "spread" : "binpack");
		for (uint8_t k = 0; k < plan->n_gpus[n]; k++)
			fprintf(out, "%s%u", k ? " " : "", plan->gpu_units[n][k]);
		fputc(']', out);
		if (plan->instances_max[n])
			fprintf(out, " isolated, %u containers per card", plan->instances_max[n]);
		if (plan->core_mem[n])
			fprintf(out, ", computing power%s", plan->mixing[n] ? " for some, mixed" : "");
		plan_print_gpus(plan, n, out);
	}
	fputc('\n', out);
	for (int g = 1; g <= plan->n_gangs; g++) {
		fprintf(out, "  gang %d: at least %u, by %s", g, plan->gangs[g].min,
			plan->gangs[g].group ? "PodGroup" : "label");
		fprintf(out, plan->gangs[g].timeout_s ? ", %u s\n" : "\n", plan->gangs[g].timeout_s);
	}
	for (uint16_t i = 0; i < plan->n_inputs; i++) {
		const struct input *input = &plan->inputs[i];

		fprintf(out, "  %6lld ms  %s", (long long)input->at_ms, input_names[input->kind]);
		if (input->kind == INPUT_POD)
			print_pod(input, out);
		else
			fprintf(out, " %u/%u, %u ms\n", input->a, input->b, input->ms);
	}
}
