#include "sim/state/work.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "sim/state/account.h"
#include "sim/state/engine.h"

#define CONTENDED_SLEEP_MAX (20 * NS_PER_MS)

/* The time at which this process got the GPU's lock. */
struct moment {
	int64_t now;
	uint32_t turn;
};

/* Returns with the GPU's lock held. If a holder was killed in the middle, some work may be lost or done
 * twice. The number of the GPU may come from the file, which containers can write. */
static struct moment begin(struct sim_work *work, const struct sim_processes *processes, unsigned gpu)
{
	uint32_t turn = sim_relay_lock(&work->gpus[gpu % SIM_MAX_GPUS].lock);
	int64_t now = monotonic_ns();

	gpu_catch_up(work, processes, gpu % SIM_MAX_GPUS, now);
	return (struct moment){now, turn};
}

static void end(struct sim_work *work, unsigned gpu, const struct moment *moment)
{
	sim_relay_unlock(&work->gpus[gpu % SIM_MAX_GPUS].lock, moment->turn);
}

static void prepare_line(struct sim_work *work, const struct sim_processes *processes,
	const struct sim_process *slot, struct sim_line *line)
{
	memset((char *)line + sizeof(line->taken), 0, sizeof(*line) - sizeof(line->taken));
	line->number = atomic_fetch_add(&work->last_number, 1) + 1;
	line->slot = (uint32_t)(slot - processes->table->slots);
	line->pid = atomic_load(&slot->pid);
	line->start_ticks = slot->start_ticks;
}

int sim_line_take(struct sim_work *work, const struct sim_processes *processes,
	const struct sim_process *slot, unsigned gpu, enum sim_engine engine, struct sim_line **ret_line)
{
	/* One process at a time, for all GPUs. */
	uint32_t turn = sim_relay_lock(&work->gpus[0].lock);
	int r = -EBUSY;

	for (size_t i = 0; i < SIM_MAX_LINES; i++) {
		struct sim_line *line = &work->lines[i];

		if (atomic_load(&line->taken) && line_owner_lives(processes, line))
			continue;
		prepare_line(work, processes, slot, line);
		line->gpu = gpu;
		line->engine = engine;
		line->account = sim_account_take(work, processes, slot, gpu);
		sim_raise(&work->line_count, i + 1);
		atomic_store(&work->gpus[gpu % SIM_MAX_GPUS].engines[engine].used, 1);
		atomic_store(&line->taken, 1);
		*ret_line = line;
		r = 0;
		break;
	}
	sim_relay_unlock(&work->gpus[0].lock, turn);
	return r;
}

void sim_line_drop(struct sim_work *work, struct sim_line *line)
{
	if (line)
		atomic_store(&line->taken, 0);
}

bool sim_line_passed(const struct sim_line *line, uint64_t position)
{
	return atomic_load_explicit(&line->done, memory_order_acquire) >= position;
}

/* Whether the line must still have work: since the time of the GPU's clock even a line that is alone on its
 * engine could not have finished it. The clock is read first, so `done` can only be newer. */
static bool cannot_be_dry(const struct sim_work *work, const struct sim_line *line)
{
	int64_t clock = atomic_load_explicit(
		&work->gpus[line->gpu % SIM_MAX_GPUS].clock, memory_order_acquire);
	uint64_t left = atomic_load_explicit(&line->submitted, memory_order_relaxed) -
			atomic_load_explicit(&line->done, memory_order_acquire);
	int64_t since = monotonic_ns() - clock;

	return since >= 0 && left > (uint64_t)since && left < (uint64_t)INT64_MAX;
}

/* Returns a number between -1 and 1 for each kernel of each line, the same in every run (splitmix64). */
static double jitter(uint32_t seed, uint64_t line, uint64_t kernel)
{
	uint64_t x = seed + line * UINT64_C(0xd1342543de82ef95) + kernel * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	x ^= x >> 31;
	return (double)(x >> 11) / (double)(UINT64_C(1) << 52) - 1;
}

static uint64_t true_duration(struct sim_work *work, struct sim_line *line, const struct sim_piece *piece)
{
	uint32_t percent = atomic_load_explicit(&work->pace.jitter_percent, memory_order_relaxed);
	double factor = 1;

	if (!piece->kernel)
		return piece->duration_ns;
	line->kernels++;
	if (line->account < SIM_MAX_ACCOUNTS)
		atomic_fetch_add_explicit(&work->accounts[line->account].launched, 1, memory_order_relaxed);
	if (percent > 0)
		factor += jitter(atomic_load(&work->pace.seed), line->number, line->kernels) * percent / 100;
	return (uint64_t)((double)piece->duration_ns * factor + 0.5);
}

