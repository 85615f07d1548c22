/* world.h - the containers and their use of GPUs, from the agents and the API server. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/table.h"
#include "cli/advise/advice.h"
#include "cli/commands.h"
#include "model/placement.h"

struct advise_options;
struct error;
struct json_object;
struct strbuf;
struct top_cluster;

#define ADVISE_CONTAINERS_MAX 32768 /* 1024 of each of 32 agents */
#define ADVISE_GPUS_MAX 2048

/* One GPU of a node. */
struct advise_gpu {
	char *node, uuid[GPU_UUID_SIZE];
	uint64_t mib;
	uint32_t free; /* free units, without those that are advised to containers */
};

/* One container with a grant. */
struct advise_container {
	char *node, *uid, *namespace_, *pod, *container, *owner;
	char (*uuids)[GPU_UUID_SIZE];
	struct advice_gpu *gpus;
	size_t n_gpus;
	struct json_object **uses;		      /* the agent's document about each GPU */
	struct advice_facts facts;		      /* facts.gpus is `gpus` */
	uint64_t limit_bytes, used_bytes, peak_bytes; /* over all its GPUs */
	uint64_t waited_s;
	bool waited_known;
	bool listed; /* its pod runs, and this is no init container; or it is a claim */
	struct advice advice;
};

struct advise_world {
	struct advise_gpu *gpus;
	size_t n_gpus;
	struct advise_container **containers;
	size_t n_containers;
	struct table by_key; /* "uid/container" */
	struct progress progress;
};

void advise_world_init(struct advise_world *world);
void advise_world_release(struct advise_world *world);
#define _cleanup_advise_world_ _cleanup_(advise_world_release)

/* advise_world_read() - reads the agents' pages, of one node or (NULL) of all, and the pods. If some agents
 * do not answer, problems gets a line for each. Only listed containers remain. */
int advise_world_read(struct advise_world *world, const struct advise_options *options,
	struct top_cluster *cluster, const char *node, struct strbuf *problems, struct error *err);

/* advise_world_find() - NULL if there is no such container. */
struct advise_container *advise_world_find(
	const struct advise_world *world, const char *uid, const char *container);

/* advise_world_decide() - decides about each container and sorts them: those that should have more, then
 * those that should have less, each with the largest difference first, then the others by how long they
 * waited. */
void advise_world_decide(struct advise_world *world, const struct advice_terms *terms);

/* ---- show.c: the advice as text and as JSON ---- */

/* advise_show_table() - the containers, the commands that would follow the advice, and the sum. -ENOMEM. */
int advise_show_table(
	const struct advise_world *world, const struct advise_options *options, struct strbuf *out);

/* advise_show_json() - NULL when out of memory. */
struct json_object *advise_show_json(const struct advise_world *world, const struct advise_options *options);

/* advise_has_command() - whether `ration set` can follow the advice. */
bool advise_has_command(const struct advise_container *container);
