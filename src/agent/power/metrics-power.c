/* The part of the agent's page about computing power, by container. */
#include <stdio.h>

#include "agent/agent.h"
#include "agent/looks/looks.h"
#include "agent/power/power.h"
#include "base/metrics.h"

/* More containers than a node runs. */
#define CONTAINERS_MAX 1024

enum power_value { POWER_SHARE, POWER_RATE, POWER_STARTED, POWER_COPIED, POWER_WAITED, POWER_USED };

static void add_value(struct metrics *page, const struct metric_label *labels, size_t n,
	const struct watched_card *card, enum power_value what)
{
	struct usage_peek_power seen;

	if (what == POWER_SHARE || what == POWER_RATE) {
		metrics_ratio(page, labels, n, what == POWER_SHARE ? card->power.share : card->power.rate);
		return;
	}
	if (what == POWER_USED) {
		metrics_seconds(page, labels, n, (int64_t)card->power.used_ns);
		return;
	}
	if (usage_peek_power(card->of->usage_fd, card->index, &seen) < 0)
		return;
	metrics_seconds(page, labels, n,
		(int64_t)(what == POWER_STARTED	 ? seen.started_ns
			  : what == POWER_COPIED ? seen.copied_ns
						 : seen.waited_ns));
}

static void add_all(struct metrics *page, const struct agent *agent, enum power_value what)
{
	size_t shown = 0;

	list_for_each (item, watched_list(looks_set(agent->looks))) {
		const struct watched *watched = list_entry(item, struct watched, item);

		if (shown++ == CONTAINERS_MAX)
			break;
		for (unsigned i = 0; i < watched->n_cards; i++) {
			const struct watched_card *held = &watched->cards[i];
			const struct card *card = inventory_find(&agent->inventory, held->uuid);
			char number[16] = "";
			struct metric_label labels[] = {{"namespace", watched->namespace_},
				{"pod", watched->pod}, {"container", watched->container}, {"gpu", number},
				{"UUID", held->uuid}};

			/* Not controlled, not counted. */
			if (!held->power.share)
				continue;
			if (card)
				snprintf(number, sizeof(number), "%d", card->facts.index);
			add_value(page, labels, ARRAY_SIZE(labels), held, what);
		}
	}
}

void power_metrics(const struct power *power, const struct agent *agent, struct metrics *page)
{
	const char *texts[SHARE_POLICY_MAX];
	uint64_t values[SHARE_POLICY_MAX];

	for (int i = 0; i < SHARE_POLICY_MAX; i++) {
		texts[i] = share_policy_name((enum share_policy)i);
		values[i] = power_policy(power) == (enum share_policy)i;
	}
	metrics_family(page, "ration_policy", "gauge", "1 for the policy of computing power in force.");
	metrics_each(page, "policy", texts, values, SHARE_POLICY_MAX);
	metrics_family(page, "ration_container_core_share_ratio", "gauge",
		"Part of the card's time that a container has, where computing power is controlled.");
	add_all(page, agent, POWER_SHARE);
	metrics_family(page, "ration_container_core_rate_ratio", "gauge",
		"That part as the container itself counts, corrected by what the driver says was used.");
	add_all(page, agent, POWER_RATE);
	metrics_family(page, "ration_container_core_used_seconds_total", "counter",
		"Time of the card that a container used, by the driver's samples since the agent's start.");
	add_all(page, agent, POWER_USED);
	metrics_family(page, "ration_container_core_started_seconds_total", "counter",
		"Time of the card that a container's kernels take, by its own estimate.");
	add_all(page, agent, POWER_STARTED);
	metrics_family(page, "ration_container_core_copied_seconds_total", "counter",
		"The same of copies to and from the card.");
	add_all(page, agent, POWER_COPIED);
	metrics_family(page, "ration_container_core_waited_seconds_total", "counter",
		"Time for which a container's threads were held back, by its own count.");
	add_all(page, agent, POWER_WAITED);
}
