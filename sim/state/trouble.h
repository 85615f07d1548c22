/* trouble.h - faults that `ration-sim fault` injects into libcuda, and counters of misuse by its callers: one
 * mapped file, DIR/state/trouble. Libc only. */
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
	SIM_FOREIGN_HANDLE, /* a handle of another process */
	SIM_NOT_A_HANDLE,
	SIM_BAD_POINTER,
	SIM_MISUSE_MAX,
};

enum sim_fault_kind { SIM_FAULT_NONE, SIM_FAULT_OOM, SIM_FAULT_SLOW, SIM_FAULT_KILL, SIM_FAULT_FAIL };

/* ration-sim writes it under the tree's lock, `kind` last; `left` decreases with each hit. */
struct sim_fault {
	_Atomic uint32_t kind;	   /* enum sim_fault_kind */
	_Atomic uint32_t left;	   /* remaining hits */
	_Atomic uint32_t skip;	   /* calls that pass before the first hit */
	uint32_t argument;	   /* SLOW: milliseconds; FAIL: the CUresult */
	uint32_t gpu;		   /* index of the GPU; SIM_MAX_GPUS: any */
	char point[SIM_POINT_MAX]; /* a function's name or a named point */
};

struct sim_trouble {
	uint64_t magic;
	uint32_t version;
	uint32_t size;
	_Atomic uint32_t fault_count; /* if not 0, faults[] must be checked */
	uint32_t reserved[11];
	struct sim_fault faults[SIM_MAX_FAULTS];
	_Atomic uint64_t misuse[SIM_MISUSE_MAX];
};

/* sim_trouble_map() - -ENOENT, -EBADMSG, or the error of open(). */
int sim_trouble_map(const char *root, struct sim_trouble **ret_trouble);
void sim_trouble_unmap(struct sim_trouble *trouble);
void sim_trouble_prepare(struct sim_trouble *trouble);

/* sim_trouble_add() - injects a fault; -ENOSPC. */
int sim_trouble_add(struct sim_trouble *trouble, const struct sim_fault *fault);
void sim_trouble_clear(struct sim_trouble *trouble);

/* sim_trouble_hit() - whether a fault of this kind applies to this point and GPU; each hit counts.
 * *ret_argument is the fault's argument. */
bool sim_trouble_hit(struct sim_trouble *trouble, enum sim_fault_kind kind, const char *point, unsigned gpu,
	uint32_t *ret_argument);

/* sim_misuse_name() - a name for people. */
const char *sim_misuse_name(enum sim_misuse kind);
