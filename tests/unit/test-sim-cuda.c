#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "sim/libcuda/image.h"
#include "sim/libcuda/spans.h"
#include "sim/state/account.h"
#include "sim/state/memory.h"
#include "sim/state/trouble.h"
#include "sim/state/work.h"

#define STOPS 30
#define SLICE_NS (2 * NS_PER_MS)

static char dir[] = "/tmp/test-sim-cuda-XXXXXX";
static struct sim_processes processes;
static struct sim_process *slot;
static struct sim_work *work;

static void write_part(const char *name, const void *data, size_t length)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/state/%s", dir, name);
	assert_int_equal(fs_write_atomic(path, 0666, data, length), 0);
}

static int set_up(void **state)
{
	_cleanup_free_ struct sim_process_table *table = calloc(1, sizeof(*table));
	_cleanup_free_ struct sim_work *fresh = calloc(1, offsetof(struct sim_work, lines));
	bool writable;
	char path[256];

	snprintf(path, sizeof(path), "%s/state", dir);
	mkdir(path, 0755);
	sim_processes_prepare(table);
	sim_work_prepare(fresh);
	write_part("processes", table, sizeof(*table));
	write_part("work", fresh, offsetof(struct sim_work, lines));
	snprintf(path, sizeof(path), "%s/state/work", dir);
	assert_int_equal(truncate(path, sizeof(*fresh)), 0);
	assert_int_equal(sim_processes_open(dir, &processes), 0);
	assert_int_equal(sim_processes_claim(&processes, &slot), 0);
	assert_int_equal(sim_work_map(dir, &work, &writable), 0);
	return 0;
}

static int tear_down(void **state)
{
	static const char *const names[] = {"state/processes", "state/work", "state"};
	char path[256];

	sim_work_unmap(work);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		remove(path);
	}
	return 0;
}

