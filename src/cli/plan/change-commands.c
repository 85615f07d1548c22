/* ration plan unit, ration plan policy: what becomes of pods when the unit or a ResourcePolicy changes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/fields.h"
#include "cli/options.h"
#include "cli/plan/plan.h"
#include "cli/tabwriter.h"
#include "kube/json.h"
#include "kube/resource-policy.h"
#include "plan/change.h"

static bool is_as_before(const struct plan_change *change, size_t i)
{
	const struct plan_move *move = &change->again.list[i];

	return move->fate == PLAN_RUNS && plan_same_place(&move->outcome, &change->before[i]);
}

static void add_again_counts(const struct plan_change *change, struct strbuf *out)
{
	size_t n = change->again.n, same = 0, elsewhere = 0;

	for (size_t i = 0; i < n; i++) {
		same += is_as_before(change, i);
		elsewhere += change->again.list[i].fate == PLAN_RUNS && !is_as_before(change, i);
	}
	strbuf_addf(out, "%zu pod%s: %zu as now, %zu elsewhere, %zu without a place.\n", n,
		plural((int64_t)n), same, elsewhere, n - same - elsewhere);
}

static int add_again(const struct plan_input *input, const struct plan_change *change, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf table;
	int r;

	strbuf_init(&table, PLAN_TEXT_MAX);
	if (!change->again.n) {
		strbuf_adds(out, "No pod that runs is concerned.\n");
		return 0;
	}
	strbuf_adds(&table, "POD\tNOW\tCREATED AGAIN\t\n");
	for (size_t i = 0; i < change->again.n; i++) {
		const struct plan_move *move = &change->again.list[i];

		strbuf_addf(&table, "%s/%s\t%s, GPU ", move->namespace_, move->name, move->from);
		show_gpus(&input->world, &change->before[i], &table);
		strbuf_adds(&table, "\t");
		if (is_as_before(change, i))
			strbuf_adds(&table, "as now");
		else
			show_fate(&input->world, move, &table);
		strbuf_adds(&table, "\t\n");
	}
	if (table.failed)
		return table.failed;
	r = tabwriter_format(strbuf_cstr(&table), out);
	add_again_counts(change, out);
	return r;
}

static int add_pods(const struct plan_input *input, const struct plan_change *change, struct strbuf *out)
{
	int r = 0;

	strbuf_addf(out, "%sThe pods that wait now:\n", out->len ? "\n" : "");
	if (change->waiting.n)
		r = show_moves(&input->world, &change->waiting, true, out);
	else
		strbuf_adds(out, "No pod waits.\n");
	strbuf_adds(
		out, "\nThe pods that run go on as they are. When they have ended and are created again:\n");
	return r < 0 ? r : add_again(input, change, out);
}

static int add_nodes(const struct plan_change *change, uint32_t unit_mib, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf table;

	strbuf_init(&table, PLAN_TEXT_MAX);
	if (!change->n_nodes) {
		strbuf_adds(out, "No node shares its GPUs.\n");
		return 0;
	}
	strbuf_adds(&table, "NODE\tUNIT NOW\tWHAT HAPPENS\t\n");
	for (size_t i = 0; i < change->n_nodes; i++) {
		const struct plan_unit_change *node = &change->nodes[i];

		strbuf_addf(&table, "%s\t%" PRIu32 " MiB\t", node->node, node->from_mib);
		if (node->fate == PLAN_UNIT_NOW)
			strbuf_addf(&table, "has no GPU pods: %" PRIu32 " MiB at once", unit_mib);
		else if (node->fate == PLAN_UNIT_LATER)
			strbuf_addf(&table, "keeps it until its %zu GPU pod%s ended, and takes no new ones",
				node->pods, node->pods == 1 ? " has" : "s have");
		else
			strbuf_adds(&table, "stays as it is");
		strbuf_adds(&table, "\t\n");
	}
	return table.failed ? table.failed : tabwriter_format(strbuf_cstr(&table), out);
}

static int set_moves(const struct plan_world *world, struct json_object *root, const char *key,
	const struct plan_moves *moves)
{
	struct json_object *list = json_set_array(root, key);
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < moves->n; i++)
		r = show_move_json(world, &moves->list[i], json_append_object(list));
	return r;
}

static int set_nodes(const struct plan_change *change, struct json_object *root)
{
	static const char *const fates[] = {
		[PLAN_UNIT_SAME] = "same", [PLAN_UNIT_NOW] = "now", [PLAN_UNIT_LATER] = "later"};
	struct json_object *list = json_set_array(root, "nodes");
	int r = list ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < change->n_nodes; i++) {
		const struct plan_unit_change *node = &change->nodes[i];
		struct json_object *object = json_append_object(list);

		r = json_set_text(object, "node", node->node);
		if (r == 0)
			r = json_set_number(object, "unitMiB", node->from_mib);
		if (r == 0)
			r = json_set_number(object, "pods", node->pods);
		if (r == 0)
			r = json_set_text(object, "changes", fates[node->fate]);
	}
	return r;
}

static int add_json(const struct plan_input *input, const struct plan_change *change,
	struct json_object *root, struct strbuf *out)
{
	struct json_object *again;
	int r = set_moves(&input->world, root, "waiting", &change->waiting);

	if (r == 0)
		r = set_moves(&input->world, root, "again", &change->again);
	again = json_member(root, "again");
	for (size_t i = 0; r == 0 && i < change->again.n; i++) {
		r = json_set(
			json_item(again, i), "fromGPUs", show_gpus_json(&input->world, &change->before[i]));
		if (r == 0)
			r = json_set(json_item(again, i), "asNow",
				json_object_new_boolean(is_as_before(change, i)));
	}
	return r < 0 ? r : add_document(out, root);
}

/* What both subcommands end with. r: of what came before. root: what the subcommand has added of its own.
 * more: its own notes. */
