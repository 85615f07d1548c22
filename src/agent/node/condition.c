#include "agent/node/condition.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "kube/json.h"
#include "kube/micro-time.h"
#include "kube/names.h"
#include "node/registry.h"

static bool all_are_sick(const struct inventory *inventory)
{
	for (size_t i = 0; i < inventory->n_gpus; i++)
		if (inventory->gpus[i].facts.healthy)
			return false;
	return inventory->n_gpus > 0;
}

void condition_problem(const struct node_registry *node, struct node_problem *ret_problem)
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
		const char *type = json_member_string(condition, "type");

		if (type && strcmp(type, NODE_CONDITION_PROBLEM) == 0)
			return condition;
	}
	return NULL;
}

static bool says(struct json_object *condition, const char *key, const char *text)
{
	const char *has = json_member_string(condition, key);

	return has && strcmp(has, text) == 0;
}

/* The fields that the condition should have. */
struct words {
	const char *status, *reason, *message;
};

static void find_words(
	const struct node_registry *node, const struct node_problem *problem, struct words *ret_words)
{
	const char *unknown = node->problems.unknown_functions;

	*ret_words = (struct words){
		"False", "NoProblem", "nothing stands in the way of sharing this node's GPUs"};
	if (*problem->text)
		*ret_words = (struct words){"True", problem->reason, problem->text};
	else if (*node->problems.other_plugin)
		/* The node keeps serving: closing it would not take the GPUs from the other plugin's pods. */
		*ret_words = (struct words){
			"True", NODE_REASON_ADVERTISED_TWICE, node->problems.other_plugin};
	/* This does not block anything yet, but users should know. */
	else if (*node->problems.device_loss)
		*ret_words = (struct words){"False", NODE_REASON_DEVICE_LOSS, node->problems.device_loss};
	else if (*unknown)
		*ret_words = (struct words){"False", NODE_REASON_UNKNOWN_FUNCTIONS, unknown};
}

struct json_object *condition_build(const struct node_registry *node, struct json_object *status)
{
	_cleanup_json_ struct json_object *condition = NULL;
	struct json_object *seen = find(json_member(status, "conditions"));
	const char *since = json_member_string(seen, "lastTransitionTime");
	struct node_problem problem;
	char now[MICRO_TIME_SIZE];
	struct words words;

	condition_problem(node, &problem);
	find_words(node, &problem, &words);
	if ((!seen && strcmp(words.reason, "NoProblem") == 0) ||
		(says(seen, "status", words.status) && says(seen, "reason", words.reason) &&
			says(seen, "message", words.message)))
		return NULL;
	micro_time_text(realtime_ns(), now);
	if (!since || !says(seen, "status", words.status))
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
