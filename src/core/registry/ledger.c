#include "core/registry/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/registry/host-pods.h"
#include "core/registry/ledger-internal.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"
#include "core/registry/orphan.h"
#include "core/registry/resize.h"

void ledger_init(struct ledger *ledger)
{
	table_init(&ledger->nodes);
	table_init(&ledger->pods);
	list_init(&ledger->holds);
	list_init(&ledger->nominations);
	owners_init(&ledger->owners);
	table_init(&ledger->host_pods);
	demand_init(&ledger->demand);
	ledger->hosts = (struct gpu_hosts){0};
	ledger->node_order = NODE_ORDER_BALANCED;
	ledger->generation = ledger->capacity = 0;
	ledger->n_nodes_ever = 0;
	ledger->lowest_priority = INT32_MAX;
}

static void pod_free(struct ledger_pod *pod)
{
	nomination_free(pod->nomination);
	ledger_resize_free(pod->resize);
	pod_facts_release(&pod->facts);
	placement_release(&pod->placement);
	free(pod->node);
	free(pod);
}

void ledger_release(struct ledger *ledger)
{
	void *value;

	if (!ledger)
		return;
	table_for_each (&ledger->pods, cursor, value)
		pod_free(value);
	table_for_each (&ledger->nodes, cursor, value)
		node_ledger_free(value);
	host_pods_release(ledger);
	table_release(&ledger->pods);
	table_release(&ledger->nodes);
	owners_release(&ledger->owners);
	demand_release(&ledger->demand);
	ledger_init(ledger);
}

const struct node_ledger *ledger_node(const struct ledger *ledger, const char *name)
{
	return table_get(&ledger->nodes, name);
}

const struct ledger_pod *ledger_pod(const struct ledger *ledger, const char *uid)
{
	return table_get(&ledger->pods, uid);
}

/* Nodes: an entry exists while the API server shows the node or a pod names it. */

static int node_get_or_add(struct ledger *ledger, const char *name, struct node_ledger **ret_node)
{
	struct node_ledger *node = table_get(&ledger->nodes, name);
	int r;

	if (!node) {
		node = node_ledger_new(name);
		if (!node)
			return -ENOMEM;
		r = table_set(&ledger->nodes, name, node);
		if (r < 0) {
			node_ledger_free(node);
			return r;
		}
		node->number = ledger->n_nodes_ever++;
	}
	*ret_node = node;
	return 0;
}

static void node_drop_if_unused(struct ledger *ledger, struct node_ledger *node)
{
	if (node_ledger_known(node) || !list_empty(&node->pods) || !list_empty(&node->nominations) ||
		!list_empty(&node->host_pods))
		return;
	table_remove(&ledger->nodes, node->facts.name);
	node_ledger_free(node);
}

/* These holds cannot become reservations while the node changes its mode. kube-scheduler may not ask again
 * soon for a pod that waits for this node, so the ledger ends its hold here. */
static void end_holds(struct ledger *ledger, struct node_ledger *node)
{
	list_for_each_safe (item, after, &node->pods) {
		struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);

		if (pod->occupancy == OCCUPANCY_TENTATIVE)
			ledger_pod_end_reservation(ledger, pod);
	}
}

int ledger_set_node(struct ledger *ledger, const struct node_facts *facts)
{
	struct node_ledger *node;
	bool was_known;
	int r;

	if (!facts->name || !facts->uid || facts->n_gpus > NODE_GPUS_MAX)
		return -EINVAL;
	r = node_get_or_add(ledger, facts->name, &node);
	if (r < 0)
		return r;
	was_known = node_ledger_known(node);
	/* The node counts as known from now on. Otherwise the ledger would drop it together with its last
	 * orphan. */
	if (!was_known && !(node->facts.uid = strdup(facts->uid)))
		r = -ENOMEM;
	if (r == 0)
		r = orphans_follow(ledger, node, facts);
	if (r == 0) {
		gpu_hosts_remove(&ledger->hosts, node);
		r = node_ledger_set_facts(node, facts);
		gpu_hosts_add(&ledger->hosts, node);
	}
	if (r >= 0)
		ledger_count_models(ledger, node, facts->models);
	if (r < 0) {
		if (!was_known) {
			free(node->facts.uid);
			node->facts.uid = NULL;
		}
		node_drop_if_unused(ledger, node);
		return r;
	}
	if (r > 0)
		ledger->generation++;
	/* The capacity may also have become smaller; then a caller that compares the numbers searches once in
	 * vain. */
	if (r > 0 && facts->n_gpus && facts->serving)
		ledger->capacity++;
	if (facts->changing)
		end_holds(ledger, node);
	return 0;
}

