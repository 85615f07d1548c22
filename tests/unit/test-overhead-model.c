/* Every interleaving of a few threads that allocate and free with a keeper that samples the driver.
 *
 * What is driven is overhead_compute() as it ships, with the steps around the driver's calls as the shim
 * takes them: enter, charge, the driver's call, leave. (That a charge is one step is what
 * test-reserve-model.c is about.) A state is all words; each is looked at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "grant/overhead.h"
#include "grant/reserve.h"

#define PAGE (UINT64_C(1) << SHARE_UNIT_SHIFT) /* the unit in which records of regions are written */
#define PROCESSES 2
#define THREADS_MAX 3
#define SCRIPT_MAX 4
#define HASH UINT64_C(0x1234567890abcdef)
#define STATES_MAX (1 << 20)
#define LIMIT 100

enum verb {
	END,
	ALLOC, /* charged, then taken */
	FREE,
	MAKE, /* a context: taken, and charged by nobody */
	UNMAKE,
	TRIM, /* a pool gives back what is still charged */
	OPEN, /* the region that process 0 has exported */
	CLOSE,
	DROP,  /* its maker frees it */
	KILL,  /* process 0 */
	SPARE, /* gives back what is charged and not taken */
};

struct act {
	enum verb verb;
	uint32_t pages;
};

struct scenario {
	unsigned threads;
	uint8_t process[THREADS_MAX];
	struct act scripts[THREADS_MAX][SCRIPT_MAX];
	uint32_t overhead[PROCESSES]; /* at the beginning */
	unsigned samples;
	bool known;	  /* a sample has been there before */
	bool loose;	  /* process 0 has pools */
	bool may_learn;	  /* overhead grows: what is published may be too little until the end */
	uint32_t region;  /* charged and exported by process 0 */
	bool opened;	  /* process 1 has it open at the beginning */
	uint32_t surplus; /* process 0 is charged with so much that is not taken, and says so */
};

struct thread {
	uint32_t read_overhead;
	uint8_t position, step;
	uint8_t refused;
	uint8_t awaited; /* this sample */
};

struct state {
	uint32_t charged[PROCESSES], taken[PROCESSES], overhead[PROCESSES];
	uint64_t moves[PROCESSES];
	uint32_t surplus[PROCESSES];
	uint32_t published;
	uint64_t record[PROCESSES]; /* share.h */
	uint8_t has[PROCESSES];	    /* the region */
	uint8_t dead, noted;	    /* process 0; the keeper has said so */
	struct thread threads[THREADS_MAX];
	/* the keeper */
	uint32_t step, samples;
	uint32_t driver[PROCESSES];
	uint8_t listed[PROCESSES];
	struct {
		uint32_t charged, surplus;
		uint64_t moves;
		uint64_t record;
	} before[PROCESSES], after[PROCESSES];
	uint32_t found; /* what the sample will publish */
	struct overhead_known known[PROCESSES];
};

static const struct scenario *scenario;
static struct state now;
static struct {
	uint64_t hash[2];
} * nodes;
static uint32_t node_count;
static char path_text[256][12];
static unsigned depth;

static void fail_with_path(const char *what)
{
	fprintf(stderr, "%s after:", what);
	for (unsigned i = 0; i < depth; i++)
		fprintf(stderr, " %s", path_text[i]);
	fprintf(stderr, "\n");
	fail_msg("%s", what);
}

/* ---- what must hold -------------------------------------------------------------------------------------
 */

static uint32_t sum(const uint32_t *of)
{
	return of[0] + of[1];
}

/* Once, whoever has it. */
static uint32_t region(void)
{
	return now.has[0] || now.has[1] ? scenario->region : 0;
}

static void check_state(void)
{
	if (scenario->known && !scenario->may_learn && sum(now.taken) + sum(now.overhead) + region() > LIMIT)
		fail_with_path("more is taken than the limit");
	for (unsigned p = 0; p < PROCESSES; p++)
		if (now.taken[p] + (p == 0 && now.has[0] ? scenario->region : 0) > now.charged[p])
			fail_with_path("more is taken than charged");
}

