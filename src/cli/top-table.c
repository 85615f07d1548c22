#include "cli/top-table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/printable.h"
#include "cli/tabwriter.h"
#include "cli/top-page.h"
#include "model/units.h"

#define TEXT_MAX (64u << 20)
#define NAME_MAX_BYTES 4096

/* Parts of a GPU's time between the two samples; negative: unknown. */
struct rates {
	double used, waited;
};

static double per_second(struct top_seconds before, struct top_seconds now, double seconds)
{
	/* A counter that started again (another container with this name) gives no value this time. */
	bool went_on = before.known && now.known && now.s >= before.s;

	return went_on && seconds > 0 ? (now.s - before.s) / seconds : -1;
}

static struct rates rates_of(
	const struct top_sample *before, const struct top_sample *now, const struct top_holder *holder)
{
	const struct top_holder *then = top_sample_holder(before, holder);
	double seconds = (double)(now->at_ns - before->at_ns) / 1e9;
	struct rates rates = {-1, -1};

	if (!then || holder->share <= 0)
		return rates;
	/* An agent of an earlier version does not tell its time. */
	if (then->clock.known && holder->clock.known)
		seconds = holder->clock.s - then->clock.s;
	if (holder->rate > 0)
		rates.used = per_second(then->started, holder->started, seconds);
	/* The container's own count has the same error as its corrected rate. */
	if (rates.used > 0)
		rates.used *= holder->share / holder->rate;
	rates.waited = per_second(then->waited, holder->waited, seconds);
	return rates;
}

/* The sums over the holders of a GPU. */
struct sums {
	uint64_t limit_bytes;
	struct top_memory used;
	double share, core_used;
	bool controlled, counted;
};

static bool is_on(const struct top_holder *holder, const struct top_gpu *gpu)
{
	return strcmp(holder->node, gpu->node) == 0 && strcmp(holder->uuid, gpu->uuid) == 0;
}

static struct sums sums_of(
	const struct top_sample *before, const struct top_sample *now, const struct top_gpu *gpu)
{
	struct sums sums = {.used = gpu->used};

	for (size_t i = 0; i < now->n_holders; i++) {
		const struct top_holder *holder = now->holders[i];
		struct rates rates;

		if (!is_on(holder, gpu))
			continue;
		rates = rates_of(before, now, holder);
		sums.limit_bytes += holder->limit_bytes;
		if (!gpu->used.known && holder->used.known)
			sums.used = (struct top_memory){true, sums.used.bytes + holder->used.bytes};
		sums.share += holder->share;
		sums.controlled |= holder->share > 0;
		sums.counted |= rates.used >= 0;
		sums.core_used += rates.used > 0 ? rates.used : 0;
	}
	return sums;
}

static void add_memory(struct strbuf *text, struct top_memory used, uint64_t of)
{
	if (used.known)
		strbuf_addf(text, "%" PRIu64, used.bytes / MIB);
	else
		strbuf_adds(text, "-");
	strbuf_addf(text, "/%" PRIu64 "MiB\t", of / MIB);
}

static void add_part(struct strbuf *text, bool known, double part)
{
	if (known)
		strbuf_addf(text, "%.0f%%\t", part * 100);
	else
		strbuf_adds(text, "-\t");
}

/* Writes the words, with `between` them, as the last column of a line. */
static void add_name(struct strbuf *text, const char *const *words, const char *between)
{
	_cleanup_strbuf_ struct strbuf name;

	strbuf_init(&name, NAME_MAX_BYTES);
	for (size_t i = 0; words[i]; i++)
		strbuf_addf(&name, "%s%s", i ? between : "", words[i]);
	if (name.len)
		strbuf_adds(text, printable(name.data));
	strbuf_adds(text, "\n");
}

static void add_place(struct strbuf *text, const char *node, int index, bool runs)
{
	char number[16] = "-";

	if (index >= 0)
		snprintf(number, sizeof(number), "%d", index);
	strbuf_addf(text, "%s%s%s\t", runs ? "" : node, runs ? "" : "\t", number);
}

static void add_gpu(struct strbuf *text, const struct top_sample *before, const struct top_sample *now,
	const struct top_gpu *gpu, bool runs)
{
	struct sums sums = sums_of(before, now, gpu);

	add_place(text, gpu->node, gpu->index, runs);
	add_memory(text, sums.used, gpu->memory_bytes);
	/* An idle container under policy 4 keeps a share too. */
	add_part(text, sums.controlled, sums.share < 1 ? sums.share : 1);
	add_part(text, sums.counted, sums.core_used);
	strbuf_adds(text, "-\t");
	add_name(text, (const char *const[]){*gpu->model ? gpu->model : gpu->uuid, NULL}, "");
}

/* All pods of a claim share its part of the GPU. */
static void add_claim(struct strbuf *text, const struct top_holder *holder)
{
	const bool used = *holder->users;

	add_name(text,
		(const char *const[]){holder->namespace_, "/", used ? holder->users : "",
			used ? " (claim " : "(claim ", holder->pod, ")", NULL},
		"");
}

