#include "core/registry/demand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/facts.h"
#include "model/units.h"

/* The most that one pod counts for. */
#define POD_MIB_MAX (REQUEST_GPUS_MAX * GPU_MIB_MAX)
#define WHOLE_SUPPLY UINT64_C(1000000)

void demand_init(struct demand *demand)
{
	*demand = (struct demand){0};
	table_init(&demand->models);
	table_init(&demand->choices);
}

void demand_release(struct demand *demand)
{
	void *value;

	table_for_each (&demand->models, cursor, value)
		free(value);
	table_for_each (&demand->choices, cursor, value)
		free(value);
	table_release(&demand->models);
	table_release(&demand->choices);
	demand_init(demand);
}

/* ---- names ---- */

static bool is_among(const char *name, size_t len, const char *names)
{
	while (names) {
		const char *end = strchrnul(names, ',');

		if ((size_t)(end - names) == len && memcmp(names, name, len) == 0)
			return true;
		names = *end ? end + 1 : NULL;
	}
	return false;
}

/* True if both lists have a name in common. */
static bool can_use(const struct gpu_choice *choice, const struct gpu_model *model)
{
	for (const char *name = model->names; name;) {
		const char *end = strchrnul(name, ',');

		if (is_among(name, (size_t)(end - name), choice->names))
			return true;
		name = *end ? end + 1 : NULL;
	}
	return false;
}

/* ---- sums ---- */

static uint64_t at_most(uint64_t amount, uint64_t max)
{
	return amount < max ? amount : max;
}

/* In millionths, at most 1. */
static uint64_t part_of(uint64_t amount, uint64_t all)
{
	if (!amount)
		return 0;
	return amount >= all ? WHOLE_SUPPLY : amount * WHOLE_SUPPLY / all;
}

/* How much of the supply is asked for, in millionths, at most all of it: by memory or by computing power,
 * whichever is more. */
static uint64_t asked_part(const struct gpu_want *want, const struct gpu_supply *supply)
{
	uint64_t memory = part_of(want->mib, supply->mib);
	uint64_t core = part_of(want->core, supply->gpus * CORE_PER_GPU);

	if (!supply->gpus)
		return 0;
	return at_most((memory > core ? memory : core) + part_of(want->whole, supply->gpus), WHOLE_SUPPLY);
}

static bool too_many_choices(const struct demand *demand)
{
	return demand->choices.count > DEMAND_CHOICES_MAX;
}

/* After a change of what the choice asks for, or of its supply. */
static void choice_follow(struct demand *demand, struct gpu_choice *choice)
{
	uint64_t asked = asked_part(&choice->want, &choice->supply);
	struct gpu_model *model;

	if (asked == choice->asked || too_many_choices(demand))
		return;
	table_for_each (&demand->models, cursor, model)
		if (can_use(choice, model))
			model->asked += asked - choice->asked;
	choice->asked = asked;
}

static void supply_add(struct gpu_supply *supply, struct gpu_supply amount, bool leaves)
{
	supply->gpus += leaves ? -amount.gpus : amount.gpus;
	supply->mib += leaves ? -amount.mib : amount.mib;
}

static void want_add(struct gpu_want *want, const struct pod_demand *pod, bool leaves)
{
	want->mib += leaves ? -(uint64_t)pod->mib : pod->mib;
	want->core += leaves ? -(uint64_t)pod->core : pod->core;
	want->whole += leaves ? -(uint64_t)pod->whole : pod->whole;
}

static void want_add_to_all(struct demand *demand, const struct pod_demand *pod, bool leaves)
{
	want_add(&demand->want, pod, leaves);
	want_add(&demand->together[pod->gpus], pod, leaves);
}

/* ---- nodes ---- */

static int model_get_or_add(struct demand *demand, const char *names, struct gpu_model **ret_model)
{
	struct gpu_model *model = table_get(&demand->models, names);
	const struct gpu_choice *choice;

	if (!model) {
		model = calloc(1, sizeof(*model) + strlen(names) + 1);
		if (!model)
			return -ENOMEM;
		model->names = strcpy((char *)(model + 1), names);
		if (table_set(&demand->models, names, model) < 0) {
			free(model);
			return -ENOMEM;
		}
		table_for_each (&demand->choices, cursor, choice)
			if (choice->asked && can_use(choice, model))
				model->asked += choice->asked;
	}
	*ret_model = model;
	return 0;
}

static void supply_change(
	struct demand *demand, struct gpu_model *model, struct gpu_supply amount, bool leaves)
{
	struct gpu_choice *choice;