static void check_published(bool guessed)
{
	if (scenario->may_learn || scenario->region || guessed)
		return;
	if (now.published < sum(now.overhead))
		fail_with_path("overhead that is there is forgotten");
	if (!scenario->loose && !scenario->surplus && now.published > sum(now.overhead))
		fail_with_path("memory that was charged is taken for overhead");
}

/* ---- the keeper -----------------------------------------------------------------------------------------
 */

static struct usage_peek_slot slot_of(
	unsigned p, uint32_t charged, uint32_t surplus, uint64_t moves, uint64_t record)
{
	return (struct usage_peek_slot){.slot = p,
		.owner = owner_word(p + 1, 1) | UINT64_C(1) << OWNER_GENERATION_SHIFT,
		.moves = moves,
		.held_bytes = charged * PAGE,
		.surplus_bytes = surplus * PAGE,
		.n_shares = record != 0,
		.shares = {record}};
}

static void compute(struct overhead *ret_found)
{
	struct overhead_process processes[PROCESSES];
	struct usage_peek_slot before[PROCESSES], after[PROCESSES];
	unsigned n = 0;

	for (unsigned p = 0; p < PROCESSES; p++) {
		before[p] = slot_of(p, now.before[p].charged, now.before[p].surplus, now.before[p].moves,
			now.before[p].record);
		after[p] = slot_of(p, now.after[p].charged, now.after[p].surplus, now.after[p].moves,
			now.after[p].record);
		if (now.listed[p])
			processes[n++] = (struct overhead_process){.owner = {.word = owner_word(p + 1, 1)},
				.bytes = now.driver[p] * PAGE,
				.known = now.known[p]};
	}
	overhead_compute(processes, n, before, PROCESSES, after, PROCESSES, ret_found);
	memset(now.known, 0, sizeof(now.known));
	for (unsigned i = 0; i < n; i++)
		now.known[OWNER_PID(processes[i].owner.word) - 1] = processes[i].known;
	now.found = (uint32_t)(ret_found->overhead_bytes / PAGE);
}

/* More at once, and less only when the dead that this sample did not see are noted: look_at_gpu(). */
static void raise(void)
{
	struct overhead found;

	compute(&found);
	if (now.found > now.published)
		now.published = now.found;
	if (!scenario->region) {
		now.published = now.found;
		check_published(found.guessed);
	}
}

static void publish(void)
{
	now.noted |= now.dead && !now.listed[0];
	now.published = now.found;
	now.found = 0;
	memset(now.before, 0, sizeof(now.before));
	memset(now.after, 0, sizeof(now.after));
	memset(now.driver, 0, sizeof(now.driver));
	memset(now.listed, 0, sizeof(now.listed));
}

/* Each slot by itself, before and after the driver's answer. */
static void keeper_step(void)
{
	unsigned p = now.step % (PROCESSES + 1);

	if (now.step < PROCESSES) {
		now.before[p].charged = now.charged[p];
		now.before[p].surplus = now.surplus[p];
		now.before[p].moves = now.moves[p];
		now.before[p].record = now.record[p];
	} else if (now.step == PROCESSES) {
		for (unsigned i = 0; i < PROCESSES; i++) {
			now.driver[i] = now.taken[i] + now.overhead[i] + (now.has[i] ? scenario->region : 0);
			now.listed[i] = i != 0 || !now.dead;
		}
	} else if (now.step < 2 * PROCESSES + 1) {
		now.after[p].charged = now.charged[p];
		now.after[p].surplus = now.surplus[p];
		now.after[p].moves = now.moves[p];
		now.after[p].record = now.record[p];
	}
	if (++now.step == 2 * PROCESSES + 1) {
		raise();
		now.step += !scenario->region;
	}
	if (now.step == 2 * PROCESSES + 2) {
		publish();
		now.step = 0;
		now.samples++;
	}
}

