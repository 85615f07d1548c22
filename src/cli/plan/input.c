/* The input of a plan: the cluster, or files. */
#include "cli/plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/leader.h"
#include "cli/list-read.h"
#include "cli/options.h"
#include "cli/pod.h"
#include "kube/json-split.h"
#include "kube/json.h"

#define MANIFEST_MAX (4u << 20)
#define PODS_MAX 100000 /* that a plan may move */
#define READ_BYTES 65536

/* ---- the history ---- */

static FILE *open_file(const char *path)
{
	return fopen(strcmp(path, "-") == 0 ? "/dev/stdin" : path, "re");
}

static int read_history(struct plan_input *input, struct error *err)
{
	const struct plan_options *options = input->options;
	_cleanup_strbuf_ struct strbuf body;
	_cleanup_fclose_ FILE *file = NULL;
	int r;

	strbuf_init(&body, HISTORY_MAX);
	if (options->history) {
		file = open_file(options->history);
		r = file ? history_replay_file(&input->history, file, err)
			 : error_set(err, errno, "%s", strerror(errno));
	} else {
		r = leader_get(&options->kubectl, HISTORY_PATH, &body, err);
		if (r < 0)
			return r;
		progress_say(&input->progress, "repeating the history of the scheduler");
		r = history_replay_text(&input->history, &body, err);
	}
	if (r > 0)
		return error_set(err, EILSEQ,
			"this version of ration decides otherwise than the scheduler, so its plan would be wrong; use the scheduler's version");
	if (r < 0)
		error_prefix(err, "%.200s", options->history ? options->history : "the scheduler's history");
	return r;
}

/* ---- the objects ---- */

static bool is_named(const struct plan_input *input, const char *node)
{
	for (char **name = input->options->nodes; *name; name++)
		if (strcmp(*name, node) == 0)
			return true;
	return false;
}

/* Keeps the pod if the plan may move it. */
static int keep_pod(struct plan_input *input, struct json_object *pod, struct error *err)
{
	const char *node = json_member_string(json_member(pod, "spec"), "nodeName");

	if (input->options->what != PLAN_MOVES && input->options->what != PLAN_UNIT &&
		input->options->what != PLAN_POLICY &&
		(node && *node ? !is_named(input, node) : input->options->what == PLAN_PODS))
		return 0;
	if (input->n_pods == PODS_MAX)
		return error_set(err, E2BIG, "more than %d pods could be part of the plan", PODS_MAX);
	if (array_room(&input->pods, input->n_pods, sizeof(struct json_object *)) < 0)
		return error_set(err, ENOMEM, "out of memory");
	input->pods[input->n_pods++] = json_object_get(pod);
	return 0;
}

static int object_failed(struct plan_input *input, int r, struct error *err)
{
	if (r != -ENOMEM) {
		list_warn(&input->left_out, "");
		return 0;
	}
	return error_set(err, ENOMEM, "out of memory");
}

/* Names in the API server are always valid. A file may have any text as a name, which a plan would print. */
static bool has_valid_names(struct json_object *object)
{
	struct json_object *metadata = json_member(object, "metadata");
	const char *name = json_member_string(metadata, "name"),
		   *namespace_ = json_member_string(metadata, "namespace");

	return name && pod_name_is_valid(name) && (!namespace_ || pod_name_is_valid(namespace_));
}

static int on_node(void *userdata, struct json_object *node, struct error *err)
{
	struct plan_input *input = userdata;
	int r = has_valid_names(node) ? kube_nodes_see_node(&input->kube, node) : -EINVAL;

	if (input->options->like && !input->like &&
		json_member_is(json_member(node, "metadata"), "name", input->options->like))
		input->like = json_object_get(node);
	return r < 0 ? object_failed(input, r, err) : 0;
}

static int on_pod(void *userdata, struct json_object *pod, struct error *err)
{
	struct plan_input *input = userdata;
	int r = has_valid_names(pod) ? kube_nodes_see_pod(&input->kube, pod) : -EINVAL;

	return r < 0 ? object_failed(input, r, err) : keep_pod(input, pod, err);
}

/* Members that no filter reads; they are most of the text. */
static const char *const unwanted[] = {"managedFields", "images", "conditions", "nodeInfo", "env", "envFrom",
	"command", "args", "volumeMounts", "volumesAttached", "volumesInUse", "livenessProbe",
	"readinessProbe", "startupProbe", "lifecycle", "securityContext", "containerStatuses",
	"initContainerStatuses", "ephemeralContainerStatuses", NULL};
#define UNWANTED_DEPTH_MAX 4 /* item, spec, containers, container */

static int fetch_objects(struct plan_input *input, struct error *err)
{
	const struct kubectl *kubectl = &input->options->kubectl;
	struct list_reader reader = {.kind = "NodeList",
		.sign = "metadata", /* all objects have it */
		.read = on_node,
		.userdata = input,
		.warnings = &input->left_out,
		.unwanted = unwanted,
		.unwanted_depth_max = UNWANTED_DEPTH_MAX};
	int r;

	progress_say(&input->progress, "reading the nodes");
	r = list_read(kubectl, "/api/v1/nodes", NULL, &reader, err);
	if (r < 0) {
		error_prefix(err, "cannot list nodes");
		return r;
	}
	progress_say(&input->progress, "reading the pods");
	reader.kind = "PodList";
	reader.read = on_pod;
	r = list_read(kubectl, "/api/v1/pods", "status.phase!=Succeeded,status.phase!=Failed", &reader, err);
	if (r < 0)
		error_prefix(err, "cannot list pods");
	return r;
}

/* ---- the same from a file: `kubectl get nodes,pods -A -o json` ---- */

