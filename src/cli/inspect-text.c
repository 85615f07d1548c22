/* The output of `ration inspect` as text. */
#include "cli/inspect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/tabwriter.h"

#define TEXT_MAX (64u << 20)

/* Columns are separated by tabs and aligned at the end. The length of the dashed line depends on the row
 * before alignment, as in the tool of the documents. */
#define SUMMARY_DASHES_MORE 20
#define DETAILS_DASHES_MORE 10

static void add_dashes(struct strbuf *text, size_t n)
{
	while (n-- > 0)
		strbuf_add(text, "-", 1);
	strbuf_add(text, "\n", 1);
}

static void add_share(struct strbuf *text, uint64_t allocated, uint64_t total)
{
	strbuf_addf(text, "%" PRIu64 "/%" PRIu64, allocated, total);
}

static void add_cluster_sum(struct strbuf *text, const struct inspect *inspect)
{
	uint64_t allocated, total;

	inspect_totals(inspect, &allocated, &total);
	add_share(text, allocated, total);
	strbuf_addf(text, " (%" PRIu64 "%%)\n", percent_of(allocated, total));
}

static void add_summary_header(struct strbuf *text, const struct inspect *inspect, bool wide)
{
	char unit[32];

	strbuf_adds(text, "NAME\tIPADDRESS\t");
	for (size_t i = 0; i < inspect_columns(inspect); i++)
		strbuf_addf(text, "GPU%zu(Allocated/Total)\t", i);
	if (inspect_has_pending(inspect))
		strbuf_adds(text, "PENDING(Allocated)\t");
	strbuf_addf(text, "GPU Memory(%s)%s\n", inspect_unit_text(inspect, unit, sizeof(unit)),
		wide ? "\tMODE\tUNIT\tMODEL\tHEALTH" : "");
}

/* Each model once, with the number of GPUs if there are several: "2xTesla T4,NVIDIA A100". */
static void add_models(struct strbuf *text, const struct inspect_node *node)
{
	bool first = true;

	for (size_t i = 0; i < node->n_gpus; i++) {
		const char *model = node->gpus[i].model;
		size_t n = 0, earlier = 0;

		for (size_t k = 0; k < node->n_gpus; k++) {
			n += strcmp(node->gpus[k].model, model) == 0;
			earlier += k < i && strcmp(node->gpus[k].model, model) == 0;
		}
		if (earlier)
			continue;
		strbuf_adds(text, first ? "" : ",");
		if (n > 1)
			strbuf_addf(text, "%zux", n);
		strbuf_adds(text, *model ? model : "unknown");
		first = false;
	}
}

static void add_gpu_health(struct strbuf *text, const struct inspect_gpu *gpu)
{
	strbuf_adds(text, gpu->healthy ? "healthy" : "unhealthy");
	if (gpu->reason)
		strbuf_addf(text, " (%s)", gpu->reason);
}

/* "healthy", or each unhealthy GPU with the reason. */
static void add_health(struct strbuf *text, const struct inspect_node *node)
{
	const char *between = "\t";

	for (size_t i = 0; i < node->n_gpus; i++) {
		const struct inspect_gpu *gpu = &node->gpus[i];

		if (gpu->healthy)
			continue;
		strbuf_addf(text, "%sGPU%d ", between, gpu->column);
		add_gpu_health(text, gpu);
		between = ", ";
	}
	if (*between == '\t')
		strbuf_adds(text, *node->gpus[0].uuid ? "\thealthy" : "\tunknown");
}

static void add_wide(struct strbuf *text, const struct inspect_node *node)
{
	const char *mode = node->mode == GPU_MODE_NONE ? "unknown" : gpu_mode_text(node->mode);
	char unit[32];

	strbuf_addf(text, "\t%s%s\t%s\t", mode, node->changing ? " (changing)" : "",
		unit_text(node->unit_mib, unit, sizeof(unit)));
	add_models(text, node);
	add_health(text, node);
}

static void add_summary_row(
	struct strbuf *text, const struct inspect *inspect, const struct inspect_node *node, bool wide)
{
	strbuf_addf(text, "%s\t%s\t", node->name, node->address);
	for (size_t i = 0; i < inspect_columns(inspect); i++) {
		const struct inspect_gpu *gpu = inspect_gpu_in_column(node, (int)i);

		add_share(text, gpu ? gpu->allocated : 0, gpu ? gpu->total : 0);
		strbuf_add(text, "\t", 1);
	}
	if (inspect_has_pending(inspect)) {
		if (node->pending)
			strbuf_addf(text, "%" PRIu64, node->pending);
		strbuf_add(text, "\t", 1);
	}
	add_share(text, node->allocated, node->total);
	if (wide)
		add_wide(text, node);
	strbuf_add(text, "\n", 1);
}

