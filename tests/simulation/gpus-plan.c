/* Whole GPUs from a seed, by a generator of their own: nodes that give them, how their GPUs are connected,
 * and pods, single and of gangs, that ask for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/links-layouts.h"
#include "plan.h"
#include "random.h"

#define LAYOUT_GPUS 8

typedef const char *link_texts[LAYOUT_GPUS][LAYOUT_GPUS];

static const link_texts *const layouts[] = {&layout_dgx1_v100, &layout_dgx_a100, &layout_pcie_8};

static void set_link(struct plan *plan, int n, int a, int b, struct link link)
{
	plan->links[n][a][b] = plan->links[n][b][a] = link;
}

/* Some GPUs of a published machine, in any order. */
static void draw_layout(struct random *random, struct plan *plan, int n, const link_texts *layout)
{
	int at[LAYOUT_GPUS];

	for (int i = 0; i < LAYOUT_GPUS; i++)
		at[i] = i;
	for (int i = LAYOUT_GPUS - 1; i > 0 && random_one_in(random, 2); i--) {
		int other = (int)random_below(random, (uint32_t)i + 1), was = at[i];

		at[i] = at[other];
		at[other] = was;
	}
	for (int a = 0; a < plan->n_gpus[n]; a++)
		for (int b = 0; b < a; b++) {
			struct link link;

			if (link_parse((*layout)[at[a]][at[b]], &link) < 0)
				abort();
			set_link(plan, n, a, b, link);
		}
}

static void draw_any_links(struct random *random, struct plan *plan, int n)
{
	uint32_t kinds = 2 + random_below(random, LINK_KIND_MAX - 1), lanes = 1 + random_below(random, 12);

	for (int a = 0; a < plan->n_gpus[n]; a++)
		for (int b = 0; b < a; b++) {
			struct link link = {
				.kind = (uint8_t)(LINK_KIND_MAX - 1 - random_below(random, kinds - 1))};

			if (link.kind == LINK_NVLINK)
				link.lanes = (uint8_t)(1 + random_below(random, lanes));
			set_link(plan, n, a, b, link);
		}
}

static void draw_links(struct random *random, struct plan *plan, int n)
{
	uint32_t which = random_below(random, 8);

	if (which < 3)
		draw_layout(random, plan, n, layouts[which]);
	else if (which < 7)
		draw_any_links(random, plan, n);
	/* else: nobody says */
}

/* Some change between memory and whole GPUs, and are small, so that they can have as many units as GPUs. */
static void draw_node(struct random *random, struct plan *plan, int n, int64_t span_ms)
{
	bool changes = random_one_in(random, 4);

	plan->topology[n] = !n || !random_one_in(random, 3);
	if (plan->topology[n] && changes)
		plan->n_gpus[n] = (uint8_t)(2 + random_below(random, SHARED_GPUS_MAX - 1));
	else if (plan->topology[n])
		plan->n_gpus[n] = (uint8_t)(2 + random_below(random, GPUS_MAX - 1));
	for (int k = 0; k < plan->n_gpus[n]; k++)
		if (!plan->gpu_units[n][k])
			plan->gpu_units[n][k] = 8;
	draw_links(random, plan, n);
	if (plan->topology[n] && !changes) {
		plan->core_mem[n] = plan->mixing[n] = false;
		plan->instances_max[n] = 0;
	}
	for (uint32_t i = changes ? 1 + random_below(random, 3) : 0; i && plan->n_inputs < INPUTS_MAX; i--) {
		plan_add(plan, random_between(random, 0, span_ms + 9000), INPUT_MODE)->a = (uint8_t)n;
		plan->changes = true;
	}
}

static uint32_t count_gpus(const struct plan *plan)
{
	uint32_t sum = 0;

	for (int n = 0; n < plan->n_nodes; n++)
		sum += plan->topology[n] ? plan->n_gpus[n] : 0;
	return sum;
}

static void make_whole(struct shape *shape, uint32_t gpus)
{
	shape->whole = true;
	shape->gpus = 0;
	memset(shape->core, 0, sizeof(shape->core));
	for (int c = 0; c < shape->n_containers; c++)
		if (shape->units[c])
			shape->units[c] = (uint8_t)gpus;
}

/* Some of them of one job, which is not always as large as it says. */
static void draw_singles(struct random *random, struct plan *plan)
{
	bool job = random_one_in(random, 2);
	uint8_t members = 0;

	for (uint16_t i = 0; i < plan->n_inputs; i++) {
		struct shape *shape = &plan->inputs[i].shape;

		if (plan->inputs[i].kind != INPUT_POD || shape->gang || random_one_in(random, 5))
			continue;
		make_whole(shape, 1 + random_below(random, shape->n_containers > 1 ? 2 : 4));
		shape->job = job && random_one_in(random, 2) ? GANGS_MAX + 1 : 0;
		members += shape->job != 0;
	}
	if (random_one_in(random, 6))
		members = (uint8_t)(1 + random_below(random, 5));
	for (uint16_t i = 0; i < plan->n_inputs; i++)
		if (plan->inputs[i].shape.job)
			plan->inputs[i].shape.job_pods = members;
}

/* Like MPI: the members are of one job; the first may need less. */
static void draw_gang(struct random *random, struct plan *plan, int g)
{
	uint32_t min = plan->gangs[g].min, most = count_gpus(plan) / min;
	uint32_t gpus = 1 + random_below(random, most > 4 ? 4 : most ? most : 1);
	bool job = !random_one_in(random, 3), launcher = random_one_in(random, 4);
	uint8_t size = 0;

	if (random_one_in(random, 4))
		return;
	for (uint16_t i = 0; i < plan->n_inputs; i++)
		size += plan->inputs[i].shape.gang == g;
	for (uint16_t i = 0; i < plan->n_inputs; i++) {
		struct shape *shape = &plan->inputs[i].shape;

		if (shape->gang != g)
			continue;
		make_whole(shape, launcher ? 1 : gpus);
		shape->job = (uint8_t)(job ? g : 0);
		shape->job_pods = (uint8_t)(job ? size : 0);
		launcher = false;
	}
}

void plan_draw_gpus(struct plan *plan, int64_t span_ms)
{
	struct random random;

	random_seed(&random, plan->seed, 8);
	plan->whole_gpus = true;
	for (int n = 0; n < plan->n_nodes; n++)
		draw_node(&random, plan, n, span_ms);
	draw_singles(&random, plan);
	for (int g = 1; g <= plan->n_gangs; g++)
		draw_gang(&random, plan, g);
	if (random_one_in(&random, 2) && plan->n_inputs < INPUTS_MAX) {
		struct input *input = plan_add(plan, random_between(&random, 0, span_ms + 2000), INPUT_GPU);

		input->a = (uint8_t)random_below(&random, plan->n_nodes);
		input->b = (uint8_t)random_below(&random, plan->n_gpus[input->a]);
		input->ms = (uint32_t)random_between(&random, 50, 6000);
	}
}

void plan_print_gpus(const struct plan *plan, int n, FILE *out)
{
	char text[LINK_TEXT_SIZE];

	if (!plan->whole_gpus)
		return;
	fputs(plan->topology[n] ? " whole cards, links" : " links", out);
	for (int a = 1; a < plan->n_gpus[n]; a++) {
		fputs(a > 1 ? " /" : "", out);
		for (int b = 0; b < a; b++)
			fprintf(out, " %s", link_text(plan->links[n][a][b], text));
	}
}
