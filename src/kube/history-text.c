/* The writing half of history.h. Text is written piece by piece: every change of the ledger is written, most
 * of them within a call of filter, and a tree of JSON objects costs ten times as much. */
#include "kube/history.h"

#include <string.h>

#include "base/strbuf.h"
#include "core/gang/gang-plan.h"
#include "core/gang/gang.h"
#include "core/placement/links.h"
#include "core/registry/nomination.h"
#include "core/registry/resize.h"
#include "kube/history-internal.h"
#include "kube/json.h"
#include "kube/node.h"
#include "model/units.h"

const char *const history_verb_texts[LEDGER_VERB_MAX] = {
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
	[LEDGER_RESIZE] = "resize",
	[LEDGER_RESIZE_CONFIRM] = "resize-confirm",
	[LEDGER_RESIZE_RELEASE] = "resize-release",
};

const char *const history_state_texts[OCCUPANCY_MAX] = {
	[OCCUPANCY_WAITING] = "waiting",
	[OCCUPANCY_TENTATIVE] = "tentative",
	[OCCUPANCY_RESERVED] = "reserved",
	[OCCUPANCY_BOUND] = "bound",
	[OCCUPANCY_ORPHAN] = "ghost",
};

const char *const history_kind_texts[HISTORY_KINDS] = {
	[CONTAINER_INIT] = "init", [CONTAINER_SIDECAR] = "sidecar", [CONTAINER_MAIN] = "main"};

const struct history_flag history_flags[HISTORY_FLAGS] = {
	{"finished", offsetof(struct pod_facts, finished)},
	{"pending", offsetof(struct pod_facts, pending)},
	{"deleting", offsetof(struct pod_facts, deleting)},
	{"assigned", offsetof(struct pod_facts, assigned)},
	{"running", offsetof(struct pod_facts, running)},
};

/* ---- pieces ---- */

static void add_bool(struct strbuf *out, const char *before, bool value)
{
	strbuf_adds(out, before);
	strbuf_adds(out, value ? "true" : "false");
}

static void add_number(struct strbuf *out, const char *before, int64_t value)
{
	strbuf_adds(out, before);
	json_add_number(out, value);
}

static void add_text(struct strbuf *out, const char *before, const char *text)
{
	strbuf_adds(out, before);
	json_add_string(out, text ? text : "");
}

static void add_comma(struct strbuf *out, size_t i)
{
	if (i)
		strbuf_add(out, ",", 1);
}

/* As placement_to_json(). */
static void add_placement(struct strbuf *out, const char *before, const struct placement *placement)
{
	strbuf_adds(out, before);
	add_number(out, "{\"unit\":", placement->unit_mib);
	if (placement->resizes)
		add_number(out, ",\"resizes\":", placement->resizes);
	strbuf_adds(out, ",\"containers\":{");
	for (size_t i = 0; i < placement->n_containers; i++) {
		const struct container_placement *container = &placement->containers[i];

		add_comma(out, i);
		json_add_string(out, container->name);
		strbuf_adds(out, ":[");
		for (size_t k = 0; k < container->n_gpus; k++) {
			add_comma(out, k);
			add_text(out, "{\"uuid\":", container->gpus[k].uuid);
			add_number(out, ",\"units\":", container->gpus[k].units);
			if (container->gpus[k].core)
				add_number(out, ",\"core\":", container->gpus[k].core);
			strbuf_adds(out, "}");
		}
		strbuf_adds(out, "]");
	}
	strbuf_adds(out, "}}");
}

/* ---- nodes ---- */

