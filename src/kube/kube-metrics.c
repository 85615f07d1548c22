#include "kube/kube-metrics.h"

#include <stdint.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "kube/client.h"
#include "kube/watch.h"

#define WATCHES_MAX 8

void kube_metrics(struct metrics *metrics, const struct kube_client *client)
{
	static const char *const results[KUBE_RESULT_MAX] = {
		"2xx", "3xx", "4xx", "5xx", "other", "timeout", "failed"};

	metrics_family(metrics, "ration_api_requests_total", "counter",
		"Requests to the API server that ended, by HTTP status or failure.");
	metrics_each(metrics, "result", results, kube_client_results(client), KUBE_RESULT_MAX);
}

static void add_age(struct metrics *metrics, const struct kube_watch_metric *watches, size_t n)
{
	int64_t now = monotonic_ns();

	metrics_family(metrics, "ration_watch_last_event_age_seconds", "gauge",
		"Time since the last event or complete LIST; a bookmark arrives nearly every minute. Missing before the first.");
	for (size_t i = 0; i < n; i++) {
		struct metric_label label = {"resource", watches[i].resource};
		int64_t last = kube_watch_counts(watches[i].watch)->last_message_ns;

		if (last)
			metrics_seconds(metrics, &label, 1, now - last);
	}
}

void kube_watch_metrics(struct metrics *metrics, const struct kube_watch_metric *watches, size_t n)
{
	uint64_t lists[WATCHES_MAX], connections[WATCHES_MAX], events[WATCHES_MAX], open[WATCHES_MAX];
	const char *names[WATCHES_MAX];

	n = n < WATCHES_MAX ? n : WATCHES_MAX;
	for (size_t i = 0; i < n; i++) {
		const struct kube_watch_counts *counts = kube_watch_counts(watches[i].watch);

		names[i] = watches[i].resource;
		lists[i] = counts->lists;
		connections[i] = counts->connections;
		events[i] = counts->events;
		open[i] = kube_watch_connected(watches[i].watch);
	}
	metrics_family(metrics, "ration_watch_lists_total", "counter",
		"LISTs that were begun: the first, and one after each expired resource version or failed LIST.");
	metrics_each(metrics, "resource", names, lists, n);
	metrics_family(metrics, "ration_watch_connections_total", "counter",
		"WATCH requests that the API server accepted; each lives 4 to 6 minutes.");
	metrics_each(metrics, "resource", names, connections, n);
	metrics_family(metrics, "ration_watch_events_total", "counter",
		"Events that were received, with bookmarks.");
	metrics_each(metrics, "resource", names, events, n);
	metrics_family(metrics, "ration_watch_connected", "gauge", "1 while a WATCH is open.");
	metrics_each(metrics, "resource", names, open, n);
	add_age(metrics, watches, n);
}
