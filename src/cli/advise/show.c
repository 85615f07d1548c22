/* The advice as text and as JSON. */
#include "cli/advise/world.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/strbuf.h"
#include "cli/fields.h"
#include "cli/options.h"
#include "cli/printable.h"
#include "cli/tabwriter.h"
#include "kube/json.h"
#include "model/units.h"

#define TEXT_MAX (32u << 20)
#define NAME_MAX_BYTES 1024
#define COMMAND_MAX (64u << 10)
#define WAITS_MUCH 50 /* percent of the time; the text advises about containers that waited longer */

static const char *const kinds[ADVICE_KINDS] = {
	[ADVICE_MORE] = "more",
	[ADVICE_NO_ROOM] = "no room",
	[ADVICE_LESS] = "less",
	[ADVICE_KEEP] = "keep",
	[ADVICE_YOUNG] = "too young",
	[ADVICE_CLAIM] = "claim",
};

static bool is_other_size(const struct advice *advice)
{
	return advice->kind == ADVICE_MORE || advice->kind == ADVICE_LESS;
}

bool advise_has_command(const struct advise_container *container)
{
	return is_other_size(&container->advice) && !container->facts.unlimited;
}

/* How long threads waited for computing power, in percent of the time; over 100 with several threads. */
static uint64_t waited_percent(const struct advise_container *container)
{
	uint64_t seen_s = container->facts.seen_s;

	return seen_s ? container->waited_s * 100 / seen_s : 0;
}

struct sums {
	uint64_t less, less_mib; /* that can be won back */
	size_t n_less, n_more, n_young;
};

static struct sums sums_of(const struct advise_world *world)
{
	struct sums sums = {0};

	for (size_t i = 0; i < world->n_containers; i++) {
		const struct advise_container *container = world->containers[i];
		const struct advice *advice = &container->advice;

		sums.n_more += advice->kind == ADVICE_MORE || advice->kind == ADVICE_NO_ROOM;
		sums.n_young += advice->kind == ADVICE_YOUNG;
		if (advice->kind != ADVICE_LESS)
			continue;
		sums.n_less++;
		sums.less += advice->granted - advice->units;
		sums.less_mib += (uint64_t)(advice->granted - advice->units) * container->facts.unit_mib;
	}
	return sums;
}

static void add_printable(struct strbuf *out, const char *before, const char *name)
{
	char text[NAME_MAX_BYTES];

	snprintf(text, sizeof(text), "%s", name);
	strbuf_addf(out, "%s%s", before, printable(text));
}

static void add_pod(struct strbuf *out, const struct advise_container *container)
{
	add_printable(out, "", container->namespace_);
	add_printable(out, "/", container->pod);
}

static void add_advice(struct strbuf *text, const struct advice *advice)
{
	switch (advice->kind) {
	case ADVICE_MORE:
		strbuf_addf(text, "%u unit%s, %u more\n", advice->units, plural(advice->units),
			advice->units - advice->granted);
		break;
	case ADVICE_LESS:
		strbuf_addf(text, "%u unit%s, %u less\n", advice->units, plural(advice->units),
			advice->granted - advice->units);
		break;
	case ADVICE_NO_ROOM:
		strbuf_adds(text, "more, but its GPU has none free\n");
		break;
	case ADVICE_KEEP:
		strbuf_adds(text, "-\n");
		break;
	default:
		strbuf_addf(text, "%s\n", kinds[advice->kind]);
	}
}

static void add_row(struct strbuf *text, const struct advise_container *container)
{
	add_pod(text, container);
	add_printable(text, "\t", container->container);
	if (container->facts.is_claim)
		strbuf_adds(text, "\t-\t");
	else
		strbuf_addf(text, "\t%u\t", container->advice.granted);
	if (container->facts.unlimited)
		strbuf_adds(text, "-\t");
	else
		strbuf_addf(text, "%" PRIu64 "MiB\t", container->limit_bytes / MIB);
	strbuf_addf(text, "%" PRIu64 "MiB\t%" PRIu64 "MiB\t", container->used_bytes / MIB,
		container->peak_bytes / MIB);
	if (container->facts.unlimited)
		strbuf_adds(text, "-\t");
	else
		strbuf_addf(text, "%" PRIu64 "\t", container->facts.refused);
	if (container->waited_known)
		strbuf_addf(text, "%" PRIu64 "%%\t", waited_percent(container));
	else
		strbuf_adds(text, "-\t");
	add_advice(text, &container->advice);
}

