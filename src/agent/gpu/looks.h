/* looks.h - who holds memory of which GPU: asked of the driver when a container with a grant wants it, and
 * each second. What is found goes into the grants as overhead (overhead.h), and to the watchdog. */
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

/* One process that has memory of a GPU. */
struct holder {
	const struct process *process; /* NULL: it has ended, or cannot be read */
	uint64_t bytes;
	struct watched *watched; /* the container under whose grant it runs; NULL: none */
	const char *container;	 /* its name, NULL if it is not known */
	bool certain;		 /* false: the runtime has not told yet which container that is */
};

/* What the looks need of the other parts. All of it must outlive them. */
struct looks_deps {
	struct loop *loop;
	const char *proc;
	struct grpc_client *cri;
	const struct node_registry *node;
	const struct events *events;
	struct gpu_health *health; /* lends the driver's library */
	/* Whether the driver is to be asked who used this GPU, and its answer (power.h). */
	bool (*wants_use)(void *userdata, const char *uuid);
	void (*used)(void *userdata, const char *uuid, const struct correction_gpu *said);
	/* The driver has just named all who have memory of this GPU. */
	void (*seen)(void *userdata, const char *uuid, const struct holder *holders, size_t n_holders);
	void *userdata;
};

int looks_new(const struct looks_deps *deps, struct looks **ret_looks);
void looks_free(struct looks *looks); /* accepts NULL. Before gpu_health_free() */

/* looks_tick() - each second. */
void looks_tick(struct looks *looks);

/* looks_resume() - the driver, which was asked other things, can be asked again. */
void looks_resume(struct looks *looks);

/* looks_add(), looks_remove() - a container's grant is there, or goes: before it is unmapped and closed. */
int looks_add(struct looks *looks, const struct watched_grant *grant);
void looks_remove(struct looks *looks, const char *uid, const char *container);

/* looks_set() - for those who read. */
struct watched_set *looks_set(struct looks *looks);

/* looks_used_bytes() - what processes have of the GPU, by the driver's count; false: not known (yet). */
bool looks_used_bytes(const struct looks *looks, const char *uuid, uint64_t *ret_bytes);

/* looks_process_name() - PROCESS_NAME_SIZE bytes. */
void looks_process_name(const struct looks *looks, pid_t pid, char *ret_name);

/* looks_metrics() - onto the agent's page: what isolated containers have of the GPUs, may have and were
 * refused.
 */
void looks_metrics(struct looks *looks, const struct inventory *inventory, struct metrics *page);
