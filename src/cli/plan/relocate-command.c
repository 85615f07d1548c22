/* ration plan moves: which pods to evict, in which order, and what that gains. */
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
#include "plan/relocate.h"

#define MOVES_DEFAULT 20

static void add_place(const struct plan_world *world, const struct plan_outcome *place, struct strbuf *out)
{
	strbuf_addf(out, "%s, GPU ", place->node);
	show_gpus(world, place, out);
}

/* What the plan leaves out, one line for each. */
static void add_limits(const struct relocations *moves, struct strbuf *out)
{
	if (moves->unconsidered)
		strbuf_addf(out,
			"%zu waiting pod%s not tried: of a job with whole GPUs, in a namespace with ResourcePolicies, invalid, or others are evicted for it already.\n",
			moves->unconsidered, moves->unconsidered == 1 ? " is" : "s are");
	if (moves->tries_ended)
		strbuf_addf(out, "The search for a move ended after %d pods: there may be more moves.\n",
			RELOCATE_TRIES);
	if (moves->n)
		strbuf_adds(out,
			"Cordon the GPUs that a pod leaves (`ration cordon`) before its eviction, and uncordon them when its new pod is bound; then wait for the pods that the move lets run. --execute does so.\n");
}

static void add_gain(const struct plan_world *world, const struct relocation *move, struct strbuf *out)
{
	for (size_t i = 0; i < move->runs.n; i++) {
		const struct plan_move *run = &move->runs.list[i];

		strbuf_addf(out, "%s%s/%s runs on ", i ? "; " : "", run->namespace_, run->name);
		add_place(world, &run->outcome, out);
	}
	if (move->whole)
		strbuf_addf(out, "%s%" PRId64 " whole GPU%s %s", move->runs.n ? "; " : "",
			move->whole < 0 ? -move->whole : move->whole,
			move->whole == 1 || move->whole == -1 ? "" : "s", move->whole < 0 ? "used" : "free");
	if (!move->runs.n && !move->whole)
		strbuf_adds(out, "prepares the next");
}

static int add_text(const struct plan_input *input, const struct relocations *moves, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf table, notes;

	strbuf_init(&table, PLAN_TEXT_MAX);
	strbuf_init(&notes, PLAN_NOTES_MAX);
	strbuf_adds(&table, "EVICT\tFROM\tTO\tGAIN\t\n");
	for (size_t i = 0; i < moves->n; i++) {
		const struct relocation *move = &moves->list[i];

		strbuf_addf(&table, "%s/%s\t", move->namespace_, move->name);
		add_place(&input->world, &move->from, &table);
		strbuf_adds(&table, "\t");
		add_place(&input->world, &move->to, &table);
		strbuf_adds(&table, "\t");
		add_gain(&input->world, move, &table);
		strbuf_adds(&table, "\t\n");
	}
	if (table.failed)
		return table.failed;
	if (moves->n) {
		int r = tabwriter_format(strbuf_cstr(&table), out);

		if (r < 0)
			return r;
	}
	strbuf_addf(out,
		"%zu move%s: %zu of %zu waiting pods run%s, %" PRId64 " instead of %" PRId64
		" whole GPUs are free.\n",
		moves->n, plural((int64_t)moves->n), moves->waited - moves->waits, moves->waited,
		moves->waited - moves->waits == 1 ? "s" : "", moves->whole, moves->whole_before);
	if (moves->fits_now)
		strbuf_addf(out, "%zu more pod%s without a move.\n", moves->fits_now,
			moves->fits_now == 1 ? " runs" : "s run");
	add_limits(moves, &notes);
	plan_notes(input, NULL, &notes);
	show_notes(&notes, out);
	return 0;
}

static int set_place(const struct plan_world *world, struct json_object *object, const char *node_key,
	const char *gpus_key, const struct plan_outcome *place)
{
	int r = json_set_text(object, node_key, place->node);

	return r < 0 ? r : json_set(object, gpus_key, show_gpus_json(world, place));
}

static int set_names(struct json_object *object, const char *namespace_, const char *name)
{
	int r = json_set_text(object, "namespace", namespace_);

	return r < 0 ? r : json_set_text(object, "name", name);
}