static bool keeper_is_done(void)
{
	return now.samples == scenario->samples;
}

static void sample_alone(void)
{
	do
		keeper_step();
	while (now.step != 0);
}

/* ---- the threads ----------------------------------------------------------------------------------------
 */

static const struct act *act_of(unsigned t)
{
	return &scenario->scripts[t][now.threads[t].position];
}

/* The dead do nothing more. */
static bool is_done(unsigned t)
{
	return act_of(t)->verb == END || (now.dead && scenario->process[t] == 0 && act_of(t)->verb != KILL);
}

static void next_act(struct thread *thread)
{
	thread->step = 0;
	thread->read_overhead = 0;
	thread->position++;
}

static void enter(unsigned p)
{
	now.moves[p] += USAGE_MOVE_BEGINS;
}

static void leave(struct thread *thread, unsigned p)
{
	now.moves[p]--;
	next_act(thread);
}

static bool is_imported(void)
{
	return share_kind(now.record[1]) == SHARE_IMPORT;
}

/* Whoever is refused looks for the dead: owner_is_dead(). */
static void recover(void)
{
	if (now.dead && (now.noted || !(now.record[0] && is_imported())))
		now.charged[0] = 0;
}

static bool fits(uint32_t pages, uint32_t overhead)
{
	return sum(now.charged) + pages + overhead <= LIMIT;
}

static void step_alloc(struct thread *thread, unsigned p, uint32_t pages)
{
	switch (thread->step++) {
	case 0:
		enter(p);
		break;
	case 1:
		thread->read_overhead = now.published;
		break;
	case 2:
		if (!fits(pages, thread->read_overhead))
			recover();
		thread->refused = !fits(pages, thread->read_overhead);
		if (thread->refused) {
			leave(thread, p);
			break;
		}
		now.charged[p] += pages;
		thread->step += !scenario->region;
		break;
	case 3: /* take(): the overhead may be more than it was */
		thread->refused = now.published > thread->read_overhead && !fits(0, now.published);
		if (thread->refused) {
			now.charged[p] -= pages;
			leave(thread, p);
		}
		thread->read_overhead = 0;
		break;
	case 4:
		now.taken[p] += pages;
		break;
	default:
		leave(thread, p);
	}
}

/* What was refused is not freed. */
static void step_free(struct thread *thread, unsigned p, uint32_t pages)
{
	switch (thread->step++) {
	case 0:
		if (thread->refused)
			next_act(thread);
		else
			enter(p);
		break;
	case 1:
		now.taken[p] -= pages;
		break;
	case 2:
		now.charged[p] -= pages;
		break;
	default:
		leave(thread, p);
	}
}

static void step_make(struct thread *thread, unsigned p, uint32_t pages)
{
	switch (thread->step++) {
	case 0:
		enter(p);
		break;
	case 1:
		now.overhead[p] += pages;
		break;
	default:
		leave(thread, p);
	}
}

static void step_unmake(struct thread *thread, unsigned p, uint32_t pages)
{
	switch (thread->step++) {
	case 0:
		enter(p);
		break;
	case 1:
		now.overhead[p] -= pages;
		break;
	default:
		leave(thread, p);
	}
}

static void step_trim(struct thread *thread, unsigned p, uint32_t pages)
{
	switch (thread->step++) {
	case 0:
		if (thread->refused)
			next_act(thread);
		else
			now.taken[p] -= pages;
		break;
	case 1:
		enter(p);
		break;
	case 2:
		now.charged[p] -= pages;
		break;
	default:
		leave(thread, p);
	}
}

/* ---- a region that one process made and another has ---- */

static uint64_t record_of(enum share_kind kind)
{
	return share_word(kind, 0, scenario->region * PAGE, HASH);
}

