/* What becomes of pods, as a table and as JSON. */
#include <errno.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/fields.h"
#include "cli/plan/plan.h"
#include "cli/tabwriter.h"
#include "kube/json.h"
#include "plan/moves.h"

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