/* A word of a command, quoted for a shell if it needs that. */
static void add_word(struct strbuf *out, const char *word)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,";

	if (*word && word[strspn(word, plain)] == '\0') {
		strbuf_adds(out, word);
		return;
	}
	strbuf_adds(out, "'");
	for (const char *at = word; *at; at++)
		strbuf_addf(out, *at == '\'' ? "'\\%c'" : "%c", *at);
	strbuf_adds(out, "'");
}

static void add_name(struct strbuf *out, const char *before, const char *name)
{
	char text[NAME_MAX_BYTES];

	snprintf(text, sizeof(text), "%s", name);
	strbuf_adds(out, before);
	add_word(out, printable(text));
}

/* For the cluster and the user that the options name, but without a token, which others may read in a ticket.
 */
static void add_command(
	struct strbuf *out, const struct kubectl *kubectl, const struct advise_container *container)
{
	static const char token[] = "--token=";

	add_name(out, "ration set ", container->pod);
	add_name(out, " -n ", container->namespace_);
	add_name(out, " -c ", container->container);
	strbuf_addf(out, " --mem %u", container->advice.units);
	for (size_t i = 0; i < kubectl->flags.n; i++) {
		if (strncmp(kubectl->flags.words[i], token, strlen(token)) == 0)
			continue;
		strbuf_adds(out, " ");
		add_word(out, kubectl->flags.words[i]);
	}
}

static void add_commands(struct strbuf *out, const struct kubectl *kubectl, const struct advise_world *world)
{
	bool begun = false;

	for (size_t i = 0; i < world->n_containers; i++) {
		if (!advise_has_command(world->containers[i]))
			continue;
		strbuf_adds(out,
			begun ? "  " : "These commands follow the advice; --apply carries them out:\n  ");
		add_command(out, kubectl, world->containers[i]);
		strbuf_adds(out, "\n");
		begun = true;
	}
}

/* `ration set` cannot change the size of a container without a limit. */
static void add_manifests(struct strbuf *out, const struct advise_world *world)
{
	bool begun = false;

	for (size_t i = 0; i < world->n_containers; i++) {
		const struct advise_container *container = world->containers[i];

		if (!container->facts.unlimited || !is_other_size(&container->advice))
			continue;
		strbuf_adds(out,
			begun ? "  "
			      : "On nodes without isolation only a new pod gets another size, from its manifest:\n  ");
		add_pod(out, container);
		add_printable(out, " ", container->container);
		strbuf_addf(out, ": aliyun.com/gpu-mem: %u\n", container->advice.units);
		begun = true;
	}
}

static void add_waiting(struct strbuf *out, const struct advise_world *world)
{
	for (size_t i = 0; i < world->n_containers; i++) {
		const struct advise_container *container = world->containers[i];

		if (!container->waited_known || container->advice.kind == ADVICE_YOUNG ||
			waited_percent(container) < WAITS_MUCH)
			continue;
		add_pod(out, container);
		add_printable(out, " ", container->container);
		strbuf_addf(out,
			" waited for computing power %" PRIu64
			"%% of the time: a new pod can have more aliyun.com/gpu-core.percentage.\n",
			waited_percent(container));
	}
}

static void add_sums(struct strbuf *out, const struct advise_world *world)
{
	struct sums sums = sums_of(world);

	strbuf_addf(out, "%" PRIu64 " unit%s (%.1f GiB) can be won back from %zu of %zu container%s",
		sums.less, plural((int64_t)sums.less), (double)sums.less_mib / 1024, sums.n_less,
		world->n_containers, plural((int64_t)world->n_containers));
	if (sums.n_more)
		strbuf_addf(out, "; %zu should have more", sums.n_more);
	if (sums.n_young)
		strbuf_addf(out, "; %zu too young for advice", sums.n_young);
	strbuf_adds(out, ".\n");
}