	supply_add(&demand->supply, amount, leaves);
	supply_add(&demand->on_nodes[at_most(amount.gpus, NODE_GPUS_MAX)], amount, leaves);
	if (!model)
		return;
	supply_add(&model->supply, amount, leaves);
	if (too_many_choices(demand))
		return;
	table_for_each (&demand->choices, cursor, choice)
		if (can_use(choice, model)) {
			supply_add(&choice->supply, amount, leaves);
			choice_follow(demand, choice);
		}
}

int demand_enter(
	struct demand *demand, const char *names, struct gpu_supply supply, struct gpu_model **ret_model)
{
	struct gpu_model *model = NULL;

	if (names && model_get_or_add(demand, names, &model) < 0)
		return -ENOMEM;
	if (model)
		model->n_nodes++;
	supply_change(demand, model, supply, false);
	*ret_model = model;
	return 0;
}

void demand_leave(struct demand *demand, struct gpu_model *model, struct gpu_supply supply)
{
	supply_change(demand, model, supply, true);
	if (!model || --model->n_nodes)
		return;
	table_remove(&demand->models, model->names);
	free(model);
}

/* ---- pods ---- */

static void choice_add_supply(const struct demand *demand, struct gpu_choice *choice)
{
	const struct gpu_model *model;

	table_for_each (&demand->models, cursor, model)
		if (can_use(choice, model))
			supply_add(&choice->supply, model->supply, false);
}

static void forget_choices(struct demand *demand)
{
	struct gpu_choice *choice;
	struct gpu_model *model;

	table_for_each (&demand->models, cursor, model)
		model->asked = 0;
	table_for_each (&demand->choices, cursor, choice) {
		choice->supply = (struct gpu_supply){0};
		choice->asked = 0;
	}
}

static void count_choices_again(struct demand *demand)
{
	struct gpu_choice *choice;

	table_for_each (&demand->choices, cursor, choice) {
		choice_add_supply(demand, choice);
		choice_follow(demand, choice);
	}
}

static int choice_get_or_add(struct demand *demand, const char *names, struct gpu_choice **ret_choice)
{
	struct gpu_choice *choice = table_get(&demand->choices, names);

	if (!choice) {
		choice = calloc(1, sizeof(*choice) + strlen(names) + 1);
		if (!choice)
			return -ENOMEM;
		choice->names = strcpy((char *)(choice + 1), names);
		if (table_set(&demand->choices, names, choice) < 0) {
			free(choice);
			return -ENOMEM;
		}
		if (!too_many_choices(demand))
			choice_add_supply(demand, choice);
		else if (demand->choices.count == DEMAND_CHOICES_MAX + 1)
			forget_choices(demand);
	}
	*ret_choice = choice;
	return 0;
}

static void choice_leave(struct demand *demand, struct pod_demand *pod)
{
	struct gpu_choice *choice = pod->choice;

	if (!choice)
		return;
	want_add(&choice->want, pod, true);
	choice_follow(demand, choice);
	pod->choice = NULL;
	if (--choice->n_pods)
		return;
	table_remove(&demand->choices, choice->names);
	free(choice);
	if (demand->choices.count == DEMAND_CHOICES_MAX)
		count_choices_again(demand);
}

int demand_name(struct demand *demand, struct pod_demand *pod, const char *names)
{
	struct gpu_choice *choice = NULL;

	if (pod->choice && names && strcmp(pod->choice->names, names) == 0)
		return 0;
	if (names && choice_get_or_add(demand, names, &choice) < 0)
		return -ENOMEM;
	choice_leave(demand, pod);
	pod->choice = choice;
	if (!choice)
		return 0;
	choice->n_pods++;
	want_add(&choice->want, pod, false);
	choice_follow(demand, choice);
	return 0;
}

/* By the spec, so that a resize changes nothing. */
static struct pod_demand amounts_of(const struct pod_facts *facts)
{
	const struct request *request = &facts->request;
	uint32_t unit_mib = request->unit_mib ? request->unit_mib : UNIT_MIB_DEFAULT;
	uint16_t gpus;

	if (facts->finished || unit_mib == UNIT_MIB_NONE)
		return (struct pod_demand){0};
	gpus = (uint16_t)at_most(request->whole ? request->asked : request_gpus(request), REQUEST_GPUS_MAX);
	if (request->whole)
		return (struct pod_demand){.whole = gpus, .gpus = gpus};
	return (struct pod_demand){.gpus = gpus,
		.mib = (uint32_t)at_most((uint64_t)request->asked * unit_mib, POD_MIB_MAX),
		.core = (uint16_t)at_most(request->core, REQUEST_GPUS_MAX * CORE_PER_GPU)};
}

