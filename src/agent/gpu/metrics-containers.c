/* metrics-containers.c - the parts of the agent's page about GPU memory and computing power, by container. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "agent/gpu/looks.h"
#include "agent/gpu/power.h"
#include "agent/gpu/shared.h"
#include "agent/gpu/watched.h"
#include "base/metrics.h"
#include "grant/grant.h"
#include "node/registry.h"

enum memory_value {
	MEMORY_LIMIT,
	MEMORY_USED,
	MEMORY_OVERHEAD,
	MEMORY_REFUSED,
	MEMORY_PEAK,
	MEMORY_GRANTED_TIME,
	MEMORY_USED_TIME
};

static uint64_t recorded(const struct use_record *use, int what)
{
	return what == MEMORY_PEAK ? use->peak_bytes
				   : use_byte_seconds(what == MEMORY_GRANTED_TIME ? use->granted_mib_us
										  : use->used_mib_us);
}

static void add_memory(struct metrics *page, const struct metric_label *labels, size_t n,
	const struct watched_part *held, int what)
{
	uint64_t value = 0;

	switch ((enum memory_value)what) {
	case MEMORY_LIMIT:
		value = grant_file_limit_bytes(held->of->grant, held->index);
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
	case MEMORY_PEAK:
	case MEMORY_GRANTED_TIME:
	case MEMORY_USED_TIME:
		value = recorded(&held->use, what);
		break;
	}
	/* The driver's numbers are known from the first sample on. */
	if (held->looked || what == MEMORY_LIMIT || what == MEMORY_REFUSED)
		metrics_count(page, labels, what >= MEMORY_GRANTED_TIME ? n + 1 : n, value);
}

struct container_labels {
	char number[16];
	struct metric_label labels[6];
};

/* The last label is the owner. */
static const struct metric_label *label_container(struct container_labels *labels,
	const struct inventory *inventory, const char *namespace_, const char *pod, const char *container,
	const char *uuid, const char *owner)
{
	const struct gpu *gpu = inventory_find(inventory, uuid);

	labels->number[0] = '\0';
	if (gpu)
		snprintf(labels->number, sizeof(labels->number), "%d", gpu->facts.index);
	memcpy(labels->labels,
		(struct metric_label[]){{"namespace", namespace_}, {"pod", pod}, {"container", container},
			{"gpu", labels->number}, {"UUID", uuid}, {"owner", owner ? owner : "none"}},
		sizeof(labels->labels));
	return labels->labels;
}

/* metrics_each_gpu() - calls add() for each such GPU, with its n labels and the caller's `what`.
 * labels[n] is one more, the owner of its pod, for the families that have it. */
static void metrics_each_gpu(struct metrics *page, struct watched_set *set, const struct inventory *inventory,
	int what,
	void (*add)(struct metrics *page, const struct metric_label *labels, size_t n,
		const struct watched_part *held, int what))
{
	size_t shown = 0;

	list_for_each (item, watched_list(set)) {
		const struct watched *watched = list_entry(item, struct watched, item);

		if (shown++ == CONTAINERS_SHOWN_MAX)
			break;
		for (unsigned i = 0; i < watched->n_gpus; i++) {
			const struct watched_part *held = &watched->gpus[i];
			struct container_labels labels;

			add(page,
				label_container(&labels, inventory, watched->namespace_, watched->pod,
					watched->container, held->uuid, watched->owner),
				ARRAY_SIZE(labels.labels) - 1, held, what);
		}
	}
}

/* The containers of a node without isolation. */
static void metrics_each_shared(
	struct metrics *page, const struct looks *looks, const struct node_registry *node, int what)
{
	const struct shared_use *use;
	size_t shown = 0;

	table_for_each (&looks_shared(looks)->by_key, cursor, use) {
		const struct node_pod *pod = shared_pod(node, use);
		struct container_labels labels;

		if (!pod)
			continue;
		if (shown++ == CONTAINERS_SHOWN_MAX)
			break;
		label_container(&labels, &node->inventory, pod->facts.namespace_, pod->facts.name,
			use->container, use->uuid, pod->shown.owner);
		metrics_count(page, labels.labels, ARRAY_SIZE(labels.labels) - (what < MEMORY_GRANTED_TIME),
			what == MEMORY_USED ? use->used_bytes : recorded(&use->use, what));
	}
}

