/* trouble.h - faults that `ration-sim fault` injects into libcuda, and how often its callers misused it: one
 * mapped file, DIR/state/trouble. Libc only.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_TROUBLE_MAGIC UINT64_C(0x3154534d49534e52) /* "RNSIMST1" as little-endian bytes */
#define SIM_TROUBLE_VERSION 1
#define SIM_MAX_FAULTS 32
#define SIM_POINT_MAX 56

enum sim_misuse {
	SIM_DOUBLE_FREE,
	SIM_USE_AFTER_FREE,
	SIM_WRONG_CONTEXT,
	SIM_FOREIGN_HANDLE, /* of another process */
	SIM_NOT_A_HANDLE,
	SIM_BAD_POINTER,
	SIM_MISUSE_MAX,
};

enum sim_fault_kind { SIM_FAULT_NONE, SIM_FAULT_OOM, SIM_FAULT_SLOW, SIM_FAULT_KILL, SIM_FAULT_FAIL };

/* Written by ration-sim under the tree's lock, `kind` last; `left` counts down with each hit. */
struct sim_fault {
	_Atomic uint32_t kind;	   /* enum sim_fault_kind */
	_Atomic uint32_t left;	   /* hits to come */
	_Atomic uint32_t skip;	   /* passes that are let through before */
	uint32_t argument;	   /* SLOW: milliseconds; FAIL: the CUresult */
	uint32_t gpu;		   /* index of the GPU; SIM_MAX_GPUS: any */
	char point[SIM_POINT_MAX]; /* a function's name or a named point */
};

struct sim_trouble {
	uint64_t magic;
	uint32_t version;
	uint32_t size;
	_Atomic uint32_t fault_count; /* nonzero: look at faults[] */
	uint32_t reserved[11];
	struct sim_fault faults[SIM_MAX_FAULTS];
	_Atomic uint64_t misuse[SIM_MISUSE_MAX];
};

/* sim_trouble_map() - -ENOENT, -EBADMSG, or what open says. */
int sim_trouble_map(const char *root, struct sim_trouble **ret_trouble);
void sim_trouble_unmap(struct sim_trouble *trouble);
void sim_trouble_prepare(struct sim_trouble *trouble);

/* sim_trouble_add() - inject; -ENOSPC. */
int sim_trouble_add(struct sim_trouble *trouble, const struct sim_fault *fault);
void sim_trouble_clear(struct sim_trouble *trouble);

/* sim_trouble_hit() - a fault of this kind for this point and GPU, once per hit; *ret_argument is its own.
 */
bool sim_trouble_hit(struct sim_trouble *trouble, enum sim_fault_kind kind, const char *point, unsigned gpu,
	uint32_t *ret_argument);

/* sim_misuse_name() - as people read it. */
const char *sim_misuse_name(enum sim_misuse kind);
