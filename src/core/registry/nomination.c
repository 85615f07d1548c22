#include "core/registry/nomination.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/placement/choose.h"
#include "core/registry/ledger-internal.h"
#include "core/registry/node-ledger.h"

void nomination_free(struct nomination *nomination)
{
	if (!nomination)
		return;
	list_remove(&nomination->item);
	list_remove(&nomination->all);
	pod_facts_release(&nomination->shadow.facts);
	placement_release(&nomination->shadow.placement);
	free(nomination);
}

/* Creates a nomination that is in node->nominations, in no other list, and belongs to no pod yet. -ENOMEM. */
static int nomination_new(const struct pod_facts *facts, struct node_ledger *node,
	const struct placement *placement, int64_t expires_ns, struct nomination **ret_nomination)
{
	struct nomination *nomination = calloc(1, sizeof(*nomination));

	if (!nomination)
		return -ENOMEM;
	if (pod_facts_copy(facts, &nomination->shadow.facts) < 0 ||
		placement_copy(placement, &nomination->shadow.placement) < 0) {
		nomination_free(nomination);
		return -ENOMEM;
	}
	nomination->shadow.has_placement = true;
	nomination->node = node;
	nomination->expires_ns = expires_ns;
	list_append(&node->nominations, &nomination->item);
	*ret_nomination = nomination;
	return 0;
}

/* A pod that already holds or occupies a GPU is counted there; then its nomination does not count. */
static bool nomination_counts(const struct nomination *nomination, const struct pod_facts *pod)
{
	return nomination->pod->occupancy == OCCUPANCY_WAITING &&
	       nomination->shadow.facts.priority >= pod->priority &&
	       strcmp(nomination->shadow.facts.uid, pod->uid) != 0;
}

void nominations_lay(struct node_ledger *node, const struct pod_facts *pod)
{
	list_for_each (item, &node->nominations) {
		struct nomination *nomination = list_entry(item, struct nomination, item);

		if (nomination_counts(nomination, pod))
			node_ledger_add(node, &nomination->shadow);
	}
}

void nominations_lift(struct node_ledger *node, const struct pod_facts *pod)
{
	list_for_each (item, &node->nominations) {
		struct nomination *nomination = list_entry(item, struct nomination, item);

		if (nomination_counts(nomination, pod))
			node_ledger_remove(node, &nomination->shadow);
	}
}

/* Replaces the nomination that the pod has. */
static void nomination_give(struct ledger *ledger, struct ledger_pod *pod, struct nomination *nomination)
{
	list_append(&ledger->nominations, &nomination->all);
	ledger_pod_end_nomination(ledger, pod);
	pod->nomination = nomination;
	nomination->pod = pod;
}

int ledger_restore_nomination(struct ledger *ledger, struct ledger_pod *pod, const struct nomination *image)
{
	struct nomination *nomination;
	int r = nomination_new(
		&pod->facts, image->node, &image->shadow.placement, image->expires_ns, &nomination);

	if (r < 0)
		return r;
	nomination_give(ledger, pod, nomination);
	return 0;
}

int ledger_nominate(struct ledger *ledger, const struct pod_facts *facts, const char *node_name,
	const struct placement *placement, int64_t expires_ns)
{
	struct node_ledger *node = table_get(&ledger->nodes, node_name);
	const struct ledger_pod *known = table_get(&ledger->pods, facts->uid);
	struct nomination *nomination;
	struct ledger_pod *pod;
	int r;

	if (request_is_empty(&facts->request) || !placement_matches(placement, &facts->request))
		return -EINVAL;
	if (facts->finished || (facts->node && *facts->node) ||
		(known && (known->facts.finished || known->occupancy >= OCCUPANCY_RESERVED)))
		return -EBUSY;
	if (!node || !node_ledger_known(node))
		return -ENOENT;
	r = nomination_new(facts, node, placement, expires_ns, &nomination);
	if (r < 0)
		return r;
	r = ledger_pod_get_or_add(ledger, facts, &pod);
	if (r < 0) {
		nomination_free(nomination);
		return r;
	}
	nomination_give(ledger, pod, nomination);
	return 0;
}

void ledger_nomination_set_end(struct ledger *ledger, const char *uid, int64_t expires_ns)
{
	struct ledger_pod *pod = table_get(&ledger->pods, uid);

	if (pod && pod->nomination)
		pod->nomination->expires_ns = expires_ns;
}

void ledger_drop_nomination(struct ledger *ledger, const char *uid)
{
	struct ledger_pod *pod = table_get(&ledger->pods, uid);

	if (!pod || !pod->nomination)
		return;
	ledger_pod_end_nomination(ledger, pod);
	ledger_pod_drop_if_unused(ledger, pod);
}

bool nomination_waits(const struct nomination *nomination)
{
	list_for_each (item, &nomination->node->pods)
		if (list_entry(item, struct ledger_pod, item)->facts.deleting)
			return true;
	return false;
}

size_t nominations_expire(struct ledger *ledger, int64_t now_ns)
{
	size_t n = 0;

	list_for_each_safe (item, after, &ledger->nominations) {
		struct nomination *nomination = list_entry(item, struct nomination, all);

		if (nomination->expires_ns > now_ns)
			continue;
		ledger_drop_nomination(ledger, nomination->pod->facts.uid);
		n++;
	}
	return n;
}

int nomination_choose(const struct node_ledger *node, const struct pod_facts *pod,
	const struct ledger_pod *known, struct placement *ret_placement)
{
	const struct nomination *own = known ? known->nomination : NULL;

	/* The node may have changed its unit since the nomination was made. */
	if (own && own->node == node && own->shadow.placement.unit_mib == node->facts.unit_mib &&
		placement_matches(&own->shadow.placement, &pod->request) &&
		node_ledger_has_room(node, &pod->request, &own->shadow.placement))
		return ret_placement ? placement_copy(&own->shadow.placement, ret_placement) : FITS;
	return placement_choose(node, &pod->request, pod->owner ? pod->owner : "", ret_placement);
}
