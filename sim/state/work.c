#include "sim/state/work.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define QUERY_LOCK_MS 200
#define CONTENDED_SLEEP_MAX (20 * NS_PER_MS)

int sim_work_map(const char *root, struct sim_work **ret_work)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX + 24];
	struct sim_work *work;
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/state/work", root);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size != sizeof(*work))
		return -EBADMSG;
	work = mmap(NULL, sizeof(*work), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (work == MAP_FAILED)
		return -errno;
	if (work->magic != SIM_WORK_MAGIC || work->version != SIM_WORK_VERSION ||
		work->size != sizeof(*work)) {
		sim_work_unmap(work);
		return -EBADMSG;
	}
	*ret_work = work;
	return 0;
}

void sim_work_unmap(struct sim_work *work)
{
	if (work)
		munmap(work, sizeof(*work));
}

void sim_work_prepare(struct sim_work *work)
{
	work->magic = SIM_WORK_MAGIC;
	work->version = SIM_WORK_VERSION;
	work->size = sizeof(*work);
	work->slice_us = SIM_DEFAULT_SLICE_US;
	work->latency_ns = SIM_DEFAULT_LATENCY_NS;
	for (size_t i = 0; i < SIM_MAX_CARDS; i++)
		sim_lock_prepare(&work->cards[i].lock);
}

static size_t line_count(const struct sim_work *work)
{
	uint32_t count = atomic_load(&work->line_count);

	return count < SIM_MAX_LINES ? count : SIM_MAX_LINES;
}

/* The card does the next `run` ns of this line's work. */
static void do_work(struct sim_line *line, int64_t at, int64_t run)
{
	int64_t bucket = at / SIM_BUSY_BUCKET_NS;
	size_t index = (size_t)bucket % SIM_BUSY_BUCKETS;
	struct sim_stretch *last =
		&line->stretches[(line->stretch_count + SIM_MAX_STRETCHES - 1) % SIM_MAX_STRETCHES];

	if (line->stretch_count == 0 || last->at + (int64_t)(line->done - last->work) != at)
		line->stretches[line->stretch_count++ % SIM_MAX_STRETCHES] = (struct sim_stretch){
			at, line->done};
	line->done += (uint64_t)run;
	if (line->busy_since[index] != bucket * SIM_BUSY_BUCKET_NS) {
		line->busy_since[index] = bucket * SIM_BUSY_BUCKET_NS;
		line->busy[index] = 0;
	}
	line->busy[index] += (uint64_t)run;
}

static bool has_work(const struct sim_line *line, unsigned card)
{
	return atomic_load(&line->taken) && line->card == card && line->submitted > line->done;
}

/* Retires the line of a process that died. */
static bool owner_lives(const struct sim_processes *processes, struct sim_line *line)
{
	struct sim_process *slot = &processes->table->slots[line->slot % SIM_MAX_PROCESSES];
	pid_t pid;

	if (atomic_load(&slot->pid) == line->pid && slot->start_ticks == line->start_ticks &&
		sim_process_alive(processes, slot, &pid))
		return true;
	atomic_store(&line->taken, 0);
	return false;
}