static void step_open(struct thread *thread, unsigned p, uint32_t ignored)
{
	switch (thread->step++) {
	case 0:
		enter(p);
		break;
	case 1:
		now.record[p] = share_word(SHARE_IMPORT, 0, SHARE_UNKNOWN, HASH);
		break;
	case 2:
		now.has[p] = now.has[0];
		break;
	case 3:
		now.record[p] = now.has[p] ? record_of(SHARE_IMPORT) : 0;
		break;
	default:
		leave(thread, p);
	}
}

static void step_close(struct thread *thread, unsigned p, uint32_t ignored)
{
	switch (thread->step++) {
	case 0:
		enter(p);
		break;
	case 1:
		now.has[p] = false;
		break;
	case 2:
		now.record[p] = 0;
		break;
	default:
		leave(thread, p);
	}
}

/* Waits for a sample that begins from now on, if others have it. (Where no more samples come it waits for
 * good.) */
static bool waits(struct thread *thread)
{
	if (thread->awaited == 0)
		thread->awaited = !is_imported() ? UINT8_MAX : (uint8_t)(now.samples + 1 + (now.step != 0));
	return thread->awaited != UINT8_MAX && now.samples < thread->awaited;
}

static void step_drop(struct thread *thread, unsigned p, uint32_t ignored)
{
	switch (thread->step++) {
	case 0:
		enter(p);
		break;
	case 1:
		now.has[p] = false;
		break;
	case 2:
		now.record[p] = record_of(SHARE_FREED);
		break;
	case 3:
		if (waits(thread))
			thread->step--;
		else
			thread->awaited = 0;
		break;
	case 4:
		now.charged[p] -= scenario->region;
		break;
	case 5:
		now.record[p] = 0;
		break;
	default:
		leave(thread, p);
	}
}

static void step_kill(struct thread *thread, unsigned p, uint32_t ignored)
{
	now.dead = true;
	now.has[p] = false;
	now.taken[p] = now.overhead[p] = 0;
	next_act(thread);
}

static void step_spare(struct thread *thread, unsigned p, uint32_t pages)
{
	switch (thread->step++) {
	case 0:
		enter(p);
		break;
	case 1:
		now.surplus[p] -= pages;
		break;
	case 2:
		now.charged[p] -= pages;
		break;
	default:
		leave(thread, p);
	}
}

static void thread_step(unsigned t)
{
	static void (*const step[])(struct thread *, unsigned, uint32_t) = {[ALLOC] = step_alloc,
		[FREE] = step_free,
		[MAKE] = step_make,
		[UNMAKE] = step_unmake,
		[TRIM] = step_trim,
		[OPEN] = step_open,
		[CLOSE] = step_close,
		[DROP] = step_drop,
		[KILL] = step_kill,
		[SPARE] = step_spare};

	step[act_of(t)->verb](&now.threads[t], scenario->process[t], act_of(t)->pages);
}

/* ---- all of them ----------------------------------------------------------------------------------------
 */

static bool is_new(void)
{
	const unsigned char *bytes = (const unsigned char *)&now;
	uint64_t a = 0x9e3779b97f4a7c15, b = 0xc2b2ae3d27d4eb4f;
	uint32_t at;

	for (size_t i = 0; i < sizeof(now); i++) {
		a = (a ^ bytes[i]) * 0x100000001b3;
		b = (b + bytes[i]) * 0x9fb21c651e98df25;
		b ^= b >> 29;
	}
	for (at = a % STATES_MAX; nodes[at].hash[0] | nodes[at].hash[1]; at = (at + 1) % STATES_MAX)
		if (nodes[at].hash[0] == a && nodes[at].hash[1] == b)
			return false;
	assert_true(++node_count < STATES_MAX / 2);
	nodes[at].hash[0] = a;
	nodes[at].hash[1] = b;
	return true;
}

