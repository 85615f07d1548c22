#include "kube/history.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "kube/card-name.h"
#include "kube/held.h"
#include "kube/json.h"
#include "kube/pod.h"
#include "model/node-ledger.h"
#include "model/nomination.h"
#include "model/units.h"

/* Nothing in a history ends by itself: every end is an event of its own. */
#define NEVER_NS (INT64_MAX - 1)

static const char *const verb_texts[LEDGER_VERB_MAX] = {
	[LEDGER_SET_NODE] = "set-node",
	[LEDGER_REMOVE_NODE] = "remove-node",
	[LEDGER_SET_POD] = "set-pod",
	[LEDGER_REMOVE_POD] = "remove-pod",
	[LEDGER_DELETE_POD] = "delete-pod",
	[LEDGER_AGENT_LOST] = "agent-lost",
	[LEDGER_HOLD] = "hold",
	[LEDGER_DROP_HOLD] = "drop-hold",
	[LEDGER_RESERVE] = "reserve",
	[LEDGER_CONFIRM] = "confirm",
	[LEDGER_RELEASE] = "release",
	[LEDGER_NOMINATE] = "nominate",
	[LEDGER_DROP_NOMINATION] = "drop-nomination",
};

static const char *const state_texts[] = {
	[OCCUPANCY_WAITING] = "waiting",
	[OCCUPANCY_TENTATIVE] = "tentative",
	[OCCUPANCY_RESERVED] = "reserved",
	[OCCUPANCY_BOUND] = "bound",
	[OCCUPANCY_GHOST] = "ghost",
};

static const char *const kind_texts[] = {
	[CONTAINER_INIT] = "init", [CONTAINER_SIDECAR] = "sidecar", [CONTAINER_MAIN] = "main"};

static int text_index(const char *const *texts, size_t n, const char *text)
{
	for (size_t i = 0; text && i < n; i++)
		if (texts[i] && strcmp(texts[i], text) == 0)
			return (int)i;
	return -1;
}

static int append(struct json_object *array, struct json_object *item)
{
	if (!item)
		return -ENOMEM;
	if (json_object_array_add(array, item) == 0)
		return 0;
	json_object_put(item);
	return -ENOMEM;
}

static struct json_object *text_json(const char *text)
{
	return json_object_new_string(text ? text : "");
}

/* Written ahead of its use, so that a failure in between frees it. */
static struct json_object *put_unless(struct json_object *object, int r)
{
	if (r >= 0)
		return object;
	json_object_put(object);
	return NULL;
}

/* ---- placements ---- */

static struct json_object *placement_json(const struct placement *placement)
{
	_cleanup_free_ char *text = placement_to_json(placement);

	return text ? json_tokener_parse(text) : NULL;
}

static int placement_read(struct json_object *object, struct placement *ret_placement, struct error *err)
{
	const char *text = object ? json_text(object) : NULL;

	if (!text)
		return error_set(err, EINVAL, "a placement is missing");
	return placement_from_json(text, ret_placement, err);
}

/* ---- nodes ---- */

static struct json_object *card_json(const struct gpu_facts *gpu, uint32_t unit_mib)
{
	struct json_object *card = json_object_new_object();
	int r = json_set(card, "index", json_object_new_int64(gpu->index));

	r |= json_set(card, "uuid", text_json(gpu->uuid));
	r |= json_set(card, "units", json_object_new_int64(units_of_card(gpu->mib, unit_mib)));
	r |= json_set(card, "healthy", json_object_new_boolean(gpu->healthy));
	return put_unless(card, r);
}

static struct json_object *held_pod_json(const struct held_pod *held)
{
	struct json_object *pod = json_object_new_object(), *cards = json_object_new_object();
	int r = json_set(pod, "uid", text_json(held->uid));

	r |= json_set(pod, "namespace", text_json(held->namespace_));
	r |= json_set(pod, "name", text_json(held->name));
	for (size_t i = 0; i < held->n_cards; i++) {
		struct json_object *share = json_object_new_object();

		r |= json_set(share, "units", json_object_new_int64(held->cards[i].units));
		r |= json_set(share, "core", json_object_new_int64(held->cards[i].core));
		r |= json_set(cards, held->cards[i].uuid, share);
	}
	r |= json_set(pod, "cards", cards);
	return put_unless(pod, r);
}