static int format(struct strbuf *text, struct strbuf *out)
{
	return text->failed ? text->failed : tabwriter_format(strbuf_cstr(text), out);
}

int inspect_summary(const struct inspect *inspect, bool wide, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf text;
	size_t before, dashes = 0;

	strbuf_init(&text, TEXT_MAX);
	add_summary_header(&text, inspect, wide);
	for (size_t i = 0; i < inspect->n_nodes; i++) {
		before = text.len;
		add_summary_row(&text, inspect, inspect->nodes[i], wide);
		if (i == 0)
			dashes = text.len - before + SUMMARY_DASHES_MORE;
	}
	add_dashes(&text, dashes);
	strbuf_adds(&text, "Allocated/Total GPU Memory In Cluster:\n");
	add_cluster_sum(&text, inspect);
	return format(&text, out);
}

static const char *mark_of(const struct inspect_pod *pod)
{
	if (pod->orphan)
		return ORPHAN_MARK;
	if (pod->is_claim)
		return CLAIM_MARK;
	return pod->shares_claim ? SHARED_MARK : "";
}

static void add_pod_row(struct strbuf *text, const struct inspect_node *node, const struct inspect_pod *pod)
{
	strbuf_addf(text, "%s%s\t%s\t", pod->name, mark_of(pod), pod->namespace_);
	for (size_t i = 0; i < node->n_columns; i++)
		strbuf_addf(text, "%u\t", pod->units[i]);
	if (node->pending)
		strbuf_addf(text, "%u\t", pod->pending);
	strbuf_add(text, "\n", 1);
}

static void add_node_header(struct strbuf *text, const struct inspect_node *node)
{
	strbuf_addf(text, "\nNAME:\t%s\nIPADDRESS:\t%s\n\nNAME\tNAMESPACE\t", node->name, node->address);
	for (size_t i = 0; i < node->n_columns; i++)
		strbuf_addf(text, "GPU%zu(Allocated)\t", i);
	strbuf_adds(text, node->pending ? "Pending(Allocated)\t\n" : "\n");
}

int inspect_details(const struct inspect *inspect, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf text;
	size_t dashes = 0;

	strbuf_init(&text, TEXT_MAX);
	for (size_t i = 0; i < inspect->n_nodes; i++) {
		const struct inspect_node *node = inspect->nodes[i];
		size_t before;

		add_node_header(&text, node);
		before = text.len;
		for (size_t k = 0; k < node->n_pods; k++)
			add_pod_row(&text, node, &node->pods[k]);
		if (i == 0)
			dashes = text.len - before + DETAILS_DASHES_MORE;
		strbuf_addf(&text, "Allocated :\t%" PRIu64 " (%" PRIu64 "%%)\t\n", node->allocated,
			percent_of(node->allocated, node->total));
		strbuf_addf(&text, "Total :\t%" PRIu64 " \t\n", node->total);
		add_dashes(&text, dashes);
	}
	strbuf_adds(&text, "\n\nAllocated/Total GPU Memory In Cluster:\t");
	add_cluster_sum(&text, inspect);
	return format(&text, out);
}

/* ---- --topology ---- */

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
		strbuf_addf(text, "\t%" PRIu64 "/%u\t", gpu->allocated, gpu->total);
		add_gpu_health(text, gpu);
		strbuf_adds(text, "\n");
	}
}

static void add_whole_gpus(struct strbuf *text, const struct inspect_node *node)
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

int inspect_topology(const struct inspect *inspect, struct strbuf *out)
{
	int r = 0;

	for (size_t i = 0; i < inspect->n_nodes && r == 0; i++) {
		const struct inspect_node *node = inspect->nodes[i];
		_cleanup_strbuf_ struct strbuf text;

		strbuf_init(&text, TEXT_MAX);
		strbuf_addf(&text, "NAME:\t%s\nIPADDRESS:\t%s\n\n", node->name, node->address);
		add_matrix(&text, node);
		add_whole_gpus(&text, node);
		strbuf_adds(&text, "\n");
		r = format(&text, out);
	}
	strbuf_adds(out, "Allocated/Total GPUs In Cluster:\n");
	add_cluster_sum(out, inspect);
	return r < 0 ? r : out->failed;
}