struct objects_file {
	struct plan_input *input;
	struct strbuf pods; /* texts of Pods, each ended by a NUL: they are read after all nodes */
	struct error *err;
	bool told;
};

static int on_object(void *userdata, const char *text, size_t len)
{
	_cleanup_json_ struct json_object *object = NULL;
	struct objects_file *file = userdata;
	const char *kind;
	int r;

	if (json_parse(text, len, &object, NULL) < 0) {
		list_warn(&file->input->left_out, "");
		return 0;
	}
	kind = json_member_string(object, "kind");
	if (kind && strcmp(kind, "Pod") == 0)
		return strbuf_add(&file->pods, text, len + 1);
	r = kind && strcmp(kind, "Node") == 0 ? on_node(file->input, object, file->err) : 0;
	file->told |= r < 0;
	return r;
}

static int read_pods(struct objects_file *file)
{
	int r = 0;

	for (size_t at = 0; at < file->pods.len && r == 0; at += strlen(file->pods.data + at) + 1) {
		_cleanup_json_ struct json_object *pod = NULL;

		if (json_parse(file->pods.data + at, strlen(file->pods.data + at), &pod, NULL) == 0)
			r = on_pod(file->input, pod, file->err);
		file->told |= r < 0;
	}
	return r;
}

static int split_file(FILE *stream, struct json_split *split)
{
	char buf[READ_BYTES];
	size_t n;
	int r = 0;

	while (r == 0 && (n = fread(buf, 1, sizeof(buf), stream)) > 0)
		r = json_split_feed(split, buf, n);
	if (r == 0 && ferror(stream))
		r = -EIO;
	return r < 0 ? r : json_split_end(split);
}

static int read_objects(struct plan_input *input, struct error *err)
{
	const char *path = input->options->objects;
	_cleanup_fclose_ FILE *stream = open_file(path);
	struct objects_file file = {.input = input, .err = err};
	struct json_split split;
	int r;

	if (!stream)
		return error_set(err, errno, "%.200s: %s", path, strerror(errno));
	strbuf_init(&file.pods, HISTORY_MAX);
	json_split_init(&split, JSON_SPLIT_LIST, ITEM_MAX, on_object, &file);
	json_split_leave_out(&split, unwanted, UNWANTED_DEPTH_MAX);
	r = split_file(stream, &split);
	json_split_release(&split);
	if (r == 0)
		r = read_pods(&file);
	strbuf_release(&file.pods);
	if (r < 0 && !file.told)
		error_set(err, -r, "%.200s is not the output of `kubectl get nodes,pods -A -o json`: %s",
			path, r == -EMSGSIZE ? "an object or the whole is too long" : strerror(-r));
	if (r == 0 && !input->kube.by_name.count)
		r = error_set(err, EINVAL,
			"%.200s has no Node objects; make it with `kubectl get nodes,pods -A -o json`", path);
	return r;
}

static int find_namespace(struct plan_input *input, struct error *err)
{
	const struct plan_options *options = input->options;
	const char *named = options->namespace_ || !options->history ? options->namespace_ : "default";
	_cleanup_strbuf_ struct strbuf text;
	int r;

	strbuf_init(&text, POD_NAME_MAX);
	r = pod_find_namespace(&options->kubectl, named, &text, err);
	if (r < 0)
		return r;
	input->namespace_ = strbuf_take(&text);
	return input->namespace_ ? 0 : error_set(err, ENOMEM, "out of memory");
}

int plan_input_init(struct plan_input *input)
{
	*input = (struct plan_input){0};
	progress_begin(&input->progress);
	kube_nodes_init(&input->kube);
	return history_replay_init(&input->history);
}

int plan_input_read(struct plan_input *input, const struct plan_options *options, struct error *err)
{
	int r;

	input->options = options;
	r = find_namespace(input, err);
	if (r == 0)
		r = read_history(input, err);
	if (r == 0 && options->objects)
		r = read_objects(input, err);
	else if (r == 0 && !options->history)
		r = fetch_objects(input, err);
	input->has_objects = options->objects || !options->history;
	/* From here on the core decides about events that do not happen, so nothing is recorded. */
	input->history.replay.core.log = (struct core_log){0};
	input->world = (struct plan_world){.core = &input->history.replay.core,
		.kube = input->has_objects ? &input->kube : NULL,
		.now_ns = input->history.now_ns};
	return r;
}

void plan_input_release(struct plan_input *input)
{
	for (size_t i = 0; i < input->n_pods; i++)
		json_object_put(input->pods[i]);
	free(input->pods);
	json_object_put(input->like);
	free(input->namespace_);
	kube_nodes_release(&input->kube);
	history_replay_release(&input->history);
}

int plan_manifest_read(const char *path, struct json_object **ret_object, struct error *err)
{
	_cleanup_strbuf_ struct strbuf text;
	_cleanup_fclose_ FILE *file = open_file(path);
	char buf[READ_BYTES];
	size_t n;
	int r = 0;

	strbuf_init(&text, MANIFEST_MAX);
	if (!file)
		return error_set(err, errno, "%.200s: %s", path, strerror(errno));
	while (r == 0 && (n = fread(buf, 1, sizeof(buf), file)) > 0)
		r = strbuf_add(&text, buf, n);
	if (r == 0 && ferror(file))
		r = errno ? -errno : -EIO; /* EISDIR of a folder */
	if (r < 0)
		return error_set(err, -r, "%.200s: %s", path,
			r == -EMSGSIZE ? "a manifest has at most 4 MiB" : strerror(-r));
	r = yaml_to_json(strbuf_cstr(&text), text.len, ret_object, err);
	if (r < 0)
		error_prefix(err, "%.200s", path);
	return r;
}