static void add_held_pod(struct strbuf *out, const struct held_pod *held)
{
	add_text(out, "{\"uid\":", held->uid);
	add_text(out, ",\"namespace\":", held->namespace_);
	add_text(out, ",\"name\":", held->name);
	if (held->instances > 1)
		add_number(out, ",\"containers\":", held->instances);
	strbuf_adds(out, ",\"cards\":{");
	for (size_t i = 0; i < held->n_gpus; i++) {
		add_comma(out, i);
		json_add_string(out, held->gpus[i].uuid);
		add_number(out, ":{\"units\":", held->gpus[i].units);
		add_number(out, ",\"core\":", held->gpus[i].core);
		strbuf_adds(out, "}");
	}
	strbuf_adds(out, "}}");
}

static void add_held(struct strbuf *out, const struct held *held)
{
	add_text(out, ",\"held\":{\"at\":", held->at);
	strbuf_adds(out, ",\"pods\":[");
	for (size_t i = 0; i < held->n_pods; i++) {
		add_comma(out, i);
		add_held_pod(out, &held->pods[i]);
	}
	strbuf_adds(out, "]");
	if (held->names_ended) {
		strbuf_adds(out, ",\"ended\":[");
		for (size_t i = 0; i < held->n_ended; i++) {
			add_comma(out, i);
			json_add_string(out, held->ended[i]);
		}
		strbuf_adds(out, "]");
	}
	strbuf_adds(out, "}");
}

/* links: NULL where none are known. */
static void add_links(struct strbuf *out, size_t at, const struct link *links, size_t n, uint32_t nvlink_gbps)
{
	char text[LINK_TEXT_SIZE];

	if (!links)
		return;
	for (size_t i = 0; i < n; i++)
		add_text(out, i ? "," : ",\"links\":[", i == at ? "X" : link_text(links[i], text));
	strbuf_adds(out, "]");
	if (nvlink_gbps)
		add_number(out, ",\"nvlinkGBps\":", nvlink_gbps);
}

static void add_gpu(struct strbuf *out, size_t i, int index, const char *uuid, uint32_t units, bool healthy)
{
	add_comma(out, i);
	add_number(out, "{\"index\":", index);
	add_text(out, ",\"uuid\":", uuid);
	add_number(out, ",\"units\":", units);
	add_bool(out, ",\"healthy\":", healthy);
}

static void add_node_head(struct strbuf *out, const char *name, const char *uid, enum gpu_mode mode,
	enum gpu_policy policy, uint32_t unit_mib, uint32_t instances_max, bool mixing, bool serving,
	bool changing, bool held_unreadable)
{
	add_text(out, "{\"name\":", name);
	add_text(out, ",\"uid\":", uid);
	add_text(out, ",\"mode\":", gpu_mode_text(mode));
	add_text(out, ",\"policy\":", gpu_policy_text(policy));
	add_number(out, ",\"unit\":", unit_mib);
	if (instances_max)
		add_number(out, ",\"maxContainers\":", instances_max);
	if (mixing)
		strbuf_adds(out, ",\"mixing\":true");
	add_bool(out, ",\"serving\":", serving);
	if (changing)
		strbuf_adds(out, ",\"changing\":true");
	if (held_unreadable)
		strbuf_adds(out, ",\"heldUnreadable\":true");
	strbuf_adds(out, ",\"cards\":[");
}

static void add_node_tail(struct strbuf *out, const struct held *held, bool lost)
{
	strbuf_adds(out, "]");
	if (*held->at)
		add_held(out, held);
	strbuf_adds(out, lost ? ",\"lost\":true}" : "}");
}

void history_add_node_facts(struct strbuf *out, const struct node_facts *facts)
{
	add_node_head(out, facts->name, facts->uid, facts->mode, facts->policy, facts->unit_mib,
		facts->instances_max, facts->mixing, facts->serving, facts->changing, facts->held_unreadable);
	for (size_t i = 0; i < facts->n_gpus; i++) {
		const struct gpu_facts *gpu = &facts->gpus[i];

		add_gpu(out, i, gpu->index, gpu->uuid, gpu_mode_units(facts->mode, gpu->mib, facts->unit_mib),
			gpu->healthy);
		add_links(out, i, gpu_has_links(gpu, facts->n_gpus) ? gpu->links : NULL, facts->n_gpus,
			gpu->nvlink_gbps);
		strbuf_adds(out, "}");
	}
	add_node_tail(out, &facts->held, false);
}

