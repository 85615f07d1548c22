#include "scheduler/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A decision, followed in memory by everything to which it points. */
struct stored {
	struct decision decision;
	size_t bytes;
	char data[];
};

struct recorder {
	struct stored *ring[DECISIONS_MAX];
	size_t first, n;
	size_t bytes;
	uint64_t number; /* of the last decision */
};

int recorder_new(struct recorder **ret_recorder)
{
	struct recorder *recorder = calloc(1, sizeof(*recorder));

	if (!recorder)
		return -ENOMEM;
	*ret_recorder = recorder;
	return 0;
}

static void recorder_drop_oldest(struct recorder *recorder)
{
	struct stored *oldest = recorder->ring[recorder->first];

	recorder->bytes -= oldest->bytes;
	recorder->first = (recorder->first + 1) % DECISIONS_MAX;
	recorder->n--;
	free(oldest);
}

void recorder_free(struct recorder *recorder)
{
	if (!recorder)
		return;
	while (recorder->n)
		recorder_drop_oldest(recorder);
	free(recorder);
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 1;
}

static size_t decision_size(const struct decision *d)
{
	size_t size = sizeof(struct stored) + d->n_nodes * sizeof(*d->nodes) +
		      d->n_reasons * sizeof(*d->reasons) + d->n_gpus * sizeof(*d->gpus) +
		      d->n_victims * sizeof(*d->victims);

	size += text_size(d->uid) + text_size(d->namespace_) + text_size(d->name) + text_size(d->node) +
		text_size(d->policy) + text_size(d->text);
	for (size_t i = 0; i < d->n_nodes; i++)
		size += text_size(d->nodes[i].name);
	for (size_t i = 0; i < d->n_reasons; i++)
		size += text_size(d->reasons[i].text);
	for (size_t i = 0; i < d->n_gpus; i++)
		size += text_size(d->gpus[i].uuid);
	for (size_t i = 0; i < d->n_victims; i++)
		size += text_size(d->victims[i].uid) + text_size(d->victims[i].namespace_) +
			text_size(d->victims[i].name);
	return size;
}

static const char *pack_text(char **end, const char *text)
{
	char *copy = *end;

	*end += text_size(text);
	return strcpy(copy, text ? text : "");
}

static void *pack_array(char **end, const void *array, size_t size)
{
	char *copy = *end;

	if (size)
		memcpy(copy, array, size);
	*end += size;
	return copy;
}

static void pack_victims(char **end, const struct decision *d, struct decision_victim *victims)
{
	for (size_t i = 0; i < d->n_victims; i++) {
		victims[i].uid = pack_text(end, d->victims[i].uid);
		victims[i].namespace_ = pack_text(end, d->victims[i].namespace_);
		victims[i].name = pack_text(end, d->victims[i].name);
	}
}

/* The arrays come first, because they need alignment and texts do not. */
static void stored_fill(struct stored *stored, const struct decision *d)
{
	char *end = stored->data;
	struct decision_node *nodes = pack_array(&end, d->nodes, d->n_nodes * sizeof(*nodes));
	struct decision_victim *victims = pack_array(&end, d->victims, d->n_victims * sizeof(*victims));
	struct decision_reason *reasons = pack_array(&end, d->reasons, d->n_reasons * sizeof(*reasons));
	struct decision_gpu *gpus = pack_array(&end, d->gpus, d->n_gpus * sizeof(*gpus));

	stored->decision = *d;
	stored->decision.nodes = nodes;
	stored->decision.reasons = reasons;
	stored->decision.gpus = gpus;
	stored->decision.victims = victims;
	for (size_t i = 0; i < d->n_nodes; i++)
		nodes[i].name = pack_text(&end, d->nodes[i].name);
	for (size_t i = 0; i < d->n_reasons; i++)
		reasons[i].text = pack_text(&end, d->reasons[i].text);
	for (size_t i = 0; i < d->n_gpus; i++)
		gpus[i].uuid = pack_text(&end, d->gpus[i].uuid);
	pack_victims(&end, d, victims);
	stored->decision.uid = pack_text(&end, d->uid);
	stored->decision.namespace_ = pack_text(&end, d->namespace_);
	stored->decision.name = pack_text(&end, d->name);
	stored->decision.node = pack_text(&end, d->node);
	stored->decision.policy = pack_text(&end, d->policy);
	stored->decision.text = pack_text(&end, d->text);
}

static size_t at_most(size_t n, size_t max)
{
	return n > max ? max : n;
}

void recorder_add(struct recorder *recorder, const struct decision *decision)
{
	struct decision cut = *decision;
	struct stored *stored;
	size_t bytes;

	cut.number = ++recorder->number;
	cut.n_nodes = at_most(cut.n_nodes, DECISION_NODES_MAX);
	cut.n_reasons = at_most(cut.n_reasons, DECISION_REASONS_MAX);
	cut.n_gpus = at_most(cut.n_gpus, DECISION_GPUS_MAX);
	cut.n_victims = at_most(cut.n_victims, DECISION_VICTIMS_MAX);
	cut.n_victims_unnamed += (uint32_t)(decision->n_victims - cut.n_victims);
	bytes = decision_size(&cut);
	stored = malloc(bytes);
	if (!stored)
		return;
	stored->bytes = bytes;
	stored_fill(stored, &cut);
	while (recorder->n == DECISIONS_MAX || (recorder->n && recorder->bytes + bytes > DECISIONS_BYTES_MAX))
		recorder_drop_oldest(recorder);
	recorder->ring[(recorder->first + recorder->n++) % DECISIONS_MAX] = stored;
	recorder->bytes += bytes;
}

const struct decision *recorder_next(const struct recorder *recorder, size_t *cursor)
{
	if (*cursor >= recorder->n)
		return NULL;
	return &recorder->ring[(recorder->first + (*cursor)++) % DECISIONS_MAX]->decision;
}

size_t recorder_count(const struct recorder *recorder)
{
	return recorder->n;
}

size_t recorder_bytes(const struct recorder *recorder)
{
	return recorder->bytes;
}

const char *decision_kind_text(enum decision_kind kind)
{
	static const char *const texts[DECISION_KIND_MAX] = {
		[DECISION_FILTER] = "filter",
		[DECISION_PRIORITIZE] = "prioritize",
		[DECISION_BIND] = "bind",
		[DECISION_OUTCOME] = "outcome",
		[DECISION_REQUEUE] = "nudge",
		[DECISION_FILTER_ERROR] = "filter-error",
		[DECISION_PREEMPT] = "preempt",
		[DECISION_EVICT_SEARCH] = "evict-search",
		[DECISION_EVICT_PLAN] = "evict-plan",
		[DECISION_EVICT_ANSWER] = "evict-answer",
		[DECISION_EVICT_END] = "evict-end",
		[DECISION_GANG_PLAN] = "gang-plan",
		[DECISION_GANG_GIVEN_UP] = "gang-given-up",
		[DECISION_GANG_KEPT] = "gang-kept",
		[DECISION_GANG_EVICT] = "gang-evict",
		[DECISION_POLICY] = "level",
	};

	return texts[kind];
}
