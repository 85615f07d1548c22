/* The parts of the output that the subcommands share: GPUs, reasons, notes, and what becomes of pods. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/fields.h"
#include "cli/plan/plan.h"
#include "cli/tabwriter.h"
#include "core/core.h"
#include "kube/json.h"
#include "kube/names.h"

#define EXAMPLES_MAX 3

static int compare_indices(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

void show_gpus(const struct plan_world *world, const struct plan_outcome *outcome, struct strbuf *out)
{
	const struct gpu_share *shares[NODE_GPUS_MAX];
	int indices[NODE_GPUS_MAX];
	size_t n = placement_gpus(&outcome->placement, shares);

	for (size_t i = 0; i < n; i++)
		indices[i] = plan_gpu_index(world, outcome->node, shares[i]->uuid);
	qsort(indices, n, sizeof(*indices), compare_indices);
	for (size_t i = 0; i < n; i++)
		strbuf_addf(out, "%s%d", i ? "," : "", indices[i]);
}

struct json_object *show_gpus_json(const struct plan_world *world, const struct plan_outcome *outcome)
{
	const struct gpu_share *shares[NODE_GPUS_MAX];
	size_t n = placement_gpus(&outcome->placement, shares);
	_cleanup_json_ struct json_object *list = json_object_new_array();

	for (size_t i = 0; list && i < n; i++) {
		struct json_object *gpu = json_append_object(list);

		if (json_set(gpu, "index",
			    json_object_new_int64(plan_gpu_index(world, outcome->node, shares[i]->uuid))) <
				0 ||
			json_set_text(gpu, "uuid", shares[i]->uuid) < 0)
			return NULL;
	}
	return TAKE_PTR(list);
}

/* The nodes with the same reason. */
struct group {
	const struct plan_reason *first;
	size_t n;
};

static struct group *group_reasons(const struct plan_outcome *outcome, size_t *ret_n)
{
	struct group *groups = calloc(outcome->n_reasons + 1, sizeof(*groups));
	size_t n = 0;

	for (size_t i = 0; groups && i < outcome->n_reasons; i++) {
		const struct plan_reason *reason = &outcome->reasons[i];
		size_t k = 0;

		while (k < n && strcmp(groups[k].first->text, reason->text) != 0)
			k++;
		if (k == n)
			groups[n++].first = reason;
		groups[k].n++;
	}
	*ret_n = n;
	return groups;
}

static void add_examples(const struct plan_outcome *outcome, const struct group *group, struct strbuf *out)
{
	size_t named = 0;

	for (size_t i = 0; i < outcome->n_reasons && named < EXAMPLES_MAX; i++)
		if (strcmp(outcome->reasons[i].text, group->first->text) == 0)
			strbuf_addf(out, "%s%s", named++ ? ", " : "", outcome->reasons[i].node);
	if (group->n > EXAMPLES_MAX)
		strbuf_adds(out, ", ...");
}

static void add_shortages(const struct plan_outcome *outcome, struct strbuf *out)
{
	struct plan_shortage shortages[PLAN_SHORTAGES_MAX];
	size_t n = plan_shortages(outcome, shortages);

	for (size_t i = 0; i < n; i++)
		strbuf_addf(out, "%s%s on %zu node%s", i ? ", " : "It lacks ", shortages[i].resource,
			shortages[i].nodes, plural((int64_t)shortages[i].nodes));
	strbuf_adds(out, n ? ".\n" : "");
}

int show_reasons(const struct plan_outcome *outcome, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf table;
	_cleanup_free_ struct group *groups = NULL;
	size_t n;

	strbuf_init(&table, PLAN_TEXT_MAX);
	groups = group_reasons(outcome, &n);
	if (!groups)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		strbuf_addf(&table, "  %zu node%s\t%s\t", groups[i].n, plural((int64_t)groups[i].n),
			groups[i].first->text);
		add_examples(outcome, &groups[i], &table);
		strbuf_adds(&table, "\t\n");
	}
	if (outcome->n_without_gpus)
		strbuf_addf(&table, "  %zu node%s\twithout GPUs\t\n", outcome->n_without_gpus,
			plural((int64_t)outcome->n_without_gpus));
	if (outcome->text)
		strbuf_addf(out, "  %s\n", outcome->text);
	if (table.failed)
		return table.failed;
	if (table.len)
		tabwriter_format(strbuf_cstr(&table), out);
	add_shortages(outcome, out);
	return out->failed;
}