void history_add_node(struct strbuf *out, const struct node_ledger *node, bool with_lost)
{
	add_node_head(out, node->facts.name, node->facts.uid, node->facts.mode, node->facts.policy,
		node->facts.unit_mib, node->facts.instances_max, node->facts.mixing, node->facts.serving,
		node->facts.changing, node->facts.held_unreadable);
	for (size_t i = 0; i < node->facts.n_gpus; i++) {
		const struct links *links = node->links;

		add_gpu(out, i, node->gpus[i].index, node->gpus[i].uuid, node->gpus[i].units_total,
			node->gpus[i].healthy);
		add_links(out, i, links ? &links->at[i * links->n] : NULL, node->facts.n_gpus,
			links ? links->nvlink_gbps : 0);
		strbuf_adds(out, "}");
	}
	add_node_tail(out, &node->facts.held, with_lost && node->agent_lost);
}

/* ---- pods ---- */

static void add_containers(struct strbuf *out, const struct request *request)
{
	strbuf_adds(out, ",\"containers\":[");
	for (size_t i = 0; i < request->n_containers; i++) {
		const struct container_request *container = &request->containers[i];

		add_comma(out, i);
		add_text(out, "{\"name\":", container->name);
		add_text(out, ",\"kind\":", history_kind_texts[container->kind]);
		add_number(out, ",\"index\":", container->index);
		add_number(out, ",\"units\":", container->units);
		if (container->asked != container->units)
			add_number(out, ",\"asked\":", container->asked);
		if (container->core)
			add_number(out, ",\"core\":", container->core);
		strbuf_adds(out, "}");
	}
	strbuf_adds(out, "]");
}

void history_add_pod_facts(struct strbuf *out, const struct pod_facts *facts)
{
	add_text(out, "{\"uid\":", facts->uid);
	add_text(out, ",\"namespace\":", facts->namespace_);
	add_text(out, ",\"name\":", facts->name);
	if (facts->owner && *facts->owner)
		add_text(out, ",\"owner\":", facts->owner);
	if (facts->node && *facts->node)
		add_text(out, ",\"node\":", facts->node);
	if (facts->priority)
		add_number(out, ",\"priority\":", facts->priority);
	for (size_t i = 0; i < HISTORY_FLAGS; i++)
		if (*(const bool *)((const char *)facts + history_flags[i].offset)) {
			strbuf_adds(out, ",\"");
			strbuf_adds(out, history_flags[i].name);
			strbuf_adds(out, "\":true");
		}
	add_containers(out, &facts->request);
	if (facts->request.whole)
		strbuf_adds(out, ",\"whole\":true");
	if (facts->request.group) {
		add_text(out, ",\"group\":", facts->request.group);
		add_number(out, ",\"groupPods\":", facts->request.group_pods);
	}
	if (request_gpus(&facts->request) > 1)
		add_number(out, ",\"cards\":", request_gpus(&facts->request));
	if (facts->request.unit_mib)
		add_number(out, ",\"unit\":", facts->request.unit_mib);
	if (facts->has_placement)
		add_placement(out, ",\"placement\":", &facts->placement);
	strbuf_adds(out, "}");
}

