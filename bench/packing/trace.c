#include "packing/packing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LINE_SIZE 1024
#define CELLS_MAX 32
#define AMOUNT_MAX 1000000000u /* of CPU or memory: a million CPUs, a petabyte */
#define ITEMS_MAX 200000       /* of a list */

static void *grow(void *items, size_t n, size_t size)
{
	/* Each power of two. */
	if (n & (n - 1))
		return items;
	items = realloc(items, (n ? 2 * n : 1) * size);
	if (!items || n > ITEMS_MAX) {
		fprintf(stderr, "bench-packing: out of memory, or a list of more than %d lines\n", ITEMS_MAX);
		exit(1);
	}
	return items;
}

void packing_add_node(struct packing_trace *trace, const struct packing_node *node)
{
	struct packing_node *added;

	trace->nodes = grow(trace->nodes, trace->n_nodes, sizeof(*trace->nodes));
	added = &trace->nodes[trace->n_nodes++];
	*added = *node;
	added->cpu_left = node->cpu_milli;
	added->memory_left = node->memory_mib;
	added->left = node->gpus * GPU_MILLI;
	for (uint32_t i = 0; i < node->gpus; i++)
		added->gpu_left[i] = GPU_MILLI;
}

static bool is_same_kind(const struct packing_pod *a, const struct packing_pod *b)
{
	return a->cpu_milli == b->cpu_milli && a->memory_mib == b->memory_mib && a->gpus == b->gpus &&
	       a->gpu_milli == b->gpu_milli && a->models == b->models;
}

void packing_add_pod(struct packing_trace *trace, struct packing_pod pod)
{
	for (pod.kind = 0; pod.kind < trace->n_kinds; pod.kind++)
		if (is_same_kind(&trace->kinds[pod.kind], &pod))
			break;
	if (pod.kind == trace->n_kinds) {
		trace->kinds = grow(trace->kinds, trace->n_kinds, sizeof(*trace->kinds));
		trace->counts = grow(trace->counts, trace->n_kinds, sizeof(*trace->counts));
		trace->counts[trace->n_kinds] = 0;
		trace->kinds[trace->n_kinds++] = pod;
	}
	trace->counts[pod.kind]++;
	trace->pods = grow(trace->pods, trace->n_pods, sizeof(*trace->pods));
	trace->pods[trace->n_pods++] = pod;
}

uint32_t packing_model(struct packing_trace *trace, const char *name)
{
	uint32_t i;

	for (i = 0; i < trace->n_models; i++)
		if (strcmp(trace->models[i], name) == 0)
			return i;
	if (i == PACKING_MODELS_MAX) {
		fprintf(stderr, "bench-packing: more than %d GPU models\n", PACKING_MODELS_MAX);
		exit(1);
	}
	snprintf(trace->models[i], sizeof(trace->models[i]), "%s", name);
	trace->n_models++;
	return i;
}

void packing_finish(struct packing_trace *trace)
{
	uint64_t asked = 0;

	trace->gpu_milli = 0;
	for (size_t i = 0; i < trace->n_nodes; i++)
		trace->gpu_milli += (uint64_t)trace->nodes[i].gpus * GPU_MILLI;
	for (size_t i = 0; i < trace->n_pods; i++)
		asked += (uint64_t)trace->pods[i].gpus * trace->pods[i].gpu_milli;
	if (!trace->gpu_milli || !asked) {
		fprintf(stderr, "bench-packing: there are no nodes, or no pod asks for a GPU\n");
		exit(1);
	}
	/* Pods are drawn until they ask for all GPUs and more; with hours, that many run at a time. */
	if (trace->gpu_milli / (asked / trace->n_pods + 1) > ITEMS_MAX / 2) {
		fprintf(stderr, "bench-packing: more than %d pods would be needed to ask for all GPUs\n",
			ITEMS_MAX / 2);
		exit(1);
	}
}

void packing_release(struct packing_trace *trace)
{
	free(trace->nodes);
	free(trace->pods);
	free(trace->kinds);
	free(trace->counts);
}

/* The columns that are read, in this order, wherever the head line has them. */
static const char *const node_columns[] = {"cpu_milli", "memory_mib", "gpu", "model"};
static const char *const pod_columns[] = {"cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"};

struct csv_file {
	FILE *file;
	const char *path;
	unsigned line; /* of the file, from 1 */
	char text[LINE_SIZE];
	char *cells[CELLS_MAX];
	size_t at[COUNT(pod_columns)]; /* the cell of each column that is read */
	size_t n_cells, n_head;
};

__attribute__((noreturn, format(printf, 2, 3))) static void refuse(
	const struct csv_file *csv, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "bench-packing: %s:%u: ", csv->path, csv->line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	exit(1);
}

/* Reads a line. Returns false at the end of the file. */
static bool next_line(struct csv_file *csv)
{
	char *rest = csv->text;

	if (!fgets(csv->text, sizeof(csv->text), csv->file)) {
		if (ferror(csv->file))
			refuse(csv, "cannot be read: %s", strerror(errno));
		return false;
	}
	csv->line++;
	if (!strchr(csv->text, '\n') && !feof(csv->file))
		refuse(csv, "a line of more than %d characters, or not a text", LINE_SIZE - 2);
	csv->text[strcspn(csv->text, "\r\n")] = '\0';
	for (const char *c = csv->text; *c; c++)
		if (*c < ' ' || *c > '~')
			refuse(csv, "not a text in ASCII");
	for (csv->n_cells = 0; rest && csv->n_cells < CELLS_MAX; csv->n_cells++)
		csv->cells[csv->n_cells] = strsep(&rest, ",");
	if (rest)
		refuse(csv, "more than %d columns", CELLS_MAX);
	return true;
}

