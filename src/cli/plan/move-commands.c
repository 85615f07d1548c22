/* ration plan drain, ration plan add: what becomes of the pods of drained nodes, and of waiting pods on new
 * nodes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/fields.h"
#include "cli/options.h"
#include "cli/plan/execute.h"
#include "cli/plan/plan.h"
#include "cli/tabwriter.h"
#include "kube/json.h"
#include "plan/moves.h"

static int add_text(
	const struct plan_input *input, const struct plan_moves *moves, bool waiting, struct strbuf *out)
{
	int r = moves->n ? show_moves(&input->world, moves, waiting, out) : 0;
	_cleanup_strbuf_ struct strbuf notes;

	if (!moves->n)
		strbuf_adds(out, waiting ? "No pod waits.\n" : "No pod is on these nodes.\n");
	strbuf_init(&notes, PLAN_NOTES_MAX);
	plan_notes(input, NULL, &notes);
	show_notes(&notes, out);
	return r;
}

/* What has become of a plan that was carried out. */
struct carried_out {
	struct execution execution;
	size_t *at; /* the move of each step */
	const char *stopped;
};

static int add_json(const struct plan_input *input, const struct plan_moves *moves,
	const struct carried_out *done, struct strbuf *out)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	struct json_object *list = json_set_array(root, "pods");
	_cleanup_strbuf_ struct strbuf notes;
	int r;

	strbuf_init(&notes, PLAN_NOTES_MAX);
	plan_notes(input, NULL, &notes);
	r = show_notes_json(&notes, root);
	for (size_t i = 0; r == 0 && i < moves->n; i++)
		r = show_move_json(&input->world, &moves->list[i], json_append_object(list));
	if (r == 0 && done)
		r = execution_set_json(&done->execution, done->stopped, root, list, done->at);
	return r < 0 ? r : add_document(out, root);
}

static int add_moves(const struct plan_input *input, const struct plan_moves *moves, bool waiting,
	struct strbuf *out, struct error *err)
{
	int r = input->options->output == OUTPUT_JSON ? add_json(input, moves, NULL, out)
						      : add_text(input, moves, waiting, out);

	return r < 0 ? error_set(err, -r, "%s", strerror(-r)) : 0;
}

/* ---- the subcommands ---- */

/* Text is printed before the execution, as a preview; JSON after it, with the result. */
static int execute_drain(
	const struct plan_input *input, const struct plan_moves *moves, struct strbuf *out, struct error *err)
{
	bool json = input->options->output == OUTPUT_JSON;
	struct carried_out done = {0};
	int r = json ? 0 : add_moves(input, moves, false, out, err), end = 0;

	if (r == 0 && !json)
		r = plan_print(out, err);
	if (r < 0)
		return r;
	r = drain_execute(input, moves, &done.execution, &done.at, err);
	done.stopped = r < 0 ? err->text : NULL;
	if (json)
		end = add_json(input, moves, &done, out);
	else if (r == 0)
		end = strbuf_addf(out, "The nodes are drained.\n");
	execution_release(&done.execution);
	free(done.at);
	return plan_end(r, end, out, err);
}

int plan_drain_nodes(struct plan_input *input, struct strbuf *out, struct error *err)
{
	const struct plan_options *options = input->options;
	_cleanup_(plan_moves_release) struct plan_moves moves = {0};
	int r;

	progress_say(&input->progress, "placing the pods of the nodes");
	r = plan_drain(&input->world, input->pods, input->n_pods, (const char *const *)options->nodes,
		options->execute, &moves, err);
	if (r < 0)
		return r;
	return options->execute ? execute_drain(input, &moves, out, err)
				: add_moves(input, &moves, false, out, err);
}

static int add_nodes(struct plan_input *input, struct json_object *node, struct error *err)
{
	const struct plan_options *options = input->options;
	const char *name = json_member_string(json_member(node, "metadata"), "name");
	uint32_t count = options->count ? options->count : 1;
	char new_name[300];
	int r = 0;

	for (uint32_t i = 1; r == 0 && i <= count; i++) {
		snprintf(new_name, sizeof(new_name), "%.253s-plan-%" PRIu32, name ? name : "node", i);
		r = plan_add_node(&input->world, node, new_name, err);
	}
	if (r < 0)
		error_prefix(err, "%.200s", options->file ? options->file : options->like);
	return r;
}

int plan_add_nodes(
	struct plan_input *input, struct json_object *manifest, struct strbuf *out, struct error *err)
{
	_cleanup_(plan_moves_release) struct plan_moves moves = {0};
	struct json_object *node = manifest ? manifest : input->like;
	int r;

	if (!node)
		return error_set(err, ENOENT, "there is no node %.253s", input->options->like);
	r = add_nodes(input, node, err);
	progress_say(&input->progress, "placing the pods that wait");
	if (r == 0)
		r = plan_waiting(&input->world, input->pods, input->n_pods, &moves, err);
	return r < 0 ? r : add_moves(input, &moves, true, out, err);
}
