/* engine.h - the engines of a GPU, played up to a moment. */
#pragma once

#include "sim/state/work.h"

/* gpu_catch_up() - let the GPU do what it had time for until `now`. Under the GPU's lock. */
void gpu_catch_up(struct sim_work *work, const struct sim_processes *processes, unsigned gpu, int64_t now);

/* line_owner_lives() - and if not, its line is nobody's any more. */
bool line_owner_lives(const struct sim_processes *processes, struct sim_line *line);

/* line_gate_left() - what has to be done elsewhere before the line can go on; 0: nothing. */
uint64_t line_gate_left(const struct sim_work *work, const struct sim_line *line);

/* line_count() - how many to look at, bounded: containers can write the file. */
size_t line_count(const struct sim_work *work);
static inline bool line_has_work(const struct sim_line *line, unsigned gpu, enum sim_engine engine)
{
	return atomic_load_explicit(&line->taken, memory_order_acquire) && line->gpu == gpu &&
	       line->engine == (uint32_t)engine &&
	       atomic_load_explicit(&line->submitted, memory_order_acquire) >
		       atomic_load_explicit(&line->done, memory_order_relaxed);
}