static struct json_object *held_json(const struct held *held)
{
	struct json_object *object = json_object_new_object(), *pods = json_object_new_array(),
			   *ended = json_object_new_array();
	int r = json_set(object, "at", text_json(held->at));

	for (size_t i = 0; i < held->n_pods; i++)
		r |= append(pods, held_pod_json(&held->pods[i]));
	for (size_t i = 0; i < held->n_ended; i++)
		r |= append(ended, text_json(held->ended[i]));
	r |= json_set(object, "pods", pods);
	if (held->names_ended)
		r |= json_set(object, "ended", ended);
	else
		json_object_put(ended);
	return put_unless(object, r);
}

struct json_object *history_node_facts_to_json(const struct node_facts *facts)
{
	struct json_object *node = json_object_new_object(), *cards = json_object_new_array();
	int r = json_set(node, "name", text_json(facts->name));

	r |= json_set(node, "uid", text_json(facts->uid));
	r |= json_set(node, "mode", text_json(gpu_mode_text(facts->mode)));
	r |= json_set(node, "policy", text_json(gpu_policy_text(facts->policy)));
	r |= json_set(node, "unit", json_object_new_int64(facts->unit_mib));
	r |= json_set(node, "serving", json_object_new_boolean(facts->serving));
	for (size_t i = 0; i < facts->n_gpus; i++)
		r |= append(cards, card_json(&facts->gpus[i], facts->unit_mib));
	r |= json_set(node, "cards", cards);
	if (*facts->held.at)
		r |= json_set(node, "held", held_json(&facts->held));
	return put_unless(node, r);
}

/* What the ledger has of a node's facts: sizes in whole units, no models. Borrows. */
static void facts_of_node(const struct node_ledger *node, struct node_facts *ret_facts)
{
	*ret_facts = (struct node_facts){.name = node->facts.name,
		.uid = node->facts.uid,
		.mode = node->facts.mode,
		.policy = node->facts.policy,
		.unit_mib = node->facts.unit_mib,
		.n_gpus = node->facts.n_gpus,
		.serving = node->facts.serving,
		.held = node->facts.held};
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		struct gpu_facts *gpu = &ret_facts->gpus[i];

		gpu->index = node->gpus[i].index;
		gpu->mib = (uint64_t)node->gpus[i].units_total * node->facts.unit_mib;
		gpu->healthy = node->gpus[i].healthy;
		memcpy(gpu->uuid, node->gpus[i].uuid, sizeof(gpu->uuid));
	}
}

struct json_object *history_node_to_json(const struct node_ledger *node)
{
	struct json_object *object;
	struct node_facts facts;

	facts_of_node(node, &facts);
	object = history_node_facts_to_json(&facts);
	if (object && node->agent_lost)
		return put_unless(object, json_set(object, "lost", json_object_new_boolean(true)));
	return object;
}

static int card_read(struct json_object *card, uint32_t unit_mib, struct gpu_facts *ret_gpu)
{
	const char *uuid = json_member_string(card, "uuid");
	int64_t index, units;

	if (!uuid || !card_name_is_valid(uuid) ||
		json_whole(json_member(card, "index"), 0, INT32_MAX, &index) < 0 ||
		json_whole(json_member(card, "units"), 0, UNITS_MAX, &units) < 0)
		return -EINVAL;
	*ret_gpu = (struct gpu_facts){.index = (int)index,
		.mib = (uint64_t)units * unit_mib,
		.healthy = json_object_get_boolean(json_member(card, "healthy"))};
	memcpy(ret_gpu->uuid, uuid, strlen(uuid) + 1);
	return 0;
}

static int cards_read(struct json_object *cards, struct node_facts *facts)
{
	if (!json_object_is_type(cards, json_type_array) || json_object_array_length(cards) > NODE_GPUS_MAX)
		return -EINVAL;
	for (; facts->n_gpus < json_object_array_length(cards); facts->n_gpus++)
		if (card_read(json_object_array_get_idx(cards, facts->n_gpus), facts->unit_mib,
			    &facts->gpus[facts->n_gpus]) < 0)
			return -EINVAL;
	return 0;
}

