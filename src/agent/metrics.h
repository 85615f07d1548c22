/* metrics.h - what ration-agent counts, and its page /metrics. Names: docs/internals/metrics.md. */
#pragma once

#include <stdint.h>

#include "base/metrics.h"

struct agent;
struct door;

enum allocate_outcome {
	ALLOCATE_GRANTED,
	ALLOCATE_NOT_PLACED,	 /* answered, with nothing: PreStartContainer says why */
	ALLOCATE_UNIDENTIFIED,	 /* no listed pod, or several, would be the one */
	ALLOCATE_OVER_TOTAL,	 /* the pod is known, but its GPU has no room for it */
	ALLOCATE_KUBELET_SILENT, /* PodResources cannot be asked */
	ALLOCATE_BAD_REQUEST,
	ALLOCATE_FAILED, /* out of memory */
	ALLOCATE_OUTCOME_MAX,
};

struct agent_metrics {
	struct histogram allocate, registration;
	uint64_t allocate_results[ALLOCATE_OUTCOME_MAX];
	uint64_t allocate_abandoned; /* by the kubelet, before the answer */
	uint64_t ids_disagreed;
	uint64_t prestart_accepted, prestart_refused;
	uint64_t registration_failures;
	uint64_t respawns;	      /* of this process by its supervisor */
	int64_t last_registration_ns; /* how long it took */
};

/* metrics_page_new() - serve it at agent->options.metrics. */
int metrics_page_new(struct agent *agent, struct door **ret_page);
