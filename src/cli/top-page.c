#include "cli/top-page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

#define LABEL_MAX 600 /* bytes of a value; the longest is that of a program with its arguments */
#define KEY_MAX 3600

enum label { GPU, UUID, MODEL, NAMESPACE, POD, CONTAINER, LABELS };
static const char *const label_names[LABELS] = {"gpu", "UUID", "modelName", "namespace", "pod", "container"};

struct labels {
	char value[LABELS][LABEL_MAX];
};

enum family { GPU_MEMORY, GPU_USED, LIMIT, USED, SHARE, RATE, STARTED, WAITED, FAMILIES };
static const char *const family_names[FAMILIES] = {
	[GPU_MEMORY] = "ration_gpu_memory_bytes",
	[GPU_USED] = "ration_gpu_used_bytes",
	[LIMIT] = "ration_container_limit_bytes",
	[USED] = "ration_container_used_bytes",
	[SHARE] = "ration_container_core_share_ratio",
	[RATE] = "ration_container_core_rate_ratio",
	[STARTED] = "ration_container_core_started_seconds_total",
	[WAITED] = "ration_container_core_waited_seconds_total",
};

/* ---- one line ---- */

/* at: the text after the opening quote. Returns the text after the closing quote, NULL if the value is not
 * closed. A value that is too long is cut. */
static const char *value_take(const char *at, char *ret_value)
{
	size_t len = 0;

	for (; *at && *at != '"' && *at != '\n'; at++) {
		char c = *at;

		if (c == '\\' && at[1]) {
			at++;
			c = *at == 'n' ? '\n' : *at;
		}
		if (len < LABEL_MAX - 1)
			ret_value[len++] = c;
	}
	ret_value[len] = '\0';
	return *at == '"' ? at + 1 : NULL;
}

/* at: the text after "{". */
static const char *labels_take(const char *at, struct labels *labels)
{
	char ignored[LABEL_MAX];

	while (at && *at != '}') {
		size_t len = strcspn(at, "=\n");
		char *value = ignored;

		for (int i = 0; i < LABELS; i++)
			if (strlen(label_names[i]) == len && strncmp(at, label_names[i], len) == 0)
				value = labels->value[i];
		if (at[len] != '=' || at[len + 1] != '"')
			return NULL;
		at = value_take(at + len + 2, value);
		if (at && *at == ',')
			at++;
	}
	return at ? at + 1 : NULL;
}

/* FAMILIES: the line has no family of interest, or is not valid. */
static enum family line_parse(const char *line, struct labels *ret_labels, double *ret_value)
{
	size_t len = strcspn(line, "{ \n");
	enum family family = 0;
	const char *at;
	char *end;

	while (family < FAMILIES &&
		(strlen(family_names[family]) != len || strncmp(line, family_names[family], len) != 0))
		family++;
	if (family == FAMILIES || line[len] != '{')
		return FAMILIES;
	memset(ret_labels, 0, sizeof(*ret_labels));
	at = labels_take(line + len + 1, ret_labels);
	if (!at || *at != ' ')
		return FAMILIES;
	*ret_value = strtod(at + 1, &end);
	/* Neither NaN nor negative. */
	return end != at + 1 && (*end == '\n' || *end == '\0') && *ret_value >= 0 && *ret_value < 1e18
		       ? family
		       : FAMILIES;
}

/* ---- GPUs and holders ---- */

static int index_of(const struct labels *labels)
{
	const char *text = labels->value[GPU];
	char *end;
	long index = strtol(text, &end, 10);

	return *text && !*end && index >= 0 && index < 100000 ? (int)index : -1;
}

static void gpu_free(struct top_gpu *gpu)
{
	if (!gpu)
		return;
	free(gpu->node);
	free(gpu->uuid);
	free(gpu->model);
	free(gpu);
}

static void holder_free(struct top_holder *holder)
{
	if (!holder)
		return;
	free(holder->node);
	free(holder->namespace_);
	free(holder->pod);
	free(holder->container);
	free(holder->uuid);
	free(holder->users);
	free(holder);
}

/* Makes room for one more entry in an array of pointers. */
static int grow(void *array, size_t n)
{
	return n < TOP_HOLDERS_MAX ? array_room(array, n, sizeof(void *)) : -E2BIG;
}

static int gpu_get(
	struct top_sample *sample, const char *node, const struct labels *labels, struct top_gpu **ret_gpu)
{
	char key[KEY_MAX];
	struct top_gpu *gpu;
	int r = grow(&sample->gpus, sample->n_gpus);

	snprintf(key, sizeof(key), "gpu\n%s\n%s", node, labels->value[UUID]);
	*ret_gpu = table_get(&sample->by_key, key);
	if (*ret_gpu || r < 0)
		return *ret_gpu ? 0 : r;
	gpu = calloc(1, sizeof(*gpu));
	if (!gpu)
		return -ENOMEM;
	*gpu = (struct top_gpu){.node = strdup(node),
		.uuid = strdup(labels->value[UUID]),
		.model = strdup(labels->value[MODEL]),
		.index = index_of(labels)};
	if (!gpu->node || !gpu->uuid || !gpu->model || table_set(&sample->by_key, key, gpu) < 0) {
		gpu_free(gpu);
		return -ENOMEM;
	}
	sample->gpus[sample->n_gpus++] = gpu;
	*ret_gpu = gpu;
	return 0;
}

static void holder_key(const char *node, const char *namespace_, const char *pod, const char *container,
	const char *uuid, char ret_key[KEY_MAX])
{
	snprintf(ret_key, KEY_MAX, "%s\n%s\n%s\n%s\n%s", node, namespace_, pod, uuid, container);
}

