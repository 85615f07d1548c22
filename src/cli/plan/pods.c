/* ration plan pods: how many more pods of a manifest fit. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/fields.h"
#include "cli/options.h"
#include "cli/plan/plan.h"
#include "cli/tabwriter.h"
#include "core/core.h"
#include "core/events.h"
#include "kube/json.h"
#include "kube/names.h"

#define PODS_MAX 10000

struct fit {
	struct plan_outcome *placed;
	size_t n, max;
	bool has_last;
	struct plan_outcome last; /* of the first pod that was not placed */
	/* For a gang that has not started: how many pods it needs at once (0: the pods are of no such gang),
	 * and how many of them have or find room (-1: as many as it needs, or it lacks pods). */
	uint32_t needed;
	int room;
};

static void fit_release(struct fit *fit)
{
	for (size_t i = 0; i < fit->n; i++)
		plan_outcome_release(&fit->placed[i]);
	free(fit->placed);
	plan_outcome_release(&fit->last);
}

static void plan_pod_release_ptr(struct plan_pod *pod)
{
	plan_pod_release(pod);
}

/* Tries one more pod. Returns 1 if it is placed, 0 if not. */
static int try_pod(struct plan_input *input, struct json_object *object, struct fit *fit, struct error *err)
{
	_cleanup_(plan_pod_release_ptr) struct plan_pod pod = {0};
	_cleanup_plan_outcome_ struct plan_outcome outcome = {0};
	int r = plan_pod_read(object, fit->n + 1, &pod, err);

	if (r == 0)
		r = plan_place(&input->world, &pod, &outcome, err);
	if (r < 0)
		return r;
	r = outcome.placed;
	if (outcome.placed) {
		fit->placed[fit->n++] = outcome;
	} else {
		fit->last = outcome;
		fit->has_last = true;
	}
	outcome = (struct plan_outcome){0};
	return r;
}

static void pods_release(struct plan_pod *pods, size_t n)
{
	for (size_t i = 0; pods && i < n; i++)
		plan_pod_release(&pods[i]);
	free(pods);
}

/* The pods exist, and none is placed. */
static int create_pods(struct plan_world *world, struct json_object *object, struct plan_pod *pods, size_t n,
	struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		_cleanup_json_ struct json_object *copy = NULL;

		if (json_object_deep_copy(object, &copy, NULL) < 0)
			return error_set(err, ENOMEM, "out of memory");
		r = plan_pod_read(copy, i + 1, &pods[i], err);
		if (r == 0 && plan_expect(world, &pods[i]) < 0)
			r = error_set(err, ENOMEM, "out of memory");
	}
	return r;
}

/* How many pods exist before the first one is tried: as many as were asked for, because their controller
 * creates them at once; otherwise one, or as many as their gang needs to start. */
static int count_together(struct plan_input *input, struct json_object *object, struct fit *fit,
	size_t *ret_n, struct error *err)
{
	uint32_t asked = input->options->count;
	_cleanup_(plan_pod_release_ptr) struct plan_pod pod = {0};
	struct core *core = input->world.core;
	struct gang_view view;
	int r = create_pods(&input->world, object, &pod, 1, err);

	*ret_n = asked ? asked : 1;
	if (r < 0)
		return r;
	if (gangs_find(&core->gangs, &core->ledger, pod.facts.uid, input->world.now_ns, &view) &&
		!view.started && view.n_placed < view.min) {
		fit->needed = view.min;
		if (!asked && view.min >= view.n_members)
			*ret_n = view.min - view.n_members + 1;
	}
	core_pod_is_gone(core, pod.facts.uid, true, input->world.now_ns);
	return 0;
}

static void take_outcomes(struct fit *fit, struct plan_outcome *outcomes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (outcomes[i].placed) {
			fit->placed[fit->n++] = outcomes[i];
		} else if (!fit->has_last) {
			fit->last = outcomes[i];
			fit->has_last = true;
		} else {
			plan_outcome_release(&outcomes[i]);
		}
	}
}

/* Of pods that belong to no gang, the first that does not fit is the last that is tried. */
static int try_together(
	struct plan_input *input, struct json_object *object, size_t n, struct fit *fit, struct error *err)
{
	struct core *core = input->world.core;
	struct plan_pod *pods = calloc(n, sizeof(*pods));
	struct plan_outcome *outcomes = calloc(n, sizeof(*outcomes));
	struct plan_gangs gangs = {0};
	struct gang_view view;
	int r = pods && outcomes ? create_pods(&input->world, object, pods, n, err)
				 : error_set(err, ENOMEM, "out of memory");
	char uid[] = "plan-1";

