/* room.h - the last check before a container starts: does its GPU have room beside the containers of pods
 * that the API server has forgotten (orphans)? An orphan's containers run until the kubelet has ended them.
 * The kubelet lists no orphan, so Allocate cannot count it; and what Allocate refuses has failed for good,
 * while the kubelet repeats a PreStartContainer that was refused.
 *
 * Pure: no I/O, no clock.
 */
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

/* room_units() - what a pod occupies of one GPU, in units of unit_mib; a whole GPU is 1. */
uint32_t room_units(const struct pod_facts *pod, const char *uuid, uint32_t unit_mib);

/* room_core() - likewise its percentage of that GPU. */
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
	/* The watch has not shown the pod in question: then it may not have shown the end of others either,
	 * which the scheduler saw before it placed this one. Or not one of the others: it will not tell its
	 * end (strays.h). */
	bool behind;
	/* No container of the pod in question was allowed to start before. A pod that has started and starts
	 * a container again has its memory: only orphans, or an agent that is behind, make it wait. */
	bool first;
};

/* room_check() - 0: on each of its GPUs the pod fits beside the orphans and the others; or it has started
 * before, no orphan is there and the agent is not behind. -EBUSY: err says what the pod waits for. */
int room_check(const struct room *room, const struct pod_facts *pod, struct error *err);

/* room_has_started() - a container of this pod was allowed to start, or runs. */
bool room_has_started(const struct node_registry *node, const struct node_pod *pod);

/* room_look() - room_check() with what the registry knows now. */
int room_look(const struct node_registry *node, const struct held *orphans, const struct node_pod *pod,
	struct error *err);
