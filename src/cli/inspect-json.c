/* -o json, written piece by piece, because a tree of objects for a large cluster would take hundreds of
 * megabytes. The members are documented in kubectl-inspect-cgpu(1): members may be added, but none is
 * removed. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/strbuf.h"
#include "cli/inspect.h"
#include "kube/json.h"

static void add_text(struct strbuf *out, const char *before, const char *text)
{
	strbuf_adds(out, before);
	json_add_string(out, text);
}

static void add_number(struct strbuf *out, const char *before, uint64_t number)
{
	strbuf_addf(out, "%s%" PRIu64, before, number);
}

static void add_links(struct strbuf *out, const struct inspect_node *node, size_t at)
{
	char text[LINK_TEXT_SIZE];

	for (size_t i = 0; i < node->n_gpus; i++)
		add_text(out, i ? ", " : ", \"links\": [",
			i == at ? "X" : link_text(node->gpus[at].links[i], text));
	strbuf_adds(out, "]");
}

static void add_gpu(struct strbuf *out, const struct inspect_node *node, size_t at)
{
	const struct inspect_gpu *gpu = &node->gpus[at];

	strbuf_addf(out, "        {\"index\": %d", gpu->column);
	add_text(out, ", \"uuid\": ", gpu->uuid);
	add_text(out, ", \"model\": ", gpu->model);
	strbuf_addf(out, ", \"healthy\": %s", gpu->healthy ? "true" : "false");
	if (gpu->reason)
		add_text(out, ", \"reason\": ", gpu->reason);
	add_number(out, ", \"total\": ", gpu->total);
	add_number(out, ", \"allocated\": ", gpu->allocated);
	if (node->mode == GPU_MODE_TOPOLOGY)
		add_links(out, node, at);
	strbuf_adds(out, "}");
}

/* The claims of a pod, in bytes, on a node in mode dra. */
static void add_claims(struct strbuf *out, const struct inspect_pod *pod)
{
	for (size_t i = 0; i < pod->n_claims; i++) {
		const struct inspect_claim *claim = &pod->claims[i];

		add_text(out, i ? ", {\"name\": " : ", \"claims\": [{\"name\": ", claim->name);
		add_text(out, ", \"request\": ", claim->request);
		if (claim->column >= 0)
			add_number(out, ", \"gpu\": ", (uint64_t)claim->column);
		add_number(out, ", \"memoryBytes\": ", claim->memory);
		add_number(out, ", \"cores\": ", claim->cores);
		strbuf_adds(out, "}");
	}
	strbuf_adds(out, pod->n_claims ? "]" : "");
}

static void add_pod(struct strbuf *out, const struct inspect_pod *pod)
{
	const char *between = "";

	add_text(out, "        {\"namespace\": ", pod->namespace_);
	add_text(out, ", \"name\": ", pod->name);
	strbuf_adds(out, ", \"allocated\": {");
	for (int i = 0; i < NODE_GPUS_MAX; i++) {
		if (!pod->units[i])
			continue;
		strbuf_addf(out, "%s\"%d\": %u", between, i, pod->units[i]);
		between = ", ";
	}
	add_number(out, "}, \"pending\": ", pod->pending);
	if (pod->core)
		add_number(out, ", \"core\": ", pod->core);
	strbuf_adds(out, pod->orphan ? ", \"orphan\": true" : "");
	strbuf_adds(out, pod->is_claim ? ", \"unusedClaim\": true" : "");
	strbuf_adds(out, pod->shares_claim ? ", \"sharesClaim\": true" : "");
	add_claims(out, pod);
	strbuf_adds(out, "}");
}

static void add_node(struct strbuf *out, const struct inspect_node *node)
{
	add_text(out, "    {\n      \"name\": ", node->name);
	add_text(out, ",\n      \"address\": ", node->address);
	add_text(out, ",\n      \"mode\": ", gpu_mode_text(node->mode));
	strbuf_addf(out, ",\n      \"changing\": %s", node->changing ? "true" : "false");
	strbuf_adds(out, node->unschedulable ? ",\n      \"unschedulable\": true" : "");
	add_number(out, ",\n      \"unitMiB\": ", node->unit_mib);
	add_number(out, ",\n      \"total\": ", node->total);
	add_number(out, ",\n      \"allocated\": ", node->allocated);
	add_number(out, ",\n      \"pending\": ", node->pending);
	strbuf_adds(out, ",\n      \"gpus\": [");
	for (size_t i = 0; i < node->n_gpus; i++) {
		strbuf_adds(out, i ? ",\n" : "\n");
		add_gpu(out, node, i);
	}
	strbuf_adds(out, "\n      ],\n      \"pods\": [");
	for (size_t i = 0; i < node->n_pods; i++) {
		strbuf_adds(out, i ? ",\n" : "\n");
		add_pod(out, &node->pods[i]);
	}
	strbuf_addf(out, "%s]\n    }", node->n_pods ? "\n      " : "");
}

int inspect_json(const struct inspect *inspect, struct strbuf *out)
{
	uint64_t allocated, total;

	strbuf_adds(out, "{\n  \"nodes\": [");
	for (size_t i = 0; i < inspect->n_nodes; i++) {
		strbuf_adds(out, i ? ",\n" : "\n");
		add_node(out, inspect->nodes[i]);
	}
	inspect_totals(inspect, &allocated, &total);
	add_number(out, inspect->n_nodes ? "\n  ],\n  \"allocated\": " : "],\n  \"allocated\": ", allocated);
	add_number(out, ",\n  \"total\": ", total);
	add_number(out, ",\n  \"percent\": ", percent_of(allocated, total));
	strbuf_adds(out, "\n}\n");
	return out->failed;
}