static void read_head(struct csv_file *csv, const char *const columns[], size_t n)
{
	if (!next_line(csv))
		refuse(csv, "the file is empty");
	csv->n_head = csv->n_cells;
	for (size_t i = 0; i < n; i++) {
		size_t at = 0;

		while (at < csv->n_cells && strcmp(csv->cells[at], columns[i]) != 0)
			at++;
		if (at == csv->n_cells)
			refuse(csv, "the head line has no column %s", columns[i]);
		csv->at[i] = at;
	}
}

static uint32_t number(
	const struct csv_file *csv, const char *const columns[], size_t column, uint32_t min, uint32_t max)
{
	const char *text = csv->cells[csv->at[column]];
	uint32_t value;

	if (parse_u32(text, max, &value) < 0 || value < min)
		refuse(csv, "%s is \"%s\": must be a whole number from %u to %u", columns[column], text, min,
			max);
	return value;
}

static uint32_t model(struct packing_trace *trace, const struct csv_file *csv, const char *name)
{
	if (!*name || strlen(name) >= PACKING_NAME_SIZE)
		refuse(csv, "\"%s\" is not the name of a GPU model", name);
	return packing_model(trace, name);
}

static void read_node(struct packing_trace *trace, const struct csv_file *csv)
{
	struct packing_node node = {.cpu_milli = number(csv, node_columns, 0, 1, AMOUNT_MAX),
		.memory_mib = number(csv, node_columns, 1, 1, AMOUNT_MAX),
		.gpus = number(csv, node_columns, 2, 1, PACKING_GPUS_MAX),
		.model = model(trace, csv, csv->cells[csv->at[3]])};

	/* Names of its own, in the order of the list: of equal nodes the first one is taken, by all policies.
	 */
	snprintf(node.name, sizeof(node.name), "node-%06zu", trace->n_nodes);
	packing_add_node(trace, &node);
}

static void read_pod(struct packing_trace *trace, const struct csv_file *csv)
{
	struct packing_pod pod = {.cpu_milli = number(csv, pod_columns, 0, 0, AMOUNT_MAX),
		.memory_mib = number(csv, pod_columns, 1, 0, AMOUNT_MAX),
		.gpus = number(csv, pod_columns, 2, 0, PACKING_GPUS_MAX),
		.gpu_milli = number(csv, pod_columns, 3, 0, GPU_MILLI)};
	char *rest = csv->cells[csv->at[4]];

	if (!pod.gpus != !pod.gpu_milli)
		refuse(csv, "num_gpu is %u and gpu_milli %u: both or none must be 0", pod.gpus,
			pod.gpu_milli);
	while (rest && *rest)
		pod.models |= UINT32_C(1) << model(trace, csv, strsep(&rest, "|"));
	packing_add_pod(trace, pod);
}

static void read_lines(struct packing_trace *trace, const char *path, const char *const columns[], size_t n,
	void (*take)(struct packing_trace *trace, const struct csv_file *csv))
{
	struct csv_file csv = {.file = fopen(path, "r"), .path = path};

	if (!csv.file) {
		fprintf(stderr, "bench-packing: cannot read %s: %s\n", path, strerror(errno));
		exit(1);
	}
	read_head(&csv, columns, n);
	while (next_line(&csv)) {
		if (csv.n_cells != csv.n_head)
			refuse(&csv, "%zu columns, and the head line has %zu", csv.n_cells, csv.n_head);
		take(trace, &csv);
	}
	fclose(csv.file);
}

void packing_read(struct packing_trace *trace, const char *nodes, const char *pods)
{
	*trace = (struct packing_trace){0};
	read_lines(trace, nodes, node_columns, COUNT(node_columns), read_node);
	read_lines(trace, pods, pod_columns, COUNT(pod_columns), read_pod);
	packing_finish(trace);
}

uint64_t packing_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

struct packing_pod *packing_arrivals(
	const struct packing_trace *trace, uint64_t seed, unsigned percent, size_t *ret_n)
{
	uint64_t state = seed * UINT64_C(0xD1342543DE82EF95) + 1, asked = 0;
	struct packing_pod *pods = NULL;
	size_t n = 0;

	for (; n < trace->n_pods; n++) {
		pods = grow(pods, n, sizeof(*pods));
		pods[n] = trace->pods[n];
		asked += (uint64_t)pods[n].gpus * pods[n].gpu_milli;
	}
	for (size_t i = n; i > 1; i--) {
		size_t at = packing_random(&state) % i;
		struct packing_pod other = pods[i - 1];

		pods[i - 1] = pods[at];
		pods[at] = other;
	}
	while (asked * 100 < trace->gpu_milli * percent) {
		pods = grow(pods, n, sizeof(*pods));
		pods[n] = trace->pods[packing_random(&state) % trace->n_pods];
		asked += (uint64_t)pods[n].gpus * pods[n].gpu_milli;
		n++;
	}
	*ret_n = n;
	return pods;
}