void demand_set(struct demand *demand, struct pod_demand *pod, const struct pod_facts *facts)
{
	struct pod_demand now = amounts_of(facts);

	if (now.mib == pod->mib && now.core == pod->core && now.whole == pod->whole && now.gpus == pod->gpus)
		return;
	want_add_to_all(demand, pod, true);
	want_add_to_all(demand, &now, false);
	if (pod->choice) {
		want_add(&pod->choice->want, pod, true);
		want_add(&pod->choice->want, &now, false);
		choice_follow(demand, pod->choice);
	}
	now.choice = pod->choice;
	*pod = now;
}

void demand_remove(struct demand *demand, struct pod_demand *pod)
{
	want_add_to_all(demand, pod, true);
	choice_leave(demand, pod);
	*pod = (struct pod_demand){0};
}

/* ---- the result ---- */

/* In millionths of the model's supply, without what this pod asks for. */
static uint64_t asked_by_others(const struct gpu_model *model, const struct pod_demand *own)
{
	const struct gpu_choice *choice = own ? own->choice : NULL;
	struct gpu_want others;

	if (!choice || !can_use(choice, model))
		return model->asked;
	others = choice->want;
	want_add(&others, own, true);
	return model->asked - choice->asked + asked_part(&others, &choice->supply);
}

uint32_t demand_scarcity(
	const struct demand *demand, const struct pod_demand *own, const struct gpu_model *model)
{
	struct gpu_want all_wants = demand->want;
	uint64_t asked, all, scarcity;

	if (!model || !model->asked)
		return 0;
	asked = asked_by_others(model, own);
	if (!asked)
		return 0;
	if (own)
		want_add(&all_wants, own, true);
	all = asked_part(&all_wants, &demand->supply);
	scarcity = all ? asked * 1000 / all : SCARCITY_MAX;
	return (uint32_t)at_most(scarcity, SCARCITY_MAX);
}

uint32_t demand_node_scarcity(const struct demand *demand, const struct pod_demand *own, size_t gpus)
{
	struct gpu_want want = {0}, all_wants = demand->want;
	uint64_t asked, all;
	size_t most = gpus / 2 + 1; /* more than half of the node */

	if (gpus < 2)
		return 0;
	for (size_t i = most; i <= gpus; i++) {
		want.mib += demand->together[i].mib;
		want.core += demand->together[i].core;
		want.whole += demand->together[i].whole;
	}
	if (own) {
		want_add(&all_wants, own, true);
		if (own->gpus >= most && own->gpus <= gpus)
			want_add(&want, own, true);
	}
	asked = asked_part(&want, &demand->on_nodes[gpus]) * NODE_SCARCITY_MAX;
	all = asked_part(&all_wants, &demand->supply);
	return (uint32_t)at_most(all ? asked / all : asked, NODE_SCARCITY_MAX);
}

static bool same_supply(const struct gpu_supply *a, const struct gpu_supply *b)
{
	return a->gpus == b->gpus && a->mib == b->mib;
}

static bool same_want(const struct gpu_want *a, const struct gpu_want *b)
{
	return a->mib == b->mib && a->core == b->core && a->whole == b->whole;
}

static bool same_model(const struct gpu_model *a, const struct gpu_model *b)
{
	return b && a->n_nodes == b->n_nodes && same_supply(&a->supply, &b->supply) && a->asked == b->asked;
}

static bool same_choice(const struct gpu_choice *a, const struct gpu_choice *b)
{
	return b && a->n_pods == b->n_pods && same_want(&a->want, &b->want) &&
	       same_supply(&a->supply, &b->supply) && a->asked == b->asked;
}

bool demand_equal(const struct demand *a, const struct demand *b)
{
	const struct gpu_choice *choice;
	const struct gpu_model *model;
	bool equal = same_want(&a->want, &b->want) && same_supply(&a->supply, &b->supply) &&
		     memcmp(a->together, b->together, sizeof(a->together)) == 0 &&
		     memcmp(a->on_nodes, b->on_nodes, sizeof(a->on_nodes)) == 0 &&
		     a->models.count == b->models.count && a->choices.count == b->choices.count;

	table_for_each (&a->models, cursor, model)
		equal &= same_model(model, table_get(&b->models, model->names));
	table_for_each (&a->choices, cursor, choice)
		equal &= same_choice(choice, table_get(&b->choices, choice->names));
	return equal;
}
