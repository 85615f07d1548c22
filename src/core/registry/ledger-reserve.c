/* The functions of ledger.h that the scheduler calls for a pod: where the pod fits, holds and reservations.
 */
#include "core/registry/ledger.h"

#include <errno.h>
#include <string.h>

#include "core/placement/explain.h"
#include "core/registry/ledger-internal.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"
#include "core/registry/orphan.h"

/* A pod's own hold that is out of its node's sums for a moment. */
struct lifted_hold {
	struct ledger_pod *pod; /* NULL: it holds nothing there */
	struct list *next; /* the next item of the node's pods, because a query must not change their order */
};

/* pod: NULL if the ledger does not know it. */
static struct lifted_hold hold_lift(struct node_ledger *node, struct ledger_pod *pod)
{
	struct lifted_hold lifted = {0};

	if (!pod || pod->occupancy != OCCUPANCY_TENTATIVE || strcmp(pod->node, node->facts.name) != 0)
		return lifted;
	lifted = (struct lifted_hold){.pod = pod, .next = pod->item.next};
	node_ledger_remove(node, pod);
	return lifted;
}

static void hold_put_back(struct node_ledger *node, const struct lifted_hold *lifted)
{
	if (!lifted->pod)
		return;
	node_ledger_add(node, lifted->pod);
	list_remove(&lifted->pod->item);
	list_append(lifted->next, &lifted->pod->item); /* link the pod before its former successor */
}

/* Changes the node's sums to what counts for this pod: without its own hold, and with the GPUs that are kept
 * for other pods. The caller must change nothing until it closes the view. */
static struct lifted_hold view_open(
	struct node_ledger *node, const struct pod_facts *pod, struct ledger_pod *known)
{
	nominations_lay(node, pod);
	return hold_lift(node, known);
}

static void view_close(struct node_ledger *node, const struct pod_facts *pod, const struct lifted_hold *own)
{
	hold_put_back(node, own);
	nominations_lift(node, pod);
}

static int choose(struct node_ledger *node, const struct pod_facts *pod, struct ledger_pod *known,
	struct placement *ret_placement)
{
	struct lifted_hold own;
	int r;

	if (!node)
		return REJECT_NO_GPU_NODE;
	own = view_open(node, pod, known);
	r = nomination_choose(node, pod, known, ret_placement);
	view_close(node, pod, &own);
	return r;
}

int ledger_choose(
	struct ledger *ledger, const char *node, const struct pod_facts *pod, struct placement *ret_placement)
{
	return choose(
		table_get(&ledger->nodes, node), pod, table_get(&ledger->pods, pod->uid), ret_placement);
}

#define CACHE_LINE 64
#define FEASIBILITY_AT_ONCE 64

/* Finds the nodes, and begins to read what decides about each of them. */
static void find_nodes(const struct ledger *ledger, const char *const *names, size_t n, void **ret_nodes)
{
	table_get_many(&ledger->nodes, names, n, ret_nodes);
	for (size_t i = 0; i < n; i++)
		for (size_t at = 0; ret_nodes[i] && at < offsetof(struct node_ledger, facts.held);
			at += CACHE_LINE)
			__builtin_prefetch((const char *)ret_nodes[i] + at);
}

void ledger_feasibility(struct ledger *ledger, const char *const *names, size_t n,
	const struct pod_facts *pod, struct node_verdict *ret_verdicts)
{
	struct ledger_pod *known = table_get(&ledger->pods, pod->uid);
	void *nodes[FEASIBILITY_AT_ONCE];

	for (size_t i = 0; i < n; i++) {
		size_t at = i % FEASIBILITY_AT_ONCE;

		if (at == 0)
			find_nodes(ledger, &names[i],
				n - i < FEASIBILITY_AT_ONCE ? n - i : FEASIBILITY_AT_ONCE, nodes);
		/* This call cannot fail, because it has no placement to fill. */
		ret_verdicts[i] = (struct node_verdict){
			.node = nodes[at],
			.reject_reason = (enum reject_reason)choose(nodes[at], pod, known, NULL),
		};
	}
}

void ledger_explain(struct ledger *ledger, const char *node_name, const struct pod_facts *pod,
	struct node_explanation *ret_explanation)
{
	struct node_ledger *node = table_get(&ledger->nodes, node_name);
	struct lifted_hold own;

