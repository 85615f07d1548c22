/* room.h - the last check before a container starts: does its GPU have room besides orphans, the containers
 * of pods that are gone from the API server? An orphan's containers run until the kubelet has ended them. The
 * kubelet does not list an orphan, so Allocate cannot count it. A pod that Allocate refuses has failed for
 * good, while the kubelet repeats a PreStartContainer that was refused.
 *
 * Pure: no I/O, no clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct gpu_facts;
struct held;
struct node_pod;
struct node_registry;
struct pod_facts;

/* room_units() - what a pod occupies on one GPU, in units of unit_mib; a whole GPU is 1. */
uint32_t room_units(const struct pod_facts *pod, const char *uuid, uint32_t unit_mib);

/* room_core() - the pod's percentage of that GPU, likewise. */
uint32_t room_core(const struct pod_facts *pod, const char *uuid);

/* What the agent knows at one moment. */
struct room {
	const struct gpu_facts *gpus;
	size_t n_gpus;
	uint32_t unit_mib;
	const struct held *orphans;
	const struct pod_facts *const
		*others; /* pods of this node with a container that was allowed to start */
	size_t n_others;
	/* The watch has not shown the pod, so it may not have shown the end of other pods either, which the
	 * scheduler saw before it placed this pod. Or the watch has not shown one of the others, so it will
	 * not tell its end (strays.h). */
	bool behind;
	/* No container of the pod was allowed to start before. A pod that has started and starts a container
	 * again already has its memory: it waits only for orphans, or for an agent that is behind. */
	bool first;
};

/* room_check() - 0: on each of its GPUs the pod fits besides the orphans and the others; or it has started
 * before, there is no orphan, and the agent is not behind. -EBUSY: err says what the pod waits for. */
int room_check(const struct room *room, const struct pod_facts *pod, struct error *err);

/* room_has_started() - a container of this pod was allowed to start, or runs. */
bool room_has_started(const struct node_registry *node, const struct node_pod *pod);

/* room_look() - room_check() with the present content of the registry. */
int room_look(const struct node_registry *node, const struct held *orphans, const struct node_pod *pod,
	struct error *err);
