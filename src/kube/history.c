#include "kube/history.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"
#include "core/registry/resize.h"
#include "kube/gpu-name.h"
#include "kube/held.h"
#include "kube/history-internal.h"
#include "kube/json.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "model/units.h"

/* Nothing in a history ends by itself: every end is an event of its own. */
#define NEVER_NS (INT64_MAX - 1)

static int text_index(const char *const *texts, size_t n, const char *text)
{
	for (size_t i = 0; text && i < n; i++)
		if (texts[i] && strcmp(texts[i], text) == 0)
			return (int)i;
	return -1;
}

/* ---- placements ---- */

static int placement_read(struct json_object *object, struct placement *ret_placement, struct error *err)
{
	const char *text = object ? json_text(object) : NULL;

	if (!text)
		return error_set(err, EINVAL, "a placement is missing");
	return placement_from_json(text, ret_placement, err);
}

/* ---- nodes ---- */

static int gpu_read(struct json_object *gpu, uint32_t unit_mib, size_t n, struct gpu_facts *ret_gpu)
{
	const char *uuid = json_member_string(gpu, "uuid");
	int64_t index, units;

	if (!uuid || !gpu_name_is_valid(uuid) ||
		json_whole(json_member(gpu, "index"), 0, INT32_MAX, &index) < 0 ||
		json_whole(json_member(gpu, "units"), 0, UNITS_MAX, &units) < 0)
		return -EINVAL;
	*ret_gpu = (struct gpu_facts){.index = (int)index,
		.mib = (uint64_t)units * unit_mib,
		.healthy = json_object_get_boolean(json_member(gpu, "healthy"))};
	memcpy(ret_gpu->uuid, uuid, strlen(uuid) + 1);
	gpu_links_from_json(gpu, n, ret_gpu);
	return 0;
}

static int gpus_read(struct json_object *gpus, struct node_facts *facts)
{
	if (!json_object_is_type(gpus, json_type_array) || json_object_array_length(gpus) > NODE_GPUS_MAX)
		return -EINVAL;
	for (; facts->n_gpus < json_object_array_length(gpus); facts->n_gpus++)
		if (gpu_read(json_object_array_get_idx(gpus, facts->n_gpus), facts->unit_mib,
			    json_object_array_length(gpus), &facts->gpus[facts->n_gpus]) < 0)
			return -EINVAL;
	return 0;
}

static int node_facts_read(struct json_object *object, struct node_facts *facts, struct error *err)
{
	const char *name = json_member_string(object, "name"), *uid = json_member_string(object, "uid");
	const char *mode = json_member_string(object, "mode");
	const char *policy = json_member_string(object, "policy");
	struct json_object *held = json_member(object, "held");
	int64_t unit, containers = 0;

	node_facts_init(facts);
	if (!name || !*name || !uid || !*uid || !mode || gpu_mode_parse(mode, &facts->mode) < 0 || !policy ||
		json_whole(json_member(object, "unit"), 1, INT32_MAX, &unit) < 0)
		return error_set(err, EINVAL, "a node without name, uid, mode, policy or unit");
	json_whole(json_member(object, "maxContainers"), 1, INT32_MAX, &containers);
	facts->name = strdup(name);
	facts->uid = strdup(uid);
	facts->policy = strcmp(policy, "spread") == 0 ? GPU_POLICY_SPREAD : GPU_POLICY_BINPACK;
	facts->unit_mib = (uint32_t)unit;
	facts->instances_max = (uint32_t)containers;
	facts->mixing = json_object_get_boolean(json_member(object, "mixing"));
	facts->serving = json_object_get_boolean(json_member(object, "serving"));
	facts->changing = json_object_get_boolean(json_member(object, "changing"));
	facts->held_unreadable = json_object_get_boolean(json_member(object, "heldUnreadable"));
	if (!facts->name || !facts->uid)
		return error_set(err, ENOMEM, "out of memory");
	if (gpus_read(json_member(object, "cards"), facts) < 0)
		return error_set(err, EINVAL, "node %s: a card that cannot be read", name);
	return held ? held_from_json(json_text(held), &facts->held, err) : 0;
}

/* ---- pods ---- */

static int container_read(
	struct json_object *container, bool whole, struct request *request, struct error *err)
{
	int kind = text_index(history_kind_texts, HISTORY_KINDS, json_member_string(container, "kind"));
	const char *name = json_member_string(container, "name");
	int64_t index, units, asked, core = 0;
	char mem_text[24], core_text[24];
	int r;

	if (!name || kind < 0 || json_whole(json_member(container, "index"), 0, INT32_MAX, &index) < 0 ||
		json_whole(json_member(container, "units"), 0, UNITS_MAX, &units) < 0 ||
		(json_member(container, "core") &&
			json_whole(json_member(container, "core"), 0, UNITS_MAX, &core) < 0))
		return error_set(err, EINVAL, "a container without name, kind, index or units");
	snprintf(mem_text, sizeof(mem_text), "%d", (int)units);
	snprintf(core_text, sizeof(core_text), "%d", (int)core);
	if (whole)
		return request_add_whole(request, name, (enum container_kind)kind, (int)index, mem_text, err);
	r = request_add_bound(request, name, (enum container_kind)kind, (int)index, mem_text, core_text, err);
	if (r == 0 && units && json_whole(json_member(container, "asked"), 1, UNITS_MAX, &asked) == 0) {
		request->containers[request->n_containers - 1].asked = (uint32_t)asked;
		request_recompute(request);
	}
	return r;
}