static int node_facts_read(struct json_object *object, struct node_facts *facts, struct error *err)
{
	const char *name = json_member_string(object, "name"), *uid = json_member_string(object, "uid");
	const char *mode = json_member_string(object, "mode");
	const char *policy = json_member_string(object, "policy");
	struct json_object *held = json_member(object, "held");
	int64_t unit;

	node_facts_init(facts);
	if (!name || !*name || !uid || !*uid || !mode || gpu_mode_parse(mode, &facts->mode) < 0 || !policy ||
		json_whole(json_member(object, "unit"), 1, INT32_MAX, &unit) < 0)
		return error_set(err, EINVAL, "a node without name, uid, mode, policy or unit");
	facts->name = strdup(name);
	facts->uid = strdup(uid);
	facts->policy = strcmp(policy, "spread") == 0 ? GPU_POLICY_SPREAD : GPU_POLICY_BINPACK;
	facts->unit_mib = (uint32_t)unit;
	facts->serving = json_object_get_boolean(json_member(object, "serving"));
	if (!facts->name || !facts->uid)
		return error_set(err, ENOMEM, "out of memory");
	if (cards_read(json_member(object, "cards"), facts) < 0)
		return error_set(err, EINVAL, "node %s: a card that cannot be read", name);
	return held ? held_from_json(json_text(held), &facts->held, err) : 0;
}

/* ---- pods ---- */

static struct json_object *container_json(const struct container_request *request)
{
	struct json_object *container = json_object_new_object();
	int r = json_set(container, "name", text_json(request->name));

	r |= json_set(container, "kind", text_json(kind_texts[request->kind]));
	r |= json_set(container, "index", json_object_new_int64(request->index));
	r |= json_set(container, "units", json_object_new_int64(request->units));
	if (request->core)
		r |= json_set(container, "core", json_object_new_int64(request->core));
	return put_unless(container, r);
}

static const struct {
	const char *name;
	size_t offset;
} flags[] = {
	{"finished", offsetof(struct pod_facts, finished)},
	{"pending", offsetof(struct pod_facts, pending)},
	{"deleting", offsetof(struct pod_facts, deleting)},
	{"assigned", offsetof(struct pod_facts, assigned)},
	{"running", offsetof(struct pod_facts, running)},
};

struct json_object *history_pod_facts_to_json(const struct pod_facts *facts)
{
	struct json_object *pod = json_object_new_object(), *containers = json_object_new_array();
	int r = json_set(pod, "uid", text_json(facts->uid));

	r |= json_set(pod, "namespace", text_json(facts->namespace_));
	r |= json_set(pod, "name", text_json(facts->name));
	if (facts->owner && *facts->owner)
		r |= json_set(pod, "owner", text_json(facts->owner));
	if (facts->node && *facts->node)
		r |= json_set(pod, "node", text_json(facts->node));
	if (facts->priority)
		r |= json_set(pod, "priority", json_object_new_int64(facts->priority));
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (*(const bool *)((const char *)facts + flags[i].offset))
			r |= json_set(pod, flags[i].name, json_object_new_boolean(true));
	for (size_t i = 0; i < facts->request.n_containers; i++)
		r |= append(containers, container_json(&facts->request.containers[i]));
	r |= json_set(pod, "containers", containers);
	if (request_cards(&facts->request) > 1)
		r |= json_set(pod, "cards", json_object_new_int64(request_cards(&facts->request)));
	if (facts->has_placement)
		r |= json_set(pod, "placement", placement_json(&facts->placement));
	return put_unless(pod, r);
}

static struct json_object *nomination_json(const struct nomination *nomination)
{
	struct json_object *object = json_object_new_object();
	int r = json_set(object, "on", text_json(nomination->node->facts.name));

	r |= json_set(object, "placement", placement_json(&nomination->shadow.placement));
	return put_unless(object, r);
}

struct json_object *history_pod_to_json(const struct ledger_pod *pod)
{
	struct json_object *object = json_object_new_object();
	int r = json_set(object, "facts", history_pod_facts_to_json(&pod->facts));

	r |= json_set(object, "state", text_json(state_texts[pod->occupancy]));
	r |= json_set(object, "listed", json_object_new_boolean(pod->listed));
	if (pod->node)
		r |= json_set(object, "on", text_json(pod->node));
	if (pod->has_placement)
		r |= json_set(object, "placement", placement_json(&pod->placement));
	if (pod->expires_ns)
		r |= json_set(object, "expires", json_object_new_boolean(true));
	if (pod->nomination)
		r |= json_set(object, "nomination", nomination_json(pod->nomination));
	return put_unless(object, r);
}

