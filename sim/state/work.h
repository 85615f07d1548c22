/* work.h - what the GPUs compute: one mapped file, DIR/state/work. Libc only.
 *
 * No process simulates the GPU. A GPU has three engines: its multiprocessors, and one for copies in each
 * direction. Each context has a line of work per engine, which consists of two numbers: how much was
 * submitted and how much is done, in nanoseconds that the work takes if it has the engine for itself.
 *
 * Each process that uses the GPU first computes what has been done until now (engine.h). Each engine gives a
 * time slice to each line with work, in turn, as GPUs do with contexts. So the work of a context on an engine
 * is done in the order of submission, whatever the stream. A piece is done when its line is done up to it.
 * Gates keep the order between engines: work behind a gate waits for another line of the context.
 *
 * Writers of each field
 * - `submitted` and gates: only the line's owner, `submitted` last; without the GPU's lock if the line cannot
 * have run dry meanwhile.
 * - `done`, `ready_at` and all fields of a GPU: the holder of the GPU's lock.
 *
 * A process can be killed at any instruction. Each of these fields is one word, and an incomplete change
 * means some work more or less. Its lines end when another process next checks whether it lives. A process
 * can be stopped at any instruction. The others continue without it (lock.h), and when it resumes, it does
 * not overwrite what has changed.
 *
 * docs/internals/simulated-card.md describes the model and its limits.
 */
#pragma once

#include "sim/state/processes.h"

#define SIM_WORK_MAGIC UINT64_C(0x31574b574d49534e) /* "NSIMWKW1" as little-endian bytes */
#define SIM_WORK_VERSION 4
#define SIM_MAX_LINES 2048
#define SIM_MAX_STRETCHES 1024
#define SIM_MAX_GATES 64
#define SIM_MAX_ACCOUNTS 2048
#define SIM_SAMPLES 64
#define SIM_SAMPLE_NS                                                                                        \
	INT64_C(166666666) /* a sixth of a second, the shortest period that NVML's header allows */

enum sim_engine { SIM_SM, SIM_COPY_IN, SIM_COPY_OUT, SIM_ENGINES };

/* The work of one process on one GPU since it began. It is kept after the process's end, until the row is
 * needed for another. */
struct sim_account {
	_Atomic uint32_t taken;
	uint32_t gpu;
	uint32_t slot; /* in the table of processes */
	uint32_t pid;  /* in the owner's own pid namespace */
	uint64_t pid_namespace, start_ticks;
	_Atomic uint64_t done[SIM_ENGINES]; /* ns */
	_Atomic uint64_t launched;	    /* kernels */
	int64_t taken_at;
	_Atomic int64_t last_used;
	_Atomic uint64_t samples[SIM_SAMPLES]; /* number of the period (high half), ns of it in kernels */
};

/* From `at` on, the work from position `work` on was done without a break. */
struct sim_stretch {
	int64_t at; /* CLOCK_MONOTONIC */
	uint64_t work;
};

/* The line's work from `position` on waits until another line of its process is done up to `until`. */
struct sim_gate {
	uint64_t position, until;
	uint64_t number;
	uint32_t line, reserved;
};

struct sim_line {
	_Atomic uint32_t taken;
	uint32_t gpu;
	uint32_t engine;
	uint32_t slot; /* of the owner in the table of processes */
	uint32_t pid;
	uint32_t account; /* SIM_MAX_ACCOUNTS: none */
	uint64_t number;  /* never used twice, so a reused line is recognised */
	uint64_t start_ticks;
	_Atomic uint64_t done; /* ns of work */
	_Atomic uint64_t gates_passed;
	int64_t ready_at; /* work that arrived at an idle line starts after the launch latency */

	_Atomic uint64_t submitted;
	_Atomic uint64_t gates_added;
	uint64_t kernels;	/* number submitted so far */
	int64_t seen_alive;	/* when the owner was last checked */
	uint64_t stretch_count; /* ever */
	uint8_t reserved[24];
};

struct sim_engine_turn {
	uint32_t current;      /* line */
	_Atomic uint32_t used; /* whether any of its lines was ever taken */
	int64_t slice_end;
};

struct sim_gpu_work {
	struct sim_relay lock;
	_Atomic int64_t clock; /* the GPU has caught up to this time */
	struct sim_engine_turn engines[SIM_ENGINES];
	struct sim_account total; /* of all processes */
};

struct sim_work {
	uint64_t magic;
	uint32_t version;
	uint32_t size;
	_Atomic uint32_t line_count, account_count; /* how many were ever in use */
	struct sim_pace pace;			    /* may be changed at any time */
	_Atomic uint64_t last_number;
	struct sim_gpu_work gpus[SIM_MAX_GPUS];
	/* Initially zero: holes in the file. */
	struct sim_line lines[SIM_MAX_LINES];
	struct sim_gate gates[SIM_MAX_LINES][SIM_MAX_GATES];
	struct sim_account accounts[SIM_MAX_ACCOUNTS];
	struct sim_stretch stretches[SIM_MAX_LINES][SIM_MAX_STRETCHES];
};

_Static_assert(sizeof(struct sim_line) == 128, "two cache lines");

/* sim_work_map() - -ENOENT, -EBADMSG. *ret_writable false: the numbers are as old as the last call of a
 * process that can write. */
int sim_work_map(const char *root, struct sim_work **ret_work, bool *ret_writable);
void sim_work_unmap(struct sim_work *work);
/* sim_work_prepare() - initialises the part before `lines`, in memory that becomes the file. */
void sim_work_prepare(struct sim_work *work);

/* sim_line_take() - takes a line for a context of this process. -EBUSY: all are taken. */
int sim_line_take(struct sim_work *work, const struct sim_processes *processes,
	const struct sim_process *slot, unsigned gpu, enum sim_engine engine, struct sim_line **ret_line);
void sim_line_drop(struct sim_work *work, struct sim_line *line);

struct sim_piece {
	uint64_t duration_ns;
	bool kernel; /* its duration varies with the GPU's jitter */
	/* The work begins when these lines of the same process have done this much; the line's own entry is
	 * ignored. */
	struct sim_line *after[SIM_ENGINES];
	uint64_t until[SIM_ENGINES];
};

/* sim_line_submit() - for the owner, one call at a time. *ret_position: the work is done when the line is
 * done up to it. -EAGAIN: too many gates are closed. */
int sim_line_submit(struct sim_work *work, const struct sim_processes *processes, struct sim_line *line,
	const struct sim_piece *piece, uint64_t *ret_position);

/* sim_line_passed() - whether the line is done up to the position, as far as the GPU has caught up. */
bool sim_line_passed(const struct sim_line *line, uint64_t position);

/* sim_line_reached() - 0, and when the position was reached; else an estimate of the remaining ns under
 * present conditions. The time is 0 for position 0, and approximate if more than SIM_MAX_STRETCHES stretches
 * have followed. */
int64_t sim_line_reached(struct sim_work *work, const struct sim_processes *processes, struct sim_line *line,
	uint64_t position, int64_t *ret_at);
