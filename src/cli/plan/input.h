/* input.h - the input of a plan: the scheduler's history, fed into a core of this version, and the API
 * objects that kube-scheduler's own filters read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "cli/list-read.h"
#include "cli/commands.h"
#include "cli/replay.h"
#include "plan/place.h"

struct error;
struct json_object;
struct plan_options;

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