/* Samples without calls under way learn everything: of who has pools, the second. */
static void check_end(void)
{
	while (now.step != 0)
		keeper_step();
	sample_alone();
	if (scenario->loose)
		sample_alone();
	recover();
	if (now.published + sum(now.charged) != sum(now.overhead) + sum(now.taken) + region())
		fail_with_path("at rest the overhead is not learnt");
}

static void explore(void);

static void explore_after(const char *who, unsigned number, void (*step)(unsigned))
{
	struct state before = now;

	snprintf(path_text[depth++], sizeof(path_text[0]), "%s%u", who, number);
	step(number);
	check_state();
	explore();
	depth--;
	now = before;
}

static void step_keeper(unsigned ignored)
{
	keeper_step();
}

static void explore(void)
{
	bool any = false;

	if (!is_new())
		return;
	for (unsigned t = 0; t < scenario->threads; t++) {
		if (is_done(t))
			continue;
		explore_after("t", t, thread_step);
		any = true;
	}
	if (!keeper_is_done())
		explore_after("k", now.step, step_keeper);
	if (!any) {
		struct state before = now;

		check_end();
		now = before;
	}
}

static void run(const struct scenario *s)
{
	scenario = s;
	memset(&now, 0, sizeof(now));
	memset(nodes, 0, STATES_MAX * sizeof(*nodes));
	node_count = depth = 0;
	memcpy(now.overhead, s->overhead, sizeof(now.overhead));
	now.moves[0] = UINT64_C(1) << 32 | (s->loose ? USAGE_MOVES_LOOSE : 0);
	now.moves[1] = UINT64_C(1) << 32;
	now.charged[0] = now.surplus[0] = s->surplus;
	if (s->region) {
		now.charged[0] = s->region;
		now.has[0] = true;
		now.record[0] = record_of(SHARE_EXPORT);
		now.has[1] = s->opened;
		now.record[1] = s->opened ? record_of(SHARE_IMPORT) : 0;
	}
	if (s->known) {
		sample_alone();
		now.samples = 0;
	}
	explore();
	print_message("# %u states\n", node_count);
}

/* ---- scenarios ------------------------------------------------------------------------------------------
 */

static void threads_at_the_limit_gain_nothing(void **state)
{
	static const struct scenario s = {.threads = 3,
		.process = {0, 0, 1},
		.scripts = {{{ALLOC, 40}, {FREE, 40}}, {{ALLOC, 40}, {FREE, 40}}, {{ALLOC, 50}}},
		.overhead = {30, 10},
		.samples = 2,
		.known = true};

	run(&s);
}

static void a_thread_that_takes_the_same_again_and_again(void **state)
{
	static const struct scenario s = {.threads = 2,
		.process = {0, 0},
		.scripts = {{{ALLOC, 40}, {FREE, 40}, {ALLOC, 40}}, {{ALLOC, 60}, {FREE, 60}, {ALLOC, 60}}},
		.overhead = {30, 0},
		.samples = 3,
		.known = true};

	run(&s);
}

static void programs_that_move_before_the_first_sample(void **state)
{
	static const struct scenario s = {.threads = 3,
		.process = {0, 0, 1},
		.scripts = {{{ALLOC, 30}, {FREE, 30}}, {{ALLOC, 20}}, {{ALLOC, 10}, {FREE, 10}}},
		.overhead = {30, 10},
		.samples = 1};

	run(&s);
}

static void contexts_that_end_meanwhile_are_learnt_at_rest(void **state)
{
	struct scenario s = {.threads = 2,
		.process = {0, 0},
		.scripts = {{{ALLOC, 20}, {FREE, 20}}, {{UNMAKE, 10}, {ALLOC, 10}}},
		.overhead = {30, 10},
		.samples = 2,
		.known = true,
		.may_learn = true};

	run(&s);
	s.loose = true;
	run(&s);
}