	if (!node) {
		*ret_explanation = (struct node_explanation){.reject_reason = REJECT_NO_GPU_NODE};
		return;
	}
	own = view_open(node, pod, table_get(&ledger->pods, pod->uid));
	node_explain(node, &pod->request, pod->owner ? pod->owner : "", ret_explanation);
	view_close(node, pod, &own);
}

static bool has_room_without_own_hold(struct node_ledger *node, struct ledger_pod *pod,
	const struct request *request, const struct placement *placement)
{
	struct lifted_hold own = hold_lift(node, pod);
	bool has_room = node_ledger_has_room(node, request, placement);

	hold_put_back(node, &own);
	return has_room;
}

static int claim_check(struct ledger *ledger, const struct pod_facts *facts, const char *node_name,
	const struct placement *placement)
{
	struct ledger_pod *pod = table_get(&ledger->pods, facts->uid);
	struct request request = pod ? pod->facts.request : facts->request;
	struct node_ledger *node = table_get(&ledger->nodes, node_name);

	request.gpus = facts->request.gpus;
	if (facts->finished || (facts->node && *facts->node))
		return -EBUSY;
	if (pod && (pod->facts.finished || pod->occupancy >= OCCUPANCY_RESERVED))
		return -EBUSY;
	if (request_is_empty(&request) || !placement_matches(placement, &request))
		return -EINVAL;
	if (!node || !node_ledger_known(node))
		return -ENOENT;
	return has_room_without_own_hold(node, pod, &request, placement) ? 0 : -ENOSPC;
}

static int ledger_claim(struct ledger *ledger, const struct pod_facts *facts, const char *node_name,
	const struct placement *placement, enum occupancy occupancy, struct ledger_pod **ret_pod)
{
	struct ledger_pod *pod;
	int r;

	r = claim_check(ledger, facts, node_name, placement);
	if (r >= 0)
		r = ledger_pod_get_or_add(ledger, facts, &pod);
	if (r < 0)
		return r;
	r = ledger_pod_occupy(ledger, pod, node_name, placement, occupancy);
	if (r < 0) {
		ledger_pod_drop_if_unused(ledger, pod);
		return r;
	}
	pod->facts.request.gpus = facts->request.gpus;
	*ret_pod = pod;
	return 0;
}

int ledger_hold(struct ledger *ledger, const struct pod_facts *facts, const char *node,
	const struct placement *placement, int64_t expires_ns)
{
	struct ledger_pod *pod;
	int r;

	r = ledger_claim(ledger, facts, node, placement, OCCUPANCY_TENTATIVE, &pod);
	if (r < 0)
		return r;
	pod->expires_ns = expires_ns;
	list_append(&ledger->holds, &pod->hold);
	return 0;
}

void ledger_drop_hold(struct ledger *ledger, const char *uid)
{
	struct ledger_pod *pod = table_get(&ledger->pods, uid);

	if (!pod || pod->occupancy != OCCUPANCY_TENTATIVE)
		return;
	ledger_pod_end_reservation(ledger, pod);
}

size_t ledger_expire(struct ledger *ledger, int64_t now_ns)
{
	size_t n = 0;

	list_for_each_safe (item, after, &ledger->holds) {
		struct ledger_pod *pod = list_entry(item, struct ledger_pod, hold);

		if (pod->occupancy == OCCUPANCY_ORPHAN ? !orphan_is_over(ledger, pod, now_ns)
						       : pod->expires_ns > now_ns)
			continue;
		ledger_pod_end_reservation(ledger, pod);
		n++;
	}
	return n + nominations_expire(ledger, now_ns);
}

int ledger_reserve(struct ledger *ledger, const struct pod_facts *facts, const char *node,
	const struct placement *placement)
{
	struct ledger_pod *pod;

	return ledger_claim(ledger, facts, node, placement, OCCUPANCY_RESERVED, &pod);
}

void ledger_confirm(struct ledger *ledger, const char *uid)
{
	struct ledger_pod *pod = table_get(&ledger->pods, uid);

	if (!pod || pod->occupancy != OCCUPANCY_RESERVED)
		return;
	pod->occupancy = OCCUPANCY_BOUND;
	ledger_pod_end_nomination(ledger, pod);
}

void ledger_release_reservation(struct ledger *ledger, const char *uid)
{
	struct ledger_pod *pod = table_get(&ledger->pods, uid);

	if (!pod || pod->occupancy != OCCUPANCY_RESERVED)
		return;
	ledger_pod_end_reservation(ledger, pod);
}