static int copy_text(struct json_object *object, const char *key, char **ret_text)
{
	const char *text = json_member_string(object, key);

	*ret_text = strdup(text ? text : "");
	return *ret_text ? 0 : -ENOMEM;
}

static int group_read(struct json_object *object, struct request *request, struct error *err)
{
	const char *group = json_member_string(object, "group");
	int64_t pods = 0;

	if (!group)
		return 0;
	json_whole(json_member(object, "groupPods"), 0, UINT32_MAX, &pods);
	request->group_pods = (uint32_t)pods;
	request->group = strdup(group);
	return request->group ? 0 : error_set(err, ENOMEM, "out of memory");
}

int history_pod_facts_from_json(struct json_object *object, struct pod_facts *ret_facts, struct error *err)
{
	struct json_object *containers = json_member(object, "containers");
	bool whole = json_object_get_boolean(json_member(object, "whole"));
	int64_t priority = 0, gpus = 1, unit = 0;
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
	for (size_t i = 0; i < HISTORY_FLAGS; i++)
		*(bool *)((char *)ret_facts + history_flags[i].offset) = json_object_get_boolean(
			json_member(object, history_flags[i].name));
	for (size_t i = 0; r >= 0 && i < json_object_array_length(containers); i++)
		r = container_read(json_object_array_get_idx(containers, i), whole, &ret_facts->request, err);
	json_whole(json_member(object, "cards"), 1, NODE_GPUS_MAX, &gpus);
	json_whole(json_member(object, "unit"), 1, UINT32_MAX, &unit);
	ret_facts->request.unit_mib = (uint32_t)unit;
	if (r >= 0 && !whole)
		r = request_set_gpus(&ret_facts->request, (uint32_t)gpus, err);
	if (r >= 0 && whole)
		r = group_read(object, &ret_facts->request, err);
	if (r >= 0 && json_member(object, "placement")) {
		r = placement_read(json_member(object, "placement"), &ret_facts->placement, err);
		ret_facts->has_placement = r >= 0;
	}
	return r;
}

/* ---- state and events ---- */

/* What a node's agent lists becomes an orphan when the ledger is told of it. In a picture it may have ended
 * since: the orphans that there were come as pods. */
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

static int resize_read(struct json_object *object, struct ledger_resize *ret_resize, struct error *err)
{
	int r = placement_read(json_member(object, "before"), &ret_resize->before, err);

	return r < 0 ? r : placement_read(json_member(object, "target"), &ret_resize->target, err);
}

static int image_read(struct json_object *object, struct ledger_pod *image, struct error *err)
{
	int64_t instances;
	int r = history_pod_facts_from_json(json_member(object, "facts"), &image->facts, err);

	if (r >= 0 && json_whole(json_member(object, "instances"), 1, INT32_MAX, &instances) == 0)
		image->facts.request.instances = (uint32_t)instances;
	if (r >= 0 && image->has_placement)
		r = placement_read(json_member(object, "placement"), &image->placement, err);
	return r;
}

int history_restore_pod(struct ledger *ledger, struct json_object *object, struct error *err)
{
	int state = text_index(history_state_texts, OCCUPANCY_MAX, json_member_string(object, "state"));
	struct nomination nomination = {0};
	struct ledger_resize resize = {0};
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
	if ((state == OCCUPANCY_WAITING) != (!image.node || !*image.node))
		return error_set(err, EINVAL, "a pod that waits on a node, or is on none and does not wait");
	r = image_read(object, &image, err);
	if (r >= 0 && json_member(object, "resize")) {
		r = resize_read(json_member(object, "resize"), &resize, err);
		image.resize = &resize;
	}
	if (r >= 0 && json_member(object, "nomination")) {
		/* It is replaced, and a node that only it names would go with it. */
		ledger_remove_pod(ledger, image.facts.uid);
		r = nomination_read(ledger, json_member(object, "nomination"), &nomination, err);
		image.nomination = &nomination;
	}
	if (r >= 0 && ledger_restore_pod(ledger, &image) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	pod_facts_release(&image.facts);
	placement_release(&image.placement);
	placement_release(&nomination.shadow.placement);
	placement_release(&resize.before);
	placement_release(&resize.target);
	return r;
}

static int event_check(const struct ledger_event *event, struct error *err)
{
	bool whole = event->key && *event->key;

	if (event->verb == LEDGER_SET_NODE)
		whole = whole && event->node;
	else if (event->verb == LEDGER_SET_POD)
		whole = whole && event->pod;
	else if (event->verb == LEDGER_REMOVE_NODE)
		whole = whole && event->node_uid;
	else if (event->verb == LEDGER_RESIZE)
		whole = whole && event->placement;
	else if (event->verb == LEDGER_HOLD || event->verb == LEDGER_RESERVE ||
		 event->verb == LEDGER_NOMINATE)
		whole = whole && event->pod && event->on && event->placement;
	return whole ? 0 : error_set(err, EINVAL, "an event without what it needs");
}

int history_event_from_json(struct json_object *object, struct history_event *ret_event, struct error *err)
{
	int verb = text_index(history_verb_texts, LEDGER_VERB_MAX, json_member_string(object, "event")),
	    r = 0;
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
