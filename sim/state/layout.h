/* layout.h - what all processes of a machine share about the simulated GPUs: one mapped file with a fixed
 * layout.
 *
 * sim/state/ contains this file, the code that finds and maps it (tree.h), and the table of processes
 * (processes.h). It uses libc only, because it becomes part of libraries that any program may load.
 *
 * Rules
 * - `ration-sim up` writes the file under another name and renames it into place when it is complete. The
 * fields above the line "changes while mapped" are constant while the file lives.
 * - When `ration-sim up` changes the GPUs, it first marks the old file as retired and then makes a new file.
 * A process that still maps the old file sees its GPUs as lost until it initialises the library again.
 * - Each change is a single aligned word, or follows the ring's rule below. So a process that is killed at
 * any instruction leaves nothing half-written that a reader could take for complete.
 * - Containers can write the file. A reader bounds every index that it takes from it, and copies a string
 * with a limit.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_STATE_MAGIC UINT64_C(0x3153444d49534e52) /* "RNSIMDS1" as little-endian bytes */
#define SIM_STATE_VERSION 2
#define SIM_MAX_GPUS 64
#define SIM_MAX_LINKS 18
#define SIM_LINK_SWITCH 0xff /* in sim_gpu.links: the other end is an NVSwitch */
#define SIM_EVENT_RING 256

enum sim_mig { SIM_MIG_UNSUPPORTED, SIM_MIG_DISABLED, SIM_MIG_ENABLED };
enum sim_health { SIM_HEALTHY, SIM_LOST };

/* How the GPUs of a tree pace work. In this file it is the value given to `up`. The value in force is in
 * state/work, and may change at any time. */
struct sim_pace {
	_Atomic uint32_t slice_us;	 /* time slice of a context while other contexts have work */
	_Atomic uint32_t latency_ns;	 /* delay until a launch reaches an idle GPU */
	_Atomic uint32_t jitter_percent; /* variation of a kernel's duration, in both directions */
	_Atomic uint32_t seed;		 /* of the variation */
};

#define SIM_PACE_DEFAULT                                                                                     \
	{                                                                                                    \
		.slice_us = 2000, .latency_ns = 3000, .jitter_percent = 0, .seed = 1                         \
	}

struct sim_gpu {
	char uuid[48];
	char name[96];
	char serial[32];
	char bus_id[32]; /* domain:bus:device.function with 8 digits of domain, as NVML writes it */
	uint64_t memory_bytes;
	uint64_t idle_used_bytes; /* in use without a process in the table */
	uint32_t minor;
	uint32_t board_id;
	int32_t numa_node; /* -1: unknown */
	uint32_t sm_count;
	uint32_t compute_major, compute_minor;
	uint32_t architecture; /* NVML_DEVICE_ARCH_* */
	uint32_t brand;	       /* NVML_BRAND_* */
	uint32_t pci_device_id, pci_subsystem_id;
	uint32_t compute_mode; /* NVML_COMPUTEMODE_* */
	uint32_t mig;	       /* enum sim_mig */
	uint32_t temperature_c;
	uint32_t power_mw, power_limit_mw;
	uint32_t utilization_percent, memory_utilization_percent;
	uint32_t sm_clock_mhz, memory_clock_mhz;
	uint32_t link_count;
	uint8_t links[SIM_MAX_LINKS]; /* index of the GPU at the other end, or SIM_LINK_SWITCH */
	uint8_t reserved0[2];
	uint32_t context_mib;		 /* size of an empty context */
	uint32_t pcie_gbps, memory_gbps; /* bytes per ns: to and from the host, and of its own memory */
	/* GPUs with the same number share this part of the PCIe topology. 0: shared with no other GPU. */
	uint32_t pcie_switch, pcie_tree, host_bridge;
	uint8_t reserved2[4];

	/* changes while mapped */
	_Atomic uint32_t health;	  /* enum sim_health */
	_Atomic uint32_t recovery_action; /* NVML_GPU_RECOVERY_ACTION_* */
	_Atomic uint64_t ecc_volatile;	  /* uncorrected errors since the last reset */
	_Atomic uint64_t ecc_aggregate;	  /* over the GPU's life */
	_Atomic uint32_t persistence;
	uint32_t reserved1[17];
};

/* An event is valid while its `sequence` is the requested one. The writer (one at a time, under flock on the
 * file) clears `sequence`, fills the other fields, then stores `sequence` and `last_event`. A reader copies
 * the event and checks `sequence` again. Sequence 0 is never used. */
struct sim_event {
	_Atomic uint64_t sequence;
	_Atomic uint64_t type; /* NVML_EVENT_TYPE_* */
	_Atomic uint64_t data; /* the Xid */
	_Atomic uint32_t gpu;  /* index in GPUs[] */
	uint32_t reserved;
};

struct sim_state {
	uint64_t magic;
	uint32_t version;
	uint32_t size; /* of this struct */
	uint32_t gpu_count;
	uint32_t cuda_version; /* 11070 is 11.7 */
	char driver_version[80];
	struct sim_pace pace;
	uint8_t reserved0[128];
	struct sim_gpu gpus[SIM_MAX_GPUS];

	/* changes while mapped */
	_Atomic uint32_t retired;
	_Atomic uint32_t event_wake; /* futex: low half of last_event */
	_Atomic uint64_t last_event; /* sequence of the newest event */
	uint8_t reserved1[48];
	struct sim_event events[SIM_EVENT_RING];
};

_Static_assert(sizeof(struct sim_gpu) == 448, "size of a GPU is part of the layout");
_Static_assert(offsetof(struct sim_gpu, memory_bytes) == 208, "layout");
_Static_assert(offsetof(struct sim_gpu, minor) == 224, "layout");
_Static_assert(offsetof(struct sim_gpu, links) == 304, "layout");
_Static_assert(offsetof(struct sim_gpu, context_mib) == 324, "layout");
_Static_assert(offsetof(struct sim_gpu, health) == 352, "layout");
_Static_assert(offsetof(struct sim_gpu, ecc_volatile) == 360, "layout");
_Static_assert(sizeof(struct sim_event) == 32, "size of an event is part of the layout");
_Static_assert(offsetof(struct sim_state, gpus) == 248, "layout");
_Static_assert(offsetof(struct sim_state, retired) == 248 + 64 * 448, "layout");
_Static_assert(offsetof(struct sim_state, events) == 248 + 64 * 448 + 64, "layout");
_Static_assert(sizeof(struct sim_state) == 248 + 64 * 448 + 64 + 256 * 32, "layout");
_Static_assert(sizeof(_Atomic uint64_t) == 8, "a 64-bit atomic is a plain word");
