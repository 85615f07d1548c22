#include "agent/node/report.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "agent/container/leftovers.h"
#include "agent/node/warnings.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/micro-time.h"
#include "kube/names.h"
#include "kube/node.h"
#include "node/registry.h"

#define TIMEOUT_MS 10000
#define RETRY_NS (3 * NS_PER_S)
#define LABEL_VALUE_MAX 63

struct report {
	struct kube_client *client;
	const struct node_registry *registry;
	struct leftovers *leftovers;
	struct json_object *node;	    /* as last seen; NULL: not yet, or gone */
	struct kube_request *meta, *status; /* in flight */
	int64_t not_before_ns; /* after a failure, or a success that the watch has not shown yet */
};

int report_new(struct kube_client *client, const struct node_registry *node, struct leftovers *leftovers,
	struct report **ret_report)
{
	struct report *report = calloc(1, sizeof(*report));

	if (!report)
		return -ENOMEM;
	report->client = client;
	report->registry = node;
	report->leftovers = leftovers;
	*ret_report = report;
	return 0;
}

void report_free(struct report *report)
{
	if (!report)
		return;
	kube_request_cancel(report->meta);
	kube_request_cancel(report->status);
	json_object_put(report->node);
	free(report);
}

void report_seen(struct report *report, struct json_object *node)
{
	json_object_put(report->node);
	report->node = node ? json_object_get(node) : NULL;
	report->not_before_ns = 0;
}

struct json_object *report_node(const struct report *report)
{
	return report->node;
}

/* A label value holds letters, digits, '-', '_' and '.', 63 of them, and begins and ends with a letter or
 * digit (apimachinery validation.IsValidLabelValue). ACK writes blanks as '-'. */
static void label_value(const char *text, char *ret)
{
	size_t n = 0;

	for (; *text && n < LABEL_VALUE_MAX; text++)
		if (n || isalnum((unsigned char)*text))
			ret[n++] = isalnum((unsigned char)*text) || strchr("-_.", *text) ? *text : '-';
	while (n && !isalnum((unsigned char)ret[n - 1]))
		n--;
	ret[n] = '\0';
}

/* Puts key into `patch` if the node has another value; value NULL: if it has any value. */
static int patch_text(struct json_object *patch, struct json_object *seen, const char *key, const char *value)
{
	const char *has = json_member_string(seen, key);

	if (value ? (has && strcmp(has, value) == 0) : !has)
		return 0;
	if (!value)
		return json_object_object_add(patch, key, NULL) < 0 ? -ENOMEM : 0;
	return json_set(patch, key, json_object_new_string(value));
}

static int patch_labels(const struct report *report, struct json_object *seen, struct json_object *patch)
{
	const struct inventory *inventory = &report->registry->inventory;
	char name[LABEL_VALUE_MAX + 1], text[32];
	int r;

	if (!inventory->n_gpus)
		return 0;
	label_value(inventory->gpus[0].details.model, name);
	r = patch_text(patch, seen, LABEL_NVIDIA_NAME, name);
	snprintf(text, sizeof(text), "%lluMiB", (unsigned long long)inventory->gpus[0].facts.mib);
	if (r == 0)
		r = patch_text(patch, seen, LABEL_NVIDIA_MEM, text);
	snprintf(text, sizeof(text), "%zu", inventory->n_gpus);
	return r ? r : patch_text(patch, seen, LABEL_NVIDIA_COUNT, text);
}

/* If an earlier agent left "false", it stays until the kubelet has the agent's devices. If that takes too
 * long, this agent writes it. */
static int patch_serving(
	const struct node_registry *node, struct json_object *seen, struct json_object *patch)
{
	if (node->leaving)
		return node->serves ? patch_text(patch, seen, ANNOTATION_NODE_SERVING, "false") : 0;
	if (*node->problems.unregistered)
		return patch_text(patch, seen, ANNOTATION_NODE_SERVING, "false");
	if (node->serves && !node->watched)
		return 0;
	return patch_text(patch, seen, ANNOTATION_NODE_SERVING, NULL);
}

