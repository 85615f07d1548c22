#include "core/registry/orphan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/registry/ledger-internal.h"
#include "core/registry/ledger.h"
#include "core/registry/resize.h"

#define CONTAINER_NAME "held"

/* An orphan that `held` lists does not end by time. */
static bool orphan_is_listed(const struct ledger_pod *pod)
{
	return pod->expires_ns == 0;
}

/* No agent lists the orphan any longer, so it ends by time. */
static void orphan_end_by_time(struct ledger *ledger, struct ledger_pod *pod)
{
	pod->expires_ns = ORPHAN_UNTIMED;
	list_append(&ledger->holds, &pod->hold);
}

/* True if the pod was placed on GPUs and the node has none of them. */
static bool orphan_is_elsewhere(const struct ledger_pod *pod, const struct node_facts *facts)
{
	const struct gpu_share *gpus[NODE_GPUS_MAX];
	size_t n = pod->has_placement ? placement_gpus(&pod->placement, gpus) : 0;

	for (size_t i = 0; i < n; i++)
		if (node_facts_has_gpu(facts, gpus[i]->uuid))
			return false;
	return n > 0;
}

/* anew: the agent has written `held` again. first: the node shows GPUs for the first time. */
static void orphan_follow(
	struct ledger *ledger, struct ledger_pod *pod, const struct node_facts *facts, bool anew, bool first)
{
	const struct held *held = &facts->held;
	enum held_verdict verdict = held_says(held, pod->facts.uid);

	if (verdict == HELD_LIVES) {
		list_remove(&pod->hold);
		pod->expires_ns = 0;
	} else if (verdict == HELD_ENDED || (anew && !held->names_ended) ||
		   (first && orphan_is_elsewhere(pod, facts))) {
		ledger_remove_pod(ledger, pod->facts.uid);
	} else if (orphan_is_listed(pod)) {
		orphan_end_by_time(ledger, pod);
	}
}

static uint32_t add_up_to_max(uint32_t sum, uint32_t amount)
{
	return amount > UINT32_MAX - sum ? UINT32_MAX : sum + amount;
}

/* A pod as the agent remembers it: one container that has all of the pod's GPUs. It counts as the number of
 * containers in `held`. */
static int orphan_request(const struct held_pod *held, struct request *request)
{
	request->containers = calloc(1, sizeof(*request->containers));
	if (!request->containers)
		return -ENOMEM;
	request->n_containers = 1;
	request->instances = held->instances;
	request->containers[0].name = strdup(CONTAINER_NAME);
	for (size_t i = 0; i < held->n_gpus; i++) {
		request->units = add_up_to_max(request->units, held->gpus[i].units);
		request->core = add_up_to_max(request->core, held->gpus[i].core);
	}
	request->containers[0].kind = CONTAINER_MAIN;
	request->containers[0].units = request->containers[0].asked = request->asked = request->units;
	request->containers[0].core = request->core;
	return request->containers[0].name ? 0 : -ENOMEM;
}

static int orphan_facts(const struct held_pod *held, const char *node, struct pod_facts *facts)
{
	facts->uid = strdup(held->uid);
	facts->namespace_ = strdup(held->namespace_);
	facts->name = strdup(held->name);
	facts->owner = strdup("");
	facts->node = strdup(node);
	facts->running = true;
	if (!facts->uid || !facts->namespace_ || !facts->name || !facts->owner || !facts->node)
		return -ENOMEM;
	return orphan_request(held, &facts->request);
}

static int orphan_placement(const struct held_pod *held, uint32_t unit_mib, struct placement *placement)
{
	int r = 0;

	placement->unit_mib = unit_mib;
	for (size_t i = 0; r == 0 && i < held->n_gpus; i++)
		r = placement_add(placement, CONTAINER_NAME, held->gpus[i].uuid, held->gpus[i].units,
			held->gpus[i].core);
	return r;
}

/* True if `held` has the pod on the GPUs on which the ledger has it. */
static bool orphan_is_on_gpus_of(const struct ledger_pod *pod, const struct held_pod *held)
{
	const struct gpu_share *gpus[NODE_GPUS_MAX];

	if (!pod->has_placement || pod->facts.request.whole ||
		placement_gpus(&pod->placement, gpus) != held->n_gpus)
		return false;
	for (size_t i = 0; i < held->n_gpus; i++)
		if (!placement_units_on(&pod->placement, &pod->facts.request, held->gpus[i].uuid))
			return false;
	return true;
}

static bool orphan_has_size_of(const struct ledger_pod *pod, const struct held_pod *held)
{
	for (size_t i = 0; i < held->n_gpus; i++)
		if (placement_units_on(&pod->placement, &pod->facts.request, held->gpus[i].uuid) !=
			held->gpus[i].units)
			return false;
	return true;
}

static int orphan_change_size(struct ledger *ledger, struct ledger_pod *pod, const struct held_pod *held)
{
	_cleanup_placement_ struct placement placement = {0};
	_cleanup_request_ struct request request = {0};
	const struct request *known = &pod->facts.request;
	int r = orphan_placement(held, pod->placement.unit_mib, &placement);

	if (r == 0)
		r = orphan_request(held, &request);
	if (r < 0)
		return r;
	/* Of what its spec says nothing changes. */
	request.asked = request.containers[0].asked = known->asked;
	request.core = request.containers[0].core = known->core;
	request.gpus = known->gpus;
	request.unit_mib = known->unit_mib;
	ledger_pod_take_size(ledger, pod, &placement, &request);
	return 0;
}