int advise_show_table(
	const struct advise_world *world, const struct advise_options *options, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf text;
	int r;

	strbuf_init(&text, TEXT_MAX);
	if (!world->n_containers)
		return strbuf_adds(out, "No container with GPU memory runs here.\n");
	strbuf_adds(&text, "POD\tCONTAINER\tUNITS\tLIMIT\tUSED\tPEAK\tREFUSED\tWAITED\tADVICE\n");
	for (size_t i = 0; i < world->n_containers; i++)
		add_row(&text, world->containers[i]);
	r = text.failed ? text.failed : tabwriter_format(strbuf_cstr(&text), out);
	if (r < 0)
		return r;
	add_commands(out, &options->kubectl, world);
	add_manifests(out, world);
	add_waiting(out, world);
	add_sums(out, world);
	return out->failed;
}

/* The agent's document about a GPU, without the container's names, which the object has already. */
static int add_gpu(struct json_object *list, struct json_object *use)
{
	static const char *const keys[] = {"uuid", "limitBytes", "usedBytes", "peakBytes", "wantedBytes",
		"refused", "coreShare", "memory", "core"};
	struct json_object *object = json_append_object(list);
	int r = object ? 0 : -ENOMEM;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && r == 0; i++) {
		struct json_object *value = json_member(use, keys[i]);

		if (value)
			r = json_set(object, keys[i], json_object_get(value));
	}
	return r;
}

static int add_container(
	struct json_object *list, const struct kubectl *kubectl, const struct advise_container *container)
{
	struct json_object *object = json_append_object(list), *gpus;
	bool is_claim = container->facts.is_claim;
	_cleanup_strbuf_ struct strbuf command;
	int r = json_set_text(object, "namespace", container->namespace_);

	strbuf_init(&command, COMMAND_MAX);
	r = r ? r : json_set_text(object, is_claim ? "claim" : "pod", container->pod);
	if (!is_claim)
		r = r ? r : json_set_text(object, "container", container->container);
	r = r ? r : json_set_text(object, "node", container->node);
	r = r ? r : json_set_text(object, "owner", container->owner);
	r = r ? r : json_set(object, "isolated", json_object_new_boolean(!container->facts.unlimited));
	r = r ? r : json_set_text(object, "advice", kinds[container->advice.kind]);
	r = r ? r : json_set_number(object, "limitBytes", container->limit_bytes);
	r = r ? r : json_set_number(object, "usedBytes", container->used_bytes);
	r = r ? r : json_set_number(object, "peakBytes", container->peak_bytes);
	r = r ? r : json_set_number(object, "refused", container->facts.refused);
	r = r ? r : json_set_number(object, "seenSeconds", container->facts.seen_s);
	if (container->waited_known)
		r = r ? r : json_set_number(object, "waitedSeconds", container->waited_s);
	if (!is_claim) {
		r = r ? r : json_set_number(object, "unitMiB", container->facts.unit_mib);
		r = r ? r : json_set_number(object, "grantedUnits", container->advice.granted);
		r = r ? r : json_set_number(object, "units", container->advice.units);
	}
	if (r == 0 && advise_has_command(container)) {
		add_command(&command, kubectl, container);
		r = command.failed ? command.failed : json_set_text(object, "command", strbuf_cstr(&command));
	}
	gpus = r == 0 ? json_set_array(object, "gpus") : NULL;
	for (size_t i = 0; i < container->n_gpus && r == 0; i++)
		r = add_gpu(gpus, container->uses[i]);
	return gpus ? r : -ENOMEM;
}

struct json_object *advise_show_json(const struct advise_world *world, const struct advise_options *options)
{
	struct json_object *document = json_object_new_object();
	struct json_object *list = document ? json_set_array(document, "containers") : NULL;
	struct sums sums = sums_of(world);
	int r = list ? json_set_number(document, "margin", options->margin) : -ENOMEM;

	r = r ? r : json_set_number(document, "minAgeSeconds", options->min_age_s);
	r = r ? r : json_set_number(document, "unitsLess", sums.less);
	r = r ? r : json_set_number(document, "mibLess", sums.less_mib);
	for (size_t i = 0; i < world->n_containers && r == 0; i++)
		r = add_container(list, &options->kubectl, world->containers[i]);
	if (r == 0)
		return document;
	json_object_put(document);
	return NULL;
}
