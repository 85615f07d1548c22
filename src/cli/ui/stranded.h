/* stranded.h - the memory of a node's GPUs that is free and that no kind of pod can use as the node is now.
 * Pure.
 *
 * The kinds are those of the pods in the cluster: an amount of memory and of computing power on each of a
 * number of GPUs. What is stranded on a GPU is its free memory less the most of it that pods of these kinds
 * can fill, alone or together, within the GPU's free computing power. A kind for several GPUs counts if that
 * many GPUs of the node have room for its part. On a GPU that takes no new pods everything free is stranded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inspect;
struct strbuf;

#define STRANDED_KINDS_MAX 64

struct stranded_kind {
	uint32_t units; /* on each of its GPUs */
	uint32_t core;	/* percent, likewise */
	uint32_t gpus;
};

struct stranded_gpu {
	uint32_t free; /* units */
	uint32_t core; /* percent that is free */
	bool closed;   /* takes no new pods */
};

/* How much a set of kinds can fill. */
struct stranded_table {
	uint64_t set;	  /* 0: the table is empty */
	uint32_t units;	  /* the most free units that it has */
	uint32_t *filled; /* by free units, then by steps of free computing power */
};

/* The kinds, and the tables for the sets of kinds that were used lately, because many nodes need the same
 * tables. */
#define STRANDED_TABLES_MAX 16
struct stranded {
	struct stranded_kind kinds[STRANDED_KINDS_MAX];
	size_t n_kinds;
	struct stranded_table tables[STRANDED_TABLES_MAX];
	size_t next; /* the table that is replaced */
};

void stranded_init(struct stranded *stranded);
void stranded_release(struct stranded *stranded);

/* stranded_add_kind() - a kind that is known is ignored. With STRANDED_KINDS_MAX kinds, a smaller one
 * replaces the largest. */
void stranded_add_kind(struct stranded *stranded, const struct stranded_kind *kind);

/* stranded_find() - the stranded units of each GPU of a node. Without any kind only those of closed GPUs.
 * -ENOMEM. */
int stranded_find(
	struct stranded *stranded, const struct stranded_gpu *gpus, size_t n_gpus, uint32_t *ret_stranded);

/* ui_stranded_json() - of a whole cluster: [[units of a GPU, ...] of a node, ...] in the order of `inspect`.
 * The kinds are those of the pods that run or wait. A kind counts on nodes that give memory in the same way:
 * for a pod without a claim with the same unit, with a percentage of the computing power only in mode
 * core_mem. -ENOMEM. */
int ui_stranded_json(const struct inspect *inspect, struct strbuf *out);