void show_reasons_line(const struct plan_outcome *outcome, struct strbuf *out)
{
	_cleanup_free_ struct group *groups = NULL;
	size_t n = 0;

	if (outcome->text)
		strbuf_adds(out, outcome->text);
	groups = group_reasons(outcome, &n);
	for (size_t i = 0; groups && i < n && !outcome->text; i++)
		strbuf_addf(out, "%s%s on %zu node%s", i ? "; " : "", groups[i].first->text, groups[i].n,
			plural((int64_t)groups[i].n));
	if (!n && !outcome->text)
		strbuf_adds(out, "there is no node with GPUs");
}

static int add_reason_json(const struct plan_reason *reason, struct json_object *list)
{
	struct json_object *node = json_append_object(list);

	if (json_set_text(node, "node", reason->node) < 0 ||
		json_set_text(node, "reason", reason->text) < 0 ||
		json_set_text(node, "by", reason->by_kube ? "kube-scheduler" : "ration") < 0)
		return -ENOMEM;
	return *reason->resource ? json_set_text(node, "resource", reason->resource) : 0;
}

static struct json_object *reasons_json(const struct plan_outcome *outcome)
{
	_cleanup_json_ struct json_object *list = json_object_new_array();

	for (size_t i = 0; list && i < outcome->n_reasons; i++)
		if (add_reason_json(&outcome->reasons[i], list) < 0)
			return NULL;
	return TAKE_PTR(list);
}

static struct json_object *shortages_json(const struct plan_outcome *outcome)
{
	struct plan_shortage shortages[PLAN_SHORTAGES_MAX];
	_cleanup_json_ struct json_object *list = json_object_new_array();
	size_t n = plan_shortages(outcome, shortages);

	for (size_t i = 0; list && i < n; i++) {
		struct json_object *object = json_append_object(list);

		if (json_set_text(object, "resource", shortages[i].resource) < 0 ||
			json_set_number(object, "nodes", shortages[i].nodes) < 0)
			return NULL;
	}
	return TAKE_PTR(list);
}

int show_reasons_json(const struct plan_outcome *outcome, struct json_object *object)
{
	int r = json_set(object, "nodes", reasons_json(outcome));

	if (r == 0)
		r = json_set_number(object, "nodesWithoutGPUs", outcome->n_without_gpus);
	if (r == 0)
		r = json_set(object, "stoppedBy", shortages_json(outcome));
	if (r == 0 && outcome->text)
		r = json_set_text(object, "text", outcome->text);
	return r;
}

static bool units_differ(const struct core *core)
{
	const struct node_ledger *node;
	uint32_t unit = 0;

	table_for_each (&core->ledger.nodes, cursor, node) {
		if (!node->facts.n_gpus || node->facts.mode == GPU_MODE_TOPOLOGY)
			continue;
		if (unit && node->facts.unit_mib != unit)
			return true;
		unit = node->facts.unit_mib;
	}
	return false;
}

static void add_scheduler_note(struct json_object *pod, struct strbuf *out)
{
	const char *name = json_member_string(json_member(pod, "spec"), "schedulerName");

	if (name && *name && strcmp(name, SCHEDULER_NAME) != 0 && strcmp(name, DEFAULT_SCHEDULER_NAME) != 0)
		strbuf_addf(out,
			"The pod names the scheduler %.100s; the plan is made for the one that uses ration.\n",
			name);
}

/* The API server writes the number of the class into a pod that is created, not into a manifest. */
static void add_priority_note(struct json_object *pod, struct strbuf *out)
{
	struct json_object *spec = json_member(pod, "spec");
	const char *name = json_member_string(spec, "priorityClassName");

	if (name && *name && !json_member(spec, "priority"))
		strbuf_addf(out,
			"The manifest names the priority class %.100s without its number: the plan counts with priority 0.\n",
			name);
}

static void add_pod_notes(const struct plan_input *input, struct json_object *pod, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf unconsidered;
	struct json_object *metadata = json_member(pod, "metadata");
	struct plan_pod read = {0};
	struct error ignored;

	strbuf_init(&unconsidered, PLAN_NOTES_MAX);
	plan_unconsidered(pod, &unconsidered);
	for (char *line = unconsidered.data, *end; line && (end = strchr(line, '\n')); line = end + 1)
		strbuf_addf(out, "The plan does not consider the pod's %.*s.\n", (int)(end - line), line);
	add_scheduler_note(pod, out);
	add_priority_note(pod, out);
	if (units_differ(input->world.core) &&
		!json_member(json_member(metadata, "annotations"), ANNOTATION_UNIT))
		strbuf_adds(out,
			"Nodes have different units of GPU memory, and the manifest has no " ANNOTATION_UNIT
			": the plan counts in the unit of each node.\n");
	if (plan_pod_read(pod, 0, &read, &ignored) == 0 && plan_could_evict(&input->world, &read.facts))
		strbuf_adds(out,
			"Pods of lower priority hold GPUs: the scheduler may evict them for this pod. The plan does not count on that.\n");
	plan_pod_release(&read);
}