/* The line whose turn it is at `clock`, or SIM_MAX_LINES and in *ret_wake when one could be. */
static size_t next_line(struct sim_work *work, const struct sim_processes *processes, unsigned card,
	int64_t clock, int64_t *ret_wake)
{
	size_t count = line_count(work), start = work->cards[card].current;

	*ret_wake = INT64_MAX;
	for (size_t i = 1; i <= count; i++) {
		size_t index = (start + i) % count;
		struct sim_line *line = &work->lines[index];

		if (!has_work(line, card))
			continue;
		if (line->ready_at > clock) {
			*ret_wake = line->ready_at < *ret_wake ? line->ready_at : *ret_wake;
			continue;
		}
		if (index == start || owner_lives(processes, line))
			return index;
	}
	return SIM_MAX_LINES;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void catch_up(struct sim_work *work, const struct sim_processes *processes, unsigned card, int64_t now)
{
	struct sim_card_work *own = &work->cards[card];
	int64_t slice = (int64_t)atomic_load(&work->slice_us) * 1000, wake;

	if (own->clock == 0 ||
		own->clock > now + NS_PER_S) /* the first time, or the machine was started anew */
		own->clock = now;
	while (own->clock < now) {
		struct sim_line *line = &work->lines[own->current % SIM_MAX_LINES];
		int64_t run;

		if (!has_work(line, card) || line->ready_at > own->clock || own->clock >= own->slice_end) {
			size_t next = next_line(work, processes, card, own->clock, &wake);

			if (next == SIM_MAX_LINES) {
				own->clock = least(wake, now);
				continue;
			}
			own->current = (uint32_t)next;
			own->slice_end = own->clock + (slice > 0 ? slice : 1);
			line = &work->lines[next];
		}
		run = least(least(now - own->clock, (int64_t)(line->submitted - line->done)),
			own->slice_end - own->clock);
		if (run <= 0) { /* numbers that nobody of us wrote */
			line->submitted = line->done;
			continue;
		}
		do_work(line, own->clock, run);
		own->clock += run;
	}
}

/* Returns with the card's lock held. What a killed holder left half done is some work more or less. The
 * number may come from the file, which containers can write. */
static int64_t begin(struct sim_work *work, const struct sim_processes *processes, unsigned card)
{
	int64_t now;

	card %= SIM_MAX_CARDS;
	sim_lock(&work->cards[card].lock);
	now = monotonic_ns();
	catch_up(work, processes, card, now);
	return now;
}

static void end(struct sim_work *work, unsigned card)
{
	sim_unlock(&work->cards[card % SIM_MAX_CARDS].lock);
}

int sim_line_take(struct sim_work *work, const struct sim_processes *processes,
	const struct sim_process *slot, unsigned card, struct sim_line **ret_line)
{
	int r = -EBUSY;

	/* One at a time, on whatever card. */
	sim_lock(&work->cards[0].lock);
	for (size_t i = 0; i < SIM_MAX_LINES; i++) {
		struct sim_line *line = &work->lines[i];

		if (atomic_load(&line->taken) && owner_lives(processes, line))
			continue;
		memset((char *)line + sizeof(line->taken), 0, sizeof(*line) - sizeof(line->taken));
		line->card = card;
		line->number = atomic_fetch_add(&work->last_number, 1) + 1;
		line->slot = (uint32_t)(slot - processes->table->slots);
		line->pid = atomic_load(&slot->pid);
		line->start_ticks = slot->start_ticks;
		sim_raise(&work->line_count, i + 1);
		atomic_store(&line->taken, 1);
		*ret_line = line;
		r = 0;
		break;
	}
	sim_unlock(&work->cards[0].lock);
	return r;
}

void sim_line_drop(struct sim_work *work, struct sim_line *line)
{
	if (line)
		atomic_store(&line->taken, 0);
}

uint64_t sim_line_submit(struct sim_work *work, const struct sim_processes *processes, struct sim_line *line,
	uint64_t duration_ns)
{
	int64_t now = begin(work, processes, line->card);
	uint64_t position;

	if (line->done == line->submitted)
		line->ready_at = now + atomic_load(&work->latency_ns);
	line->submitted += duration_ns;
	position = line->submitted;
	end(work, line->card);
	return position;
}

static int64_t time_of(const struct sim_line *line, uint64_t position)
{
	uint64_t count = line->stretch_count;
	uint64_t oldest = count > SIM_MAX_STRETCHES ? count - SIM_MAX_STRETCHES : 0;

	if (position == 0)
		return 0;
	for (uint64_t i = count; i > oldest; i--) {
		const struct sim_stretch *stretch = &line->stretches[(i - 1) % SIM_MAX_STRETCHES];

		if (stretch->work < position)
			return stretch->at + (int64_t)(position - stretch->work);
	}
	return count > oldest ? line->stretches[oldest % SIM_MAX_STRETCHES].at : 0;
}

/* Alone it is exact. With others, more than half of what it takes if all of them go on: whoever sleeps that
 * long asks again. */
static int64_t estimate(const struct sim_work *work, const struct sim_line *line, uint64_t left, int64_t now)
{
	int64_t slice = (int64_t)atomic_load(&work->slice_us) * 1000, wait = (int64_t)left;
	bool contended = false;

	if (line->ready_at > now)
		wait += line->ready_at - now;
	for (size_t i = 0; i < line_count(work); i++) {
		const struct sim_line *other = &work->lines[i];

		if (other == line || !has_work(other, line->card))
			continue;
		contended = true;
		wait += least(
			(int64_t)(other->submitted - other->done), ((int64_t)left / (slice + 1) + 1) * slice);
	}
	return contended ? least(wait * 6 / 10 + 1000, CONTENDED_SLEEP_MAX) : wait;
}

int64_t sim_line_reached(struct sim_work *work, const struct sim_processes *processes, struct sim_line *line,
	uint64_t position, int64_t *ret_at)
{
	int64_t now = begin(work, processes, line->card), wait = 0;

	/* Of a context that is gone: nobody will do more of it. */
	if (line->done >= position || !atomic_load(&line->taken))
		*ret_at = time_of(line, position);
	else
		wait = estimate(work, line, position - line->done, now);
	end(work, line->card);
	return wait;
}

int64_t sim_card_busy(struct sim_work *work, const struct sim_processes *processes, unsigned card,
	const struct sim_process *slot)
{
	int64_t now = monotonic_ns(), sum = 0;
	bool locked = sim_lock_for(&work->cards[card].lock, QUERY_LOCK_MS);

	/* Without the lock the numbers are as old as the last look. */
	if (locked)
		catch_up(work, processes, card, now);
	for (size_t i = 0; i < line_count(work); i++) {
		const struct sim_line *line = &work->lines[i];

		if (!atomic_load(&line->taken) || line->card != card ||
			(slot && &processes->table->slots[line->slot % SIM_MAX_PROCESSES] != slot))
			continue;
		for (size_t b = 0; b < SIM_BUSY_BUCKETS; b++)
			if (line->busy_since[b] > now - NS_PER_S && line->busy_since[b] <= now)
				sum += (int64_t)line->busy[b];
	}
	if (locked)
		end(work, card);
	return least(sum, NS_PER_S);
}
