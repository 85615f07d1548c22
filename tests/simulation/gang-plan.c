/* Gangs from a seed, by a generator of their own: several that want more than there is, beside the history's
 * other pods and faults; or one that waits while small pods come and go. */
#include "plan.h"
#include "random.h"
#include "sim.h"

#define MEMBERS_MAX 16
#define MEMBERS_IN_ALL 32

static uint32_t capacity(const struct plan *plan)
{
	uint32_t sum = 0;

	for (uint8_t n = 0; n < plan->n_nodes; n++)
		for (uint8_t k = 0; k < plan->n_gpus[n]; k++)
			sum += plan->gpu_units[n][k];
	return sum;
}

static int add_gang(struct random *random, struct plan *plan, uint32_t size)
{
	struct plan_gang *gang = &plan->gangs[++plan->n_gangs];

	gang->min = (uint8_t)(random_one_in(random, 3) ? 2 + random_below(random, size - 1) : size);
	gang->group = random_one_in(random, 3);
	if (gang->group && random_one_in(random, 2))
		gang->timeout_s = (uint8_t)(5 + random_below(random, 30));
	return plan->n_gangs;
}

/* What all members have in common, and how they end. */
struct job {
	struct shape shape;
	int64_t at_ms;
	bool ends, remade;
	uint8_t first_units; /* of one that leads the others; 0: like them */
};

static struct job draw_job(struct random *random, int gang, int64_t span_ms)
{
	struct job job = {.shape = {.gang = (uint8_t)gang, .by_hand = -1, .n_containers = 1},
		.at_ms = random_between(random, 0, span_ms)};

	job.shape.kinds[0] = CONTAINER_MAIN;
	job.shape.units[0] = (uint8_t)(1 + random_below(random, random_one_in(random, 3) ? 7 : 4));
	job.shape.gpus = random_one_in(random, 6) ? 2 : 0;
	job.shape.units[0] = (uint8_t)(job.shape.units[0] * (job.shape.gpus ? 2 : 1));
	job.shape.priority = (int8_t)(random_one_in(random, 3) ? random_below(random, 3) : 0);
	job.shape.owner = (uint8_t)random_below(random, 3);
	job.shape.grace_ms = (uint16_t)random_between(random, 1, random_one_in(random, 4) ? 3000 : 60);
	job.ends = random_one_in(random, 2);
	job.remade = random_one_in(random, 3);
	if (job.ends) {
		job.shape.end = (uint8_t)(1 + random_below(random, END_MAX - 1));
		job.shape.lifetime_ms = (uint32_t)random_between(random, 500, 20000);
	}
	if (!job.shape.gpus && random_one_in(random, 4))
		job.first_units = (uint8_t)(1 + random_below(random, 7));
	return job;
}

static void add_member(struct random *random, struct plan *plan, const struct job *job, bool first)
{
	int64_t late_ms = random_one_in(random, 8) ? random_between(random, 0, 6000)
						   : random_between(random, 0, 60);
	struct shape *shape = &plan_add(plan, job->at_ms + late_ms, INPUT_POD)->shape;

	*shape = job->shape;
	if (first && job->first_units)
		shape->units[0] = job->first_units;
	if (job->remade)
		shape->remakes = 1;
	/* One that fails, or that somebody deletes, at any time. */
	if (random_one_in(random, 8)) {
		shape->end = (uint8_t)(1 + random_below(random, END_MAX - 1));
		shape->lifetime_ms = (uint32_t)random_between(
			random, 20, random_one_in(random, 2) ? 15000 : 1500);
		shape->remakes = random_one_in(random, 2);
	}
	if (random_one_in(random, 16))
		shape->fate = (uint8_t)(1 + random_below(random, 2));
	if (random_one_in(random, 8))
		shape->prebind_ms = (uint16_t)random_between(random, 100, 6000);
}

/* In the middle of gathering, and of Bindings. */
static void add_faults(struct random *random, struct plan *plan, int64_t at_ms)
{
	static const uint8_t kinds[] = {INPUT_KILL_RATION, INPUT_KILL_PAIR, INPUT_KILL_KUBE_SCHEDULER,
		INPUT_BINDING, INPUT_BINDING, INPUT_STALL_WATCH, INPUT_CUT_WATCH};

	for (uint32_t i = random_below(random, 4); i && plan->n_inputs < INPUTS_MAX; i--) {
		enum input_kind kind = (enum input_kind)kinds[random_below(random, sizeof(kinds))];
		struct input *input = plan_add(plan, at_ms + random_between(random, 20, 1500), kind);

		input->a = (uint8_t)random_below(random, plan->n_pairs);
		input->ms = (uint32_t)random_between(random, 5, random_one_in(random, 3) ? 4000 : 400);
		if (input->kind == INPUT_BINDING)
			input->a = (uint8_t)random_below(random, BINDING_FAULT_MAX);
		if (input->kind == INPUT_STALL_WATCH || input->kind == INPUT_CUT_WATCH)
			input->a = (uint8_t)pair_watcher(
				(int)input->a, (int)random_below(random, W_RATION_NODES + 1));
	}
}