static void contexts_that_are_made_meanwhile_are_learnt_at_rest(void **state)
{
	static const struct scenario s = {.threads = 3,
		.process = {0, 0, 1},
		.scripts = {{{ALLOC, 20}, {FREE, 20}}, {{MAKE, 15}}, {{MAKE, 15}, {ALLOC, 10}}},
		.overhead = {10, 0},
		.samples = 1,
		.known = true,
		.may_learn = true};

	run(&s);
}

/* (As long as no two samples fall between the moment in which the driver has it back and that in which the
 * shim knows.) */
static void pools_that_give_back_at_any_moment_hide_nothing(void **state)
{
	static const struct scenario s = {.threads = 2,
		.process = {0, 1},
		.scripts = {{{ALLOC, 40}, {TRIM, 40}, {ALLOC, 40}}, {{ALLOC, 60}, {FREE, 60}, {ALLOC, 60}}},
		.overhead = {30, 0},
		.samples = 1,
		.known = true,
		.loose = true};

	run(&s);
}

static void what_another_has_open_counts_when_its_maker_is_killed(void **state)
{
	struct scenario s = {.threads = 3,
		.process = {0, 1, 1},
		.scripts = {{{KILL}}, {{ALLOC, 40}, {ALLOC, 40}}, {{ALLOC, 30}}},
		.overhead = {10, 10},
		.samples = 2,
		.known = true,
		.region = 40,
		.opened = true};

	run(&s);
	/* It may be opened, or closed, at that moment. */
	s.scripts[2][0] = (struct act){CLOSE};
	run(&s);
	s.opened = false;
	s.scripts[2][0] = (struct act){OPEN};
	run(&s);
}

static void what_another_has_open_counts_when_its_maker_frees_it(void **state)
{
	struct scenario s = {.threads = 3,
		.process = {0, 1, 1},
		.scripts = {{{DROP}}, {{ALLOC, 40}}, {{ALLOC, 40}}},
		.overhead = {10, 10},
		.samples = 2,
		.known = true,
		.region = 40,
		.opened = true};

	run(&s);
	s.scripts[2][0] = (struct act){CLOSE};
	run(&s);
	s.samples = 1;
	s.opened = false;
	s.scripts[2][0] = (struct act){OPEN};
	run(&s);
}

static void a_maker_that_is_killed_while_it_waits(void **state)
{
	static const struct scenario s = {.threads = 3,
		.process = {0, 0, 1},
		.scripts = {{{DROP}}, {{KILL}}, {{ALLOC, 40}, {FREE, 40}}},
		.overhead = {10, 10},
		.samples = 3,
		.known = true,
		.region = 40,
		.opened = true};

	run(&s);
}

static void what_is_charged_and_not_taken_hides_no_overhead(void **state)
{
	static const struct scenario s = {.threads = 2,
		.process = {0, 0},
		.scripts = {{{SPARE, 20}, {ALLOC, 50}}, {{ALLOC, 20}, {FREE, 20}, {ALLOC, 20}}},
		.overhead = {30, 0},
		.samples = 2,
		.known = true,
		.surplus = 20};

	run(&s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_at_the_limit_gain_nothing),
		cmocka_unit_test(a_thread_that_takes_the_same_again_and_again),
		cmocka_unit_test(programs_that_move_before_the_first_sample),
		cmocka_unit_test(contexts_that_end_meanwhile_are_learnt_at_rest),
		cmocka_unit_test(contexts_that_are_made_meanwhile_are_learnt_at_rest),
		cmocka_unit_test(pools_that_give_back_at_any_moment_hide_nothing),
		cmocka_unit_test(what_another_has_open_counts_when_its_maker_is_killed),
		cmocka_unit_test(what_another_has_open_counts_when_its_maker_frees_it),
		cmocka_unit_test(a_maker_that_is_killed_while_it_waits),
		cmocka_unit_test(what_is_charged_and_not_taken_hides_no_overhead),
	};

	nodes = calloc(STATES_MAX, sizeof(*nodes));
	if (!nodes)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
