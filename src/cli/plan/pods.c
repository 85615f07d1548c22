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
#include "kube/json.h"
#include "kube/names.h"

#define PODS_MAX 10000

struct fit {
	struct plan_outcome *placed;
	size_t n, max;
	bool has_last;
	struct plan_outcome last; /* of the first pod that was not placed */
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

static int try_all(struct plan_input *input, struct json_object *object, struct fit *fit, struct error *err)
{
	int r = 1;

	while (r > 0 && fit->n < fit->max) {
		r = try_pod(input, object, fit, err);
		plan_progress(input, "%zu pods are placed so far", fit->n);
	}
	return r < 0 ? r : 0;
}

/* ---- text ---- */

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

static int add_text(const struct plan_input *input, const struct fit *fit, uint32_t asked,
	struct json_object *object, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf table;
	int r = 0;

	strbuf_init(&table, PLAN_TEXT_MAX);
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
	add_sum(fit, asked, out);
	if (r == 0 && fit->has_last) {
		strbuf_addf(out, "Pod %zu does not fit:\n", fit->n + 1);
		r = show_reasons(&fit->last, out);
	}
	show_notes(input, object, out);
	return r;
}

/* ---- JSON ---- */

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

static int add_json(const struct plan_input *input, const struct fit *fit, uint32_t asked,
	struct json_object *object, struct strbuf *out)
{
	_cleanup_json_ struct json_object *root = json_object_new_object();
	int r = json_set(root, "fit", json_object_new_int64((int64_t)fit->n));

	if (r == 0 && asked)
		r = json_set(root, "asked", json_object_new_int64(asked));
	if (r == 0)
		r = json_set(root, "pods", placed_json(input, fit));
	if (r == 0 && fit->has_last)
		r = show_reasons_json(&fit->last, root);
	if (r == 0)
		r = json_set(root, "notes", show_notes_json(input, object));
	if (r < 0)
		return r;
	return show_json(root, out);
}

/* ---- all ---- */

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

int plan_pods(struct plan_input *input, struct json_object *manifest, const struct plan_options *options,
	struct strbuf *out, struct error *err)
{
	_cleanup_(fit_release) struct fit fit = {.max = options->count ? options->count : PODS_MAX};
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
	r = options->output == OUTPUT_JSON ? add_json(input, &fit, options->count, object, out)
					   : add_text(input, &fit, options->count, object, out);
	return r < 0 ? error_set(err, -r, "%s", strerror(-r)) : 0;
}
