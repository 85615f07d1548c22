#include "sim/state/engine.h"

#include "base/clock.h"
#include "sim/state/account.h"

#define LOOK_FOR_OWNER_NS (10 * NS_PER_MS)
#define LOOK_BACK_MAX_NS (60 * NS_PER_S)
#define LOOKS_MAX 10000000 /* steps over lines; 30,000 slices of 2 ms are a minute */

/* The work of an engine until the next event. */
struct turn {
	struct sim_line *line; /* NULL: no work */
	uint64_t limit;	       /* the position up to which the line may go */
};

size_t line_count(const struct sim_work *work)
{
	uint32_t count = atomic_load(&work->line_count);

	return count < SIM_MAX_LINES ? count : SIM_MAX_LINES;
}

bool line_owner_lives(const struct sim_processes *processes, struct sim_line *line)
{
	struct sim_process *slot = &processes->table->slots[line->slot % SIM_MAX_PROCESSES];
	pid_t pid;

	if (atomic_load(&slot->pid) == line->pid && slot->start_ticks == line->start_ticks &&
		sim_process_alive(processes, slot, &pid))
		return true;
	atomic_store(&line->taken, 0);
	return false;
}

/* The check costs a system call, which a frequently queried GPU could not afford each time. */
static bool still_alive(const struct sim_processes *processes, struct sim_line *line, int64_t now)
{
	if (now >= line->seen_alive && now - line->seen_alive < LOOK_FOR_OWNER_NS)
		return true;
	line->seen_alive = now;
	return line_owner_lives(processes, line);
}

static const struct sim_line *line_behind(const struct sim_work *work, const struct sim_gate *gate)
{
	return &work->lines[gate->line % SIM_MAX_LINES];
}

/* Only a line of the same process can delay a line, so no process waits for the fault of another. */
static uint64_t left_before_open(
	const struct sim_work *work, const struct sim_line *line, const struct sim_gate *gate)
{
	const struct sim_line *other = line_behind(work, gate);
	uint64_t done = atomic_load(&other->done);

	if (other == line || other->number != gate->number || other->slot != line->slot ||
		!atomic_load(&other->taken) || done >= gate->until)
		return 0;
	return gate->until - done;
}

static const struct sim_gate *first_gate(const struct sim_work *work, const struct sim_line *line)
{
	uint64_t added = atomic_load_explicit(&line->gates_added, memory_order_acquire);
	uint64_t passed = atomic_load_explicit(&line->gates_passed, memory_order_relaxed);

	if (added == passed || added - passed > SIM_MAX_GATES)
		return NULL;
	return &work->gates[line - work->lines][passed % SIM_MAX_GATES];
}

uint64_t line_gate_left(const struct sim_work *work, const struct sim_line *line)
{
	const struct sim_gate *gate = first_gate(work, line);

	return gate && gate->position <= atomic_load(&line->done) ? left_before_open(work, line, gate) : 0;
}

