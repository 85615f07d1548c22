/* Which free memory of a cluster is stranded (stranded.h): the kinds are those of its pods. Pure. */
#include "cli/ui/stranded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/inspect.h"
#include "model/units.h"

#define SORTS_MAX 32 /* sorts of nodes; nodes of further sorts count as if no pod was there */

enum gives { GIVES_MEMORY, GIVES_CLAIMS, GIVES_WHOLE };

/* Nodes that the same pods can be on. */
struct sort {
	enum gives gives;
	uint32_t unit_mib;
	bool with_core, without_core; /* which pods, by whether they ask for computing power */
	bool known;		      /* there is a pod for such GPUs somewhere */
	struct stranded stranded;
};

struct room {
	const struct inspect *inspect;
	struct sort sorts[SORTS_MAX];
	size_t n_sorts;
};

/* What one pod has or asks for. */
struct need {
	enum gives gives;
	uint64_t unit_mib; /* 0: any unit */
	struct stranded_kind kind;
};

static enum gives gives_of(const struct inspect_node *node)
{
	return node->mode == GPU_MODE_TOPOLOGY ? GIVES_WHOLE
	       : node->mode == GPU_MODE_DRA    ? GIVES_CLAIMS
					       : GIVES_MEMORY;
}

/* ---- the kinds ---- */

static uint32_t core_on(const struct inspect_pod *pod, int column)
{
	uint32_t core = 0;

	for (size_t i = 0; i < pod->n_claims; i++)
		core += pod->claims[i].column == column ? pod->claims[i].cores : 0;
	return pod->n_claims ? core : pod->core;
}

static struct need need_of_pod(const struct inspect_node *node, const struct inspect_pod *pod)
{
	struct need need = {.gives = gives_of(node), .unit_mib = node->unit_mib};

	for (int i = 0; i < NODE_GPUS_MAX; i++) {
		if (!pod->units[i])
			continue;
		need.kind.gpus++;
		if (pod->units[i] > need.kind.units)
			need.kind.units = pod->units[i];
		if (core_on(pod, i) > need.kind.core)
			need.kind.core = core_on(pod, i);
	}
	return need;
}

static struct need need_of_waiting(const struct inspect_waiting *waiting)
{
	uint32_t gpus = waiting->gpus ? waiting->gpus : 1;

	if (waiting->claims)
		return (struct need){.gives = GIVES_CLAIMS,
			.unit_mib = 1,
			.kind = {(uint32_t)(waiting->memory / MIB), waiting->core, gpus}};
	return (struct need){.gives = waiting->whole ? GIVES_WHOLE : GIVES_MEMORY,
		.kind = {waiting->whole ? 1 : waiting->units / gpus, waiting->core, gpus}};
}

/* A node of whole GPUs is treated as one GPU with as many units. */
static void add_need(struct sort *sort, struct need need)
{
	if (need.gives != sort->gives || !need.kind.gpus)
		return;
	sort->known = true;
	if (sort->gives == GIVES_WHOLE) {
		need.kind = (struct stranded_kind){need.kind.gpus, 0, 1};
	} else if (sort->gives == GIVES_CLAIMS) {
		need.kind.units = (uint32_t)((need.kind.units * need.unit_mib + sort->unit_mib - 1) /
					     sort->unit_mib);
	} else if ((need.unit_mib && need.unit_mib != sort->unit_mib) ||
		   !(need.kind.core ? sort->with_core : sort->without_core)) {
		return;
	}
	stranded_add_kind(&sort->stranded, &need.kind);
}

static void add_needs(const struct inspect *inspect, struct sort *sort)
{
	for (size_t i = 0; i < inspect->n_nodes; i++)
		for (size_t k = 0; k < inspect->nodes[i]->n_pods; k++)
			if (!inspect->nodes[i]->pods[k].orphan)
				add_need(sort, need_of_pod(inspect->nodes[i], &inspect->nodes[i]->pods[k]));
	for (size_t i = 0; i < inspect->n_waiting; i++)
		add_need(sort, need_of_waiting(&inspect->waiting[i]));
}

/* ---- the nodes ---- */

/* In mode core_mem pods with and without a percentage are not mixed, unless the chart allows it. */
static void find_mix(const struct inspect_node *node, bool *ret_with, bool *ret_without)
{
	bool has_with = false, has_without = false;

	for (size_t i = 0; i < node->n_pods; i++) {
		has_with |= node->pods[i].core > 0;
		has_without |= node->pods[i].core == 0;
	}
	*ret_with = node->mode == GPU_MODE_CORE_MEM && (node->mixing || !has_without || has_with);
	*ret_without = node->mode != GPU_MODE_CORE_MEM || node->mixing || !has_with;
}

