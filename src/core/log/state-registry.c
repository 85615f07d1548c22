/* The registry: nodes with their GPUs, pods with what they occupy, and the order of the pods of each node. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/core.h"
#include "core/log/state-internal.h"
#include "core/placement/links.h"
#include "core/registry/host-pods.h"
#include "core/registry/ledger-internal.h"
#include "core/registry/node-ledger.h"
#include "core/registry/nomination.h"
#include "core/registry/resize.h"
#include "model/facts-archive.h"
#include "model/units.h"

/* The limit of a state that is read: a set of nodes has this many bits. */
#define NODES_EVER_MAX (1u << 24)

static void archive_ledger(struct archive *archive, struct ledger *ledger)
{
	int lowest = ledger->lowest_priority;

	archive_uint64(archive, "generation", &ledger->generation);
	archive_uint64(archive, "capacity", &ledger->capacity);
	archive_int(archive, "lowestPriority", &lowest, INT32_MIN, INT32_MAX);
	ledger->lowest_priority = lowest;
	archive_uint32(archive, "nodesEver", &ledger->n_nodes_ever, NODES_EVER_MAX);
	archive_enum(archive, "nodeOrder", &ledger->node_order, NODE_ORDER_MAX);
}

/* ---- nodes ---- */

/* The lower half of the matrix, row by row. */
static void archive_links(struct archive *archive, struct node_ledger *node)
{
	size_t gpus = node->facts.n_gpus, n = node->links ? gpus * (gpus - 1) / 2 : 0, at = 0;
	uint32_t gbps = node->links ? node->links->nvlink_gbps : 0;
	struct archive_place place;

	archive_uint32(archive, "nvlinkGBps", &gbps, UINT32_MAX);
	n = archive_list(archive, "links", n, NODE_GPUS_MAX * NODE_GPUS_MAX, &place);
	if (archive_reads(archive) && n) {
		if (n != gpus * (gpus - 1) / 2) {
			archive_fail(archive, EINVAL, "\"links\" are not those of %zu GPUs", gpus);
			return;
		}
		node->links = links_new(gpus, gbps);
		if (!node->links) {
			archive_fail(archive, ENOMEM, "out of memory");
			return;
		}
	}
	for (size_t a = 0; n && a < gpus; a++)
		for (size_t b = 0; b < a; b++) {
			struct link link = node->links->at[a * node->links->n + b];
			char buf[LINK_TEXT_SIZE];
			const char *text = archive_item_text(
				archive, at++, archive_reads(archive) ? NULL : link_text(link, buf));

			if (!archive_reads(archive) || !text || strcmp(text, "?") == 0)
				continue;
			if (link_parse(text, &link) < 0)
				archive_fail(archive, EINVAL, "\"%s\" is no link between GPUs", text);
			links_set(node->links, a, b, link);
		}
	archive_list_end(archive, &place);
}

/* models: what pods call its GPUs, which the ledger keeps once for all nodes of a model. */
static void archive_node(struct archive *archive, struct node_ledger *node, char **models)
{
	struct archive_place place;
	size_t n;

	archive_text(archive, "uid", &node->facts.uid);
	archive_text(archive, "address", &node->facts.address);
	archive_enum(archive, "mode", &node->facts.mode, GPU_MODE_MAX);
	archive_enum(archive, "policy", &node->facts.policy, GPU_POLICY_SPREAD + 1);
	archive_uint32(archive, "unit", &node->facts.unit_mib, INT32_MAX);
	archive_uint32(archive, "instancesMax", &node->facts.instances_max, INT32_MAX);
	archive_bool(archive, "mixing", &node->facts.mixing);
	archive_bool(archive, "serving", &node->facts.serving);
	archive_bool(archive, "changing", &node->facts.changing);
	archive_bool(archive, "heldUnreadable", &node->facts.held_unreadable);
	archive_text(archive, "models", models);
	archive_host(archive, &node->facts.host);
	archive_uint32(archive, "number", &node->number, NODES_EVER_MAX - 1);
	archive_bool(archive, "lost", &node->agent_lost);
	archive_int64(archive, "heard", &node->heard_ns, 0, STATE_TIME_MAX);
	archive_uint64(archive, "recounts", &node->recounts);
	n = archive_list(archive, "gpus", node->facts.n_gpus, NODE_GPUS_MAX, &place);
	if (archive_reads(archive) && n) {
		node->gpus = calloc(n + 1, sizeof(*node->gpus));
		if (!node->gpus) {
			archive_fail(archive, ENOMEM, "out of memory");
			return;
		}
	}
	node->facts.n_gpus = n;
	for (size_t i = 0; i < n; i++) {
		archive_item(archive, i);
		archive_gpu_facts(archive, &node->gpus[i].facts);
		archive_uint32(archive, "units", &node->gpus[i].units_total, UNITS_MAX);
		archive_uint32(archive, "instancesMax", &node->gpus[i].instances_max, INT32_MAX);
		archive_text(archive, "reason", &node->gpus[i].reason);
		archive_item_end(archive);
	}
	archive_list_end(archive, &place);
	archive_links(archive, node);
	if (archive_enter(archive, "held", *node->facts.held.at || node->facts.held.n_pods, &place)) {
		archive_held(archive, &node->facts.held);
		archive_leave(archive, &place);
	}
}

