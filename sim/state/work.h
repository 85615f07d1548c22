/* work.h - what the cards compute: one mapped file, DIR/state/work. Libc only.
 *
 * There is no process that plays the card. Each context has a line of work, which is only two numbers: how
 * much was submitted and how much is done, in nanoseconds of a card for itself. Whoever asks first lets the
 * card catch up with the clock: it gives lines with work a time slice each, in turn, as cards do with
 * contexts. So the work of a context is done in the order in which it was submitted, whatever the stream; a
 * piece is done when its line is done up to it.
 *
 * All changes of a card happen under its lock. A process that was killed stops having work at the next turn
 * of its line.
 */
#pragma once

#include "sim/state/processes.h"

#define SIM_WORK_MAGIC UINT64_C(0x31574b574d49534e) /* "NSIMWKW1" as little-endian bytes */
#define SIM_WORK_VERSION 2
#define SIM_MAX_LINES 1024
#define SIM_MAX_STRETCHES 512
#define SIM_BUSY_BUCKETS 32
#define SIM_BUSY_BUCKET_NS INT64_C(50000000)

/* From `at` on, work from `work` on was done without a break. */
struct sim_stretch {
	int64_t at; /* CLOCK_MONOTONIC */
	uint64_t work;
};

struct sim_line {
	_Atomic uint32_t taken;
	uint32_t card;
	uint32_t slot; /* of the owner in the table of processes */
	uint32_t pid;
	uint64_t number; /* never the same twice: whoever remembers a line sees that it is another's now */
	uint64_t start_ticks;
	uint64_t submitted, done; /* ns of work */
	int64_t ready_at;	  /* what arrived at an idle line starts after the launch latency */
	uint64_t stretch_count;	  /* ever */
	struct sim_stretch stretches[SIM_MAX_STRETCHES];
	int64_t busy_since[SIM_BUSY_BUCKETS]; /* start of the bucket's time */
	uint64_t busy[SIM_BUSY_BUCKETS];
};

struct sim_card_work {
	struct sim_lock lock;
	int64_t clock; /* the card has caught up to this */
	int64_t slice_end;
	uint32_t current; /* line */
	uint32_t reserved;
};

struct sim_work {
	uint64_t magic;
	uint32_t version;
	uint32_t size;
	_Atomic uint32_t line_count; /* how many were ever in use */
	_Atomic uint32_t slice_us, latency_ns;
	uint32_t reserved0;
	_Atomic uint64_t last_number;
	uint32_t reserved[6];
	struct sim_card_work cards[SIM_MAX_CARDS];
	struct sim_line lines[SIM_MAX_LINES];
};

#define SIM_DEFAULT_SLICE_US 2000
#define SIM_DEFAULT_LATENCY_NS 3000

int sim_work_map(const char *root, struct sim_work **ret_work);
void sim_work_unmap(struct sim_work *work);
void sim_work_prepare(struct sim_work *work);

/* sim_line_take() - a line for a context of this process. -EBUSY: all are taken. */
int sim_line_take(struct sim_work *work, const struct sim_processes *processes,
	const struct sim_process *slot, unsigned card, struct sim_line **ret_line);
void sim_line_drop(struct sim_work *work, struct sim_line *line);

/* sim_line_submit() - returns the position: the work is done when the line is done up to it. */
uint64_t sim_line_submit(struct sim_work *work, const struct sim_processes *processes, struct sim_line *line,
	uint64_t duration_ns);

/* sim_line_reached() - 0 and when that was; else how long it takes about, in ns, as things are now. The time
 * is 0 for position 0, and approximate for what was done more than SIM_MAX_STRETCHES stretches ago. */
int64_t sim_line_reached(struct sim_work *work, const struct sim_processes *processes, struct sim_line *line,
	uint64_t position, int64_t *ret_at);

/* sim_card_busy() - ns of the last second in which the card worked, or worked for that slot only. */
int64_t sim_card_busy(struct sim_work *work, const struct sim_processes *processes, unsigned card,
	const struct sim_process *slot);
