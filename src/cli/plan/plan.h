/* plan.h - the subcommands of `ration plan`, and what they share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/list-read.h"
#include "cli/replay.h"
#include "plan/moves.h"

struct error;
struct json_object;
struct plan_options;

#define PLAN_TEXT_MAX (64u << 20)
#define PLAN_NOTES_MAX (64u << 10)

/* The input of a plan: the scheduler's history, fed into a core of this version, and the API objects that
 * kube-scheduler's own filters read. */
struct plan_input {
	struct history_replay history;
	struct kube_nodes kube;
	bool has_objects; /* else kube-scheduler's filters are unknown */
	struct plan_world world;
	/* Pod objects that a plan may move: those that wait, and those on the nodes of the command. */
	struct json_object **pods;
	size_t n_pods;
	const struct plan_options *options;
	struct json_object
		*like; /* the Node that the options name; NULL: they name no node, or it was not found */
	struct warnings left_out; /* objects that could not be read */
	char *namespace_;	  /* for manifests that name no namespace */
	struct progress progress;
};

/* plan_input_init() - -ENOMEM. The caller releases *input in any case. plan_input_read() - everything that
 * the options name, or the cluster. The sentence in err says what to do. */
int plan_input_init(struct plan_input *input);
int plan_input_read(struct plan_input *input, const struct plan_options *options, struct error *err);
void plan_input_release(struct plan_input *input);
#define _cleanup_plan_input_ _cleanup_(plan_input_release)

/* plan_manifest_read() - the object in a file of YAML or JSON; "-": standard input. The caller puts
 * *ret_object. */
int plan_manifest_read(const char *path, struct json_object **ret_object, struct error *err);

/* ---- the subcommands ---- */

/* plan_pods() - a subcommand: adds its output to out, or returns a negative errno with a sentence.
 * plan_pods_check() - checks the manifest before the cluster is read. */
int plan_pods_check(struct json_object *manifest, const struct plan_options *options, struct error *err);
int plan_pods(struct plan_input *input, struct json_object *manifest, struct strbuf *out, struct error *err);

/* plan_add_nodes() - manifest: the Node to add; NULL: the one that the options name. */
int plan_drain_nodes(struct plan_input *input, struct strbuf *out, struct error *err);
int plan_add_nodes(
	struct plan_input *input, struct json_object *manifest, struct strbuf *out, struct error *err);
int plan_find_moves(struct plan_input *input, struct strbuf *out, struct error *err);

/* plan_unit(), plan_policy() - what becomes of pods when the unit or a ResourcePolicy changes.
 * plan_policy_check() - whether the manifest is a valid ResourcePolicy. */
int plan_unit(struct plan_input *input, struct strbuf *out, struct error *err);
int plan_policy_check(struct json_object *manifest, const struct plan_options *options, struct error *err);
int plan_policy(
	struct plan_input *input, struct json_object *manifest, struct strbuf *out, struct error *err);

/* plan_print() - writes out to standard output, as printable ASCII, and empties it. plan_end() - prints out
 * after an execution that returned r; its error counts before one of the output. end: negative errno if out
 * could not be made. */
int plan_print(struct strbuf *out, struct error *err);
int plan_end(int r, int end, struct strbuf *out, struct error *err);

/* ---- show.c: parts of the output ---- */

/* show_gpus() - the indices of a placed pod's GPUs, like "0,3". show_gpus_json() - a list of objects. */
void show_gpus(const struct plan_world *world, const struct plan_outcome *outcome, struct strbuf *out);
struct json_object *show_gpus_json(const struct plan_world *world, const struct plan_outcome *outcome);

/* show_reasons() - why a pod was not placed: the reasons with the nodes that have them, and which resources
 * are short. show_reasons_json() - the same, as members of an object. -ENOMEM. */
int show_reasons(const struct plan_outcome *outcome, struct strbuf *out);
int show_reasons_json(const struct plan_outcome *outcome, struct json_object *object);

/* show_reasons_line() - the reasons as part of a line. */
void show_reasons_line(const struct plan_outcome *outcome, struct strbuf *out);

/* plan_notes() - adds a line for each part of the cluster, and of the pod's manifest, that the plan does not
 * consider. pod: NULL if there is no manifest. show_notes() - such lines, as lines of the output.
 * show_notes_json() - as a member of the plan. */
void plan_notes(const struct plan_input *input, struct json_object *pod, struct strbuf *notes);
void show_notes(const struct strbuf *notes, struct strbuf *out);
int show_notes_json(const struct strbuf *notes, struct json_object *root);

/* show_fate() - of one pod, as part of a line. show_moves() - a table of all, and how many have which fate.
 * waiting: they wait now, on no node. show_move_json() - into the object (NULL: -ENOMEM). */
void show_fate(const struct plan_world *world, const struct plan_move *move, struct strbuf *out);
int show_moves(
	const struct plan_world *world, const struct plan_moves *moves, bool waiting, struct strbuf *out);
int show_move_json(const struct plan_world *world, const struct plan_move *move, struct json_object *object);
