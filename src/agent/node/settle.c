#include "agent/node/settle.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/node/report.h"
#include "agent/pods/leftovers.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "kube/json.h"
#include "kube/names.h"
#include "kube/watch.h"
#include "model/units.h"

/* For a sentence. */
static void name_a_holder(const struct agent *agent, char *buf, size_t size)
{
	const struct pod_facts *pod = node_registry_holder(&agent->node);

	if (pod)
		snprintf(buf, size, "pod %.63s/%.120s", pod->namespace_, pod->name);
	else
		snprintf(buf, size, "containers of deleted pods");
}

/* ---- at the start ---- */

static struct json_object *node_annotations(const struct agent *agent)
{
	return json_member(json_member(report_node(agent->report), "metadata"), "annotations");
}

static void take_unit(struct agent *agent, uint32_t unit_mib)
{
	if (inventory_set_unit(&agent->node.inventory, unit_mib))
		agent->node.saved = false;
}

/* After a reboot, which has emptied the state directory, what the node itself says: until we change it the
 * scheduler sends pods by it. */
static void recall_from_node(struct agent *agent)
{
	struct json_object *annotations = node_annotations(agent);
	const char *text = json_member_string(annotations, ANNOTATION_NODE_MODE);
	const char *unit = json_member_string(annotations, ANNOTATION_NODE_UNIT);
	enum gpu_mode mode;
	uint32_t mib;

	if (agent->node.in_force != GPU_MODE_NONE || !text || gpu_mode_parse(text, &mode) < 0 ||
		!gpu_mode_is_served(mode))
		return;
	agent->node.in_force = mode;
	agent->node.saved = false;
	if (unit && parse_u32(unit, UNIT_MIB_MAX, &mib) == 0 && mib)
		take_unit(agent, mib);
	log_info("GPU mode in force: %s, as the node says", gpu_mode_text(mode));
}

/* One that says another unit than we have, unless others say ours; NULL: nobody was placed here. */
static const struct pod_facts *find_placed(const struct agent *agent)
{
	const struct pod_facts *found = NULL;
	void *value;

	table_for_each (&agent->node.pods.by_uid, cursor, value) {
		const struct pod_facts *facts = &((struct node_pod *)value)->facts;

		if (!node_pod_holds(facts) || !facts->has_placement || facts->request.whole)
			continue;
		if (!found || facts->placement.unit_mib == agent->node.inventory.unit_mib)
			found = facts;
	}
	return found;
}

/* A placement says its unit, so nobody else need be believed. Of the mode it says nothing. */
static void recall_from_pods(struct agent *agent)
{
	const struct pod_facts *pod = find_placed(agent);

	if (!pod)
		return;
	if (agent->node.in_force == GPU_MODE_NONE)
		agent->node.in_force = agent->node.asked.mode;
	if (pod->placement.unit_mib == agent->node.inventory.unit_mib)
		return;
	log_info("gpu-mem counts in %u MiB, as pod %s/%s was placed", pod->placement.unit_mib,
		pod->namespace_, pod->name);
	take_unit(agent, pod->placement.unit_mib);
}

/* ---- from then on ---- */

/* Pending, or without a mode: the scheduler sends nobody. */
static bool is_closed(const struct agent *agent)
{
	struct json_object *annotations = node_annotations(agent);

	return json_member(annotations, ANNOTATION_NODE_MODE_PENDING) ||
	       json_member(annotations, ANNOTATION_NODE_UNIT_PENDING) ||
	       !json_member(annotations, ANNOTATION_NODE_MODE);
}

static void say_that_it_waits(struct agent *agent, const struct terms *asked)
{
	struct terms now = node_registry_in_force(&agent->node);
	char text[512], who[200];

	if (terms_equal(&agent->reported, asked))
		return;
	agent->reported = *asked;
	name_a_holder(agent, who, sizeof(who));
	if (now.mode != asked->mode)
		snprintf(text, sizeof(text),
			"GPU mode \"%s\" is asked for, but pods with GPUs are on this node (%s): mode \"%s\" stays in force, the node takes no more of them, and the mode changes when the last one ends",
			gpu_mode_text(asked->mode), who, gpu_mode_text(now.mode));
	else
		snprintf(text, sizeof(text),
			"gpu-mem is to count in %u MiB, but pods with GPUs are on this node (%s): it counts in %u MiB and takes no more of them, and the unit changes when the last one ends",
			asked->unit_mib, who, now.unit_mib);
	event_on_node(&agent->events, "GPUModePending", text);
}

static void take_terms(struct agent *agent, const struct terms *terms)
{
	agent->node.in_force = terms->mode;
	inventory_set_unit(&agent->node.inventory, terms->unit_mib);
	if (terms->mode == GPU_MODE_NONE)
		log_info("GPU mode in force: none");
	else
		log_info("GPU mode in force: %s, gpu-mem counts in %u MiB", gpu_mode_text(terms->mode),
			terms->unit_mib);
	agent->node.saved = false;
}

void settle_terms(struct agent *agent)
{
	struct terms_seen seen = {
		.asked = agent->node.asked,
		.closed = is_closed(agent),
		.following = kube_watch_connected(agent->pod_watch),
		.now_ns = monotonic_ns(),
	};
	struct terms_change change;
	enum terms_state state;

	if (!agent->node.settled) {
		recall_from_node(agent);
		recall_from_pods(agent);
	}
	seen.holders = node_registry_count_holders(&agent->node) + leftovers_count(agent->leftovers);
	change = (struct terms_change){node_registry_in_force(&agent->node), agent->node.closed_since_ns};
	state = terms_settle(&change, &seen);
	agent->node.closed_since_ns = change.closed_since_ns;
	agent->node.open = state == TERMS_OPEN || state == TERMS_CHANGED;
	if (state == TERMS_HELD)
		say_that_it_waits(agent, &seen.asked);
	else
		agent->reported = change.in_force;
	if (state == TERMS_CHANGED || agent->node.inventory.unit_mib != change.in_force.unit_mib)
		take_terms(agent, &change.in_force);
}
