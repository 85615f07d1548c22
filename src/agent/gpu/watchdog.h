/* watchdog.h - programs that use a GPU past the shim: more memory than their grant, or a GPU of an isolated
 * node without any grant. Seen by the driver's own count, reported, and evicted where that is wanted. */
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

/* What is not yet a bypass: a pool may have taken its step of 32 MiB before that is settled (charging.md),
 * and the driver's count of a large limit is off by what fragments its blocks of 2 MiB. */
#define WATCHDOG_TOLERANCE_BYTES (UINT64_C(32) << 20)
#define WATCHDOG_TOLERANCE_PERCENT 2

/* watchdog_is_over() - more than the limit and the tolerance. */
static inline bool watchdog_is_over(uint64_t used_bytes, uint64_t limit_bytes)
{
	return used_bytes >
	       limit_bytes + limit_bytes / 100 * WATCHDOG_TOLERANCE_PERCENT + WATCHDOG_TOLERANCE_BYTES;
}

/* watchdog_allowed() - what a container may have: its limit; and after that was lowered what it has from
 * before, as long as it keeps it. before: the last answer, 0 for none; largest: the largest limit that it
 * ever had. */
static inline uint64_t watchdog_allowed(
	uint64_t before, uint64_t used_bytes, uint64_t limit_bytes, uint64_t largest_bytes)
{
	uint64_t kept = before ? before : largest_bytes;

	if (kept > used_bytes)
		kept = used_bytes;
	return kept > limit_bytes ? kept : limit_bytes;
}

/* What the watchdog needs of the other parts. All of it must outlive the watchdog. */
struct watchdog_deps {
	const struct node_registry *node;
	const struct events *events;
	struct looks *looks;
	struct kube_client *client;
	enum on_bypass on_bypass;
	bool allow_disable; /* containers that ask for no limit (CGPU_DISABLE) have none */
};

int watchdog_new(const struct watchdog_deps *deps, struct watchdog **ret_watchdog);
void watchdog_free(struct watchdog *watchdog); /* accepts NULL */

/* watchdog_judge() - the driver has just named all who have memory of this GPU. What was so 4 s ago too is
 * reported: with a look each second at granted GPUs, and every 4 s at others, that is within 10 s. */
void watchdog_judge(
	struct watchdog *watchdog, const char *uuid, const struct holder *holders, size_t n_holders);

/* watchdog_metrics() - onto the agent's page. */
void watchdog_metrics(const struct watchdog *watchdog, struct metrics *page);