/* A node that only pods name has neither a uid nor GPUs (ledger.h). The ledger drops it with its last pod,
 * without taking GPUs out of the sums over all nodes. */
static void check_node(struct archive *archive, const struct node_ledger *node, const char *models)
{
	if (!node_ledger_known(node) && (node->facts.n_gpus || models))
		archive_fail(archive, EINVAL, "node %s has GPUs and no \"uid\"", node->facts.name);
}

void state_read_node(struct core *core, struct archive *archive)
{
	struct node_ledger *node = NULL;
	char *name = NULL, *models = NULL;

	archive_need_text(archive, "name", &name);
	if (!archive->failed && table_get(&core->ledger.nodes, name))
		archive_fail(archive, EINVAL, "node %s is there twice", name);
	if (!archive->failed) {
		node = node_ledger_new(name);
		if (!node || table_set(&core->ledger.nodes, name, node) < 0) {
			archive_fail(archive, ENOMEM, "out of memory");
			node_ledger_free(node);
			node = NULL;
		}
	}
	if (node) {
		archive_node(archive, node, &models);
		check_node(archive, node, models);
		node_ledger_recount(node);
		gpu_hosts_add(&core->ledger.hosts, node);
		ledger_count_models(&core->ledger, node, models);
		/* Sets of nodes are bits by number. So this must hold even if the line "ledger" is absent or
		 * came before. */
		if (node->number >= core->ledger.n_nodes_ever)
			core->ledger.n_nodes_ever = node->number + 1;
	}
	free(name);
	free(models);
}

/* ---- pods ---- */

static void archive_resize(struct archive *archive, struct ledger_resize *resize)
{
	struct archive_place place;

	if (archive_enter(archive, "before", true, &place)) {
		archive_placement(archive, &resize->before);
		archive_leave(archive, &place);
	}
	if (archive_enter(archive, "target", true, &place)) {
		archive_placement(archive, &resize->target);
		archive_leave(archive, &place);
	}
}

/* Everything but the resize and the nomination, which have memory of their own. */
static void archive_pod(struct archive *archive, struct ledger_pod *pod)
{
	struct archive_place place;

	if (archive_enter(archive, "facts", true, &place)) {
		archive_pod_facts(archive, &pod->facts);
		archive_leave(archive, &place);
	}
	archive_enum(archive, "state", &pod->occupancy, OCCUPANCY_MAX);
	archive_bool(archive, "listed", &pod->listed);
	archive_text(archive, "on", &pod->node);
	archive_int64(archive, "expires", &pod->expires_ns, 0, INT64_MAX);
	if (archive_enter(archive, "placement", pod->has_placement, &place)) {
		archive_placement(archive, &pod->placement);
		archive_leave(archive, &place);
		pod->has_placement = true;
	}
}

static void write_pod(struct ledger_pod *pod, struct state_writer *writer)
{
	struct archive *archive = state_begin(writer, "pod");
	struct archive_place place;

	archive_pod(archive, pod);
	if (archive_enter(archive, "resize", pod->resize, &place)) {
		archive_resize(archive, pod->resize);
		archive_leave(archive, &place);
	}
	if (archive_enter(archive, "nomination", pod->nomination, &place)) {
		archive_text(archive, "on", &pod->nomination->node->facts.name);
		archive_int64(archive, "expires", &pod->nomination->expires_ns, 0, INT64_MAX);
		archive_placement(archive, &pod->nomination->shadow.placement);
		archive_leave(archive, &place);
	}
	state_end(writer);
}

/* A pod as the archive has it; it is copied into the ledger. */
struct pod_image {
	struct ledger_pod pod;
	struct ledger_resize resize;
	struct nomination nomination;
	char *nominated;
};

static void image_release(struct pod_image *image)
{
	pod_facts_release(&image->pod.facts);
	placement_release(&image->pod.placement);
	free(image->pod.node);
	placement_release(&image->resize.before);
	placement_release(&image->resize.target);
	placement_release(&image->nomination.shadow.placement);
	free(image->nominated);
}