static int add_gates(struct sim_work *work, struct sim_line *line, const struct sim_piece *piece)
{
	uint64_t added = atomic_load_explicit(&line->gates_added, memory_order_relaxed);
	uint64_t left = SIM_MAX_GATES - (added - atomic_load(&line->gates_passed));
	uint64_t needed = 0;

	for (size_t e = 0; e < SIM_ENGINES; e++) {
		struct sim_line *other = piece->after[e];

		if (!other || other == line || sim_line_passed(other, piece->until[e]))
			continue;
		if (needed == left)
			return -EAGAIN;
		work->gates[line - work->lines][(added + needed++) % SIM_MAX_GATES] = (struct sim_gate){
			.position = atomic_load_explicit(&line->submitted, memory_order_relaxed),
			.until = piece->until[e],
			.number = other->number,
			.line = (uint32_t)(other - work->lines)};
	}
	if (needed > 0)
		atomic_store_explicit(&line->gates_added, added + needed, memory_order_release);
	return 0;
}

int sim_line_submit(struct sim_work *work, const struct sim_processes *processes, struct sim_line *line,
	const struct sim_piece *piece, uint64_t *ret_position)
{
	bool locked = !cannot_be_dry(work, line);
	struct moment moment = locked ? begin(work, processes, line->gpu) : (struct moment){};
	int r = add_gates(work, line, piece);

	if (r == 0) {
		uint64_t before = atomic_load_explicit(&line->submitted, memory_order_relaxed);

		if (locked && before == atomic_load(&line->done))
			line->ready_at = moment.now + atomic_load(&work->pace.latency_ns);
		*ret_position = before + true_duration(work, line, piece);
		atomic_store_explicit(&line->submitted, *ret_position, memory_order_release);
	}
	if (locked)
		end(work, line->gpu, &moment);
	return r;
}

static int64_t time_of(const struct sim_work *work, const struct sim_line *line, uint64_t position)
{
	const struct sim_stretch *stretches = work->stretches[line - work->lines];
	uint64_t count = line->stretch_count;
	uint64_t oldest = count > SIM_MAX_STRETCHES ? count - SIM_MAX_STRETCHES : 0;

	if (position == 0)
		return 0;
	for (uint64_t i = count; i > oldest; i--) {
		const struct sim_stretch *stretch = &stretches[(i - 1) % SIM_MAX_STRETCHES];

		if (stretch->work < position)
			return stretch->at + (int64_t)(position - stretch->work);
	}
	return count > oldest ? stretches[oldest % SIM_MAX_STRETCHES].at : 0;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Exact if the line is alone. With other lines it is more than half of the time needed if all of them
 * continue; a caller that sleeps that long then asks again. */
static int64_t estimate(const struct sim_work *work, const struct sim_line *line, uint64_t left, int64_t now)
{
	int64_t slice = (int64_t)atomic_load(&work->pace.slice_us) * 1000;
	int64_t wait = (int64_t)left + (int64_t)line_gate_left(work, line);
	bool contended = false;

	if (line->ready_at > now)
		wait += line->ready_at - now;
	for (size_t i = 0; i < line_count(work); i++) {
		const struct sim_line *other = &work->lines[i];

		if (other == line || !line_has_work(other, line->gpu, line->engine))
			continue;
		contended = true;
		wait += least((int64_t)(atomic_load(&other->submitted) - atomic_load(&other->done)),
			((int64_t)left / (slice + 1) + 1) * slice);
	}
	return contended ? least(wait * 6 / 10 + 1000, CONTENDED_SLEEP_MAX) : wait;
}

int64_t sim_line_reached(struct sim_work *work, const struct sim_processes *processes, struct sim_line *line,
	uint64_t position, int64_t *ret_at)
{
	struct moment moment = begin(work, processes, line->gpu);
	int64_t wait = 0;
	uint64_t done = atomic_load(&line->done);

	/* The context no longer exists, so no more of its work will be done. */
	if (done >= position || !atomic_load(&line->taken))
		*ret_at = time_of(work, line, position);
	else
		wait = estimate(work, line, position - done, moment.now);
	end(work, line->gpu, &moment);
	return wait < 0 ? NS_PER_MS : wait;
}
