/* looks.h - samples which process holds how much memory of each GPU: each second, and when a container with a
 * grant asks for it. A sample goes into the grants as overhead (overhead.h), and to the watchdog. In this
 * folder a look is such a sample. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/gpu/watched.h"

struct correction_gpu;
struct events;
struct gpu_health;
struct grpc_client;
struct inventory;
struct loop;
struct looks;
struct metrics;
struct node_registry;
struct process;
struct shared;

/* One process that has memory of a GPU. */
struct holder {
	const struct process *process; /* NULL: it has ended, or cannot be read */
	uint64_t bytes;
	struct watched *watched; /* its container, if this has a grant; else NULL */
	const char *container;	 /* the container's name, NULL if it is not known */
	bool certain;		 /* false: the runtime has not yet said which container that is */
};

/* What the looks use of other parts, which must outlive them. */
struct looks_deps {
	struct loop *loop;
	const char *proc;
	struct grpc_client *cri;
	const struct node_registry *node;
	const struct events *events;
	struct gpu_health *health; /* lends the driver's library */
	/* Whether to ask the driver which processes used this GPU, and the driver's answer (power.h). */
	bool (*wants_use)(void *userdata, const char *uuid);
	void (*used)(void *userdata, const char *uuid, const struct correction_gpu *said);
	/* The driver has just listed all processes that have memory of this GPU. */
	void (*seen)(void *userdata, const char *uuid, const struct holder *holders, size_t n_holders);
	void *userdata;
};

int looks_new(const struct looks_deps *deps, struct looks **ret_looks);
void looks_free(struct looks *looks); /* accepts NULL. Before gpu_health_free() */

/* looks_tick() - call it each second. */
void looks_tick(struct looks *looks);

/* looks_resume() - the driver's library can be borrowed again (gpu_health_lend()). */
void looks_resume(struct looks *looks);

/* looks_add(), looks_remove() - a container's grant was made, or will be unmapped and closed next. */
int looks_add(struct looks *looks, const struct watched_grant *grant);
void looks_remove(struct looks *looks, const char *uid, const char *container);

/* looks_set() - the containers with a grant, for the other parts of this folder. */
struct watched_set *looks_set(struct looks *looks);

/* looks_shared() - what the containers of a node without isolation use. */
const struct shared *looks_shared(const struct looks *looks);

/* looks_used_bytes() - memory that all processes have of the GPU, by the driver's count; false: no sample
 * yet. */
bool looks_used_bytes(const struct looks *looks, const char *uuid, uint64_t *ret_bytes);

/* looks_process_name() - PROCESS_NAME_SIZE bytes. */
void looks_process_name(const struct looks *looks, pid_t pid, char *ret_name);

/* looks_name_owners() - finds the owner of each container's pod (watched.owner); valid until pods change. */
void looks_name_owners(struct looks *looks);

/* looks_metrics() - adds to the agent's /metrics, for each container: the memory that it uses; and where it
 * is isolated, its limit, and how often the limit refused an allocation. */
void looks_metrics(struct looks *looks, const struct node_registry *node, struct metrics *page);

/* looks_use_page() - the page /use, in JSON: docs/internals/metrics.md. NULL if out of memory. */
char *looks_use_page(struct looks *looks, const struct node_registry *node);