static void read_image(struct archive *archive, struct pod_image *image)
{
	struct ledger_pod *pod = &image->pod;
	struct archive_place place;

	archive_pod(archive, pod);
	if (archive_enter(archive, "resize", true, &place)) {
		archive_resize(archive, &image->resize);
		archive_leave(archive, &place);
		pod->resize = &image->resize;
	}
	if (archive_enter(archive, "nomination", true, &place)) {
		archive_need_text(archive, "on", &image->nominated);
		archive_int64(archive, "expires", &image->nomination.expires_ns, 0, INT64_MAX);
		archive_placement(archive, &image->nomination.shadow.placement);
		archive_leave(archive, &place);
		pod->nomination = &image->nomination;
	}
}

static int check_image(const struct core *core, struct archive *archive, struct pod_image *image)
{
	struct ledger_pod *pod = &image->pod;
	const struct table *nodes = &core->ledger.nodes;

	if (archive->failed)
		return archive->failed;
	if (!pod->facts.uid || request_is_empty(&pod->facts.request))
		return archive_fail(archive, EINVAL, "a pod without \"uid\", or one that asks for nothing");
	if (ledger_pod(&core->ledger, pod->facts.uid))
		return archive_fail(archive, EINVAL, "pod %s is there twice", pod->facts.uid);
	if ((pod->occupancy == OCCUPANCY_WAITING) != !pod->node)
		return archive_fail(archive, EINVAL,
			"pod %s waits on a node, or is on none and does not wait", pod->facts.uid);
	if (pod->resize &&
		((pod->occupancy != OCCUPANCY_BOUND && pod->occupancy != OCCUPANCY_ORPHAN) ||
			!pod->has_placement || !ledger_resize_fits(&image->resize, &pod->placement)))
		return archive_fail(
			archive, EINVAL, "pod %s is not one that gets another size", pod->facts.uid);
	if ((pod->node && !table_get(nodes, pod->node)) ||
		(image->nominated && !table_get(nodes, image->nominated)))
		return archive_fail(archive, EINVAL, "pod %s is on a node that is not there", pod->facts.uid);
	if (image->nominated)
		image->nomination.node = table_get(nodes, image->nominated);
	return 0;
}

void state_read_pod(struct core *core, struct archive *archive)
{
	_cleanup_(image_release) struct pod_image image = {0};

	read_image(archive, &image);
	if (check_image(core, archive, &image) == 0 && ledger_restore_pod(&core->ledger, &image.pod) < 0)
		archive_fail(archive, ENOMEM, "out of memory");
}

/* ---- pods that ask for no GPU ---- */

static void write_host_pods(struct core *core, struct state_writer *writer)
{
	struct host_pod *pod;
	const char *uid;
	void *value;

	for (size_t cursor = 0; table_next(&core->ledger.host_pods, &cursor, &uid, &value);) {
		struct archive *archive = state_begin(writer, "hostPod");
		char *key = (char *)uid;

		pod = value;
		archive_text(archive, "uid", &key);
		archive_text(archive, "on", &pod->node->facts.name);
		archive_host(archive, &pod->host);
		state_end(writer);
	}
}

void state_read_host_pod(struct core *core, struct archive *archive)
{
	struct pod_facts facts = {0};

	archive_need_text(archive, "uid", &facts.uid);
	archive_need_text(archive, "on", &facts.node);
	archive_host(archive, &facts.host);
	if (!archive->failed && !table_get(&core->ledger.nodes, facts.node))
		archive_fail(archive, EINVAL, "pod %s is on a node that is not there", facts.uid);
	if (!archive->failed && ledger_set_host_pod(&core->ledger, &facts) < 0)
		archive_fail(archive, ENOMEM, "out of memory");
	pod_facts_release(&facts);
}

/* ---- the order of lists ---- */

static void write_uids(struct archive *archive, const char *key, const struct list *head, size_t offset)
{
	struct archive_place place;
	size_t n = 0, i = 0;

	list_for_each (item, head)
		n++;
	archive_list(archive, key, n, SIZE_MAX, &place);
	list_for_each (item, head) {
		const struct ledger_pod *pod = (const struct ledger_pod *)((const char *)item - offset);

		archive_item_text(archive, i++, pod->facts.uid);
	}
	archive_list_end(archive, &place);
}

static void write_nominated(struct archive *archive, const struct list *head, bool of_node)
{
	struct archive_place place;
	size_t n = 0, i = 0;

	list_for_each (item, head)
		n++;
	archive_list(archive, "nominated", n, SIZE_MAX, &place);
	list_for_each (item, head)
		archive_item_text(archive, i++,
			(of_node ? list_entry(item, const struct nomination, item)->pod
				 : list_entry(item, const struct nomination, all)->pod)
				->facts.uid);
	archive_list_end(archive, &place);
}