static int group_set_up(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int group_tear_down(void **state)
{
	return rmdir(dir);
}

/* A process that does `work_of_child` with a slot of its own and stays until it is killed. */
static pid_t start_child(void (*work_of_child)(struct sim_processes *own, struct sim_process *own_slot))
{
	int ready[2];
	pid_t child;
	char byte;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		struct sim_processes own;
		struct sim_process *own_slot;

		if (sim_processes_open(dir, &own) < 0 || sim_processes_claim(&own, &own_slot) < 0)
			_exit(1);
		work_of_child(&own, own_slot);
		if (write(ready[1], "x", 1) != 1)
			_exit(2);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Memory */

static void gpu_is_never_over_its_capacity(void **state)
{
	assert_int_equal(sim_memory_take(&processes, slot, 3, 60, 100), 0);
	assert_int_equal(sim_memory_take(&processes, slot, 3, 41, 100), -ENOMEM);
	assert_int_equal(sim_memory_take(&processes, slot, 3, UINT64_MAX, 100), -ENOMEM);
	assert_int_equal(sim_memory_take(&processes, slot, 3, 40, 100), 0);
	assert_int_equal(sim_memory_take(&processes, slot, 4, 100, 100), 0);
	sim_memory_give(&processes, slot, 3, 60);
	assert_int_equal(sim_processes_used(&processes, 3), 40);
}

static void take_60(struct sim_processes *own, struct sim_process *own_slot)
{
	if (sim_memory_take(own, own_slot, 0, 60, 100) < 0)
		_exit(3);
}

static void memory_of_a_killed_process_can_be_taken_at_once(void **state)
{
	pid_t child = start_child(take_60);

	assert_int_equal(sim_memory_take(&processes, slot, 0, 60, 100), -ENOMEM);
	end_child(child);
	assert_int_equal(sim_memory_take(&processes, slot, 0, 100, 100), 0);
}

static void die_in_the_lock(struct sim_processes *own, struct sim_process *own_slot)
{
	sim_lock(&own->table->locks[0]);
}

static void lock_of_a_killed_holder_is_free(void **state)
{
	end_child(start_child(die_in_the_lock));
	assert_int_equal(sim_memory_take(&processes, slot, 0, 1, 100), 0);
	assert_int_equal(sim_memory_take(&processes, slot, 0, 1, 100), 0);
}

static uint64_t held_by(const struct sim_process *holder, unsigned gpu)
{
	struct sim_process_view views[4];
	size_t count = sim_processes_list(&processes, gpu, views, 4);

	for (size_t i = 0; i < count; i++)
		if (&processes.table->slots[views[i].slot] == holder)
			return views[i].bytes;
	return 0;
}

static void shared_memory_weighs_once_and_stays_with_its_last_holder(void **state)
{
	uint64_t id = 0, bytes;
	unsigned gpu;
	struct sim_process *other;

	assert_int_equal(sim_memory_take(&processes, slot, 1, 70, 100), 0);
	assert_int_equal(sim_memory_share(&processes, slot, 1, 50, &id), 0);
	assert_int_equal(sim_processes_used(&processes, 1), 70);
	assert_int_equal(sim_processes_claim(&processes, &other), 0);
	assert_int_equal(sim_memory_join(&processes, other, id, &bytes, &gpu), 0);
	assert_int_equal(bytes, 50);
	assert_int_equal(gpu, 1);
	assert_int_equal(sim_processes_used(&processes, 1), 70);
	assert_int_equal(held_by(other, 1), 50);
	assert_int_equal(held_by(slot, 1), 70);
	assert_false(sim_memory_leave(&processes, slot, id));
	assert_int_equal(sim_processes_used(&processes, 1), 70);
	assert_true(sim_memory_leave(&processes, other, id));
	assert_int_equal(sim_processes_used(&processes, 1), 20);
	assert_int_equal(sim_memory_join(&processes, other, id, &bytes, &gpu), -ENOENT);
}

static uint64_t *shared_id;

static void share_50(struct sim_processes *own, struct sim_process *own_slot)
{
	if (sim_memory_take(own, own_slot, 1, 50, 100) < 0 ||
		sim_memory_share(own, own_slot, 1, 50, shared_id) < 0)
		_exit(3);
}

/* The id is the first that the table gives. */
static void memory_whose_holders_are_all_dead_weighs_nothing(void **state)
{
	uint64_t id = 0, bytes;
	unsigned gpu;
	pid_t child;

	shared_id = &id;
	child = start_child(share_50);
	assert_int_equal(sim_memory_join(&processes, slot, 1, &bytes, &gpu), 0);
	end_child(child);
	assert_int_equal(sim_processes_used(&processes, 1), 50);
	assert_true(sim_memory_known(&processes, 1));
	assert_true(sim_memory_leave(&processes, slot, 1));
	assert_false(sim_memory_known(&processes, 1));
	end_child(start_child(share_50));
	assert_int_equal(sim_processes_used(&processes, 1), 0);
	assert_int_equal(sim_memory_join(&processes, slot, 2, &bytes, &gpu), -ENOENT);
}

static void shared_table_is_used_again(void **state)
{
	for (int i = 0; i < 3 * SIM_MAX_SHARED; i++) {
		uint64_t id;

		assert_int_equal(sim_memory_take(&processes, slot, 0, 1, 10), 0);
		assert_int_equal(sim_memory_share(&processes, slot, 0, 1, &id), 0);
		assert_true(sim_memory_leave(&processes, slot, id));
	}
}

/* Work */

static struct sim_line *take_line(unsigned gpu)
{
	struct sim_line *line;

	assert_int_equal(sim_line_take(work, &processes, slot, gpu, SIM_SM, &line), 0);
	return line;
}

static uint64_t submit(struct sim_line *line, int64_t duration_ns)
{
	struct sim_piece piece = {.duration_ns = (uint64_t)duration_ns, .kernel = true};
	uint64_t position = 0;

	assert_int_equal(sim_line_submit(work, &processes, line, &piece, &position), 0);
	return position;
}

static int64_t wait_for(struct sim_line *line, uint64_t position)
{
	int64_t at = 0, wait;

	while ((wait = sim_line_reached(work, &processes, line, position, &at)) > 0)
		usleep((useconds_t)(wait / 1000 + 1));
	return at;
}

static void work_takes_its_time_and_the_next_begins_where_it_ends(void **state)
{
	struct sim_line *line = take_line(0);
	int64_t begin = monotonic_ns(), at = 0;
	uint64_t first = submit(line, 5 * NS_PER_MS);
	uint64_t second = submit(line, 7 * NS_PER_MS);

	assert_true(sim_line_reached(work, &processes, line, second, &at) > 0);
	assert_true(wait_for(line, first) >= begin + 5 * NS_PER_MS);
	assert_int_equal(wait_for(line, second) - wait_for(line, first), 7 * NS_PER_MS);
	assert_int_equal(wait_for(line, 0), 0);
}

/* 20 ms each, in slices of 2 ms: whoever ends first ends when at most a slice of the other is left. */
static void two_lines_of_a_gpu_take_turns(void **state)
{
	struct sim_line *a = take_line(0), *b = take_line(0), *other_gpu = take_line(1);
	uint64_t end_a = submit(a, 20 * NS_PER_MS);
	uint64_t end_b = submit(b, 20 * NS_PER_MS);
	uint64_t end_other = submit(other_gpu, 20 * NS_PER_MS);
	int64_t at_a = wait_for(a, end_a), at_b = wait_for(b, end_b),
		apart = at_a > at_b ? at_a - at_b : at_b - at_a;

	assert_true(apart <= 3 * NS_PER_MS);
	assert_true(wait_for(other_gpu, end_other) < at_b - 15 * NS_PER_MS);
}

static void submit_an_hour(struct sim_processes *own, struct sim_process *own_slot)
{
	struct sim_piece piece = {.duration_ns = 3600 * NS_PER_S};
	struct sim_line *line;
	uint64_t position;

	if (sim_line_take(work, own, own_slot, 0, SIM_SM, &line) < 0 ||
		sim_line_submit(work, own, line, &piece, &position) < 0)
		_exit(3);
}

static void work_of_a_killed_process_is_dropped(void **state)
{
	struct sim_line *line = take_line(0);
	int64_t begin;

	end_child(start_child(submit_an_hour));
	begin = monotonic_ns();
	wait_for(line, submit(line, 20 * NS_PER_MS));
	assert_true(monotonic_ns() - begin < NS_PER_S);
}

static void what_each_engine_did_is_counted_per_process_and_gpu(void **state)
{
	struct sim_line *line = take_line(0), *copies, *second = take_line(0);
	struct sim_process *other;

	assert_int_equal(sim_processes_claim(&processes, &other), 0);
	assert_int_equal(sim_line_take(work, &processes, slot, 0, SIM_COPY_OUT, &copies), 0);
	assert_int_equal(line->account, second->account); /* one row for both contexts of the process */
	assert_int_equal(line->account, copies->account);
	wait_for(line, submit(line, 30 * NS_PER_MS));
	wait_for(second, submit(second, 10 * NS_PER_MS));
	wait_for(copies, submit(copies, 5 * NS_PER_MS));
	for (const struct sim_account *a = &work->accounts[line->account]; a; a = NULL) {
		assert_int_equal(atomic_load(&a->done[SIM_SM]), 40 * NS_PER_MS);
		assert_int_equal(atomic_load(&a->done[SIM_COPY_IN]), 0);
		assert_int_equal(atomic_load(&a->done[SIM_COPY_OUT]), 5 * NS_PER_MS);
	}
	assert_int_equal(atomic_load(&work->gpus[0].total.done[SIM_SM]), 40 * NS_PER_MS);
	assert_int_equal(atomic_load(&work->gpus[1].total.done[SIM_SM]), 0);
}

/* 100 ms of period 10 and 50 of period 12: three tenths of three periods of a sixth of a second, six of the
 * first. */
static void utilisation_is_of_whole_sample_periods(void **state)
{
	struct sim_account account = {};
	int64_t at = 0, end = 13 * SIM_SAMPLE_NS + 5;

	sim_account_add(&account, SIM_SM, 10 * SIM_SAMPLE_NS, 100 * NS_PER_MS);
	sim_account_add(&account, SIM_SM, 12 * SIM_SAMPLE_NS + 20, 50 * NS_PER_MS);
	sim_account_add(&account, SIM_COPY_IN, 12 * SIM_SAMPLE_NS, 50 * NS_PER_MS);
	assert_int_equal(sim_account_permille(&account, 10 * SIM_SAMPLE_NS, end, &at), 300);
	assert_int_equal(at, 13 * SIM_SAMPLE_NS);
	assert_int_equal(sim_account_permille(&account, 9 * SIM_SAMPLE_NS + 1, 11 * SIM_SAMPLE_NS, &at), 600);
	assert_int_equal(at, 11 * SIM_SAMPLE_NS);
	at = 0;
	assert_int_equal(sim_account_permille(&account, 13 * SIM_SAMPLE_NS, end, &at), 0); /* nothing since */
	assert_int_equal(sim_account_permille(&account, 12 * SIM_SAMPLE_NS + 1, end, &at), 0);
	assert_int_equal(at, 0);
	/* A run over the border of two periods counts in both: 25 of 166.7 ms. */
	sim_account_add(&account, SIM_SM, 20 * SIM_SAMPLE_NS - 25 * NS_PER_MS, 50 * NS_PER_MS);
	assert_int_equal(sim_account_permille(&account, 19 * SIM_SAMPLE_NS, 20 * SIM_SAMPLE_NS, &at), 150);
	assert_int_equal(sim_account_permille(&account, 20 * SIM_SAMPLE_NS, 21 * SIM_SAMPLE_NS, &at), 150);
	/* So many are kept: of those before nothing is known. */
	assert_int_equal(sim_account_permille(&account, 0, (22 + SIM_SAMPLES) * SIM_SAMPLE_NS, &at), 0);
}

/* A copy of 20 ms, a kernel of 10 ms that waits for it, and one of 5 ms behind that which waits for nothing:
 * the line keeps its order. Another line's kernel runs meanwhile. */
static void gate_holds_a_line_until_the_other_engine_is_done(void **state)
{
	struct sim_line *kernels = take_line(0), *copies, *other = take_line(0);
	struct sim_piece piece = {.duration_ns = 20 * NS_PER_MS};
	uint64_t copied, gated, behind, beside;
	int64_t begin = monotonic_ns(), at;

	atomic_store(&work->pace.latency_ns, 0);
	assert_int_equal(sim_line_take(work, &processes, slot, 0, SIM_COPY_IN, &copies), 0);
	assert_int_equal(sim_line_submit(work, &processes, copies, &piece, &copied), 0);
	piece = (struct sim_piece){.duration_ns = 10 * NS_PER_MS};
	piece.after[SIM_COPY_IN] = copies;
	piece.until[SIM_COPY_IN] = copied;
	assert_int_equal(sim_line_submit(work, &processes, kernels, &piece, &gated), 0);
	behind = submit(kernels, 5 * NS_PER_MS);
	beside = submit(other, 10 * NS_PER_MS);
	at = wait_for(copies, copied);
	assert_true(at >= begin + 20 * NS_PER_MS);
	assert_int_equal(wait_for(kernels, gated) - at, 10 * NS_PER_MS);
	assert_int_equal(wait_for(kernels, behind) - at, 15 * NS_PER_MS);
	assert_true(wait_for(other, beside) < at);
}

static void too_many_closed_gates_are_refused_until_one_opens(void **state)
{
	struct sim_line *kernels = take_line(0), *copies;
	uint64_t ends[SIM_MAX_GATES + 1], position = 0;

	assert_int_equal(sim_line_take(work, &processes, slot, 0, SIM_COPY_IN, &copies), 0);
	for (size_t i = 0; i <= SIM_MAX_GATES; i++) {
		struct sim_piece copy = {.duration_ns = 5 * NS_PER_MS}, kernel = {.duration_ns = 1000};

		assert_int_equal(sim_line_submit(work, &processes, copies, &copy, &ends[i]), 0);
		kernel.after[SIM_COPY_IN] = copies;
		kernel.until[SIM_COPY_IN] = ends[i];
		assert_int_equal(sim_line_submit(work, &processes, kernels, &kernel, &position),
			i < SIM_MAX_GATES ? 0 : -EAGAIN);
	}
	wait_for(copies, ends[0]);
	wait_for(kernels, 1000);
	assert_true(position == SIM_MAX_GATES * 1000);
	submit(kernels, 5);
	sim_line_drop(work, copies); /* whoever waits for a context that is gone waits for nothing */
	wait_for(kernels, position);
}

/* Two lines that wait for each other can only be nonsense. */
static void gates_in_a_circle_are_opened(void **state)
{
	struct sim_line *a = take_line(0), *b;
	struct sim_piece piece = {.duration_ns = NS_PER_MS};
	uint64_t end_a, end_b;

	assert_int_equal(sim_line_take(work, &processes, slot, 0, SIM_COPY_OUT, &b), 0);
	piece.after[SIM_COPY_OUT] = b;
	piece.until[SIM_COPY_OUT] = 1000;
	assert_int_equal(sim_line_submit(work, &processes, a, &piece, &end_a), 0);
	piece = (struct sim_piece){.duration_ns = NS_PER_MS};
	piece.after[SIM_SM] = a;
	piece.until[SIM_SM] = 1000;
	assert_int_equal(sim_line_submit(work, &processes, b, &piece, &end_b), 0);
	wait_for(a, end_a);
	wait_for(b, end_b);
}

/* Durations of 10,000 kernels of 1000 ns with 20 percent: 800 to 1200, and by the law of large numbers their
 * mean is within 5 standard errors (115 / 100 ns). */
static void jitter_keeps_the_mean_and_its_bounds(void **state)
{
	struct sim_line *line = take_line(0);
	uint64_t last = 0, least = UINT64_MAX, most = 0, first[3];

	atomic_store(&work->pace.jitter_percent, 20);
	for (int i = 0; i < 10000; i++) {
		uint64_t end = submit(line, 1000), duration = end - last;

		last = end;
		least = duration < least ? duration : least;
		most = duration > most ? duration : most;
		if (i < 3)
			first[i] = duration;
	}
	assert_true(least >= 800 && least < 805 && most <= 1200 && most > 1195);
	assert_true(last > 10000 * 1000 - 10000 * 5.8 && last < 10000 * 1000 + 10000 * 5.8);
	assert_true(first[0] != first[1] || first[1] != first[2]);
	wait_for(line, last);
}

static void hold_the_works_lock(struct sim_processes *own, struct sim_process *own_slot)
{
	sim_relay_lock(&work->gpus[0].lock);
}

static void stopped_holders_of_the_lock_hold_up_nobody(void **state)
{
	pid_t children[3];
	struct sim_line *line;

	for (size_t i = 0; i < ARRAY_SIZE(children); i++) {
		children[i] = start_child(hold_the_works_lock);
		kill(children[i], SIGSTOP);
		sim_work_look(work, &processes, 0);
	}
	line = take_line(0);
	wait_for(line, submit(line, 5));
	for (size_t i = 0; i < ARRAY_SIZE(children); i++)
		end_child(children[i]);
	wait_for(line, submit(line, 5));
}

static void work_on_and_on(void)
{
	struct sim_piece piece = {.duration_ns = 3600 * NS_PER_S};
	struct sim_processes own;
	struct sim_process *own_slot;
	struct sim_line *line;
	uint64_t position;
	int64_t at;

	if (sim_processes_open(dir, &own) < 0 || sim_processes_claim(&own, &own_slot) < 0 ||
		sim_line_take(work, &own, own_slot, 0, SIM_SM, &line) < 0 ||
		sim_line_submit(work, &own, line, &piece, &position) < 0)
		_exit(1);
	while (sim_line_reached(work, &own, line, position, &at) > 0)
		;
	_exit(2);
}

/* A process that continues repeats nothing that the others have done meanwhile, at most the step that it was
 * in: the GPU computes no more than there was time for. */
static void process_stopped_anywhere_holds_up_nobody_and_repeats_nothing(void **state)
{
	int64_t begun = monotonic_ns();
	pid_t child = fork();
	struct sim_line *line;
	unsigned seed = 1;
	int status;

	if (child == 0)
		work_on_and_on();
	line = take_line(0);
	while (atomic_load(&work->line_count) < 2)
		usleep(1000);
	for (int i = 0; i < STOPS; i++) {
		usleep((useconds_t)rand_r(&seed) % 2000);
		kill(child, SIGSTOP);
		assert_int_equal(waitpid(child, &status, WUNTRACED), child);
		assert_true(WIFSTOPPED(status));
		for (int piece = 0; piece < 5; piece++)
			wait_for(line, submit(line, 20000));
		kill(child, SIGCONT);
	}
	end_child(child);
	assert_true(atomic_load(&work->gpus[0].total.done[SIM_SM]) <=
		    (uint64_t)(monotonic_ns() - begun + STOPS * SLICE_NS));
}

static void nonsense_in_the_file_ends_no_caller(void **state)
{
	struct sim_line *line = take_line(0), *other = take_line(0), *third = take_line(0);

	atomic_store(&line->submitted, UINT64_MAX);
	work->gpus[0].engines[SIM_SM].current = UINT32_MAX;
	work->gpus[0].engines[SIM_SM].slice_end = INT64_MIN;
	atomic_store(&work->gpus[0].engines[SIM_COPY_OUT].used, 1);
	other->gpu = UINT32_MAX;
	submit(line, 5);
	submit(other, 5);
	third->engine = UINT32_MAX;
	third->account = UINT32_MAX;
	atomic_store(&third->gates_added, 1 << 20);
	submit(third, 5);
	atomic_store(&work->gpus[0].clock, INT64_MIN);
	sim_work_look(work, &processes, 0);
	atomic_store(&work->gpus[0].clock, INT64_MAX);
	sim_work_look(work, &processes, 0);
	line->stretch_count = UINT64_MAX;
	line->gpu = SIM_MAX_GPUS + 1;
	atomic_store(&work->line_count, UINT32_MAX);
	atomic_store(&work->account_count, UINT32_MAX);
	atomic_store(&work->pace.slice_us, 0);
	sim_work_look(work, &processes, 0);
	line = take_line(0);
	wait_for(line, submit(line, 5));
}

static uint64_t random_word(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return *seed >> 33 & 1 ? *seed >> (*seed >> 58) : 0 - (*seed >> 50);
}

/* Any word of what describes lines, gates, turns, accounts and stretches, again and again; the locks are left
 * alone: who writes those stops everybody. */
static void random_words_in_the_file_end_no_caller(void **state)
{
	uint64_t *const places[] = {(uint64_t *)&work->gpus[0].clock, (uint64_t *)work->lines,
		(uint64_t *)work->gates, (uint64_t *)work->accounts, (uint64_t *)work->stretches,
		(uint64_t *)&work->line_count};
	const size_t words[] = {(sizeof(struct sim_gpu_work) - sizeof(struct sim_lock)) / 8,
		4 * sizeof(struct sim_line) / 8, 4 * sizeof(work->gates[0]) / 8,
		4 * sizeof(struct sim_account) / 8, 4 * sizeof(work->stretches[0]) / 8,
		(sizeof(struct sim_pace) + 16) / 8};
	uint64_t seed = 1;

	alarm(60);
	for (int round = 0; round < 100; round++) {
		struct sim_piece piece = {.duration_ns = 1000, .kernel = true};
		struct sim_line *lines[] = {take_line(0), take_line(0)};
		uint64_t position = 0;
		int64_t at;

		for (int i = 0; i < 30; i++) {
			size_t which = random_word(&seed) % ARRAY_SIZE(places);

			places[which][random_word(&seed) % words[which]] = random_word(&seed);
			piece.after[SIM_COPY_IN] = lines[i % 2];
			piece.until[SIM_COPY_IN] = position;
			sim_line_submit(work, &processes, lines[1 - i % 2], &piece, &position);
			sim_line_reached(work, &processes, lines[i % 2], position, &at);
			sim_account_permille(&work->accounts[i % 4], 0, monotonic_ns(), &at);
			sim_work_look(work, &processes, 0);
		}
		sim_line_drop(work, lines[0]);
		sim_line_drop(work, lines[1]);
	}
	alarm(0);
}

/* Spans */

static void gaps_are_found_between_and_after_spans(void **state)
{
	struct span a = {0x1000, 0x1000}, b = {0x4000, 0x1000};
	struct spans spans = {};

	assert_int_equal(spans_add(&spans, &b), 0);
	assert_int_equal(spans_add(&spans, &a), 0);
	assert_ptr_equal(spans_find(&spans, 0x1fff), &a);
	assert_null(spans_find(&spans, 0x2000));
	assert_ptr_equal(spans_overlapping(&spans, 0x2000, 0x2001), &b);
	assert_null(spans_overlapping(&spans, 0x2000, 0x2000));
	assert_int_equal(spans_gap(&spans, 0x1000, 0x10000, 0x2000, 0x1000), 0x2000);
	assert_int_equal(spans_gap(&spans, 0x1000, 0x10000, 0x2001, 0x1000), 0x5000);
	assert_int_equal(spans_gap(&spans, 0x1000, 0x10000, 0x1000, 0x4000), 0x8000);
	assert_int_equal(spans_gap(&spans, 0x1000, 0x6000, 0x2000, 0x4000), 0);
	spans_remove(&spans, &a);
	assert_int_equal(spans_gap(&spans, 0x1000, 0x10000, 0x2000, 0x1000), 0x1000);
	free(spans.list);
}

/* Modules */

static void module_says_how_long_its_functions_take(void **state)
{
	struct image image;

	assert_int_equal(image_read("{\"rationSimModule\": 1, \"memoryMiB\": 1.5, \"functions\": {\"a\": {}, "
				    "\"b\": {\"us\": 2.5, \"usPerBlock\": 0.5, \"fault\": 719}}}",
				 &image),
		0);
	assert_int_equal(image.memory_bytes, 3 << 19);
	assert_int_equal(image.function_count, 2);
	assert_string_equal(image.functions[1].name, "b");
	assert_true(image.functions[1].us == 2.5 && image.functions[1].us_per_block == 0.5);
	assert_int_equal(image.functions[1].fault, 719);
	image_release(&image);
}

/* Faults */

static void fault_lets_pass_then_hits_so_often(void **state)
{
	struct sim_trouble trouble = {};
	struct sim_fault fault = {
		.kind = SIM_FAULT_SLOW, .left = 2, .skip = 1, .argument = 7, .gpu = 1, .point = "x"};
	uint32_t argument = 0;

	assert_int_equal(sim_trouble_add(&trouble, &fault), 0);
	assert_false(sim_trouble_hit(&trouble, SIM_FAULT_SLOW, "y", 1, &argument));
	assert_false(sim_trouble_hit(&trouble, SIM_FAULT_SLOW, "x", 0, &argument));
	assert_false(sim_trouble_hit(&trouble, SIM_FAULT_KILL, "x", 1, &argument));
	assert_false(sim_trouble_hit(&trouble, SIM_FAULT_SLOW, "x", 1, &argument));
	assert_true(sim_trouble_hit(&trouble, SIM_FAULT_SLOW, "x", 1, &argument));
	assert_int_equal(argument, 7);
	assert_true(sim_trouble_hit(&trouble, SIM_FAULT_SLOW, "x", SIM_MAX_GPUS, &argument));
	assert_false(sim_trouble_hit(&trouble, SIM_FAULT_SLOW, "x", 1, &argument));
	for (int i = 0; i < SIM_MAX_FAULTS; i++)
		assert_int_equal(sim_trouble_add(&trouble, &fault), 0);
	assert_int_equal(sim_trouble_add(&trouble, &fault), -ENOSPC);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(gpu_is_never_over_its_capacity),
		TEST(memory_of_a_killed_process_can_be_taken_at_once),
		TEST(lock_of_a_killed_holder_is_free),
		TEST(shared_memory_weighs_once_and_stays_with_its_last_holder),
		TEST(memory_whose_holders_are_all_dead_weighs_nothing),
		TEST(shared_table_is_used_again),
		TEST(work_takes_its_time_and_the_next_begins_where_it_ends),
		TEST(two_lines_of_a_gpu_take_turns),
		TEST(work_of_a_killed_process_is_dropped),
		TEST(what_each_engine_did_is_counted_per_process_and_gpu),
		cmocka_unit_test(utilisation_is_of_whole_sample_periods),
		TEST(gate_holds_a_line_until_the_other_engine_is_done),
		TEST(too_many_closed_gates_are_refused_until_one_opens),
		TEST(gates_in_a_circle_are_opened),
		TEST(jitter_keeps_the_mean_and_its_bounds),
		TEST(stopped_holders_of_the_lock_hold_up_nobody),
		TEST(process_stopped_anywhere_holds_up_nobody_and_repeats_nothing),
		TEST(nonsense_in_the_file_ends_no_caller),
		TEST(random_words_in_the_file_end_no_caller),
		cmocka_unit_test(gaps_are_found_between_and_after_spans),
		cmocka_unit_test(module_says_how_long_its_functions_take),
		cmocka_unit_test(fault_lets_pass_then_hits_so_often),
	};

	return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