void looks_metrics(struct looks *looks, const struct node_registry *node, struct metrics *page)
{
	const struct inventory *inventory = &node->inventory;
	struct watched_set *set = looks_set(looks);

	looks_name_owners(looks);
	metrics_family(page, "ration_container_limit_bytes", "gauge",
		"Memory of the GPU that an isolated container may use now.");
	metrics_each_gpu(page, set, inventory, MEMORY_LIMIT, add_memory);
	metrics_family(page, "ration_container_used_bytes", "gauge",
		"Memory of the GPU that a container's processes have, as the driver counts it.");
	metrics_each_gpu(page, set, inventory, MEMORY_USED, add_memory);
	metrics_each_shared(page, looks, node, MEMORY_USED);
	metrics_family(page, "ration_container_overhead_bytes", "gauge",
		"Part of ration_container_used_bytes that the driver takes for contexts, modules and local memory.");
	metrics_each_gpu(page, set, inventory, MEMORY_OVERHEAD, add_memory);
	metrics_family(page, "ration_container_refused_total", "counter",
		"Allocations that the limit of an isolated container refused, by its own count.");
	metrics_each_gpu(page, set, inventory, MEMORY_REFUSED, add_memory);
	metrics_family(page, "ration_container_peak_bytes", "gauge",
		"The most memory of the GPU that a container had in any sample.");
	metrics_each_gpu(page, set, inventory, MEMORY_PEAK, add_memory);
	metrics_each_shared(page, looks, node, MEMORY_PEAK);
	metrics_family(page, "ration_container_granted_byte_seconds_total", "counter",
		"Memory of the GPU that a container was granted, times the time; owner: the controller of its pod.");
	metrics_each_gpu(page, set, inventory, MEMORY_GRANTED_TIME, add_memory);
	metrics_each_shared(page, looks, node, MEMORY_GRANTED_TIME);
	metrics_family(page, "ration_container_used_byte_seconds_total", "counter",
		"Memory of the GPU that a container used, times the time; owner: the controller of its pod.");
	metrics_each_gpu(page, set, inventory, MEMORY_USED_TIME, add_memory);
	metrics_each_shared(page, looks, node, MEMORY_USED_TIME);
}

/* The part of the agent's page about computing power, by container. */
enum power_value {
	POWER_SHARE,
	POWER_RATE,
	POWER_STARTED,
	POWER_COPIED,
	POWER_WAITED,
	POWER_USED,
	POWER_UNPAID
};

static void add_power(struct metrics *page, const struct metric_label *labels, size_t n,
	const struct watched_part *gpu, int what)
{
	struct usage_peek_power seen;

	/* Not controlled, not counted. */
	if (!gpu->power.share)
		return;
	if (what == POWER_SHARE || what == POWER_RATE) {
		metrics_ratio(page, labels, n, what == POWER_SHARE ? gpu->power.share : gpu->power.rate);
		return;
	}
	if (what == POWER_USED || what == POWER_UNPAID) {
		metrics_seconds(page, labels, n,
			(int64_t)(what == POWER_USED ? gpu->power.used_ns : gpu->power.unpaid_ns));
		return;
	}
	if (usage_peek_power(gpu->of->usage_fd, gpu->index, &seen) < 0)
		return;
	metrics_seconds(page, labels, n,
		(int64_t)(what == POWER_STARTED	 ? seen.started_ns
			  : what == POWER_COPIED ? seen.copied_ns
						 : seen.waited_ns));
}

void power_metrics(const struct power *power, struct watched_set *set, const struct inventory *inventory,
	struct metrics *page)
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
		"Part of the GPU's time that a container has, where computing power is controlled.");
	metrics_each_gpu(page, set, inventory, POWER_SHARE, add_power);
	metrics_family(page, "ration_container_core_rate_ratio", "gauge",
		"Share that the container's processes enforce: the share, corrected by the use that the driver reports.");
	metrics_each_gpu(page, set, inventory, POWER_RATE, add_power);
	metrics_family(page, "ration_container_core_used_seconds_total", "counter",
		"Time of the GPU that a container used, by the driver's samples since the agent's start.");
	metrics_each_gpu(page, set, inventory, POWER_USED, add_power);
	metrics_family(page, "ration_container_core_unpaid_seconds_total", "counter",
		"Time of the GPU that a container used past its share while it started nothing: one long kernel ran.");
	metrics_each_gpu(page, set, inventory, POWER_UNPAID, add_power);
	metrics_family(page, "ration_container_core_started_seconds_total", "counter",
		"Time of the GPU that a container's kernels take, by its own estimate.");
	metrics_each_gpu(page, set, inventory, POWER_STARTED, add_power);
	metrics_family(page, "ration_container_core_copied_seconds_total", "counter",
		"Time of the GPU that a container's copies to and from it take, by its own estimate.");
	metrics_each_gpu(page, set, inventory, POWER_COPIED, add_power);
	metrics_family(page, "ration_container_core_waited_seconds_total", "counter",
		"Time for which a container's threads were held back, by its own count.");
	metrics_each_gpu(page, set, inventory, POWER_WAITED, add_power);
}
