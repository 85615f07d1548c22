/* The real decision: each pod is asked about as kube-scheduler does, by core_filter() with the nodes that
 * have CPU and memory for it and the right model, and is then shown bound on the first node of the answer. */
#include "packing/packing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/core.h"
#include "core/events.h"
#include "core/filter.h"
#include "core/placement/rank.h"
#include "core/registry/ledger.h"

#define UNIT_MIB 16 /* a unit is a thousandth of a GPU */
#define OFFERED 16  /* nodes, as ration-scheduler does */

struct packing_core {
	struct core core;
	const char **names;
	const struct node_ledger **nodes;
	int *scores;
	uint64_t n_pods;
};

static void see_node(struct core *core, const struct packing_trace *trace, size_t i, enum gpu_policy policy)
{
	const struct packing_node *node = &trace->nodes[i];
	struct node_facts facts;
	char uid[PACKING_NAME_SIZE + 8];

	node_facts_init(&facts);
	snprintf(uid, sizeof(uid), "uid-%s", node->name);
	facts.name = (char *)node->name;
	facts.uid = uid;
	facts.mode = GPU_MODE_SHARE;
	facts.policy = policy;
	facts.unit_mib = UNIT_MIB;
	facts.host = (struct host_amount){node->cpu_milli, node->memory_mib};
	facts.models = (char *)trace->models[node->model];
	facts.n_gpus = node->gpus;
	for (uint32_t k = 0; k < node->gpus; k++) {
		facts.gpus[k] = (struct gpu_facts){
			.index = (int)k, .mib = (uint64_t)GPU_MILLI * UNIT_MIB, .healthy = true};
		snprintf(facts.gpus[k].uuid, sizeof(facts.gpus[k].uuid), "GPU-%zu-%u", i, k);
	}
	if (core_see_node(core, &facts) < 0)
		abort();
}

struct packing_core *packing_core_begin(
	const struct packing_trace *trace, enum gpu_policy policy, enum node_order order)
{
	struct packing_core *packing = calloc(1, sizeof(*packing));

	if (!packing || !(packing->names = calloc(trace->n_nodes, sizeof(*packing->names))) ||
		!(packing->nodes = calloc(trace->n_nodes, sizeof(*packing->nodes))) ||
		!(packing->scores = calloc(trace->n_nodes, sizeof(*packing->scores))))
		abort();
	core_init(&packing->core, NULL);
	packing->core.ledger.node_order = order;
	for (size_t i = 0; i < trace->n_nodes; i++)
		see_node(&packing->core, trace, i, policy);
	return packing;
}

void packing_core_end(struct packing_core *packing)
{
	core_release(&packing->core);
	free(packing->names);
	free(packing->nodes);
	free(packing->scores);
	free(packing);
}

/* The models that the pod can use, "A10,T4"; NULL: all. */
static char *models_of(const struct packing_trace *trace, const struct packing_pod *pod)
{
	char text[PACKING_MODELS_MAX * PACKING_NAME_SIZE] = "";

	for (size_t i = 0; i < trace->n_models; i++)
		if (pod->models >> i & 1)
			sprintf(text + strlen(text), "%s%s", *text ? "," : "", trace->models[i]);
	return *text ? strdup(text) : NULL;
}

/* Texts of its own; pod_facts_release() frees them. */
static void pod_facts_of(struct packing_core *packing, const struct packing_trace *trace,
	const struct packing_pod *pod, struct pod_facts *ret_facts)
{
	char text[32];

	pod_facts_init(ret_facts);
	snprintf(text, sizeof(text), "pod-%" PRIu64, packing->n_pods++);
	ret_facts->uid = strdup(text);
	ret_facts->name = strdup(text);
	ret_facts->namespace_ = strdup("default");
	ret_facts->owner = strdup("");
	ret_facts->node = strdup("");
	ret_facts->models = models_of(trace, pod);
	ret_facts->host = (struct host_amount){pod->cpu_milli, pod->memory_mib};
	ret_facts->request.unit_mib = UNIT_MIB;
	snprintf(text, sizeof(text), "%u", pod->gpus * pod->gpu_milli);
	if (pod->gpus &&
		(request_add(&ret_facts->request, "main", CONTAINER_MAIN, 0, text, NULL, NULL) < 0 ||
			(pod->gpus > 1 && request_set_gpus(&ret_facts->request, pod->gpus, NULL) < 0)))
		abort();
}

static void show_bound(struct packing_core *packing, struct pod_facts *facts, const char *node)
{
	const struct ledger_pod *held = ledger_pod(&packing->core.ledger, facts->uid);

	free(facts->node);
	facts->node = strdup(node);
	if (held && held->has_placement) {
		if (placement_copy(&held->placement, &facts->placement) < 0)
			abort();
		facts->has_placement = true;
	}
	if (core_see_pod(&packing->core, facts, 0, 0) < 0)
		abort();
}

/* The number of the pod's first GPU on its node, which the GPU's name ends with; -1: it has none. */
static int gpu_of(const struct pod_facts *facts)
{
	const char *uuid = facts->has_placement ? facts->placement.containers[0].gpus[0].uuid : NULL;

	return uuid ? atoi(strrchr(uuid, '-') + 1) : -1;
}

static const int *score_host_pod(struct packing_core *packing, const struct packing_cluster *cluster,
	const struct packing_pod *pod, const struct pod_facts *facts)
{
	for (size_t i = 0; i < cluster->trace->n_nodes; i++)
		packing->nodes[i] = packing_host_fits(&cluster->nodes[i], pod)
					    ? ledger_node(&packing->core.ledger, cluster->nodes[i].name)
					    : NULL;
	rank_host_pod(&packing->core.ledger, packing->nodes, cluster->trace->n_nodes, facts, packing->scores);
	return packing->scores;
}

int packing_core_choose(struct packing_core *packing, const struct packing_cluster *cluster,
	const struct packing_pod *pod, char ret_uid[PACKING_UID_SIZE], int *ret_gpu)
{
	_cleanup_filter_answer_ struct filter_answer answer = {0};
	struct filter_question question = {.names = packing->names, .best = OFFERED};
	_cleanup_pod_facts_ struct pod_facts facts;
	int chosen = -1;

	pod_facts_of(packing, cluster->trace, pod, &facts);
	question.pod = &facts;
	for (size_t i = 0; i < cluster->trace->n_nodes; i++)
		if (packing_host_fits(&cluster->nodes[i], pod))
			packing->names[question.n++] = cluster->nodes[i].name;
	if (pod->gpus) {
		core_filter(&packing->core, &question, 0, &answer);
		if (answer.outcome == FILTER_FITS)
			chosen = (int)answer.nodes[0]->number;
	} else {
		chosen = packing_kube_choose(cluster, pod, score_host_pod(packing, cluster, pod, &facts));
	}
	if (chosen >= 0) {
		show_bound(packing, &facts, cluster->nodes[chosen].name);
		*ret_gpu = gpu_of(&facts);
	} else {
		core_pod_is_gone(&packing->core, facts.uid, true, 0);
	}
	snprintf(ret_uid, PACKING_UID_SIZE, "%s", facts.uid);
	return chosen;
}

struct core *packing_core_of(struct packing_core *packing)
{
	return &packing->core;
}

void packing_core_remove(struct packing_core *packing, const char *uid)
{
	core_pod_is_gone(&packing->core, uid, true, 0);
}
