#include "cli/inspect-text.h"

#include <errno.h>
#include <inttypes.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/inspect.h"
#include "cli/tabwriter.h"

#define TEXT_MAX (64u << 20)

static void add_matrix(struct strbuf *text, const struct inspect_node *node)
{
	char link[LINK_TEXT_SIZE];

	for (size_t i = 0; i < node->n_gpus; i++)
		strbuf_addf(text, "\tGPU%d", node->gpus[i].column);
	strbuf_adds(text, "\tALLOCATED\tHEALTH\n");
	for (size_t a = 0; a < node->n_gpus; a++) {
		const struct inspect_gpu *gpu = &node->gpus[a];

		strbuf_addf(text, "GPU%d", gpu->column);
		for (size_t b = 0; b < node->n_gpus; b++)
			strbuf_addf(text, "\t%s", a == b ? "X" : link_text(gpu->links[b], link));
		strbuf_addf(text, "\t%" PRIu64 "/%u\t%s%s%s%s\n", gpu->allocated, gpu->total,
			gpu->healthy ? "healthy" : "unhealthy", gpu->reason ? " (" : "",
			gpu->reason ? gpu->reason : "", gpu->reason ? ")" : "");
	}
}

static void add_pods(struct strbuf *text, const struct inspect_node *node)
{
	if (node->n_pods)
		strbuf_adds(text, "\nNAME\tNAMESPACE\tGPUS\n");
	for (size_t i = 0; i < node->n_pods; i++) {
		const struct inspect_pod *pod = &node->pods[i];
		const char *between = "";

		strbuf_addf(text, "%s%s\t%s\t", pod->name, pod->orphan ? ORPHAN_MARK : "", pod->namespace_);
		for (size_t k = 0; k < node->n_columns; k++) {
			if (!pod->units[k])
				continue;
			strbuf_addf(text, "%s%zu", between, k);
			between = ",";
		}
		if (pod->pending)
			strbuf_addf(text, "%s%u pending", *between ? ", " : "", pod->pending);
		strbuf_adds(text, "\n");
	}
}

static int add_node(const struct inspect_node *node, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, TEXT_MAX);
	strbuf_addf(&text, "NAME:\t%s\nIPADDRESS:\t%s\n\n", node->name, node->address);
	add_matrix(&text, node);
	add_pods(&text, node);
	strbuf_adds(&text, "\n");
	return text.failed ? text.failed : tabwriter_format(strbuf_cstr(&text), out);
}

int inspect_topology(const struct inspect *inspect, struct strbuf *out)
{
	uint64_t allocated, total;
	int r = 0;

	for (size_t i = 0; i < inspect->n_nodes && r == 0; i++)
		r = add_node(inspect->nodes[i], out);
	inspect_totals(inspect, &allocated, &total);
	strbuf_addf(out, "Allocated/Total GPUs In Cluster:\n%" PRIu64 "/%" PRIu64 " (%" PRIu64 "%%)\n",
		allocated, total, percent_of(allocated, total));
	return r < 0 ? r : out->failed;
}
