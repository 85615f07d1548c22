#include "agent/gpu/refused.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/events.h"
#include "agent/gpu/looks.h"
#include "agent/gpu/processes.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "grant/grant.h"
#include "node/claims.h"
#include "node/registry.h"

#define AGAIN_NS (60 * NS_PER_S)
#define TEXT_MAX 900
#define MIB (UINT64_C(1) << 20)

struct refused {
	const struct node_registry *node;
	const struct events *events;
	struct looks *looks;
	struct event_rate rate;
};

static void add_bytes(struct strbuf *text, uint64_t bytes)
{
	if (bytes >= MIB)
		strbuf_addf(text, "%" PRIu64 " MiB", (bytes + MIB - 1) / MIB);
	else
		strbuf_addf(text, "%" PRIu64 " bytes", bytes);
}

static void tell(struct refused *refused, const struct pod_facts *pod, const struct watched *watched,
	const struct watched_part *gpu)
{
	unsigned index = gpu->index;
	const struct gpu *known = inventory_find(&refused->node->inventory, gpu->uuid);
	uint64_t count = gpu->refused.refused - gpu->refused_told;
	char owner[NODE_CLAIM_TEXT_SIZE];
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, TEXT_MAX);
	node_claims_describe(refused->node, watched->uid, watched->container, owner);
	strbuf_addf(&text, "%s was refused GPU memory %" PRIu64 " time%s%s: it asked for ", owner, count,
		count == 1 ? "" : "s", watched->told_ns ? " since this was said last" : "");
	add_bytes(&text, gpu->refused.refused_bytes);
	strbuf_addf(&text, "%s, its limit on GPU %d is %" PRIu64 " MiB", count == 1 ? "" : " at last",
		known ? known->facts.index : -1, grant_file_limit_bytes(watched->grant, index) / MIB);
	if (gpu->looked) {
		char name[PROCESS_NAME_SIZE];

		strbuf_addf(&text, ", %" PRIu64 " MiB of it are in use", (gpu->used_bytes + MIB - 1) / MIB);
		for (size_t i = 0; i < WATCHED_TOP && i < gpu->n_processes && gpu->top[i].pid; i++) {
			looks_process_name(refused->looks, gpu->top[i].pid, name);
			strbuf_addf(&text, "%s%s ", i ? ", " : " (", name);
			add_bytes(&text, gpu->top[i].bytes);
		}
		if (gpu->n_processes > WATCHED_TOP)
			strbuf_addf(&text, ", %zu more", gpu->n_processes - WATCHED_TOP);
		if (gpu->n_processes && gpu->top[0].pid)
			strbuf_adds(&text, ")");
	}
	event_on_pod(refused->events, pod, "GPUMemoryRefused", strbuf_cstr(&text));
}

/* The container itself writes the count and can write any number. If the count went down, counting starts
 * again from there. */
static bool has_news(struct watched_part *gpu)
{
	if (gpu->refused.refused < gpu->refused_told)
		gpu->refused_told = gpu->refused.refused;
	return gpu->refused.refused > gpu->refused_told;
}

void refused_tick(struct refused *refused)
{
	int64_t now = monotonic_ns();

	list_for_each (item, watched_list(looks_set(refused->looks))) {
		struct watched *watched = list_entry(item, struct watched, item);
		const struct node_pod *pod = node_claims_reader(refused->node, watched->uid);
		bool may = pod && (!watched->told_ns || now - watched->told_ns >= AGAIN_NS), told = false;

		for (unsigned i = 0; i < watched->n_gpus; i++) {
			struct watched_part *gpu = &watched->gpus[i];

			if (!has_news(gpu) || !may || !event_rate_take(&refused->rate, now))
				continue;
			tell(refused, &pod->facts, watched, gpu);
			gpu->refused_told = gpu->refused.refused;
			told = true;
		}
		if (told)
			watched->told_ns = now;
	}
}

int refused_new(const struct node_registry *node, const struct events *events, struct looks *looks,
	struct refused **ret_refused)
{
	struct refused *refused = calloc(1, sizeof(*refused));

	if (!refused)
		return -ENOMEM;
	refused->node = node;
	refused->events = events;
	refused->looks = looks;
	*ret_refused = refused;
	return 0;
}

void refused_free(struct refused *refused)
{
	free(refused);
}
