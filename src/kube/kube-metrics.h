/* kube-metrics.h - the metrics of both daemons about their requests to the API server. */
#pragma once

#include <stddef.h>

struct kube_client;
struct kube_watch;
struct metrics;

/* A watch and its label, such as "pods". At most 8 are shown. */
struct kube_watch_metric {
	const char *resource;
	const struct kube_watch *watch;
};

void kube_metrics(struct metrics *metrics, const struct kube_client *client);
void kube_watch_metrics(struct metrics *metrics, const struct kube_watch_metric *watches, size_t n);