static int container_read(struct json_object *container, struct request *request, struct error *err)
{
	int kind = text_index(kind_texts, ARRAY_SIZE(kind_texts), json_member_string(container, "kind"));
	const char *name = json_member_string(container, "name");
	int64_t index, units, core = 0;
	char mem_text[24], core_text[24];

	if (!name || kind < 0 || json_whole(json_member(container, "index"), 0, INT32_MAX, &index) < 0 ||
		json_whole(json_member(container, "units"), 0, UNITS_MAX, &units) < 0 ||
		(json_member(container, "core") &&
			json_whole(json_member(container, "core"), 0, CORE_PER_CARD, &core) < 0))
		return error_set(err, EINVAL, "a container without name, kind, index or units");
	snprintf(mem_text, sizeof(mem_text), "%d", (int)units);
	snprintf(core_text, sizeof(core_text), "%d", (int)core);
	return request_add(
		request, name, (enum container_kind)kind, (int)index, mem_text, core ? core_text : NULL, err);
}

static int copy_text(struct json_object *object, const char *key, char **ret_text)
{
	const char *text = json_member_string(object, key);

	*ret_text = strdup(text ? text : "");
	return *ret_text ? 0 : -ENOMEM;
}

int history_pod_facts_from_json(struct json_object *object, struct pod_facts *ret_facts, struct error *err)
{
	struct json_object *containers = json_member(object, "containers");
	int64_t priority = 0, cards = 1;
	int r = 0;

	pod_facts_init(ret_facts);
	if (copy_text(object, "uid", &ret_facts->uid) < 0 ||
		copy_text(object, "namespace", &ret_facts->namespace_) < 0 ||
		copy_text(object, "name", &ret_facts->name) < 0 ||
		copy_text(object, "owner", &ret_facts->owner) < 0 ||
		copy_text(object, "node", &ret_facts->node) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (!*ret_facts->uid || !json_object_is_type(containers, json_type_array))
		return error_set(err, EINVAL, "a pod without uid or containers");
	json_whole(json_member(object, "priority"), INT32_MIN, INT32_MAX, &priority);
	ret_facts->priority = (int32_t)priority;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		*(bool *)((char *)ret_facts + flags[i].offset) = json_object_get_boolean(
			json_member(object, flags[i].name));
	for (size_t i = 0; r >= 0 && i < json_object_array_length(containers); i++)
		r = container_read(json_object_array_get_idx(containers, i), &ret_facts->request, err);
	json_whole(json_member(object, "cards"), 1, NODE_GPUS_MAX, &cards);
	if (r >= 0)
		r = request_set_cards(&ret_facts->request, (uint32_t)cards, err);
	if (r >= 0 && json_member(object, "placement")) {
		r = placement_read(json_member(object, "placement"), &ret_facts->placement, err);
		ret_facts->has_placement = r >= 0;
	}
	return r;
}

/* ---- state and events ---- */

/* What a node's agent lists becomes a ghost when the ledger is told of it. In a picture it may have ended
 * since: the ghosts that there were come as pods. */
static void remove_pods_of(struct ledger *ledger, const char *name)
{
	const struct node_ledger *node = ledger_node(ledger, name);

	list_for_each_safe (item, after, &node->pods)
		ledger_remove_pod(ledger, list_entry(item, struct ledger_pod, item)->facts.uid);
}

int history_restore_node(struct ledger *ledger, struct json_object *object, struct error *err)
{
	_cleanup_node_facts_ struct node_facts facts;
	int r = node_facts_read(object, &facts, err);

	if (r >= 0 && ledger_set_node(ledger, &facts) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	if (r >= 0)
		remove_pods_of(ledger, facts.name);
	if (r >= 0 && json_object_get_boolean(json_member(object, "lost")))
		ledger_set_agent_lost(ledger, facts.name, true);
	return r;
}

static int nomination_read(struct ledger *ledger, struct json_object *object,
	struct nomination *ret_nomination, struct error *err)
{
	const char *on = json_member_string(object, "on");
	const struct node_ledger *node = on ? ledger_node(ledger, on) : NULL;

	if (!node)
		return error_set(err, EINVAL, "a nomination for a node that is not there");
	ret_nomination->node = (struct node_ledger *)node;
	ret_nomination->expires_ns = NEVER_NS;
	return placement_read(json_member(object, "placement"), &ret_nomination->shadow.placement, err);
}

int history_restore_pod(struct ledger *ledger, struct json_object *object, struct error *err)
{
	int state = text_index(state_texts, ARRAY_SIZE(state_texts), json_member_string(object, "state"));
	struct nomination nomination = {0};
	struct ledger_pod image = {
		.occupancy = (enum occupancy)state,
		.node = (char *)json_member_string(object, "on"),
		.has_placement = json_member(object, "placement") != NULL,
		.listed = json_object_get_boolean(json_member(object, "listed")),
		.expires_ns = json_object_get_boolean(json_member(object, "expires")) ? NEVER_NS : 0,
	};
	int r;

	if (state < 0)
		return error_set(err, EINVAL, "a pod without state");
	r = history_pod_facts_from_json(json_member(object, "facts"), &image.facts, err);
	if (r >= 0 && image.has_placement)
		r = placement_read(json_member(object, "placement"), &image.placement, err);
	if (r >= 0 && json_member(object, "nomination")) {
		r = nomination_read(ledger, json_member(object, "nomination"), &nomination, err);
		image.nomination = &nomination;
	}
	if (r >= 0 && ledger_restore_pod(ledger, &image) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	pod_facts_release(&image.facts);
	placement_release(&image.placement);
	placement_release(&nomination.shadow.placement);
	return r;
}

struct json_object *history_event_to_json(const struct ledger_event *event)
{
	struct json_object *object = json_object_new_object();
	int r = json_set(object, "event", text_json(verb_texts[event->verb]));

	r |= json_set(object, "key", text_json(event->key));
	if (event->node_uid)
		r |= json_set(object, "nodeUid", text_json(event->node_uid));
	if (event->node)
		r |= json_set(object, "node", history_node_facts_to_json(event->node));
	if (event->pod)
		r |= json_set(object, "pod", history_pod_facts_to_json(event->pod));
	if (event->on)
		r |= json_set(object, "on", text_json(event->on));
	if (event->placement)
		r |= json_set(object, "placement", placement_json(event->placement));
	if (event->lost)
		r |= json_set(object, "lost", json_object_new_boolean(true));
	return put_unless(object, r);
}

static int event_check(const struct ledger_event *event, struct error *err)
{
	bool whole = event->key && *event->key;

	if (event->verb == LEDGER_SET_NODE)
		whole = event->node;
	else if (event->verb == LEDGER_SET_POD)
		whole = event->pod;
	else if (event->verb == LEDGER_REMOVE_NODE)
		whole = whole && event->node_uid;
	else if (event->verb == LEDGER_HOLD || event->verb == LEDGER_RESERVE ||
		 event->verb == LEDGER_NOMINATE)
		whole = event->pod && event->on && event->placement;
	return whole ? 0 : error_set(err, EINVAL, "an event without what it needs");
}

int history_event_from_json(struct json_object *object, struct history_event *ret_event, struct error *err)
{
	int verb = text_index(verb_texts, ARRAY_SIZE(verb_texts), json_member_string(object, "event")), r = 0;
	struct ledger_event *event = &ret_event->event;

	*ret_event = (struct history_event){0};
	if (verb < 0)
		return error_set(err, EINVAL, "an event of a kind that is not known");
	*event = (struct ledger_event){.verb = (enum ledger_verb)verb,
		.key = json_member_string(object, "key"),
		.node_uid = json_member_string(object, "nodeUid"),
		.on = json_member_string(object, "on"),
		.lost = json_object_get_boolean(json_member(object, "lost")),
		.expires_ns = NEVER_NS};
	if (json_member(object, "node")) {
		r = node_facts_read(json_member(object, "node"), &ret_event->node, err);
		event->node = &ret_event->node;
	}
	if (r >= 0 && json_member(object, "pod")) {
		r = history_pod_facts_from_json(json_member(object, "pod"), &ret_event->pod, err);
		event->pod = &ret_event->pod;
	}
	if (r >= 0 && json_member(object, "placement")) {
		r = placement_read(json_member(object, "placement"), &ret_event->placement, err);
		event->placement = &ret_event->placement;
	}
	return r < 0 ? r : event_check(event, err);
}

void history_event_release(struct history_event *event)
{
	node_facts_release(&event->node);
	pod_facts_release(&event->pod);
	placement_release(&event->placement);
}
