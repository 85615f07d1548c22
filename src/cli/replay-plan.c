#include "cli/replay-plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/error.h"
#include "base/table.h"
#include "kube/history.h"
#include "kube/json.h"

void replay_plan_clear(struct replay_plan *plan)
{
	if (plan->slots)
		gang_slots_release(plan->slots, plan->n);
	for (size_t i = 0; i < plan->n; i++)
		pod_facts_release(&plan->pods[i]);
	for (size_t i = 0; i < plan->n_tables; i++)
		table_release(&plan->tables[i]);
	free(plan->slots);
	free(plan->pods);
	free(plan->tables);
	*plan = (struct replay_plan){0};
}

static size_t length(struct json_object *array)
{
	return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

/* A count instead of names: all nodes, if there are as many. */
static int read_names(struct ledger *ledger, struct json_object *names, struct replay_plan *plan)
{
	struct table *table = &plan->tables[plan->n_tables++];
	int64_t count = 0;
	const char *name;
	size_t cursor = 0;

	table_init(table);
	if (json_object_is_type(names, json_type_array)) {
		for (size_t i = 0; i < length(names); i++) {
			name = json_string(json_object_array_get_idx(names, i));
			if (name && table_set(table, name, plan) < 0)
				return -ENOMEM;
		}
		return 0;
	}
	if (json_whole(names, 0, INT64_MAX, &count) < 0 || (size_t)count != ledger->nodes.count)
		plan->computed = false;
	while (plan->computed && table_next(&ledger->nodes, &cursor, &name, NULL))
		if (table_set(table, name, plan) < 0)
			return -ENOMEM;
	return 0;
}

/* Two slots of one pod would take it out of the ledger's sums twice. */
static int read_slot(struct json_object *object, struct replay_plan *plan, struct error *err)
{
	struct json_object *in = json_member(object, "in");
	struct pod_facts *pod = &plan->pods[plan->n];
	int64_t place = 0;
	int r;

	plan->n++;
	r = history_pod_facts_from_json(json_member(object, "pod"), pod, err);
	if (r < 0)
		return r;
	if (request_is_empty(&pod->request))
		return error_set(err, EINVAL, "a plan with a pod that asks for nothing");
	for (size_t i = 0; i + 1 < plan->n; i++)
		if (strcmp(plan->pods[i].uid, pod->uid) == 0)
			return error_set(err, EINVAL, "a plan with a pod twice");
	plan->slots[plan->n - 1].pod = pod;
	if (!in)
		return 0;
	if (json_whole(in, 0, INT64_MAX, &place) < 0 || (size_t)place >= plan->n_tables)
		return error_set(err, EINVAL, "a plan with a pod on nodes that it does not name");
	plan->slots[plan->n - 1].nodes = &plan->tables[place];
	return 0;
}

static int read_plan(
	struct ledger *ledger, struct json_object *line, struct replay_plan *plan, struct error *err)
{
	struct json_object *nodes = json_member(line, "nodes"), *slots = json_member(line, "seats");
	int64_t needed = 0;

	if (length(slots) > GANG_SLOTS_MAX || length(nodes) > length(slots) ||
		json_whole(json_member(line, "needed"), 0, GANG_SLOTS_MAX, &needed) < 0)
		return error_set(err, EINVAL, "a plan that is none");
	plan->needed = (size_t)needed;
	plan->computed = true;
	plan->slots = calloc(length(slots) + 1, sizeof(*plan->slots));
	plan->pods = calloc(length(slots) + 1, sizeof(*plan->pods));
	plan->tables = calloc(length(nodes) + 1, sizeof(*plan->tables));
	if (!plan->slots || !plan->pods || !plan->tables)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < length(nodes); i++)
		if (read_names(ledger, json_object_array_get_idx(nodes, i), plan) < 0)
			return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < length(slots); i++) {
		int r = read_slot(json_object_array_get_idx(slots, i), plan, err);

		if (r < 0)
			return r;
	}
	return 0;
}

int replay_plan_compute(
	struct ledger *ledger, struct json_object *line, struct replay_plan *plan, struct error *err)
{
	int r;

	replay_plan_clear(plan);
	r = read_plan(ledger, line, plan, err);
	if (r < 0 || !plan->computed)
		return r;
	r = gang_plan(ledger, plan->slots, plan->n, plan->needed);
	return r < 0 ? error_set(err, -r, "a plan cannot be made: %s", strerror(-r)) : r;
}

const struct gang_slot *replay_plan_slot(const struct replay_plan *plan, const char *uid)
{
	for (size_t i = 0; i < plan->n; i++)
		if (strcmp(plan->pods[i].uid, uid) == 0)
			return &plan->slots[i];
	return NULL;
}