/* The agent knows what the containers have. This process may have missed the last change of the pod's size:
 * a LIST after an interruption of the watch no longer shows the pod. */
static int orphan_take_size(struct ledger *ledger, struct ledger_pod *pod, const struct held_pod *held)
{
	int r;

	if (!orphan_is_on_gpus_of(pod, held))
		return 0;
	r = orphan_has_size_of(pod, held) ? 0 : orphan_change_size(ledger, pod, held);
	if (r < 0)
		return r;
	/* The answer to a resize that is still under way changes no more what the containers have. */
	ledger_resize_free(pod->resize);
	pod->resize = NULL;
	return 0;
}

/* unit_mib: the unit in which the node counts these pods. */
static int orphan_add(
	struct ledger *ledger, const struct node_ledger *node, uint32_t unit_mib, const struct held_pod *held)
{
	_cleanup_pod_facts_ struct pod_facts facts = {0};
	_cleanup_placement_ struct placement placement = {0};
	struct ledger_pod *pod = table_get(&ledger->pods, held->uid);
	int r;

	if (pod)
		return pod->occupancy == OCCUPANCY_ORPHAN ? orphan_take_size(ledger, pod, held) : 0;
	r = orphan_facts(held, node->facts.name, &facts);
	if (r == 0)
		r = orphan_placement(held, unit_mib, &placement);
	if (r == 0)
		r = ledger_pod_add(ledger, &facts, &pod);
	if (r < 0)
		return r;
	r = ledger_pod_occupy(ledger, pod, node->facts.name, &placement, OCCUPANCY_ORPHAN);
	if (r < 0)
		ledger_remove_pod(ledger, held->uid);
	return r;
}

/* The pod may have been bound and deleted by force while the watch of pods was interrupted. */
static void remove_unbound(struct ledger *ledger, const char *uid)
{
	const struct node_ledger *node, *holder = NULL;

	table_for_each (&ledger->nodes, cursor, node)
		if (held_find(&node->facts.held, uid))
			holder = node;
	ledger_remove_pod(ledger, uid);
	if (holder) /* without memory, the pod is counted when the node writes `held` anew */
		orphan_add(ledger, holder, holder->facts.unit_mib, held_find(&holder->facts.held, uid));
}

void ledger_delete_pod(struct ledger *ledger, const char *uid, int64_t expires_ns)
{
	struct ledger_pod *pod = table_get(&ledger->pods, uid);
	const struct node_ledger *node;
	const struct held_pod *held;
	enum held_verdict verdict;

	if (!pod || pod->occupancy == OCCUPANCY_ORPHAN)
		return;
	node = pod->node ? table_get(&ledger->nodes, pod->node) : NULL;
	verdict = node ? held_says(&node->facts.held, uid) : HELD_ENDED;
	if (pod->occupancy != OCCUPANCY_BOUND) {
		remove_unbound(ledger, uid);
		return;
	}
	if (verdict == HELD_ENDED || (verdict == HELD_UNKNOWN && !pod->facts.running)) {
		ledger_remove_pod(ledger, uid);
		return;
	}
	pod->occupancy = OCCUPANCY_ORPHAN;
	pod->listed = false;
	pod->expires_ns = verdict == HELD_LIVES ? 0 : expires_ns;
	if (pod->expires_ns)
		list_append(&ledger->holds, &pod->hold);
	held = held_find(&node->facts.held, uid);
	if (held) /* without memory, the pod keeps its size until the node writes `held` anew */
		orphan_take_size(ledger, pod, held);
}

int orphans_follow(struct ledger *ledger, struct node_ledger *node, const struct node_facts *facts)
{
	bool anew = facts->held.at[0] && strcmp(node->facts.held.at, facts->held.at) != 0;
	bool first = node->facts.n_gpus == 0 && facts->n_gpus > 0;
	int r = 0;

	list_for_each_safe (item, after, &node->pods) {
		struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);

		if (pod->occupancy == OCCUPANCY_ORPHAN)
			orphan_follow(ledger, pod, facts, anew, first);
	}
	for (size_t i = 0; r == 0 && i < facts->held.n_pods; i++)
		r = orphan_add(ledger, node, facts->unit_mib, &facts->held.pods[i]);
	return r;
}

void orphans_forget(struct ledger *ledger, struct node_ledger *node)
{
	list_for_each (item, &node->pods) {
		struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);

		if (pod->occupancy == OCCUPANCY_ORPHAN && orphan_is_listed(pod))
			orphan_end_by_time(ledger, pod);
	}
}

void orphans_begin_time(struct node_ledger *node, int64_t now_ns)
{
	list_for_each (item, &node->pods) {
		struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);

		if (pod->occupancy == OCCUPANCY_ORPHAN && !orphan_is_listed(pod))
			pod->expires_ns = now_ns + ORPHAN_NS;
	}
}

bool orphan_is_over(const struct ledger *ledger, struct ledger_pod *orphan, int64_t now_ns)
{
	const struct node_ledger *node = table_get(&ledger->nodes, orphan->node);

	if (orphan->expires_ns == ORPHAN_UNTIMED)
		orphan->expires_ns = now_ns + ORPHAN_NS;
	return orphan->expires_ns <= now_ns && (!node->heard_ns || now_ns - node->heard_ns <= SILENT_NS) &&
	       orphan->expires_ns <= ledger->nodes_told_ns;
}