void ledger_remove_node(struct ledger *ledger, const char *name, const char *uid)
{
	struct node_ledger *node = table_get(&ledger->nodes, name);

	if (!node || !node_ledger_known(node) || strcmp(node->facts.uid, uid) != 0)
		return;
	orphans_forget(ledger, node);
	gpu_hosts_remove(&ledger->hosts, node);
	node_ledger_forget(node);
	ledger_count_models(ledger, node, NULL);
	node_drop_if_unused(ledger, node);
}

void ledger_set_agent_lost(struct ledger *ledger, const char *name, bool lost)
{
	struct node_ledger *node = table_get(&ledger->nodes, name);

	if (!node || node->agent_lost == lost)
		return;
	node->agent_lost = lost;
	if (!lost) {
		ledger->generation++;
		ledger->capacity++;
	}
}

void ledger_hear_agent(struct ledger *ledger, const char *name, int64_t heard_ns)
{
	struct node_ledger *node = table_get(&ledger->nodes, name);

	if (!node || (heard_ns && heard_ns <= node->heard_ns))
		return;
	if (heard_ns - node->heard_ns > SILENT_NS)
		orphans_begin_time(node, heard_ns);
	node->heard_ns = heard_ns;
}

/* Pods. */

int ledger_pod_add(struct ledger *ledger, const struct pod_facts *facts, struct ledger_pod **ret_pod)
{
	struct ledger_pod *pod = calloc(1, sizeof(*pod));
	int r;

	if (!pod)
		return -ENOMEM;
	r = pod_facts_copy(facts, &pod->facts);
	if (r >= 0)
		r = demand_name(&ledger->demand, &pod->demand, facts->models);
	if (r >= 0)
		r = table_set(&ledger->pods, facts->uid, pod);
	if (r < 0) {
		demand_remove(&ledger->demand, &pod->demand);
		pod_free(pod);
		return r;
	}
	demand_set(&ledger->demand, &pod->demand, &pod->facts);
	if (facts->priority < ledger->lowest_priority)
		ledger->lowest_priority = facts->priority;
	*ret_pod = pod;
	return 0;
}

/* A nomination counts only for pods up to the nominated pod's priority. Where it ends, something becomes free
 * for them. */
void ledger_pod_end_nomination(struct ledger *ledger, struct ledger_pod *pod)
{
	struct node_ledger *node;

	if (!pod->nomination)
		return;
	node = pod->nomination->node;
	nomination_free(pod->nomination);
	pod->nomination = NULL;
	node_drop_if_unused(ledger, node);
	ledger->generation++;
}

static void pod_drop(struct ledger *ledger, struct ledger_pod *pod)
{
	ledger_pod_end_nomination(ledger, pod);
	demand_remove(&ledger->demand, &pod->demand);
	table_remove(&ledger->pods, pod->facts.uid);
	pod_free(pod);
}

/* Takes the pod out of the node where it occupies something. Returns that node, or NULL if the pod occupied
 * nothing. */
static struct node_ledger *pod_leave(struct ledger *ledger, struct ledger_pod *pod)
{
	struct node_ledger *node;

	if (!pod->node)
		return NULL;
	node = table_get(&ledger->nodes, pod->node);
	gpu_hosts_remove(&ledger->hosts, node);
	node_ledger_remove(node, pod);
	gpu_hosts_add(&ledger->hosts, node);
	owners_remove(&ledger->owners, pod->facts.owner, pod->node);
	list_remove(&pod->hold);
	free(pod->node);
	pod->node = NULL;
	placement_release(&pod->placement);
	pod->has_placement = false;
	ledger_resize_free(pod->resize);
	pod->resize = NULL;
	pod->occupancy = OCCUPANCY_WAITING;
	ledger->generation++;
	return node;
}