void plan_notes(const struct plan_input *input, struct json_object *pod, struct strbuf *notes)
{
	if (!input->has_objects)
		strbuf_adds(notes,
			"The filters of kube-scheduler itself (CPU, memory, taints, node affinity) are not considered: --objects names no file.\n");
	if (input->left_out.n)
		strbuf_addf(notes, "%zu objects of the API server could not be read and are left out.\n",
			input->left_out.n);
	if (pod)
		add_pod_notes(input, pod, notes);
}

void show_notes(const struct strbuf *notes, struct strbuf *out)
{
	for (const char *line = notes->data, *end; line && (end = strchr(line, '\n')); line = end + 1)
		strbuf_addf(out, "Note: %.*s\n", (int)(end - line), line);
}

int show_notes_json(const struct strbuf *notes, struct json_object *root)
{
	struct json_object *list = json_set_array(root, "notes");
	int r = notes->failed;

	for (const char *line = notes->data, *end; r == 0 && line && (end = strchr(line, '\n'));
		line = end + 1)
		r = json_append(list, json_object_new_string_len(line, (int)(end - line)));
	return list ? r : -ENOMEM;
}

/* ---- what becomes of pods ---- */

static const char *const fates[PLAN_FATE_MAX] = {
	[PLAN_RUNS] = "runs",
	[PLAN_WAITS] = "waits",
	[PLAN_LOST] = "lost",
	[PLAN_STAYS] = "stays",
	[PLAN_FORBIDDEN] = "not evicted",
	[PLAN_NO_GPU] = "no GPU",
};

void show_fate(const struct plan_world *world, const struct plan_move *move, struct strbuf *out)
{
	switch (move->fate) {
	case PLAN_RUNS:
		strbuf_addf(out, "runs on node %s, GPU ", move->outcome.node);
		show_gpus(world, &move->outcome, out);
		break;
	case PLAN_WAITS:
		strbuf_adds(out, "waits: ");
		show_reasons_line(&move->outcome, out);
		break;
	case PLAN_LOST:
		strbuf_addf(out, "is lost: %s", move->text);
		break;
	case PLAN_STAYS:
		strbuf_addf(out, "stays: %s", move->text);
		break;
	case PLAN_FORBIDDEN:
		strbuf_addf(out, "is not evicted: %s", move->text);
		break;
	default:
		strbuf_adds(out, "asks for no GPU: kube-scheduler alone decides");
	}
}

static void add_counts(const struct plan_moves *moves, struct strbuf *out)
{
	size_t counts[PLAN_FATE_MAX] = {0};
	const char *before = "";

	for (size_t i = 0; i < moves->n; i++)
		counts[moves->list[i].fate]++;
	strbuf_addf(out, "%zu pod%s: ", moves->n, plural((int64_t)moves->n));
	for (int fate = 0; fate < PLAN_FATE_MAX; fate++) {
		if (!counts[fate])
			continue;
		strbuf_addf(out, "%s%zu %s", before, counts[fate], fates[fate]);
		before = ", ";
	}
	strbuf_adds(out, ".\n");
}

int show_moves(
	const struct plan_world *world, const struct plan_moves *moves, bool waiting, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf table;
	int r;

	strbuf_init(&table, PLAN_TEXT_MAX);
	strbuf_adds(&table, waiting ? "POD\tWHAT HAPPENS\t\n" : "POD\tNODE\tWHAT HAPPENS\t\n");
	for (size_t i = 0; i < moves->n; i++) {
		const struct plan_move *move = &moves->list[i];

		strbuf_addf(&table, "%s/%s\t", move->namespace_, move->name);
		if (!waiting)
			strbuf_addf(&table, "%s\t", move->from);
		show_fate(world, move, &table);
		strbuf_adds(&table, "\t\n");
	}
	if (table.failed)
		return table.failed;
	r = tabwriter_format(strbuf_cstr(&table), out);
	add_counts(moves, out);
	return r;
}

int show_move_json(const struct plan_world *world, const struct plan_move *move, struct json_object *object)
{
	if (json_set_text(object, "namespace", move->namespace_) < 0 ||
		json_set_text(object, "name", move->name) < 0 ||
		(*move->from && json_set_text(object, "from", move->from) < 0) ||
		json_set_text(object, "fate", fates[move->fate]) < 0 ||
		(*move->text && json_set_text(object, "text", move->text) < 0))
		return -ENOMEM;
	if (move->fate == PLAN_WAITS)
		return show_reasons_json(&move->outcome, object);
	if (move->fate != PLAN_RUNS)
		return 0;
	return json_set_text(object, "node", move->outcome.node) < 0
		       ? -ENOMEM
		       : json_set(object, "gpus", show_gpus_json(world, &move->outcome));
}