/* Returns the position up to which the line can go now: the present one if a gate is closed. */
static uint64_t limit_of(const struct sim_work *work, struct sim_line *line)
{
	uint64_t done = atomic_load_explicit(&line->done, memory_order_relaxed);
	uint64_t submitted = atomic_load_explicit(&line->submitted, memory_order_acquire);
	const struct sim_gate *gate;

	while ((gate = first_gate(work, line))) {
		if (gate->position > done)
			return gate->position < submitted ? gate->position : submitted;
		if (left_before_open(work, line, gate) > 0)
			return done;
		atomic_fetch_add(&line->gates_passed, 1);
	}
	return submitted;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The GPU does the next `run` ns of this line's work. */
static void do_work(struct sim_work *work, struct sim_line *line, int64_t at, int64_t run)
{
	struct sim_stretch *stretches = work->stretches[line - work->lines];
	struct sim_stretch *last =
		&stretches[(line->stretch_count + SIM_MAX_STRETCHES - 1) % SIM_MAX_STRETCHES];
	uint64_t done = atomic_load_explicit(&line->done, memory_order_relaxed), expected = done;
	enum sim_engine engine = line->engine % SIM_ENGINES;

	/* If this process was stopped, another one has continued the GPU's work. Then the line has moved. */
	if (!atomic_compare_exchange_strong(&line->done, &expected, done + (uint64_t)run))
		return;
	if (line->stretch_count == 0 || last->at + (int64_t)(done - last->work) != at)
		stretches[line->stretch_count++ % SIM_MAX_STRETCHES] = (struct sim_stretch){at, done};
	if (line->account < SIM_MAX_ACCOUNTS)
		sim_account_add(&work->accounts[line->account], engine, at, run);
	sim_account_add(&work->gpus[line->gpu % SIM_MAX_GPUS].total, engine, at, run);
}

/* Returns the line whose turn it is. If no line has its turn, *ret_wake is when one could have it, and
 * *ret_gated is true if a line waits for another engine. */
static struct turn next_turn(struct sim_work *work, const struct sim_processes *processes, unsigned gpu,
	enum sim_engine engine, int64_t now, int64_t *ret_wake, bool *ret_gated)
{
	struct sim_gpu_work *own = &work->gpus[gpu];
	size_t count = line_count(work), start = own->engines[engine].current;
	int64_t clock = atomic_load_explicit(&own->clock, memory_order_relaxed);

	for (size_t i = 1; i <= count; i++) {
		struct sim_line *line = &work->lines[(start + i) % count];
		uint64_t limit;

		if (!line_has_work(line, gpu, engine))
			continue;
		if (line->ready_at > clock) {
			*ret_wake = least(*ret_wake, line->ready_at);
			continue;
		}
		if (!still_alive(processes, line, now))
			continue;
		limit = limit_of(work, line);
		if (limit > atomic_load(&line->done))
			return (struct turn){line, limit};
		*ret_gated = true;
	}
	return (struct turn){};
}

/* Continues with the line that has its time slice, or gives the next line one. */
static struct turn choose(struct sim_work *work, const struct sim_processes *processes, unsigned gpu,
	enum sim_engine engine, int64_t now, int64_t *ret_wake, bool *ret_gated)
{
	struct sim_engine_turn *own = &work->gpus[gpu].engines[engine];
	int64_t clock = atomic_load_explicit(&work->gpus[gpu].clock, memory_order_relaxed);
	int64_t slice = (int64_t)atomic_load(&work->pace.slice_us) * 1000;
	struct sim_line *line = &work->lines[own->current % SIM_MAX_LINES];
	struct turn turn;

	if (clock < own->slice_end && line_has_work(line, gpu, engine) && line->ready_at <= clock) {
		turn = (struct turn){line, limit_of(work, line)};
		if (turn.limit > atomic_load(&line->done))
			return turn;
	}
	turn = next_turn(work, processes, gpu, engine, now, ret_wake, ret_gated);
	if (turn.line) {
		own->current = (uint32_t)(turn.line - work->lines);
		own->slice_end = clock + (slice > 0 ? slice : 1000);
	}
	return turn;
}

/* Returns when the first gate opens that an engine is working towards. If no engine is working towards a gate
 * or is busy, the gates in the file are invalid and are opened. */
static int64_t gates_open(
	struct sim_work *work, unsigned gpu, const struct turn *turns, int64_t clock, bool idle)
{
	int64_t wake = INT64_MAX;

	for (size_t i = 0; i < line_count(work); i++) {
		struct sim_line *line = &work->lines[i];
		bool ours = atomic_load(&line->taken) && line->gpu == gpu;
		const struct sim_gate *gate = ours ? first_gate(work, line) : NULL;
		uint64_t left = gate ? line_gate_left(work, line) : 0;

		if (left > 0 && idle)
			atomic_fetch_add(&line->gates_passed, 1);
		for (size_t e = 0; e < SIM_ENGINES && left > 0; e++)
			if (turns[e].line == line_behind(work, gate))
				wake = least(wake, clock + (int64_t)(left < INT32_MAX ? left : INT32_MAX));
	}
	return wake;
}

/* One step: until the first engine has to choose again. */
static void step(struct sim_work *work, const struct sim_processes *processes, unsigned gpu, int64_t now)
{
	struct sim_gpu_work *own = &work->gpus[gpu];
	int64_t clock = atomic_load_explicit(&own->clock, memory_order_relaxed), wake = INT64_MAX, end;
	struct turn turns[SIM_ENGINES] = {};
	bool gated = false, idle = true;

	for (enum sim_engine e = 0; e < SIM_ENGINES; e++)
		if (atomic_load_explicit(&own->engines[e].used, memory_order_relaxed)) {
			turns[e] = choose(work, processes, gpu, e, now, &wake, &gated);
			idle = idle && !turns[e].line;
		}
	end = least(now, wake);
	if (gated)
		end = least(end, gates_open(work, gpu, turns, clock, idle && wake == INT64_MAX));
	for (enum sim_engine e = 0; e < SIM_ENGINES; e++)
		if (turns[e].line) {
			uint64_t left = turns[e].limit - atomic_load(&turns[e].line->done);

			end = least(end, own->engines[e].slice_end);
			end = least(end, clock + (int64_t)(left < INT32_MAX ? left : INT32_MAX));
		}
	for (enum sim_engine e = 0; e < SIM_ENGINES; e++)
		if (turns[e].line && end > clock)
			do_work(work, turns[e].line, clock, end - clock);
	atomic_compare_exchange_strong(&own->clock, &clock, end > clock ? end : clock + 1);
}

void gpu_catch_up(struct sim_work *work, const struct sim_processes *processes, unsigned gpu, int64_t now)
{
	_Atomic int64_t *clock = &work->gpus[gpu].clock;
	size_t steps = LOOKS_MAX / (line_count(work) + 64);

	/* The clock is invalid: it was never set, the machine was rebooted, or another program wrote it. The
	 * second monotonic_ns() excludes that this process was stopped after it had computed `now`. */
	if (atomic_load(clock) < now - LOOK_BACK_MAX_NS ||
		(atomic_load(clock) > now + NS_PER_S && atomic_load(clock) > monotonic_ns() + NS_PER_S))
		atomic_store(clock, now);
	for (; atomic_load_explicit(clock, memory_order_relaxed) < now && steps > 0; steps--)
		step(work, processes, gpu, now);
	/* Only invalid data in the file takes that many steps. */
	if (atomic_load(clock) < now)
		atomic_store(clock, now);
}