static int holder_get(struct top_sample *sample, const char *node, const struct labels *labels,
	struct top_holder **ret_holder)
{
	const char *namespace_ = labels->value[NAMESPACE], *pod = labels->value[POD],
		   *container = labels->value[CONTAINER], *uuid = labels->value[UUID];
	struct top_holder *holder;
	char key[KEY_MAX];
	int r = grow(&sample->holders, sample->n_holders);

	holder_key(node, namespace_, pod, container, uuid, key);
	*ret_holder = table_get(&sample->by_key, key);
	if (*ret_holder || r < 0)
		return *ret_holder ? 0 : r;
	holder = calloc(1, sizeof(*holder));
	if (!holder)
		return -ENOMEM;
	*holder = (struct top_holder){.node = strdup(node),
		.namespace_ = strdup(namespace_),
		.pod = strdup(pod),
		.container = strdup(container),
		.uuid = strdup(uuid),
		.index = index_of(labels)};
	if (!holder->node || !holder->namespace_ || !holder->pod || !holder->container || !holder->uuid ||
		table_set(&sample->by_key, key, holder) < 0) {
		holder_free(holder);
		return -ENOMEM;
	}
	sample->holders[sample->n_holders++] = holder;
	*ret_holder = holder;
	return 0;
}

const struct top_holder *top_sample_holder(const struct top_sample *sample, const struct top_holder *holder)
{
	char key[KEY_MAX];

	holder_key(holder->node, holder->namespace_, holder->pod, holder->container, holder->uuid, key);
	return table_get(&sample->by_key, key);
}

/* ---- a page ---- */

static void gpu_say(struct top_gpu *gpu, enum family family, double value)
{
	if (family == GPU_MEMORY)
		gpu->memory_bytes = (uint64_t)value;
	else
		gpu->used = (struct top_memory){true, (uint64_t)value};
}

static void holder_say(struct top_holder *holder, enum family family, double value)
{
	switch (family) {
	case LIMIT:
		holder->limit_bytes = (uint64_t)value;
		break;
	case USED:
		holder->used = (struct top_memory){true, (uint64_t)value};
		break;
	case SHARE:
		holder->share = value;
		break;
	case RATE:
		holder->rate = value;
		break;
	case STARTED:
		holder->started = (struct top_seconds){true, value};
		break;
	default:
		holder->waited = (struct top_seconds){true, value};
	}
}

static struct top_seconds clock_of(const char *page)
{
	static const char name[] = "\nration_clock_seconds ";
	const char *line = strstr(page, name);
	char *end = NULL;
	double seconds = line ? strtod(line + strlen(name), &end) : 0;

	return (struct top_seconds){seconds > 0 && seconds < 1e18 && (*end == '\n' || *end == '\0'), seconds};
}

int top_sample_add(struct top_sample *sample, const char *node, const char *page)
{
	_cleanup_free_ struct labels *labels = malloc(sizeof(*labels));
	const struct top_seconds clock = clock_of(page);
	struct top_holder *holder;
	struct top_gpu *gpu;
	int r = labels ? 0 : -ENOMEM;
	double value;

	for (const char *line = page; r == 0 && *line; line += strcspn(line, "\n"), line += *line == '\n') {
		enum family family = line_parse(line, labels, &value);

		if (family == GPU_MEMORY || family == GPU_USED) {
			r = gpu_get(sample, node, labels, &gpu);
			if (r == 0)
				gpu_say(gpu, family, value);
		} else if (family != FAMILIES) {
			r = holder_get(sample, node, labels, &holder);
			if (r == 0) {
				holder_say(holder, family, value);
				holder->clock = clock;
			}
		}
	}
	return r;
}

static int gpu_compare(const void *pa, const void *pb)
{
	const struct top_gpu *a = *(struct top_gpu *const *)pa, *b = *(struct top_gpu *const *)pb;
	int r = strcmp(a->node, b->node);

	if (r == 0)
		r = (a->index > b->index) - (a->index < b->index);
	return r ? r : strcmp(a->uuid, b->uuid);
}

static int holder_compare(const void *pa, const void *pb)
{
	const struct top_holder *a = *(struct top_holder *const *)pa, *b = *(struct top_holder *const *)pb;
	int r = strcmp(a->node, b->node);

	r = r ? r : strcmp(a->uuid, b->uuid);
	r = r ? r : strcmp(a->namespace_, b->namespace_);
	r = r ? r : strverscmp(a->pod, b->pod);
	return r ? r : strcmp(a->container, b->container);
}

void top_sample_sort(struct top_sample *sample)
{
	if (sample->n_gpus)
		qsort(sample->gpus, sample->n_gpus, sizeof(struct top_gpu *), gpu_compare);
	if (sample->n_holders)
		qsort(sample->holders, sample->n_holders, sizeof(struct top_holder *), holder_compare);
}

void top_sample_init(struct top_sample *sample)
{
	*sample = (struct top_sample){0};
	table_init(&sample->by_key);
}

void top_sample_release(struct top_sample *sample)
{
	if (!sample)
		return;
	for (size_t i = 0; i < sample->n_gpus; i++)
		gpu_free(sample->gpus[i]);
	for (size_t i = 0; i < sample->n_holders; i++)
		holder_free(sample->holders[i]);
	free(sample->gpus);
	free(sample->holders);
	table_release(&sample->by_key);
	top_sample_init(sample);
}
