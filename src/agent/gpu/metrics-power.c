/* The part of the agent's page about computing power, by container. */
#include "agent/gpu/metrics-gpus.h"
#include "agent/gpu/power.h"
#include "agent/gpu/watched.h"
#include "base/metrics.h"

enum power_value {
	POWER_SHARE,
	POWER_RATE,
	POWER_STARTED,
	POWER_COPIED,
	POWER_WAITED,
	POWER_USED,
	POWER_UNPAID
};

static void add_value(struct metrics *page, const struct metric_label *labels, size_t n,
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
	metrics_each_gpu(page, set, inventory, POWER_SHARE, add_value);
	metrics_family(page, "ration_container_core_rate_ratio", "gauge",
		"Share that the container's processes enforce: the share, corrected by the use that the driver reports.");
	metrics_each_gpu(page, set, inventory, POWER_RATE, add_value);
	metrics_family(page, "ration_container_core_used_seconds_total", "counter",
		"Time of the GPU that a container used, by the driver's samples since the agent's start.");
	metrics_each_gpu(page, set, inventory, POWER_USED, add_value);
	metrics_family(page, "ration_container_core_unpaid_seconds_total", "counter",
		"Time of the GPU that a container used past its share while it started nothing: one long kernel ran.");
	metrics_each_gpu(page, set, inventory, POWER_UNPAID, add_value);
	metrics_family(page, "ration_container_core_started_seconds_total", "counter",
		"Time of the GPU that a container's kernels take, by its own estimate.");
	metrics_each_gpu(page, set, inventory, POWER_STARTED, add_value);
	metrics_family(page, "ration_container_core_copied_seconds_total", "counter",
		"Time of the GPU that a container's copies to and from it take, by its own estimate.");
	metrics_each_gpu(page, set, inventory, POWER_COPIED, add_value);
	metrics_family(page, "ration_container_core_waited_seconds_total", "counter",
		"Time for which a container's threads were held back, by its own count.");
	metrics_each_gpu(page, set, inventory, POWER_WAITED, add_value);
}
