#include "scheduler/decision-json.h"

#include <json-c/json.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "kube/json.h"
#include "scheduler/recorder.h"

const char *time_text(int64_t realtime_ns, char buf[TIME_TEXT_SIZE])
{
	time_t seconds = (time_t)(realtime_ns / NS_PER_S);
	unsigned us = (unsigned)(realtime_ns % NS_PER_S) / 1000;
	struct tm utc;
	size_t len;

	gmtime_r(&seconds, &utc);
	len = strftime(buf, TIME_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(buf + len, TIME_TEXT_SIZE - len, ".%06uZ", us);
	return buf;
}

static struct json_object *nodes_to_json(const struct decision *decision)
{
	struct json_object *nodes = json_object_new_array();

	for (size_t i = 0; i < decision->n_nodes; i++) {
		struct json_object *node = json_object_new_object();

		json_set(node, "name", json_object_new_string(decision->nodes[i].name));
		if (decision->kind == DECISION_PRIORITIZE)
			json_set(node, "score", json_object_new_int64(decision->nodes[i].score));
		json_object_array_add(nodes, node);
	}
	return nodes;
}

static struct json_object *reasons_to_json(const struct decision *decision)
{
	struct json_object *reasons = json_object_new_array();

	for (size_t i = 0; i < decision->n_reasons; i++) {
		struct json_object *reason = json_object_new_object();

		json_set(reason, "reason", json_object_new_string(decision->reasons[i].text));
		json_set(reason, "nodes", json_object_new_int64(decision->reasons[i].nodes));
		json_object_array_add(reasons, reason);
	}
	return reasons;
}

static struct json_object *gpus_to_json(const struct decision *decision)
{
	struct json_object *gpus = json_object_new_array();

	for (size_t i = 0; i < decision->n_gpus; i++) {
		struct json_object *gpu = json_object_new_object();

		json_set(gpu, "index", json_object_new_int64(decision->gpus[i].index));
		json_set(gpu, "uuid", json_object_new_string(decision->gpus[i].uuid));
		json_set(gpu, "free", json_object_new_int64(decision->gpus[i].units_free));
		json_set(gpu, "total", json_object_new_int64(decision->gpus[i].units_total));
		json_object_array_add(gpus, gpu);
	}
	return gpus;
}

static struct json_object *victims_to_json(const struct decision *decision)
{
	struct json_object *victims = json_object_new_array();

	for (size_t i = 0; i < decision->n_victims; i++) {
		const struct decision_victim *from = &decision->victims[i];
		struct json_object *victim = json_object_new_object();

		json_set(victim, "namespace", json_object_new_string(from->namespace_));
		json_set(victim, "name", json_object_new_string(from->name));
		json_set(victim, "priority", json_object_new_int64(from->priority));
		json_object_array_add(victims, victim);
	}
	return victims;
}

/* Which of the lists and texts each kind of decision has. */
enum part {
	PART_ASKED = 1,
	PART_NODES = 2,
	PART_FITTING = 4,
	PART_REASONS = 8,
	PART_VICTIMS = 16,
	PART_ERROR = 32
};

static unsigned parts_of(enum decision_kind kind)
{
	static const unsigned parts[DECISION_KIND_MAX] = {
		[DECISION_FILTER] = PART_ASKED | PART_NODES | PART_FITTING | PART_REASONS,
		[DECISION_PRIORITIZE] = PART_ASKED | PART_NODES,
		[DECISION_OUTCOME] = PART_ERROR,
		[DECISION_FILTER_ERROR] = PART_ERROR,
		[DECISION_PREEMPT] = PART_ASKED | PART_FITTING | PART_REASONS | PART_VICTIMS,
		[DECISION_EVICT_SEARCH] = PART_ASKED | PART_NODES | PART_FITTING,
		[DECISION_POLICY] = PART_ASKED | PART_NODES | PART_FITTING,
		[DECISION_EVICT_PLAN] = PART_VICTIMS,
		[DECISION_EVICT_ANSWER] = PART_VICTIMS | PART_ERROR,
		[DECISION_GANG_EVICT] = PART_ERROR,
	};

	return parts[kind];
}

static void add_choice(struct json_object *object, const struct decision *decision)
{
	if (!*decision->node)
		return;
	json_set(object, "node", json_object_new_string(decision->node));
	if (!decision->n_gpus)
		return;
	json_set(object, "policy", json_object_new_string(decision->policy));
	json_set(object, "cardsFitting", json_object_new_int64(decision->n_gpus_fitting));
	json_set(object, "cards", gpus_to_json(decision));
}

struct json_object *decision_to_json(const struct decision *decision)
{
	struct json_object *object = json_object_new_object();
	unsigned parts = parts_of(decision->kind);
	char time[TIME_TEXT_SIZE];

	json_set(object, "time", json_object_new_string(time_text(decision->time_ns, time)));
	json_set(object, "decision", json_object_new_string(decision_kind_text(decision->kind)));
	json_set(object, "uid", json_object_new_string(decision->uid));
	json_set(object, "namespace", json_object_new_string(decision->namespace_));
	json_set(object, "name", json_object_new_string(decision->name));
	if (decision->units)
		json_set(object, "units", json_object_new_int64(decision->units));
	if (parts & PART_ASKED)
		json_set(object, "asked", json_object_new_int64(decision->n_asked));
	if (parts & PART_NODES)
		json_set(object, "nodes", nodes_to_json(decision));
	if (parts & PART_FITTING)
		json_set(object, "fitting", json_object_new_int64(decision->n_fitting));
	if (parts & PART_REASONS)
		json_set(object, "reasons", reasons_to_json(decision));
	if (parts & PART_VICTIMS)
		json_set(object, "victims", victims_to_json(decision));
	if (decision->n_victims_unnamed)
		json_set(object, "moreVictims", json_object_new_int64(decision->n_victims_unnamed));
	add_choice(object, decision);
	if (parts & PART_ERROR)
		json_set(object, "error", json_object_new_string(decision->text));
	else if (*decision->text)
		json_set(object, "text", json_object_new_string(decision->text));
	if (decision->kind == DECISION_OUTCOME)
		json_set(object, "spentUs", json_object_new_int64(decision->spent_ns / 1000));
	return object;
}
