/* The part of the agent's page about memory of GPUs, by container. */
#include "agent/gpu/looks.h"
#include "agent/gpu/metrics-gpus.h"
#include "base/metrics.h"
#include "grant/grant.h"

enum memory_value {
	MEMORY_LIMIT,
	MEMORY_USED,
	MEMORY_OVERHEAD,
	MEMORY_REFUSED,
	MEMORY_PEAK,
	MEMORY_GRANTED_TIME,
	MEMORY_USED_TIME
};

static void add_value(struct metrics *page, const struct metric_label *labels, size_t n,
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
		value = held->use.peak_bytes;
		break;
	case MEMORY_GRANTED_TIME:
		value = use_byte_seconds(held->use.granted_mib_us);
		break;
	case MEMORY_USED_TIME:
		value = use_byte_seconds(held->use.used_mib_us);
		break;
	}
	/* Before the first look there is nothing to say. */
	if (held->looked || what == MEMORY_LIMIT || what == MEMORY_REFUSED)
		metrics_count(page, labels, what >= MEMORY_GRANTED_TIME ? n + 1 : n, value);
}

void looks_metrics(struct looks *looks, const struct inventory *inventory, struct metrics *page)
{
	struct watched_set *set = looks_set(looks);

	looks_name_owners(looks);
	metrics_family(page, "ration_container_limit_bytes", "gauge",
		"Memory of the GPU that an isolated container may use now.");
	metrics_each_gpu(page, set, inventory, MEMORY_LIMIT, add_value);
	metrics_family(page, "ration_container_used_bytes", "gauge",
		"Memory of the GPU that an isolated container's processes have, as the driver counts it.");
	metrics_each_gpu(page, set, inventory, MEMORY_USED, add_value);
	metrics_family(page, "ration_container_overhead_bytes", "gauge",
		"Part of ration_container_used_bytes that the driver takes for contexts, modules and local memory.");
	metrics_each_gpu(page, set, inventory, MEMORY_OVERHEAD, add_value);
	metrics_family(page, "ration_container_refused_total", "counter",
		"Allocations that the limit of an isolated container refused, by its own count.");
	metrics_each_gpu(page, set, inventory, MEMORY_REFUSED, add_value);
	metrics_family(page, "ration_container_peak_bytes", "gauge",
		"The most memory of the GPU that an isolated container had in any sample since it got its grant.");
	metrics_each_gpu(page, set, inventory, MEMORY_PEAK, add_value);
	metrics_family(page, "ration_container_granted_byte_seconds_total", "counter",
		"Memory of the GPU that an isolated container was granted, times the time; owner: the controller of its pod.");
	metrics_each_gpu(page, set, inventory, MEMORY_GRANTED_TIME, add_value);
	metrics_family(page, "ration_container_used_byte_seconds_total", "counter",
		"Memory of the GPU that an isolated container used, times the time; owner: the controller of its pod.");
	metrics_each_gpu(page, set, inventory, MEMORY_USED_TIME, add_value);
}