static int add_move_json(
	const struct plan_world *world, const struct relocation *move, struct json_object *list)
{
	struct json_object *object = json_append_object(list), *runs;
	int r = set_names(object, move->namespace_, move->name);

	if (r == 0)
		r = set_place(world, object, "from", "fromGPUs", &move->from);
	if (r == 0)
		r = set_place(world, object, "node", "gpus", &move->to);
	if (r == 0)
		r = json_set(object, "wholeGPUs", json_object_new_int64(move->whole));
	runs = json_set_array(object, "runs");
	for (size_t i = 0; r == 0 && i < move->runs.n; i++) {
		const struct plan_move *run = &move->runs.list[i];
		struct json_object *pod = json_append_object(runs);

		r = set_names(pod, run->namespace_, run->name);
		if (r == 0)
			r = set_place(world, pod, "node", "gpus", &run->outcome);
	}
	return runs ? r : -ENOMEM;
}

/* execution: NULL if the plan was not carried out. */
static int add_json(const struct plan_input *input, const struct relocations *moves,
	const struct execution *execution, const char *stopped, struct strbuf *out)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	struct json_object *list = json_set_array(root, "moves");
	_cleanup_strbuf_ struct strbuf notes;
	const struct {
		const char *key;
		int64_t value;
	} counts[] = {{"waitingBefore", (int64_t)moves->waited}, {"waitingAfter", (int64_t)moves->waits},
		{"fitsNow", (int64_t)moves->fits_now}, {"notTried", (int64_t)moves->unconsidered},
		{"wholeGPUsBefore", moves->whole_before}, {"wholeGPUsAfter", moves->whole},
		{"tried", (int64_t)moves->tried}};
	int r;

	strbuf_init(&notes, PLAN_NOTES_MAX);
	plan_notes(input, NULL, &notes);
	add_limits(moves, &notes);
	r = list ? show_notes_json(&notes, root) : -ENOMEM;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(counts); i++)
		r = json_set(root, counts[i].key, json_object_new_int64(counts[i].value));
	for (size_t i = 0; r == 0 && i < moves->n; i++)
		r = add_move_json(&input->world, &moves->list[i], list);
	if (r == 0 && execution)
		r = execution_set_json(execution, stopped, root, list, NULL);
	return r < 0 ? r : add_document(out, root);
}

static void tell(void *userdata, size_t found)
{
	progress_say(&((struct plan_input *)userdata)->progress, "searching for move %zu", found + 1);
}

static int carry_out(const struct plan_input *input, const struct relocations *moves,
	struct execution *execution, struct error *err)
{
	static const struct execution_words words = {
		"moves", "`ration plan moves` makes a new plan of what is left"};
	_cleanup_free_ struct planned_eviction *steps = calloc(moves->n + 1, sizeof(*steps));

	if (!steps)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < moves->n; i++) {
		const struct relocation *move = &moves->list[i];

		steps[i] = (struct planned_eviction){.pod = move->pod,
			.node = move->from.node,
			.from = &move->from,
			.fate = PLAN_RUNS,
			.to = &move->to,
			.runs = move->runs.list,
			.n_runs = move->runs.n,
			.holds = move->holds};
	}
	return plan_execute(input, steps, moves->n, &words, execution, err);
}

/* Text is printed before the execution, as a preview; JSON after it, with the result. */
static int execute(const struct plan_input *input, const struct relocations *moves, struct strbuf *out,
	struct error *err)
{
	_cleanup_(execution_release) struct execution execution = {0};
	bool json = input->options->output == OUTPUT_JSON;
	int r = json ? 0 : plan_print(out, err), end = 0;

	if (r < 0)
		return r;
	r = carry_out(input, moves, &execution, err);
	if (json)
		end = add_json(input, moves, &execution, r < 0 ? err->text : NULL, out);
	else if (r == 0 && moves->n)
		end = strbuf_addf(out, "All moves are done.\n");
	return plan_end(r, end, out, err);
}

int plan_find_moves(struct plan_input *input, struct strbuf *out, struct error *err)
{
	const struct plan_options *options = input->options;
	_cleanup_(relocations_release) struct relocations moves = {0};
	bool json = options->output == OUTPUT_JSON;
	int r = plan_relocate(&input->world, input->pods, input->n_pods,
		options->max ? options->max : MOVES_DEFAULT, tell, input, &moves, err);

	if (r < 0)
		return r;
	if (!json)
		r = add_text(input, &moves, out);
	else if (!options->execute)
		r = add_json(input, &moves, NULL, NULL, out);
	if (r < 0)
		return error_set(err, -r, "%s", strerror(-r));
	return options->execute ? execute(input, &moves, out, err) : 0;
}
