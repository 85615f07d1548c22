/* request.h - what a pod asks for, computed from its spec as Kubernetes computes effective requests
 * (max over init steps of that step plus the sidecars started before it; then all sidecars and main
 * containers). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

#define REQUEST_CONTAINERS_MAX 256
#define CORE_PER_CARD 100
#define REQUEST_CARDS_MAX 64 /* more than any node has (NODE_GPUS_MAX) */
/* Containers x cards of a pod: its placement must fit into an annotation. */
#define REQUEST_SHARES_MAX 512

enum container_kind {
	CONTAINER_INIT,	   /* runs to completion before the next starts */
	CONTAINER_SIDECAR, /* init container with restartPolicy Always */
	CONTAINER_MAIN,
};

struct container_request {
	char *name;
	enum container_kind kind;
	int index;	/* in its own list of the spec: containers, or initContainers */
	uint32_t units; /* gpu-mem that it has: what it asks for until it is resized; at most UNITS_MAX */
	uint32_t asked; /* what its spec says, and the kubelet counts */
	uint32_t core;	/* gpu-core.percentage, 0 if not asked */
};

struct request {
	struct container_request *containers; /* only those that ask; init containers first, in spec order */
	size_t n_containers;
	uint32_t units; /* what the pod occupies, on all its cards together */
	uint32_t asked; /* likewise by its spec: so many device ids the kubelet gives it */
	uint32_t core;
	uint32_t instances; /* GPU containers that may run at the same time */
	uint32_t cards;	    /* cards of one node, each with an equal part; 0 is 1: see request_cards() */
};

void request_init(struct request *request);
void request_release(struct request *request); /* accepts NULL */
#define _cleanup_request_ _cleanup_(request_release)
int request_copy(const struct request *from, struct request *ret_request);

/* request_add() - one container, in spec order, init containers first. The quantities are the strings of
 * resources.limits, NULL when absent. A container that asks for nothing ("0" included) is not added.
 * On failure the request is unchanged and err names container, resource, value and rule. */
int request_add(struct request *request, const char *name, enum container_kind kind, int index,
	const char *gpu_mem, const char *gpu_core, struct error *err);

/* request_set_cards() - the pod wants its units in equal parts on this many cards. All its containers are on
 * all of them. After the last request_add(). -EINVAL with a sentence if a container's units do not divide, or
 * one asks for computing power too (memory only, ack-facts 4.1); -E2BIG for too many containers; the request
 * is unchanged then. 1 is as if it was never called.
 *
 * request_parse_cards() - the same from the value of the pod's label: 1 to 64, nothing but digits. */
int request_set_cards(struct request *request, uint32_t cards, struct error *err);
int request_parse_cards(struct request *request, const char *label, struct error *err);

/* request_cards() - 1 unless set otherwise. request_units_per_card() - what the pod occupies on each. */
uint32_t request_cards(const struct request *request);
uint32_t request_units_per_card(const struct request *request);

/* request_recompute() - the sums, after units of containers were changed. */
void request_recompute(struct request *request);

/* request_is_empty() - the pod asks for no GPU of ours. */
bool request_is_empty(const struct request *request);

const struct container_request *request_find(const struct request *request, const char *container);
