/* The part of the agent's page about memory of cards, by container. */
#include <stdio.h>

#include "agent/agent.h"
#include "agent/looks/looks.h"
#include "agent/looks/watchdog.h"
#include "base/metrics.h"
#include "grant/grant.h"

/* More containers than a node runs. */
#define CONTAINERS_MAX 1024

enum memory_value { MEMORY_LIMIT, MEMORY_USED, MEMORY_OVERHEAD, MEMORY_REFUSED };

static void add_card(struct metrics *page, const struct agent *agent, const struct watched *watched,
	unsigned index, enum memory_value what)
{
	const struct watched_card *held = &watched->cards[index];
	const struct card *card = inventory_find(&agent->inventory, held->uuid);
	char number[16] = "";
	struct metric_label labels[] = {{"namespace", watched->namespace_}, {"pod", watched->pod},
		{"container", watched->container}, {"gpu", number}, {"UUID", held->uuid}};
	uint64_t value = 0;

	if (card)
		snprintf(number, sizeof(number), "%d", card->facts.index);
	switch (what) {
	case MEMORY_LIMIT:
		value = grant_file_limit_bytes(watched->grant, index);
		break;
	case MEMORY_USED:
		value = held->used_bytes;
		break;
	case MEMORY_OVERHEAD:
		value = held->overhead_bytes;
		break;
	case MEMORY_REFUSED:
		value = held->refused.refused;
		break;
	}
	/* Before the first look there is nothing to say. */
	if (held->looked || what == MEMORY_LIMIT || what == MEMORY_REFUSED)
		metrics_count(page, labels, ARRAY_SIZE(labels), value);
}

static void add_all(struct metrics *page, const struct agent *agent, enum memory_value what)
{
	size_t shown = 0;

	list_for_each (item, watched_list(looks_set(agent->looks))) {
		const struct watched *watched = list_entry(item, struct watched, item);

		if (shown++ == CONTAINERS_MAX)
			break;
		for (unsigned i = 0; i < watched->n_cards; i++)
			add_card(page, agent, watched, i, what);
	}
}

void metrics_add_memory(struct metrics *page, const struct agent *agent)
{
	metrics_family(page, "ration_container_limit_bytes", "gauge",
		"Memory of the card that an isolated container may use now.");
	add_all(page, agent, MEMORY_LIMIT);
	metrics_family(page, "ration_container_used_bytes", "gauge",
		"Memory of the card that an isolated container's processes have, as the driver counts it.");
	add_all(page, agent, MEMORY_USED);
	metrics_family(page, "ration_container_overhead_bytes", "gauge",
		"Of that, what no call of its programs shows: contexts, modules, local memory.");
	add_all(page, agent, MEMORY_OVERHEAD);
	metrics_family(page, "ration_container_refused_total", "counter",
		"Allocations that the limit of an isolated container refused, by its own count.");
	add_all(page, agent, MEMORY_REFUSED);
	watchdog_metrics(agent->watchdog, page);
}