static void pod_vacate(struct ledger *ledger, struct ledger_pod *pod)
{
	struct node_ledger *node = pod_leave(ledger, pod);

	if (node)
		node_drop_if_unused(ledger, node);
}

/* The ledger remembers a pod that the API server never showed only while the pod holds something. */
void ledger_pod_drop_if_unused(struct ledger *ledger, struct ledger_pod *pod)
{
	if (!pod->listed && !pod->node && !pod->nomination)
		pod_drop(ledger, pod);
}

void ledger_pod_end_reservation(struct ledger *ledger, struct ledger_pod *pod)
{
	pod_vacate(ledger, pod);
	ledger_pod_drop_if_unused(ledger, pod);
}

static bool pod_occupies_exactly(
	const struct ledger_pod *pod, const char *node, const struct placement *placement)
{
	if (!pod->node || strcmp(pod->node, node) != 0 || pod->has_placement != (placement != NULL))
		return false;
	return !placement || placement_equal(&pod->placement, placement);
}

int ledger_pod_occupy(struct ledger *ledger, struct ledger_pod *pod, const char *node_name,
	const struct placement *placement, enum occupancy occupancy)
{
	_cleanup_placement_ struct placement copy = {0};
	_cleanup_free_ char *name = strdup(node_name);
	struct node_ledger *node, *left;

	/* Usually a hold becomes a reservation, or a reservation is bound. Neither frees anything. */
	if (pod_occupies_exactly(pod, node_name, placement)) {
		list_remove(&pod->hold);
		pod->occupancy = occupancy;
		return 0;
	}
	if (!name || (placement && placement_copy(placement, &copy) < 0) ||
		owners_add(&ledger->owners, pod->facts.owner, node_name) < 0)
		return -ENOMEM;
	if (node_get_or_add(ledger, node_name, &node) < 0) {
		owners_remove(&ledger->owners, pod->facts.owner, node_name);
		return -ENOMEM;
	}
	left = pod_leave(ledger, pod);
	pod->node = TAKE_PTR(name);
	pod->has_placement = placement != NULL;
	pod->placement = copy;
	placement_init(&copy);
	pod->occupancy = occupancy;
	gpu_hosts_remove(&ledger->hosts, node);
	node_ledger_add(node, pod);
	gpu_hosts_add(&ledger->hosts, node);
	if (left && left != node)
		node_drop_if_unused(ledger, left);
	return 0;
}

/* The label that asks for several GPUs can change until the pod is bound; afterwards its placement states the
 * number. A hold for another number no longer matches the request, so it ends. A Binding that was sent cannot
 * be called back. */
static void pod_take_gpus(struct ledger *ledger, struct ledger_pod *pod, const struct pod_facts *facts)
{
	if (request_gpus(&pod->facts.request) == request_gpus(&facts->request) ||
		pod->occupancy == OCCUPANCY_BOUND || (pod->occupancy == OCCUPANCY_RESERVED && !*facts->node))
		return;
	if (pod->occupancy == OCCUPANCY_TENTATIVE)
		pod_vacate(ledger, pod);
	ledger_pod_end_nomination(ledger, pod);
	pod->facts.request.gpus = facts->request.gpus;
}

/* A pod whose admission did not stamp its unit may get the stamp later. Without a placement, the stamp
 * determines how the pod's units are counted, so it must not change while the pod occupies something. */
static void pod_take_unit(struct ledger_pod *pod, const struct pod_facts *facts)
{
	if (!pod->node || pod->has_placement)
		pod->facts.request.unit_mib = facts->request.unit_mib;
}

/* The job of a pod is a label too. Once the pod has its GPUs, the job that its Binding recorded counts. */
static void pod_take_job(struct ledger_pod *pod, struct pod_facts *facts)
{
	char *group = pod->facts.request.group;

	if (pod->occupancy == OCCUPANCY_BOUND || pod->occupancy == OCCUPANCY_RESERVED)
		return;
	pod->facts.request.group = facts->request.group;
	pod->facts.request.group_pods = facts->request.group_pods;
	facts->request.group = group;
}