/* While these annotations are there, the scheduler places no new pods here. */
static int patch_pending(
	const struct node_registry *node, struct json_object *seen, struct json_object *patch)
{
	struct terms now = node_registry_in_force(node), asked = node->asked;
	bool other_mode = !node->open && now.mode != asked.mode;
	bool other_unit = !node->open && now.unit_mib != asked.unit_mib && !terms_equal(&now, &asked);
	char unit[16];
	int r;

	snprintf(unit, sizeof(unit), "%u", asked.unit_mib);
	r = patch_text(
		patch, seen, ANNOTATION_NODE_MODE_PENDING, other_mode ? gpu_mode_text(asked.mode) : NULL);
	return r ? r : patch_text(patch, seen, ANNOTATION_NODE_UNIT_PENDING, other_unit ? unit : NULL);
}

/* A re-created Node object lacks both annotations. So the write that shows its GPUs also names what is held
 * on them. Otherwise a scheduler that has just started would count GPUs as free on which orphans run. */
static int patch_held(struct leftovers *leftovers, struct json_object *seen, struct json_object *patch)
{
	bool shows_gpus = json_member(patch, ANNOTATION_NODE_GPUS) &&
			  !json_member(seen, ANNOTATION_NODE_GPUS);
	_cleanup_free_ char *now = NULL;
	const char *text = NULL;

	if (shows_gpus) {
		int r = leftovers_text_now(leftovers, &now);

		return r ? r : patch_text(patch, seen, ANNOTATION_NODE_HELD, now);
	}
	return leftovers_word(leftovers, &text) ? patch_text(patch, seen, ANNOTATION_NODE_HELD, text) : 0;
}

/* The annotation stays until the driver has answered. */
static int patch_mig(const struct node_registry *node, struct json_object *seen, struct json_object *patch)
{
	const struct inventory *inventory = &node->inventory;
	_cleanup_free_ char *text = NULL;

	if (!gpu_mode_is_served(node->asked.mode))
		return patch_text(patch, seen, ANNOTATION_NODE_MIG, NULL);
	if (!*inventory->driver_version)
		return 0;
	if (!inventory->n_mig)
		return patch_text(patch, seen, ANNOTATION_NODE_MIG, NULL);
	text = mig_to_json(inventory);
	return text ? patch_text(patch, seen, ANNOTATION_NODE_MIG, text) : -ENOMEM;
}

/* The node condition GPUSharingProblem, for users and for tools that read conditions. It is
 * "True", with the sentence of ration.dev/problem, while the node offers nothing, or nothing new. It is also
 * "True", with the reason GPUAdvertisedTwice, while another device plugin offers the same GPUs. With the
 * reason GPUDriverUnknownFunctions it is "False", and names functions of the driver that are not limited.
 * With the reason GPULostAtReload it is "False", too. */

struct node_problem {
	const char *reason; /* the condition's reason, one word */
	char text[512];	    /* "": no problem */
};

static bool all_are_sick(const struct inventory *inventory)
{
	for (size_t i = 0; i < inventory->n_gpus; i++)
		if (inventory->gpus[i].facts.healthy)
			return false;
	return inventory->n_gpus > 0;
}

/* condition_problem() - why the node offers nothing, or nothing new. */
static void condition_problem(const struct node_registry *node, struct node_problem *ret_problem)
{
	const struct inventory *inventory = &node->inventory;
	const struct gpu *first = &inventory->gpus[0];

	*ret_problem = (struct node_problem){.reason = "NoProblem"};
	if (*node->problems.mode) {
		ret_problem->reason = "GPUModeRefused";
		snprintf(ret_problem->text, sizeof(ret_problem->text), "%s", node->problems.mode);
	} else if (*node->problems.isolation) {
		ret_problem->reason = "GPUIsolationNotReady";
		snprintf(ret_problem->text, sizeof(ret_problem->text), "%s", node->problems.isolation);
	} else if (*node->problems.unregistered) {
		ret_problem->reason = "GPUNotRegistered";
		snprintf(ret_problem->text, sizeof(ret_problem->text), "%s", node->problems.unregistered);
	} else if (node->in_force != GPU_MODE_NONE && all_are_sick(inventory)) {
		ret_problem->reason = "GPUUnhealthy";
		snprintf(ret_problem->text, sizeof(ret_problem->text),
			"no new pods, since no GPU is healthy; GPU %d (%s): %s", first->facts.index,
			first->facts.uuid, first->details.reason);
	}
}

static struct json_object *find(struct json_object *conditions)
{
	for (size_t i = 0; i < json_count(conditions); i++) {
		struct json_object *condition = json_object_array_get_idx(conditions, i);

		if (json_member_is(condition, "type", NODE_CONDITION_PROBLEM))
			return condition;
	}
	return NULL;
}

/* The fields that the condition should have. */
struct words {
	const char *status, *reason, *message;
};

