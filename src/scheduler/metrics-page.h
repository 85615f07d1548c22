/* metrics-page.h - the page /metrics. Names: docs/internals/metrics.md. */
#pragma once

struct scheduler;

/* scheduler_metrics_page() - returns the malloc'ed page, NULL if memory is short. It reads all nodes and
 * pods, but the page has only sums of the cluster, without names of nodes or pods. */
char *scheduler_metrics_page(const struct scheduler *scheduler);
