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

static struct json_object *cards_to_json(const struct decision *decision)
{
	struct json_object *cards = json_object_new_array();

	for (size_t i = 0; i < decision->n_cards; i++) {
		struct json_object *card = json_object_new_object();

		json_set(card, "index", json_object_new_int64(decision->cards[i].index));
		json_set(card, "uuid", json_object_new_string(decision->cards[i].uuid));
		json_set(card, "free", json_object_new_int64(decision->cards[i].units_free));
		json_set(card, "total", json_object_new_int64(decision->cards[i].units_total));
		json_object_array_add(cards, card);
	}
	return cards;
}

static void add_choice(struct json_object *object, const struct decision *decision)
{
	if (!*decision->node)
		return;
	json_set(object, "node", json_object_new_string(decision->node));
	if (!decision->n_cards)
		return;
	json_set(object, "policy", json_object_new_string(decision->policy));
	json_set(object, "cardsFitting", json_object_new_int64(decision->n_cards_fitting));
	json_set(object, "cards", cards_to_json(decision));
}

struct json_object *decision_to_json(const struct decision *decision)
{
	struct json_object *object = json_object_new_object();
	char time[TIME_TEXT_SIZE];

	json_set(object, "time", json_object_new_string(time_text(decision->time_ns, time)));
	json_set(object, "decision", json_object_new_string(decision_kind_text(decision->kind)));
	json_set(object, "uid", json_object_new_string(decision->uid));
	json_set(object, "namespace", json_object_new_string(decision->namespace_));
	json_set(object, "name", json_object_new_string(decision->name));
	if (decision->units)
		json_set(object, "units", json_object_new_int64(decision->units));
	if (decision->kind == DECISION_FILTER || decision->kind == DECISION_PRIORITIZE) {
		json_set(object, "asked", json_object_new_int64(decision->n_asked));
		json_set(object, "nodes", nodes_to_json(decision));
	}
	if (decision->kind == DECISION_FILTER) {
		json_set(object, "fitting", json_object_new_int64(decision->n_fitting));
		json_set(object, "reasons", reasons_to_json(decision));
	}
	add_choice(object, decision);
	if (decision->kind == DECISION_OUTCOME) {
		json_set(object, "error", json_object_new_string(decision->text));
		json_set(object, "spentUs", json_object_new_int64(decision->spent_ns / 1000));
	}
	return object;
}