static void add_holder(struct strbuf *text, const struct top_sample *before, const struct top_sample *now,
	const struct top_holder *holder, bool runs)
{
	struct rates rates = rates_of(before, now, holder);

	add_place(text, holder->node, holder->index, runs);
	add_memory(text, holder->used, holder->limit_bytes);
	add_part(text, holder->share > 0, holder->share);
	add_part(text, rates.used >= 0, rates.used);
	add_part(text, rates.waited >= 0, rates.waited);
	strbuf_adds(text, "  ");
	if (!runs && holder->users)
		add_claim(text, holder);
	else if (runs)
		add_name(text, (const char *const[]){holder->pod, holder->container, NULL}, " ");
	else
		add_name(text,
			(const char *const[]){holder->namespace_, holder->pod, holder->container, NULL}, "/");
}

int top_table(const struct top_sample *before, const struct top_sample *now, bool runs, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, TEXT_MAX);
	if (now->n_gpus == 0)
		return strbuf_adds(out, runs ? "No program runs under a grant of `ration run`.\n"
					     : "No GPU is shared by ration here.\n");
	strbuf_adds(&text, runs ? "" : "NODE\t");
	strbuf_addf(&text, "GPU\tMEMORY\tCORE\tUSED\tWAITED\t%s\n", runs ? "RUN" : "POD");
	for (size_t i = 0; i < now->n_gpus; i++) {
		add_gpu(&text, before, now, now->gpus[i], runs);
		for (size_t k = 0; k < now->n_holders; k++)
			if (is_on(now->holders[k], now->gpus[i]))
				add_holder(&text, before, now, now->holders[k], runs);
	}
	return text.failed ? text.failed : tabwriter_format(strbuf_cstr(&text), out);
}

static void put(struct json_object *object, const char *key, bool known, struct json_object *value)
{
	if (known)
		json_object_object_add(object, key, value);
	else
		json_object_put(value);
}

static struct json_object *part(double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.4f", value);
	return json_object_new_double_s(value, text);
}

static struct json_object *users_json(const char *users)
{
	struct json_object *list = json_object_new_array();

	while (*users) {
		size_t len = strcspn(users, ",");

		json_object_array_add(list, json_object_new_string_len(users, (int)len));
		users += len;
		users += strspn(users, ", ");
	}
	return list;
}

static struct json_object *holder_json(const struct top_sample *before, const struct top_sample *now,
	const struct top_holder *holder, bool runs)
{
	struct json_object *object = json_object_new_object();
	struct rates rates = rates_of(before, now, holder);

	put(object, "namespace", !runs, json_object_new_string(holder->namespace_));
	put(object, runs ? "pid" : "pod", true,
		runs ? json_object_new_int(atoi(holder->pod)) : json_object_new_string(holder->pod));
	put(object, runs ? "program" : "container", true, json_object_new_string(holder->container));
	if (!runs && holder->users) {
		put(object, "claim", true, json_object_new_string(holder->pod));
		put(object, "pods", true, users_json(holder->users));
	}
	put(object, "limitBytes", true, json_object_new_int64((int64_t)holder->limit_bytes));
	put(object, "usedBytes", holder->used.known, json_object_new_int64((int64_t)holder->used.bytes));
	put(object, "coreShare", holder->share > 0, part(holder->share));
	put(object, "coreUsed", rates.used >= 0, part(rates.used));
	put(object, "coreWaited", rates.waited >= 0, part(rates.waited));
	return object;
}

struct json_object *top_json(const struct top_sample *before, const struct top_sample *now, bool runs)
{
	struct json_object *document = json_object_new_object(), *gpus = json_object_new_array();

	put(document, "of", true, json_object_new_string(runs ? "runs" : "pods"));
	put(document, "seconds", true, part((double)(now->at_ns - before->at_ns) / 1e9));
	for (size_t i = 0; i < now->n_gpus; i++) {
		const struct top_gpu *gpu = now->gpus[i];
		struct sums sums = sums_of(before, now, gpu);
		struct json_object *object = json_object_new_object(), *holders = json_object_new_array();

		put(object, "node", !runs, json_object_new_string(gpu->node));
		put(object, "index", gpu->index >= 0, json_object_new_int(gpu->index));
		put(object, "uuid", true, json_object_new_string(gpu->uuid));
		put(object, "model", *gpu->model != '\0', json_object_new_string(gpu->model));
		put(object, "memoryBytes", true, json_object_new_int64((int64_t)gpu->memory_bytes));
		put(object, "grantedBytes", true, json_object_new_int64((int64_t)sums.limit_bytes));
		put(object, "usedBytes", sums.used.known, json_object_new_int64((int64_t)sums.used.bytes));
		put(object, "coreUsed", sums.counted, part(sums.core_used));
		for (size_t k = 0; k < now->n_holders; k++)
			if (is_on(now->holders[k], gpu))
				json_object_array_add(
					holders, holder_json(before, now, now->holders[k], runs));
		put(object, "holders", true, holders);
		json_object_array_add(gpus, object);
	}
	put(document, "cards", true, gpus);
	return document;
}