/* A resize in place changes what a running pod requests. */
static void pod_take_host(struct ledger *ledger, struct ledger_pod *pod, struct host_amount host)
{
	struct node_ledger *node = pod->node ? table_get(&ledger->nodes, pod->node) : NULL;

	if (node) {
		gpu_hosts_remove(&ledger->hosts, node);
		host_sum_remove(&node->taken, pod->facts.host);
		host_sum_add(&node->taken, host);
		gpu_hosts_add(&ledger->hosts, node);
	}
	pod->facts.host = host;
}

/* Takes over the facts that may change. An event can be older than what the ledger knows, so facts that
 * happen only once stay: the binding with its placement, deletionTimestamp, the start and the end. The
 * request never changes except for its GPUs: Kubernetes does not allow it for extended resources. */
static void pod_take_facts(struct ledger_pod *pod, struct pod_facts *facts)
{
	struct pod_facts old = pod->facts;

	pod->facts = *facts;
	pod_facts_init(facts);
	pod->listed = true;
	facts->request = pod->facts.request;
	pod->facts.request = old.request;
	request_init(&old.request);
	pod->facts.finished |= old.finished;
	pod->facts.pending &= old.pending;
	pod->facts.deleting |= old.deleting;
	pod->facts.assigned |= old.assigned;
	if (*old.node) {
		struct pod_facts newer = pod->facts;

		pod->facts.node = old.node;
		pod->facts.has_placement = old.has_placement;
		pod->facts.placement = old.placement;
		old.node = newer.node;
		old.placement = newer.placement;
	}
	pod_facts_release(&old);
}

static const struct placement *facts_placement(const struct pod_facts *facts, const struct request *request)
{
	if (!facts->has_placement || !placement_matches(&facts->placement, request))
		return NULL;
	return &facts->placement;
}

int ledger_pod_get_or_add(struct ledger *ledger, const struct pod_facts *facts, struct ledger_pod **ret_pod)
{
	*ret_pod = table_get(&ledger->pods, facts->uid);
	return *ret_pod ? 0 : ledger_pod_add(ledger, facts, ret_pod);
}

/* A controller may adopt a pod that runs already. */
static int pod_change_owner(struct ledger *ledger, struct ledger_pod *pod, const char *owner)
{
	_cleanup_free_ char *copy = NULL;

	if (strcmp(pod->facts.owner, owner) == 0)
		return 0;
	copy = strdup(owner);
	if (!copy || (pod->node && owners_add(&ledger->owners, owner, pod->node) < 0))
		return -ENOMEM;
	if (pod->node)
		owners_remove(&ledger->owners, pod->facts.owner, pod->node);
	free(pod->facts.owner);
	pod->facts.owner = TAKE_PTR(copy);
	return 0;
}

/* A pod with scheduling gates may get a narrower node selector. */
static int pod_change_models(struct ledger *ledger, struct ledger_pod *pod, const char *models)
{
	_cleanup_free_ char *copy = models ? strdup(models) : NULL;

	if ((models && !copy) || demand_name(&ledger->demand, &pod->demand, models) < 0)
		return -ENOMEM;
	free(pod->facts.models);
	pod->facts.models = TAKE_PTR(copy);
	return 0;
}

/* The API server shows a pod again that the ledger kept as an orphan. An event that names the pod's node, or
 * its end, is right. */
static bool orphan_returns(struct ledger *ledger, struct ledger_pod *orphan, const struct pod_facts *shown)
{
	if (!shown->finished && !*shown->node)
		return false;
	ledger_remove_pod(ledger, orphan->facts.uid);
	return !shown->finished;
}

/* Updates what the pod occupies on its node: it may have ended, have been bound, or have another size. */
static int pod_follow(struct ledger *ledger, struct ledger_pod *pod, struct pod_facts *shown)
{
	if (shown->finished || pod->facts.finished)
		pod_vacate(ledger, pod);
	else if (*shown->node && pod->occupancy != OCCUPANCY_BOUND) {
		/* The API server shows the pod bound. The ledger may never have seen the pod at its first
		 * size; then the request differs from the one that the ledger knows, too. */
		if (shown->has_placement && shown->placement.resizes && pod->placement.resizes == 0) {
			pod_vacate(ledger, pod);
			if (request_resize(&pod->facts.request, &shown->placement) == -ENOMEM)
				return -ENOMEM;
		}
		return ledger_pod_occupy(ledger, pod, shown->node,
			facts_placement(shown, &pod->facts.request), OCCUPANCY_BOUND);
	} else if (*shown->node)
		return ledger_pod_follow_resize(ledger, pod, shown);
	return 0;
}

