/* plan.h - the subcommands of `ration plan`, and what they share. */
#pragma once

#include <stddef.h>

#include "cli/plan/input.h"
#include "plan/moves.h"

struct strbuf;

#define PLAN_TEXT_MAX (64u << 20)

/* plan_pods() - a subcommand: adds its output to out, or returns a negative errno with a sentence.
 * plan_pods_check() - checks the manifest before the cluster is read. */
int plan_pods_check(struct json_object *manifest, const struct plan_options *options, struct error *err);
int plan_pods(struct plan_input *input, struct json_object *manifest, const struct plan_options *options,
	struct strbuf *out, struct error *err);

/* plan_add_nodes() - manifest: the Node to add; NULL: the one that the options name. */
int plan_drain_nodes(
	struct plan_input *input, const struct plan_options *options, struct strbuf *out, struct error *err);
int plan_add_nodes(struct plan_input *input, struct json_object *manifest, const struct plan_options *options,
	struct strbuf *out, struct error *err);
int plan_find_moves(
	struct plan_input *input, const struct plan_options *options, struct strbuf *out, struct error *err);

/* plan_unit(), plan_policy() - what becomes of pods when the unit or a ResourcePolicy changes.
 * plan_policy_check() - whether the manifest is a valid ResourcePolicy. */
int plan_unit(
	struct plan_input *input, const struct plan_options *options, struct strbuf *out, struct error *err);
int plan_policy_check(struct json_object *manifest, const struct plan_options *options, struct error *err);
int plan_policy(struct plan_input *input, struct json_object *manifest, const struct plan_options *options,
	struct strbuf *out, struct error *err);

/* plan_print() - writes out to standard output, as printable ASCII, and empties it. */
int plan_print(struct strbuf *out, struct error *err);

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

/* show_notes() - the parts of the cluster and of the pod's manifest that the plan does not consider. pod:
 * NULL if there is no manifest. */
void show_notes(const struct plan_input *input, struct json_object *pod, struct strbuf *out);
struct json_object *show_notes_json(const struct plan_input *input, struct json_object *pod);

/* ---- show-moves.c: what becomes of pods ---- */

/* show_fate() - of one pod, as part of a line. show_moves() - a table of all, and how many have which fate.
 * waiting: they wait now, on no node. show_move_json() - into the object (NULL: -ENOMEM). */
void show_fate(const struct plan_world *world, const struct plan_move *move, struct strbuf *out);
int show_moves(
	const struct plan_world *world, const struct plan_moves *moves, bool waiting, struct strbuf *out);
int show_move_json(const struct plan_world *world, const struct plan_move *move, struct json_object *object);
