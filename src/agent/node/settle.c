#include "agent/node/settle.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "agent/events.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "kube/json.h"
#include "kube/names.h"
#include "model/units.h"
#include "node/registry.h"

/* Writes the name of a pod that holds devices, for a sentence. */
static void name_a_holder(const struct node_registry *node, char *buf, size_t size)
{
	const struct pod_facts *pod = node_registry_holder(node);

	if (node->claims.count)
		snprintf(buf, size, "%zu ResourceClaims are prepared", node->claims.count);
	else if (node->in_force == GPU_MODE_DRA)
		snprintf(buf, size, "pods wait for their ResourceClaims");
	else if (pod)
		snprintf(buf, size, "pod %.63s/%.120s", pod->namespace_, pod->name);
	else
		snprintf(buf, size, "containers of deleted pods");
}

/* ---- the unit ---- */

void settle_unit_told(struct settle *settle, const char *text)
{
	uint32_t *asked = &settle->node->asked.unit_mib;
	char sentence[300];

	if (!text)
		*asked = settle->unit_mib;
	if (!text || unit_parse(text, asked) == 0) {
		settle->refused_unit[0] = '\0';
		return;
	}
	if (settle->refused_unit[0] &&
		strncmp(settle->refused_unit, text, sizeof(settle->refused_unit) - 1) == 0)
		return;
	snprintf(settle->refused_unit, sizeof(settle->refused_unit), "%s", text);
	snprintf(sentence, sizeof(sentence),
		"ConfigMap " NAMESPACE_SYSTEM "/" CONFIG_MAP_POLICY ", " CONFIG_MAP_UNIT_KEY
		": \"%.40s\" is no unit of GPU memory: it must be one of 1GiB, 512MiB, 256MiB, 128MiB; the one before stays",
		text);
	event_on_node(settle->events, "GPUMemoryUnitRefused", sentence);
}

/* ---- at the start ---- */

static void take_unit(struct node_registry *node, uint32_t unit_mib)
{
	if (inventory_set_unit(&node->inventory, unit_mib))
		node->saved = false;
}

/* After a reboot, which empties the state directory, reads what the Node object says: the scheduler places
 * pods by it until the agent changes it. */
static void recall_from_node(struct node_registry *node, struct json_object *annotations)
{
	const char *text = json_member_string(annotations, ANNOTATION_NODE_MODE);
	const char *unit = json_member_string(annotations, ANNOTATION_NODE_UNIT);
	enum gpu_mode mode;
	uint32_t mib;

	if (node->in_force != GPU_MODE_NONE || !text || gpu_mode_parse(text, &mode) < 0 ||
		!gpu_mode_is_served(mode))
		return;
	node->in_force = mode;
	node->saved = false;
	if (unit && parse_u32(unit, UNIT_MIB_MAX, &mib) == 0 && mib)
		take_unit(node, mib);
	log_info("GPU mode in force: %s, as the node says", gpu_mode_text(mode));
}

/* A pod that was placed in another unit than the present one, unless other pods have the present one; NULL:
 * no pod was placed here. */
static const struct pod_facts *find_placed(const struct node_registry *node)
{
	const struct pod_facts *found = NULL;
	void *value;

	table_for_each (&node->pods.by_uid, cursor, value) {
		const struct pod_facts *facts = &((struct node_pod *)value)->facts;

		if (!node_pod_holds(facts) || !facts->has_placement || facts->request.whole)
			continue;
		if (!found || facts->placement.unit_mib == node->inventory.unit_mib)
			found = facts;
	}
	return found;
}

/* Each placement states its unit, so no other source is needed. It does not state the mode. */
static void recall_from_pods(struct node_registry *node)
{
	const struct pod_facts *pod = find_placed(node);

	if (!pod)
		return;
	if (node->in_force == GPU_MODE_NONE)
		node->in_force = node->asked.mode;
	if (pod->placement.unit_mib == node->inventory.unit_mib)
		return;
	log_info("gpu-mem counts in %u MiB, as pod %s/%s was placed", pod->placement.unit_mib,
		pod->namespace_, pod->name);
	take_unit(node, pod->placement.unit_mib);
}

/* ---- after the start ---- */

/* True if a change is pending or there is no mode: then the scheduler places no pods here. */
static bool is_closed(struct json_object *annotations)
{
	return json_member(annotations, ANNOTATION_NODE_MODE_PENDING) ||
	       json_member(annotations, ANNOTATION_NODE_UNIT_PENDING) ||
	       !json_member(annotations, ANNOTATION_NODE_MODE);
}

static void say_that_it_waits(struct settle *settle, const struct terms *asked)
{
	struct terms now = node_registry_in_force(settle->node);
	char text[512], who[200];

	if (terms_equal(&settle->reported, asked))
		return;
	settle->reported = *asked;
	name_a_holder(settle->node, who, sizeof(who));
	if (now.mode != asked->mode)
		snprintf(text, sizeof(text),
			"GPU mode \"%s\" is asked for, but pods with GPUs are on this node (%s): mode \"%s\" stays in force, the node takes no more of them, and the mode changes when the last one ends",
			gpu_mode_text(asked->mode), who, gpu_mode_text(now.mode));
	else
		snprintf(text, sizeof(text),
			"gpu-mem is to count in %u MiB, but pods with GPUs are on this node (%s): it counts in %u MiB and takes no more of them, and the unit changes when the last one ends",
			asked->unit_mib, who, now.unit_mib);
	event_on_node(settle->events, "GPUModePending", text);
}

void settle_terms(struct settle *settle, const struct settle_seen *what)
{
	struct json_object *annotations = json_member(json_member(what->object, "metadata"), "annotations");
	struct node_registry *node = settle->node;
	struct terms_seen seen = {
		.asked = node->asked,
		.closed = is_closed(annotations) && !what->offered_to_claims,
		.following = what->following,
		.now_ns = monotonic_ns(),
	};
	struct terms_change change;
	enum terms_state state;

	if (!node->settled) {
		recall_from_node(node, annotations);
		recall_from_pods(node);
	}
	seen.holders = node_registry_count_holders(node) + what->n_orphans;
	change = (struct terms_change){node_registry_in_force(node), node->closed_since_ns};
	state = terms_settle(&change, &seen);
	node->closed_since_ns = change.closed_since_ns;
	node->open = state == TERMS_OPEN || state == TERMS_CHANGED;
	if (state == TERMS_HELD)
		say_that_it_waits(settle, &seen.asked);
	else
		settle->reported = change.in_force;
	if (state == TERMS_CHANGED || node->inventory.unit_mib != change.in_force.unit_mib) {
		const struct terms *terms = &change.in_force;
		node->in_force = terms->mode;
		inventory_set_unit(&node->inventory, terms->unit_mib);
		if (terms->mode == GPU_MODE_NONE)
			log_info("GPU mode in force: none");
		else
			log_info("GPU mode in force: %s, gpu-mem counts in %u MiB",
				gpu_mode_text(terms->mode), terms->unit_mib);
		node->saved = false;
	}
}