/* Which list of pods is read: pods that occupy something on the node, pods whose hold ends by time, all
 * nominated pods, or the pods nominated for the node. */
enum order { ORDER_PODS, ORDER_HOLDS, ORDER_NOMINATED, ORDER_NOMINATED_ON_NODE };

/* The pod's item in this list; NULL if it is not in the list. */
static struct list *item_in(struct ledger_pod *pod, enum order order, const struct node_ledger *node)
{
	switch (order) {
	case ORDER_PODS:
		return pod->node && strcmp(pod->node, node->facts.name) == 0 ? &pod->item : NULL;
	case ORDER_HOLDS:
		return pod->hold.next ? &pod->hold : NULL;
	case ORDER_NOMINATED:
		return pod->nomination ? &pod->nomination->all : NULL;
	case ORDER_NOMINATED_ON_NODE:
		return pod->nomination && pod->nomination->node == node ? &pod->nomination->item : NULL;
	}
	return NULL;
}

/* Moves one pod after the other to the end of the list. */
static void read_uids(struct core *core, struct archive *archive, const char *key, struct list *head,
	enum order order, const struct node_ledger *node)
{
	struct archive_place place;
	size_t n = archive_list(archive, key, 0, SIZE_MAX, &place);

	for (size_t i = 0; i < n && !archive->failed; i++) {
		const char *uid = archive_item_text(archive, i, NULL);
		struct ledger_pod *pod = uid ? table_get(&core->ledger.pods, uid) : NULL;
		struct list *item = pod ? item_in(pod, order, node) : NULL;

		if (item) {
			list_remove(item);
			list_append(head, item);
		} else {
			archive_fail(archive, EINVAL, "\"%s\" names a pod that does not belong there", key);
		}
	}
	archive_list_end(archive, &place);
}

void state_read_order(struct core *core, struct archive *archive)
{
	struct node_ledger *node = NULL;
	char *name = NULL;

	archive_need_text(archive, "node", &name);
	if (name && !(node = table_get(&core->ledger.nodes, name)))
		archive_fail(archive, EINVAL, "node %s is not there", name);
	if (node) {
		read_uids(core, archive, "pods", &node->pods, ORDER_PODS, node);
		read_uids(core, archive, "nominated", &node->nominations, ORDER_NOMINATED_ON_NODE, node);
	}
	free(name);
}

/* This is the last line, because reading the others has changed the numbers. */
void state_read_ledger(struct core *core, struct archive *archive)
{
	struct ledger *ledger = &core->ledger;
	const struct node_ledger *node;

	ledger->generation = ledger->capacity = 0;
	ledger->lowest_priority = 0;
	archive_ledger(archive, ledger);
	read_uids(core, archive, "holds", &ledger->holds, ORDER_HOLDS, NULL);
	table_for_each (&ledger->nodes, cursor, node)
		if (node->number >= ledger->n_nodes_ever)
			archive_fail(
				archive, EINVAL, "node %s has a number that no node had", node->facts.name);
	read_uids(core, archive, "nominated", &ledger->nominations, ORDER_NOMINATED, NULL);
}

static void write_order(struct core *core, struct state_writer *writer)
{
	struct node_ledger *node;
	struct archive *archive;

	table_for_each (&core->ledger.nodes, cursor, node) {
		if (list_empty(&node->pods) && list_empty(&node->nominations))
			continue;
		archive = state_begin(writer, "order");
		archive_text(archive, "node", &node->facts.name);
		write_uids(archive, "pods", &node->pods, offsetof(struct ledger_pod, item));
		write_nominated(archive, &node->nominations, true);
		state_end(writer);
	}
	archive = state_begin(writer, "ledger");
	archive_ledger(archive, &core->ledger);
	write_uids(archive, "holds", &core->ledger.holds, offsetof(struct ledger_pod, hold));
	write_nominated(archive, &core->ledger.nominations, false);
	state_end(writer);
}

void state_write_registry(struct core *core, struct state_writer *writer)
{
	struct node_ledger *node;
	struct ledger_pod *pod;

	table_for_each (&core->ledger.nodes, cursor, node) {
		struct archive *archive = state_begin(writer, "node");
		char *models = node->model ? (char *)node->model->names : NULL;

		archive_text(archive, "name", &node->facts.name);
		archive_node(archive, node, &models);
		state_end(writer);
	}
	table_for_each (&core->ledger.pods, cursor, pod)
		write_pod(pod, writer);
	write_host_pods(core, writer);
	write_order(core, writer);
}