/* condition_build() - the condition for the node's status. NULL if the status has it already (status: as the
 * API server shows it; a node that never had a problem has no condition), or when out of memory. The caller
 * puts it. */
static struct json_object *condition_build(const struct node_registry *node, struct json_object *status)
{
	_cleanup_json_ struct json_object *condition = NULL;
	struct json_object *seen = find(json_member(status, "conditions"));
	const char *since = json_member_string(seen, "lastTransitionTime");
	struct node_problem problem;
	char now[MICRO_TIME_SIZE];
	struct words words;
	const char *unknown;

	condition_problem(node, &problem);
	unknown = node->problems.unknown_functions;
	words = (struct words){"False", "NoProblem", "nothing stands in the way of sharing this node's GPUs"};
	if (*problem.text)
		words = (struct words){"True", problem.reason, problem.text};
	else if (*node->problems.other_plugin)
		/* The node keeps serving: closing it would not take the GPUs from the other plugin's pods. */
		words = (struct words){"True", NODE_REASON_ADVERTISED_TWICE, node->problems.other_plugin};
	/* This does not block anything yet, but users should know. */
	else if (*node->problems.device_loss)
		words = (struct words){"False", NODE_REASON_DEVICE_LOSS, node->problems.device_loss};
	else if (*unknown)
		words = (struct words){"False", NODE_REASON_UNKNOWN_FUNCTIONS, unknown};
	if ((!seen && strcmp(words.reason, "NoProblem") == 0) ||
		(json_member_is(seen, "status", words.status) &&
			json_member_is(seen, "reason", words.reason) &&
			json_member_is(seen, "message", words.message)))
		return NULL;
	micro_time_text(realtime_ns(), now);
	if (!since || !json_member_is(seen, "status", words.status))
		since = now;
	condition = json_object_new_object();
	if (!condition || json_set_text(condition, "type", NODE_CONDITION_PROBLEM) < 0 ||
		json_set_text(condition, "status", words.status) < 0 ||
		json_set_text(condition, "reason", words.reason) < 0 ||
		json_set_text(condition, "message", words.message) < 0 ||
		json_set_text(condition, "lastHeartbeatTime", now) < 0 ||
		json_set_text(condition, "lastTransitionTime", since) < 0)
		return NULL;
	return TAKE_PTR(condition);
}

static int patch_annotations(const struct report *report, struct json_object *seen, struct json_object *patch)
{
	const struct node_registry *node = report->registry;
	const struct inventory *inventory = &node->inventory;
	struct gpu_facts gpus[NODE_GPUS_MAX];
	struct gpu_details details[NODE_GPUS_MAX];
	struct node_problem problem;
	bool serves = node->serves;
	_cleanup_free_ char *text = NULL;
	char unit[16];
	int r;

	for (size_t i = 0; i < inventory->n_gpus; i++) {
		gpus[i] = inventory->gpus[i].facts;
		details[i] = inventory->gpus[i].details;
		/* Only a node that gives whole GPUs needs their links. */
		if (node->in_force != GPU_MODE_TOPOLOGY)
			memset(details[i].links, 0, sizeof(details[i].links));
	}
	condition_problem(node, &problem);
	text = inventory_to_json(gpus, details, inventory->n_gpus);
	if (!text)
		return -ENOMEM;
	snprintf(unit, sizeof(unit), "%u", inventory->unit_mib);
	r = patch_text(patch, seen, ANNOTATION_NODE_GPUS, serves ? text : NULL);
	if (r == 0)
		r = patch_text(patch, seen, ANNOTATION_NODE_UNIT, serves ? unit : NULL);
	if (r == 0)
		r = patch_serving(node, seen, patch);
	if (r == 0)
		r = patch_held(report->leftovers, seen, patch);
	if (r == 0)
		r = patch_text(patch, seen, ANNOTATION_NODE_PROBLEM, *problem.text ? problem.text : NULL);
	if (r == 0)
		r = patch_mig(node, seen, patch);
	if (r == 0)
		r = patch_pending(node, seen, patch);
	/* Without a mode the scheduler places nothing here; the inventory stays while pods hold units. */
	return r ? r
		 : patch_text(patch, seen, ANNOTATION_NODE_MODE,
			   serves && !*node->problems.isolation ? gpu_mode_text(node->in_force) : NULL);
}

static void report_failed(struct report *report, const struct kube_response *response)
{
	log_warning("cannot report the GPUs on node %s: %s", report->registry->name, response->text);
	report->not_before_ns = monotonic_ns() + RETRY_NS;
}

