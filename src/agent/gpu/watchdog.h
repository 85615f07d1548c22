/* watchdog.h - finds programs that bypass the shim: those that use more memory than their grant allows, or a
 * GPU of an isolated node without a grant. It compares with the driver's count, posts Events, and evicts the
 * pods if
 * --on-bypass=evict. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct events;
struct holder;
struct kube_client;
struct looks;
struct metrics;
struct node_registry;
struct watchdog;

enum on_bypass { BYPASS_REPORT, BYPASS_EVICT };

/* The tolerance below which nothing counts as a bypass: a pool may have taken its step of 32 MiB before that
 * is charged (charging.md), and the driver counts more for large limits, whose 2 MiB blocks fragment. */
#define WATCHDOG_TOLERANCE_BYTES (UINT64_C(32) << 20)
#define WATCHDOG_TOLERANCE_PERCENT 2

/* watchdog_is_over() - whether the use exceeds the limit and the tolerance together. */
static inline bool watchdog_is_over(uint64_t used_bytes, uint64_t limit_bytes)
{
	return used_bytes >
	       limit_bytes + limit_bytes / 100 * WATCHDOG_TOLERANCE_PERCENT + WATCHDOG_TOLERANCE_BYTES;
}

/* watchdog_allowed() - the memory that a container may have: its limit or, after the limit was lowered, the
 * memory that it still keeps from before. before: the last return value, 0 at first; largest_bytes: the
 * largest limit that the container ever had. */
static inline uint64_t watchdog_allowed(
	uint64_t before, uint64_t used_bytes, uint64_t limit_bytes, uint64_t largest_bytes)
{
	uint64_t kept = before ? before : largest_bytes;

	if (kept > used_bytes)
		kept = used_bytes;
	return kept > limit_bytes ? kept : limit_bytes;
}

/* What the watchdog uses of other parts, which must outlive it. */
struct watchdog_deps {
	const struct node_registry *node;
	const struct events *events;
	struct looks *looks;
	struct kube_client *client;
	enum on_bypass on_bypass;
	bool allow_disable; /* containers with CGPU_DISABLE=true have no limit */
};

int watchdog_new(const struct watchdog_deps *deps, struct watchdog **ret_watchdog);
void watchdog_free(struct watchdog *watchdog); /* accepts NULL */

/* watchdog_judge() - takes in the holders of memory of this GPU that the driver has just listed. A bypass
 * that has lasted for 4 s is reported. GPUs with grants are sampled each second and others every 4 s, so that
 * a bypass is reported within 10 s. */
void watchdog_judge(
	struct watchdog *watchdog, const char *uuid, const struct holder *holders, size_t n_holders);

/* watchdog_metrics() - adds to the agent's /metrics. */
void watchdog_metrics(const struct watchdog *watchdog, struct metrics *page);
