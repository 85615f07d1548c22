/* engine.h - simulates the engines of a GPU up to a given time. */
#pragma once

#include "sim/state/work.h"

/* gpu_catch_up() - does the work for which the GPU had time until `now`. Under the GPU's lock. */
void gpu_catch_up(struct sim_work *work, const struct sim_processes *processes, unsigned gpu, int64_t now);

/* line_owner_lives() - if the owner is dead, its line is freed. */
bool line_owner_lives(const struct sim_processes *processes, struct sim_line *line);

/* line_gate_left() - the work that another line must do before this line can go on; 0: none. */
uint64_t line_gate_left(const struct sim_work *work, const struct sim_line *line);

/* line_count() - the number of lines to read, bounded, because containers can write the file. */
size_t line_count(const struct sim_work *work);
static inline bool line_has_work(const struct sim_line *line, unsigned gpu, enum sim_engine engine)
{
	return atomic_load_explicit(&line->taken, memory_order_acquire) && line->gpu == gpu &&
	       line->engine == (uint32_t)engine &&
	       atomic_load_explicit(&line->submitted, memory_order_acquire) >
		       atomic_load_explicit(&line->done, memory_order_relaxed);
}