int ledger_set_pod(struct ledger *ledger, const struct pod_facts *facts)
{
	struct ledger_pod *pod = table_get(&ledger->pods, facts->uid);
	_cleanup_pod_facts_ struct pod_facts copy = {0};
	bool added;
	int r;

	if (pod && pod->occupancy == OCCUPANCY_ORPHAN) {
		if (!orphan_returns(ledger, pod, facts))
			return 0;
		pod = NULL;
	}
	added = !pod;
	if (!pod && request_is_empty(&facts->request))
		return 0;
	r = pod_facts_copy(facts, &copy);
	if (r >= 0)
		r = ledger_pod_get_or_add(ledger, facts, &pod);
	if (r >= 0)
		r = pod_change_owner(ledger, pod, copy.owner);
	if (r >= 0)
		r = pod_change_models(ledger, pod, copy.models);
	if (r < 0)
		return r;
	pod_take_gpus(ledger, pod, &copy);
	pod_take_unit(pod, &copy);
	pod_take_job(pod, &copy);
	pod_take_host(ledger, pod, copy.host);
	r = pod_follow(ledger, pod, &copy);
	if (r < 0) {
		if (added)
			pod_drop(ledger, pod);
		else
			demand_set(&ledger->demand, &pod->demand, &pod->facts); /* its unit may be another */
		return r;
	}
	pod_take_facts(pod, &copy);
	demand_set(&ledger->demand, &pod->demand, &pod->facts);
	if (pod->facts.finished || pod->occupancy == OCCUPANCY_BOUND)
		ledger_pod_end_nomination(ledger, pod);
	return 0;
}

void ledger_set_unlisted(struct ledger *ledger, const char *uid)
{
	struct ledger_pod *pod = table_get(&ledger->pods, uid);

	if (pod)
		pod->listed = false;
}

void ledger_remove_pod(struct ledger *ledger, const char *uid)
{
	struct ledger_pod *pod = table_get(&ledger->pods, uid);

	if (!pod)
		return;
	pod_vacate(ledger, pod);
	pod_drop(ledger, pod);
}

int ledger_set_host_pod(struct ledger *ledger, const struct pod_facts *facts)
{
	struct node_ledger *node, *left = host_pods_remove(ledger, facts->uid);
	int r = node_get_or_add(ledger, facts->node, &node);

	if (r == 0) {
		r = host_pods_set(ledger, facts->uid, node, facts->host);
		node_drop_if_unused(ledger, node);
	}
	if (left && left != node)
		node_drop_if_unused(ledger, left);
	return r;
}

void ledger_remove_host_pod(struct ledger *ledger, const char *uid)
{
	struct node_ledger *node = host_pods_remove(ledger, uid);

	if (node)
		node_drop_if_unused(ledger, node);
}

int ledger_restore_pod(struct ledger *ledger, const struct ledger_pod *image)
{
	struct ledger_pod *pod;
	int r;

	ledger_remove_pod(ledger, image->facts.uid);
	r = ledger_pod_add(ledger, &image->facts, &pod);
	if (r >= 0 && image->node)
		r = ledger_pod_occupy(ledger, pod, image->node,
			image->has_placement ? &image->placement : NULL, image->occupancy);
	if (r < 0)
		return r;
	pod->listed = image->listed;
	pod->expires_ns = image->expires_ns;
	if (image->occupancy == OCCUPANCY_TENTATIVE ||
		(image->occupancy == OCCUPANCY_ORPHAN && image->expires_ns))
		list_append(&ledger->holds, &pod->hold);
	if (image->resize)
		r = ledger_resize_restore(pod, image->resize);
	if (r >= 0 && image->nomination)
		r = ledger_restore_nomination(ledger, pod, image->nomination);
	return r;
}