	for (size_t i = 0; r == 0 && i < n && (fit->needed || !i || outcomes[i - 1].placed); i++) {
		r = plan_try(&input->world, &gangs, &pods[i], &outcomes[i], err);
		progress_say(&input->progress, "%zu pods are tried so far", i + 1);
	}
	fit->room = r == 0 && gangs_find(&core->gangs, &core->ledger, uid, input->world.now_ns, &view)
			    ? view.n_room
			    : -1;
	if (plan_gangs_end(&input->world, &gangs) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	if (outcomes)
		take_outcomes(fit, outcomes, n);
	free(outcomes);
	pods_release(pods, n);
	return r < 0 ? r : !fit->has_last;
}

static int try_all(struct plan_input *input, struct json_object *object, struct fit *fit, struct error *err)
{
	size_t together;
	int r = count_together(input, object, fit, &together, err);

	if (r == 0)
		r = (fit->needed || together > 1) && together <= fit->max
			    ? try_together(input, object, together, fit, err)
			    : 1;
	while (r > 0 && fit->n < fit->max) {
		r = try_pod(input, object, fit, err);
		progress_say(&input->progress, "%zu pods are placed so far", fit->n);
	}
	return r < 0 ? r : 0;
}

static void add_sum(const struct fit *fit, uint32_t asked, struct strbuf *out)
{
	if (asked && fit->n == asked)
		strbuf_addf(out, asked == 1 ? "The pod fits.\n" : "All %zu pods fit.\n", fit->n);
	else if (asked)
		strbuf_addf(out, "%zu of %" PRIu32 " pods fit.\n", fit->n, asked);
	else if (fit->n == fit->max)
		strbuf_addf(out, "%zu more pods fit; further ones were not tried.\n", fit->n);
	else
		strbuf_addf(out, "%zu more pod%s.\n", fit->n, fit->n == 1 ? " fits" : "s fit");
}

static int add_text(
	const struct plan_input *input, const struct fit *fit, struct json_object *object, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf table, notes;
	int r = 0;

	strbuf_init(&table, PLAN_TEXT_MAX);
	strbuf_init(&notes, PLAN_NOTES_MAX);
	strbuf_adds(&table, "POD\tNODE\tGPU\t\n");
	for (size_t i = 0; i < fit->n; i++) {
		strbuf_addf(&table, "%zu\t%s\t", i + 1, fit->placed[i].node);
		show_gpus(&input->world, &fit->placed[i], &table);
		strbuf_adds(&table, "\t\n");
	}
	if (table.failed)
		return table.failed;
	if (fit->n)
		r = tabwriter_format(strbuf_cstr(&table), out);
	add_sum(fit, input->options->count, out);
	if (r == 0 && fit->has_last) {
		strbuf_addf(out, "Pod %zu does not fit:\n", fit->n + 1);
		r = show_reasons(&fit->last, out);
	}
	if (r == 0 && fit->needed && fit->has_last) {
		strbuf_addf(out, "Its gang starts with %" PRIu32 " pods or not at all", fit->needed);
		if (fit->room >= 0)
			strbuf_addf(out, "; %d would find room", fit->room);
		strbuf_adds(out, ".\n");
	}
	plan_notes(input, object, &notes);
	show_notes(&notes, out);
	return r;
}

static struct json_object *placed_json(const struct plan_input *input, const struct fit *fit)
{
	_cleanup_json_ struct json_object *list = json_object_new_array();

	for (size_t i = 0; list && i < fit->n; i++) {
		struct json_object *pod = json_append_object(list);

		if (json_set_number(pod, "pod", i + 1) < 0 ||
			json_set_text(pod, "node", fit->placed[i].node) < 0 ||
			json_set(pod, "gpus", show_gpus_json(&input->world, &fit->placed[i])) < 0)
			return NULL;
	}
	return TAKE_PTR(list);
}

static int add_json(
	const struct plan_input *input, const struct fit *fit, struct json_object *object, struct strbuf *out)
{
	uint32_t asked = input->options->count;
	_cleanup_json_ struct json_object *root = json_object_new_object();
	_cleanup_strbuf_ struct strbuf notes;
	int r = json_set_number(root, "fit", fit->n);

	strbuf_init(&notes, PLAN_NOTES_MAX);
	plan_notes(input, object, &notes);
	if (r == 0 && asked)
		r = json_set(root, "asked", json_object_new_int64(asked));
	if (r == 0)
		r = json_set(root, "pods", placed_json(input, fit));
	if (r == 0 && fit->has_last)
		r = show_reasons_json(&fit->last, root);
	if (r == 0 && fit->needed)
		r = json_set_number(root, "gangNeeds", fit->needed);
	if (r == 0 && fit->needed && fit->room >= 0)
		r = json_set_number(root, "gangHasRoomFor", (uint64_t)fit->room);
	if (r == 0)
		r = show_notes_json(&notes, root);
	if (r < 0)
		return r;
	return add_document(out, root);
}

int plan_pods_check(struct json_object *manifest, const struct plan_options *options, struct error *err)
{
	_cleanup_(plan_pod_release_ptr) struct plan_pod pod = {0};
	_cleanup_json_ struct json_object *object = NULL;
	int r = plan_pod_object(manifest, "default", NULL, &object, err);

	if (r == 0)
		r = plan_pod_read(object, 1, &pod, err);
	if (r == 0 && request_is_empty(&pod.facts.request))
		r = error_set(err, EINVAL,
			"the pod asks for no GPU of ration: set a limit of " RESOURCE_GPU_MEM
			" or " RESOURCE_GPU);
	if (r < 0)
		error_prefix(err, "%.200s", options->file);
	return r;
}

int plan_pods(struct plan_input *input, struct json_object *manifest, struct strbuf *out, struct error *err)
{
	const struct plan_options *options = input->options;
	_cleanup_(fit_release) struct fit fit = {
		.room = -1, .max = options->count ? options->count : PODS_MAX};
	_cleanup_json_ struct json_object *object = NULL;
	int r = plan_pod_object(
		manifest, input->namespace_, input->has_objects ? &input->kube : NULL, &object, err);

	if (r < 0)
		return r;
	fit.placed = calloc(fit.max, sizeof(*fit.placed));
	if (!fit.placed)
		return error_set(err, ENOMEM, "out of memory");
	r = try_all(input, object, &fit, err);
	if (r < 0)
		return r;
	r = options->output == OUTPUT_JSON ? add_json(input, &fit, object, out)
					   : add_text(input, &fit, object, out);
	return r < 0 ? error_set(err, -r, "%s", strerror(-r)) : 0;
}