static void on_meta(void *userdata, const struct kube_response *response)
{
	struct report *report = userdata;

	report->meta = NULL;
	if (response->result < 0 || response->status >= 300)
		report_failed(report, response);
}

static void on_status(void *userdata, const struct kube_response *response)
{
	struct report *report = userdata;

	report->status = NULL;
	if (response->result < 0 || response->status >= 300)
		report_failed(report, response);
}

static void report_send(struct report *report, const char *sub, const char *kind, struct json_object *patch,
	kube_response_fn fn, struct kube_request **ret_request)
{
	const char *text = json_text(patch);
	char path[300];

	snprintf(path, sizeof(path), "/api/v1/nodes/%s%s", report->registry->name, sub);
	if (text)
		kube_request(report->client, "PATCH", path, kind, text, TIMEOUT_MS, fn, report, ret_request);
}

static void report_meta(struct report *report)
{
	_cleanup_json_ struct json_object *patch = json_object_new_object();
	struct json_object *seen = json_member(report->node, "metadata");
	struct json_object *meta = json_object_new_object(), *labels = json_object_new_object();
	struct json_object *annotations = json_object_new_object();

	if (!patch || json_set(patch, "metadata", meta) < 0 || json_set(meta, "labels", labels) < 0 ||
		json_set(meta, "annotations", annotations) < 0)
		return;
	if (patch_labels(report, json_member(seen, "labels"), labels) < 0 ||
		patch_annotations(report, json_member(seen, "annotations"), annotations) < 0)
		return;
	if (json_object_object_length(labels) || json_object_object_length(annotations))
		report_send(report, "", KUBE_CONTENT_MERGE_PATCH, patch, on_meta, &report->meta);
}

/* gpu-count is not a device plugin's resource: the kubelet keeps what others write into capacity, and derives
 * allocatable. */
static int patch_count(const struct node_registry *node, struct json_object *seen, struct json_object *status)
{
	struct json_object *capacity = json_object_new_object(), *allocatable = json_object_new_object();
	const char *has = json_member_string(json_member(seen, "capacity"), RESOURCE_GPU_COUNT);
	char count[16];

	if (json_set(status, "capacity", capacity) < 0 || json_set(status, "allocatable", allocatable) < 0)
		return -ENOMEM;
	snprintf(count, sizeof(count), "%zu",
		node_registry_offers(node, IDS_OF_UNITS) ? node->inventory.n_gpus : 0);
	if (!has && strcmp(count, "0") == 0)
		return 0;
	if (patch_text(capacity, json_member(seen, "capacity"), RESOURCE_GPU_COUNT, count) < 0 ||
		patch_text(allocatable, json_member(seen, "allocatable"), RESOURCE_GPU_COUNT, count) < 0)
		return -ENOMEM;
	return json_object_object_length(capacity) || json_object_object_length(allocatable);
}

/* Only a strategic patch merges a list of conditions by their type. */
static int patch_condition(
	const struct node_registry *node, struct json_object *seen, struct json_object *status)
{
	struct json_object *condition = condition_build(node, seen), *list;

	if (!condition)
		return 0;
	list = json_object_new_array();
	if (!list || json_object_array_add(list, condition) < 0) {
		json_object_put(condition);
		json_object_put(list);
		return -ENOMEM;
	}
	return json_set(status, "conditions", list) < 0 ? -ENOMEM : 1;
}

static void report_status(struct report *report)
{
	_cleanup_json_ struct json_object *patch = json_object_new_object();
	struct json_object *seen = json_member(report->node, "status"), *status = json_object_new_object();
	int count, condition;

	if (!patch || json_set(patch, "status", status) < 0)
		return;
	count = patch_count(report->registry, seen, status);
	condition = patch_condition(report->registry, seen, status);
	if (count >= 0 && condition >= 0 && count + condition)
		report_send(
			report, "/status", KUBE_CONTENT_STRATEGIC_PATCH, patch, on_status, &report->status);
}

void report_update(struct report *report)
{
	if (!report->node || !report->client || report->meta || report->status ||
		monotonic_ns() < report->not_before_ns)
		return;
	/* The watch shows a success, and this function runs again. Without that, the same write is not
	 * repeated at once. */
	report_meta(report);
	report_status(report);
	if (report->meta || report->status)
		report->not_before_ns = monotonic_ns() + RETRY_NS;
}