static int finish(int r, const struct plan_input *input, const struct plan_change *change,
	const char *const *more, struct json_object *root, struct strbuf *out, struct error *err)
{
	_cleanup_strbuf_ struct strbuf notes;

	strbuf_init(&notes, PLAN_NOTES_MAX);
	plan_notes(input, NULL, &notes);
	for (; *more; more++)
		strbuf_addf(&notes, "%s\n", *more);
	if (r == 0 && input->options->output == OUTPUT_JSON) {
		r = show_notes_json(&notes, root);
		if (r == 0)
			r = add_json(input, change, root, out);
	} else if (r == 0) {
		r = add_pods(input, change, out);
		show_notes(&notes, out);
	}
	return r < 0 ? error_set(err, -r, "%s", strerror(-r)) : 0;
}

/* ---- the subcommands ---- */

int plan_unit(struct plan_input *input, struct strbuf *out, struct error *err)
{
	static const char *const notes[] = {
		"The plan assumes that no pod template names a unit (ration.dev/unit): the number of aliyun.com/gpu-mem stays, and is counted in the new unit when a pod is created.",
		"All pods of these nodes are created again at the same time, by priority, namespace and name. Before that, each node must lose its last GPU pod.",
		NULL};
	_cleanup_(plan_change_release) struct plan_change change = {0};
	_cleanup_json_ struct json_object *root = json_object_new_object();
	bool json = input->options->output == OUTPUT_JSON;
	uint32_t unit_mib = (uint32_t)input->options->unit_mib;
	int r;

	progress_say(&input->progress, "changing the unit");
	r = plan_change_unit(&input->world, input->pods, input->n_pods, unit_mib, &change, err);
	if (r < 0)
		return r;
	if (json) {
		r = json_set_number(root, "unitMiB", unit_mib);
		if (r == 0)
			r = set_nodes(&change, root);
	} else {
		r = add_nodes(&change, unit_mib, out);
	}
	return finish(r, input, &change, notes, root, out, err);
}

static bool has_marks(const struct resource_policy *policy)
{
	for (size_t i = 0; i < policy->n_units; i++)
		if (policy->units[i].pod_labels.n || policy->units[i].pod_annotations.n)
			return true;
	return false;
}

/* The manifest has no uid. plan_change_policy() gives it the uid of the policy that it replaces. */
static int read_policy(struct json_object *manifest, const char *namespace_,
	struct resource_policy **ret_policy, struct error *err)
{
	struct json_object *metadata = json_member(manifest, "metadata");
	const char *kind = json_member_string(manifest, "kind");

	if (!kind || strcmp(kind, "ResourcePolicy") != 0)
		return error_set(err, EINVAL, "it is not a ResourcePolicy, but a %.60s", kind ? kind : "?");
	if (!json_member_string(metadata, "name"))
		return error_set(err, EINVAL, "it has no name");
	if (json_set_text(metadata, "uid", "plan-policy") < 0 ||
		(!json_member(metadata, "namespace") && json_set_text(metadata, "namespace", namespace_) < 0))
		return error_set(err, ENOMEM, "out of memory");
	return resource_policy_from_json(manifest, ret_policy, err);
}

int plan_policy_check(struct json_object *manifest, const struct plan_options *options, struct error *err)
{
	_cleanup_json_ struct json_object *copy = NULL; /* the namespace is not known yet */
	struct resource_policy *policy = NULL;
	const char *named = options->namespace_, *own;
	int r;

	if (json_object_deep_copy(manifest, &copy, NULL) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = read_policy(copy, named ? named : "default", &policy, err);
	own = json_member_string(json_member(copy, "metadata"), "namespace");
	if (r == 0 && named && strcmp(own, named) != 0)
		r = error_set(err, EINVAL, "it is of namespace %.60s, and -n names %.60s", own, named);
	resource_policy_free(policy);
	if (r < 0)
		error_prefix(err, "%.200s", options->file);
	return r;
}

int plan_policy(struct plan_input *input, struct json_object *manifest, struct strbuf *out, struct error *err)
{
	const char *notes[] = {
		"Only pods that ask for a GPU are tried. Pods without a GPU count for the maximum of a level where they are now.",
		"All pods that the policy selects are created again at the same time, by priority, namespace and name. Times (timeout) do not pass meanwhile.",
		NULL, NULL};
	_cleanup_(plan_change_release) struct plan_change change = {0};
	_cleanup_json_ struct json_object *root = json_object_new_object();
	struct resource_policy *policy = NULL;
	int r = read_policy(manifest, input->namespace_, &policy, err);

	if (r < 0)
		return r;
	if (has_marks(policy))
		notes[2] =
			"The plan does not write podLabels and podAnnotations, so a level with these counts the pods that have them already.";
	progress_say(&input->progress, "changing the policy");
	r = plan_change_policy(&input->world, input->pods, input->n_pods, policy, &change, err);
	if (r < 0)
		return r;
	return finish(r, input, &change, notes, root, out, err);
}