static void draw_crowd(struct random *random, struct plan *plan, int64_t span_ms)
{
	uint32_t wanted = 0, members = 0;

	while (plan->n_gangs < GANGS_MAX && wanted * 6 < capacity(plan) * 10) {
		uint32_t size = 2 + random_below(random, random_one_in(random, 3) ? MEMBERS_MAX - 1 : 4);
		struct job job = draw_job(random, plan->n_gangs + 1, span_ms);

		if (members + size > MEMBERS_IN_ALL || plan->n_inputs + size + 4 > INPUTS_MAX)
			break;
		add_gang(random, plan, size);
		members += size;
		wanted += size * job.shape.units[0];
		for (uint32_t i = 0; i < size; i++)
			add_member(random, plan, &job, i == 0);
		add_faults(random, plan, job.at_ms);
	}
}

/* Small pods that come and go on one node, one after the other, and never leave room for all of a gang. */
static void draw_stream(struct random *random, struct plan *plan)
{
	uint32_t size = 2 + random_below(random, 3), per_gpu;
	struct job job = draw_job(random, 1, 0);

	plan->n_inputs = 0;
	plan->changes = false;
	plan->n_nodes = 1;
	plan->n_gpus[0] = (uint8_t)(1 + random_below(random, 2));
	for (uint8_t k = 0; k < plan->n_gpus[0]; k++)
		plan->gpu_units[0][k] = 10;
	per_gpu = (size + plan->n_gpus[0] - 1) / plan->n_gpus[0];
	job.at_ms = 3000;
	job.shape.gpus = job.shape.end = job.first_units = 0;
	job.shape.units[0] = (uint8_t)(10 / per_gpu);
	job.remade = false;
	add_gang(random, plan, size);
	plan->gangs[1].min = (uint8_t)size;
	for (uint32_t i = 0; i < size; i++)
		add_member(random, plan, &job, false);
	for (int64_t at_ms = 0; at_ms < 110000; at_ms += random_between(random, 2000, 4000)) {
		struct shape *shape =
			&plan_add_pod(plan, at_ms, (uint8_t)(3 + random_below(random, 3)))->shape;

		shape->end = END_ITSELF;
		shape->lifetime_ms = (uint32_t)random_between(random, 3500, 8000);
	}
}

/* Once in a while, beside the times at which the gang is made and bound. */
static int64_t draw_moment(struct random *random, const struct plan *plan, int g)
{
	int64_t at_ms = 0;

	for (uint16_t i = 0; i < plan->n_inputs; i++)
		if (plan->inputs[i].kind == INPUT_POD && plan->inputs[i].shape.gang == g)
			at_ms = plan->inputs[i].at_ms;
	at_ms += random_one_in(random, 3) ? random_between(random, 0, 40000)
					  : random_between(random, -500, 4000);
	return at_ms < 0 ? 0 : at_ms;
}

/* PodGroups that are raised, lowered, deleted, spoilt and made anew while their pods wait, stand at bind or
 * run. */
static void draw_groups(struct random *random, struct plan *plan)
{
	int g = 1 + (int)random_below(random, plan->n_gangs);
	struct plan_gang *gang = &plan->gangs[g];

	gang->group = true;
	for (uint32_t n = 1 + random_below(random, 4); n && plan->n_inputs < INPUTS_MAX; n--) {
		struct input *input = plan_add(plan, draw_moment(random, plan, g), INPUT_GROUP);

		input->a = (uint8_t)g;
		input->b = random_one_in(random, 4)   ? GROUP_DELETED
			   : random_one_in(random, 6) ? GROUP_MALFORMED
						      : (uint8_t)(1 + random_below(random, gang->min + 2u));
	}
}

/* Pods, also such as run, that are labelled into a gang or out of one. */
static void draw_labels(struct random *random, struct plan *plan)
{
	for (uint32_t n = 1 + random_below(random, 5); n && plan->n_inputs < INPUTS_MAX; n--) {
		int g = 1 + (int)random_below(random, plan->n_gangs);
		struct input *input = plan_add(plan, draw_moment(random, plan, g), INPUT_LABEL);

		input->a = (uint8_t)random_below(random, 40);
		input->b = (uint8_t)(random_one_in(random, 3) ? 0 : g);
	}
}

void plan_draw_gangs(struct plan *plan, int64_t span_ms)
{
	struct random changes;

	struct random random;

	random_seed(&random, plan->seed, 7);
	if (random_one_in(&random, 8))
		draw_stream(&random, plan);
	else
		draw_crowd(&random, plan, span_ms);
	random_seed(&changes, plan->seed, 10);
	if (plan->n_gangs && random_one_in(&changes, 3))
		draw_groups(&changes, plan);
	if (plan->n_gangs && random_one_in(&changes, 3))
		draw_labels(&changes, plan);
}