static struct sort *sort_of(struct room *room, const struct inspect_node *node)
{
	struct sort sort = {.gives = gives_of(node), .unit_mib = node->unit_mib ? node->unit_mib : 1};

	find_mix(node, &sort.with_core, &sort.without_core);
	for (size_t i = 0; i < room->n_sorts; i++)
		if (room->sorts[i].gives == sort.gives && room->sorts[i].unit_mib == sort.unit_mib &&
			room->sorts[i].with_core == sort.with_core &&
			room->sorts[i].without_core == sort.without_core)
			return &room->sorts[i];
	if (room->n_sorts == SORTS_MAX)
		return NULL;
	stranded_init(&sort.stranded);
	add_needs(room->inspect, &sort);
	room->sorts[room->n_sorts] = sort;
	return &room->sorts[room->n_sorts++];
}

static bool has_claim(const struct inspect_pod *pod, const char *name)
{
	for (size_t i = 0; i < pod->n_claims; i++)
		if (strcmp(pod->claims[i].name, name) == 0)
			return true;
	return false;
}

/* Pods that share a claim share its computing power, so the claim is counted with the first of them. */
static bool is_counted(const struct inspect_node *node, size_t i)
{
	for (size_t k = 0; k < i && node->pods[i].shares_claim; k++)
		if (strcmp(node->pods[k].namespace_, node->pods[i].namespace_) == 0 &&
			has_claim(&node->pods[k], node->pods[i].claims[0].name))
			return true;
	return false;
}

static struct stranded_gpu gpu_of(const struct inspect_node *node, const struct inspect_gpu *gpu)
{
	struct stranded_gpu result = {
		.free = gpu->total > gpu->allocated ? (uint32_t)(gpu->total - gpu->allocated) : 0,
		.closed = !gpu->healthy || node->unschedulable || node->changing};
	uint64_t core = 0;

	for (size_t i = 0; i < node->n_pods; i++)
		if (node->pods[i].units[gpu->column] && !is_counted(node, i))
			core += core_on(&node->pods[i], gpu->column);
	result.core = core < 100 ? (uint32_t)(100 - core) : 0;
	return result;
}

/* All free GPUs of the node are treated as one GPU with that many free units. If units are stranded, the last
 * free GPUs are. */
static int find_whole(
	struct stranded *stranded, const struct stranded_gpu *gpus, size_t n, uint32_t *ret_stranded)
{
	struct stranded_gpu all = {.core = 100};
	uint32_t left = 0;
	int r;

	for (size_t i = 0; i < n; i++)
		all.free += gpus[i].closed ? 0 : gpus[i].free;
	r = stranded_find(stranded, &all, 1, &left);
	for (size_t i = n; i-- > 0;) {
		ret_stranded[i] = gpus[i].closed || (gpus[i].free && left) ? gpus[i].free : 0;
		left -= !gpus[i].closed && gpus[i].free && left;
	}
	return r;
}

static int find(struct room *room, const struct inspect_node *node, uint32_t *ret_stranded)
{
	struct sort *sort = sort_of(room, node);
	struct stranded_gpu gpus[NODE_GPUS_MAX];
	bool unusable = sort && sort->known && !sort->stranded.n_kinds;

	for (size_t i = 0; i < node->n_gpus; i++) {
		gpus[i] = gpu_of(node, &node->gpus[i]);
		gpus[i].closed |= unusable;
	}
	memset(ret_stranded, 0, node->n_gpus * sizeof(*ret_stranded));
	if (!sort)
		return 0;
	return sort->gives == GIVES_WHOLE ? find_whole(&sort->stranded, gpus, node->n_gpus, ret_stranded)
					  : stranded_find(&sort->stranded, gpus, node->n_gpus, ret_stranded);
}

int ui_stranded_json(const struct inspect *inspect, struct strbuf *out)
{
	struct room room = {.inspect = inspect};
	uint32_t units[NODE_GPUS_MAX];
	int r = strbuf_adds(out, "[");

	for (size_t i = 0; i < inspect->n_nodes && r == 0; i++) {
		const struct inspect_node *node = inspect->nodes[i];

		r = find(&room, node, units);
		strbuf_adds(out, i ? ",\n[" : "[");
		for (size_t k = 0; k < node->n_gpus; k++)
			strbuf_addf(out, "%s%u", k ? "," : "", units[k]);
		strbuf_adds(out, "]");
	}
	strbuf_adds(out, "]");
	for (size_t i = 0; i < room.n_sorts; i++)
		stranded_release(&room.sorts[i].stranded);
	return r < 0 ? r : out->failed;
}
