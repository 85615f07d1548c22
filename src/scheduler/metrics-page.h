/* metrics-page.h - the page /metrics. Names: docs/internals/metrics.md. */
#pragma once

struct scheduler;

/* scheduler_metrics_page() - the malloc'ed page, NULL if memory is short. Walks all nodes and pods: sums of
 * the cluster, no name of a node or pod. */
char *scheduler_metrics_page(const struct scheduler *scheduler);