void history_add_pod(struct strbuf *out, const struct ledger_pod *pod)
{
	strbuf_adds(out, "{\"facts\":");
	history_add_pod_facts(out, &pod->facts);
	add_text(out, ",\"state\":", history_state_texts[pod->occupancy]);
	add_bool(out, ",\"listed\":", pod->listed);
	if (pod->node)
		add_text(out, ",\"on\":", pod->node);
	if (pod->has_placement)
		add_placement(out, ",\"placement\":", &pod->placement);
	if (pod->expires_ns)
		strbuf_adds(out, ",\"expires\":true");
	/* What only its node still names has one container that counts as many. */
	if (pod->occupancy == OCCUPANCY_ORPHAN)
		add_number(out, ",\"instances\":", pod->facts.request.instances);
	if (pod->resize) {
		add_placement(out, ",\"resize\":{\"before\":", &pod->resize->before);
		add_placement(out, ",\"target\":", &pod->resize->target);
		strbuf_adds(out, "}");
	}
	if (pod->nomination) {
		add_text(out, ",\"nomination\":{\"on\":", pod->nomination->node->facts.name);
		add_placement(out, ",\"placement\":", &pod->nomination->shadow.placement);
		strbuf_adds(out, "}");
	}
	strbuf_adds(out, "}");
}

void history_add_event(struct strbuf *out, const struct ledger_event *event)
{
	add_text(out, "{\"event\":", history_verb_texts[event->verb]);
	add_text(out, ",\"key\":", event->key);
	if (event->node_uid)
		add_text(out, ",\"nodeUid\":", event->node_uid);
	if (event->node) {
		strbuf_adds(out, ",\"node\":");
		history_add_node_facts(out, event->node);
	}
	if (event->pod) {
		strbuf_adds(out, ",\"pod\":");
		history_add_pod_facts(out, event->pod);
	}
	if (event->on)
		add_text(out, ",\"on\":", event->on);
	if (event->placement)
		add_placement(out, ",\"placement\":", event->placement);
	strbuf_adds(out, event->lost ? ",\"lost\":true}" : "}");
}

/* ---- plans of gangs ---- */

/* The slots mostly share a table: the place of this one's among those that differ. */
static size_t place_of_nodes(const struct gang_event *event, size_t slot, bool *ret_first)
{
	size_t place = 0;

	for (size_t i = 0; i <= slot; i++) {
		bool first = event->slots[i].nodes != NULL;

		for (size_t k = 0; first && k < i; k++)
			first = event->slots[k].nodes != event->slots[i].nodes;
		if (event->slots[i].nodes == event->slots[slot].nodes) {
			*ret_first = i == slot;
			return place;
		}
		place += first;
	}
	return place;
}

static void add_names(struct strbuf *out, const struct table *names, size_t names_max)
{
	size_t cursor = 0, n = 0;
	const char *name;

	if (names->count > names_max) {
		json_add_number(out, (int64_t)names->count);
		return;
	}
	strbuf_adds(out, "[");
	while (table_next(names, &cursor, &name, NULL)) {
		add_comma(out, n++);
		json_add_string(out, name);
	}
	strbuf_adds(out, "]");
}

void history_add_plan(struct strbuf *out, const struct gang_event *event, size_t names_max)
{
	bool first;

	add_text(out, "{\"plan\":", event->gang->key);
	add_number(out, ",\"needed\":", (int64_t)event->needed);
	add_number(out, ",\"placed\":", (int64_t)event->placed);
	strbuf_adds(out, ",\"nodes\":[");
	for (size_t i = 0; i < event->n_slots; i++) {
		size_t place = event->slots[i].nodes ? place_of_nodes(event, i, &first) : 0;

		if (!event->slots[i].nodes || !first)
			continue;
		add_comma(out, place);
		add_names(out, event->slots[i].nodes, names_max);
	}
	strbuf_adds(out, "],\"seats\":[");
	for (size_t i = 0; i < event->n_slots; i++) {
		add_comma(out, i);
		strbuf_adds(out, "{");
		if (event->slots[i].nodes)
			add_number(out, "\"in\":", (int64_t)place_of_nodes(event, i, &first));
		strbuf_adds(out, event->slots[i].nodes ? ",\"pod\":" : "\"pod\":");
		history_add_pod_facts(out, event->slots[i].pod);
		strbuf_adds(out, "}");
	}
	strbuf_adds(out, "]}");
}
