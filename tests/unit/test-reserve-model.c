/* Every interleaving of a few processes that reserve memory, with a kill before any of their steps.
 *
 * What is driven is reserve_step() itself, as it ships: each of its steps makes one access to shared memory,
 * so to run one step of one process after another in every order is to see every order of their accesses (all
 * are sequentially consistent). A state is the shared words and the processes' own; states are remembered by
 * a 128-bit hash, and each is looked at once. What must hold is in check_state(), check_refusal() and
 * check_end(); that nobody hangs is checked on the graph: from each state an end can be reached without a
 * kill. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "grant/reserve.h"

#define ACTORS_MAX 3
#define SLOTS_MAX 4 /* one more than actors: the one who asks at the end */
#define GPUS_MAX 2
#define SCRIPT_MAX 5
#define STATES_MAX (1 << 21)
#define DEPTH_MAX 4096
#define NO_EDGE UINT32_MAX
#define LIMIT 100

enum verb { END, CLAIM, TAKE, GIVE, RECOVER };

struct act {
	enum verb verb;
	uint32_t pages;
	uint32_t gpu;
};

struct scenario {
	unsigned actors, gpus, kills;
	bool claimed; /* actors start with a slot each, in order */
	struct act scripts[ACTORS_MAX][SCRIPT_MAX];
	/* Checked at each end, if there. */
	void (*at_end)(const unsigned *taken, const bool *killed);
};

struct actor {
	struct reserve reserve;
	uint32_t has[GPUS_MAX];
	uint32_t pressure; /* most that living others held, asked for or gave since this one last began */
	uint8_t position;
	uint8_t busy; /* within the act at position */
	uint8_t killed;
	uint8_t refused; /* the last take: the give that follows is left out */
	uint8_t taken;	 /* how many takes succeeded */
	uint8_t first_step;
};

struct state {
	uint64_t totals[GPUS_MAX];
	uint64_t owners[SLOTS_MAX];
	uint64_t words[SLOTS_MAX][GPUS_MAX];
	uint32_t slots_used;
	uint32_t kills;
	struct actor actors[ACTORS_MAX];
};

static struct usage_file usage;
static const struct scenario *scenario;
static struct state now;
static char path_text[DEPTH_MAX][16]; /* how `now` was reached */
static unsigned depth;

/* ---- the world of the model -----------------------------------------------------------------------------
 */

static bool model_is_dead(void *context, const struct usage_slot *slot, uint64_t owner)
{
	uint32_t pid = OWNER_PID(owner);

	assert_true(pid > 0 && pid <= ACTORS_MAX + 1);
	return pid <= ACTORS_MAX && now.actors[pid - 1].killed;
}

static const struct reserve_world world = {.is_dead = model_is_dead};

static void load_shared(void)
{
	usage.gpu_count = scenario->gpus;
	usage.slots_used = now.slots_used;
	for (unsigned c = 0; c < GPUS_MAX; c++)
		usage.gpus[c].total = now.totals[c];
	for (unsigned s = 0; s < SLOTS_MAX; s++) {
		usage.slots[s].owner = now.owners[s];
		for (unsigned c = 0; c < GPUS_MAX; c++)
			usage.slots[s].gpus[c] = now.words[s][c];
	}
}

static void save_shared(void)
{
	now.slots_used = usage.slots_used;
	for (unsigned c = 0; c < GPUS_MAX; c++)
		now.totals[c] = usage.gpus[c].total;
	for (unsigned s = 0; s < SLOTS_MAX; s++) {
		now.owners[s] = usage.slots[s].owner;
		for (unsigned c = 0; c < GPUS_MAX; c++)
			now.words[s][c] = usage.slots[s].gpus[c];
	}
}

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

static uint32_t held_by_living(unsigned gpu)
{
	uint32_t pages = 0;

	for (unsigned i = 0; i < scenario->actors; i++)
		if (!now.actors[i].killed)
			pages += now.actors[i].has[gpu];
	return pages;
}

static void check_state(void)
{
	for (unsigned c = 0; c < scenario->gpus; c++) {
		uint32_t pages = held_by_living(c);

		if (pages > LIMIT)
			fail_with_path("more is held than the limit");
		if (USAGE_IS_RECOUNTED(now.totals[c]))
			continue;
		if (USAGE_TOTAL_PAGES(now.totals[c]) > LIMIT)
			fail_with_path("the sum is above the limit");
		if (USAGE_TOTAL_PAGES(now.totals[c]) < pages)
			fail_with_path("the sum is below what is held");
	}
}

static uint32_t pressure_on(unsigned self, unsigned gpu)
{
	uint32_t pages = 0;

	for (unsigned i = 0; i < scenario->actors; i++) {
		const struct actor *a = &now.actors[i];

		if (i == self || a->killed)
			continue;
		pages += a->has[gpu];
		if (a->busy && a->reserve.gpu == gpu &&
			(a->reserve.kind == RESERVE_TAKE || a->reserve.kind == RESERVE_GIVE))
			pages += a->reserve.pages;
	}
	return pages;
}

static void watch_pressure(void)
{
	for (unsigned i = 0; i < scenario->actors; i++) {
		struct actor *a = &now.actors[i];
		uint32_t pages;

		if (!a->busy || a->reserve.kind != RESERVE_TAKE)
			continue;
		pages = pressure_on(i, a->reserve.gpu);
		if (a->reserve.step == a->first_step || pages > a->pressure)
			a->pressure = pages;
	}
}

static void check_refusal(const struct actor *a)
{
	if (a->has[a->reserve.gpu] + a->reserve.pages + a->pressure <= LIMIT)
		fail_with_path("refused although it fits");
}

/* Somebody new, alone: reserve_step() until it is over. */
static enum reserve_result run_alone(struct reserve *r, enum reserve_kind kind, unsigned gpu, uint32_t pages)
{
	enum reserve_result result;
	unsigned steps = 0;

	r->usage = &usage;
	r->world = &world;
	r->kind = kind;
	r->gpu = gpu;
	r->pages = pages;
	r->limit_pages = LIMIT;
	reserve_begin(r);
	do {
		result = reserve_step(r);
		if (result == RESERVE_WAITS || ++steps > 500)
			fail_with_path("the one who asks at the end waits");
	} while (result == RESERVE_GOES_ON);
	return result;
}

/* The sum is right again before the next refusal, to the page. */
static void check_end(void)
{
	struct reserve r = {.owner = owner_word(ACTORS_MAX + 1, 1)};
	unsigned taken[ACTORS_MAX] = {0};
	bool killed[ACTORS_MAX] = {false};

	load_shared();
	for (unsigned c = 0; c < scenario->gpus && now.kills == 0; c++) {
		if (USAGE_TOTAL_PAGES(now.totals[c]) != held_by_living(c))
			fail_with_path("the sum is wrong though nobody died");
		/* (Who begins is taken for an heir until its claim is over, and may be recounted for
		 * nothing.) */
		else if (scenario->claimed && now.totals[c] >> 32 != 0)
			fail_with_path("a recount though nobody died");
	}
	if (run_alone(&r, RESERVE_CLAIM, 0, 0) != RESERVE_DONE)
		fail_with_path("no slot for another");
	for (unsigned c = 0; c < scenario->gpus; c++) {
		uint32_t pages = held_by_living(c);

		if (run_alone(&r, RESERVE_TAKE, c, LIMIT - pages) != RESERVE_DONE)
			fail_with_path("pages are lost");
		if (run_alone(&r, RESERVE_TAKE, c, 1) != RESERVE_REFUSED)
			fail_with_path("pages are counted twice");
		run_alone(&r, RESERVE_GIVE, c, LIMIT - pages);
		if (USAGE_TOTAL_PAGES(usage.gpus[c].total) != pages || usage.slots[r.slot].gpus[c] != 0)
			fail_with_path("a give is not exact");
	}
	for (unsigned i = 0; i < scenario->actors; i++) {
		taken[i] = now.actors[i].taken;
		killed[i] = now.actors[i].killed;
	}
	if (scenario->at_end)
		scenario->at_end(taken, killed);
}

/* ---- one step -------------------------------------------------------------------------------------------
 */

static const struct act *act_of(unsigned i)
{
	return &scenario->scripts[i][now.actors[i].position];
}

static bool finished(unsigned i)
{
	return now.actors[i].killed || act_of(i)->verb == END;
}

static void begin(unsigned i)
{
	static const enum reserve_kind kinds[] = {[CLAIM] = RESERVE_CLAIM,
		[TAKE] = RESERVE_TAKE,
		[GIVE] = RESERVE_GIVE,
		[RECOVER] = RESERVE_RECOVER};
	struct actor *a = &now.actors[i];
	const struct act *act = act_of(i);

	a->reserve.kind = kinds[act->verb];
	a->reserve.gpu = act->gpu;
	a->reserve.pages = act->pages;
	a->reserve.limit_pages = LIMIT;
	if (act->verb == CLAIM)
		a->reserve.owner = owner_word(i + 1, 1);
	if (act->verb == GIVE)
		a->has[act->gpu] -= act->pages; /* the driver has freed it */
	reserve_begin(&a->reserve);
	a->first_step = (uint8_t)a->reserve.step;
	a->busy = 1;
}

static void end(unsigned i, enum reserve_result result)
{
	struct actor *a = &now.actors[i];
	const struct act *act = act_of(i);

	if (act->verb == TAKE && result == RESERVE_REFUSED)
		check_refusal(a);
	if (act->verb == TAKE && result == RESERVE_DONE) {
		a->has[act->gpu] += act->pages;
		a->taken++;
	}
	if (act->verb == CLAIM)
		assert_int_equal(result, RESERVE_DONE);
	a->refused = act->verb == TAKE && result == RESERVE_REFUSED;
	a->busy = 0;
	a->pressure = 0;
	a->position++;
	if (a->refused && act_of(i)->verb == GIVE)
		a->position++;
	/* Nothing that it remembers of this act may make two equal states look different. */
	a->reserve = (struct reserve){.slot = a->reserve.slot, .owner = a->reserve.owner};
}

static void step(unsigned i)
{
	struct actor *a = &now.actors[i];
	enum reserve_result result;

	if (!a->busy)
		begin(i); /* private to it: one with its first step */
	watch_pressure();
	load_shared();
	a->reserve.usage = &usage;
	a->reserve.world = &world;
	result = reserve_step(&a->reserve);
	a->reserve.usage = NULL;
	a->reserve.world = NULL;
	save_shared();
	watch_pressure();
	if (result == RESERVE_DONE || result == RESERVE_REFUSED)
		end(i, result);
}

/* ---- all of them ----------------------------------------------------------------------------------------
 */

struct node {
	uint64_t hash[2];
	uint32_t edges[ACTORS_MAX];
	bool ends;
};

static struct node *nodes;
static uint32_t *buckets;
static uint32_t node_count;

static void hash_now(uint64_t *ret_hash)
{
	const uint64_t *words = (const uint64_t *)&now;
	uint64_t a = 0x9e3779b97f4a7c15, b = 0xc2b2ae3d27d4eb4f;

	for (size_t i = 0; i < sizeof(now) / 8; i++) {
		a = (a ^ words[i]) * 0xff51afd7ed558ccd;
		a ^= a >> 32;
		b = (b + words[i]) * 0x9fb21c651e98df25;
		b ^= b >> 29;
	}
	ret_hash[0] = a;
	ret_hash[1] = b;
}

static uint32_t intern(bool *ret_new)
{
	uint64_t hash[2];
	uint32_t at;

	hash_now(hash);
	for (at = hash[0] & (2 * STATES_MAX - 1); buckets[at]; at = (at + 1) & (2 * STATES_MAX - 1)) {
		struct node *node = &nodes[buckets[at] - 1];

		if (node->hash[0] == hash[0] && node->hash[1] == hash[1]) {
			*ret_new = false;
			return buckets[at] - 1;
		}
	}
	assert_true(node_count < STATES_MAX);
	nodes[node_count] = (struct node){.hash = {hash[0], hash[1]}, .edges = {NO_EDGE, NO_EDGE, NO_EDGE}};
	buckets[at] = ++node_count;
	*ret_new = true;
	return node_count - 1;
}

static uint32_t explore(void);

static uint32_t explore_one(unsigned i, bool kill)
{
	struct state before = now;
	uint32_t id;

	assert_true(depth < DEPTH_MAX);
	snprintf(path_text[depth], sizeof(path_text[depth]), kill ? "kill%u" : "%u:%d", i,
		now.actors[i].reserve.step);
	depth++;
	if (kill) {
		struct actor *a = &now.actors[i];

		*a = (struct actor){.killed = 1, .taken = a->taken};
		now.kills++;
	} else {
		step(i);
	}
	check_state();
	id = explore();
	depth--;
	now = before;
	return id;
}

static uint32_t explore(void)
{
	bool new, any = false;
	uint32_t id = intern(&new);

	if (!new)
		return id;
	for (unsigned i = 0; i < scenario->actors; i++) {
		if (!finished(i)) {
			nodes[id].edges[i] = explore_one(i, false);
			any = true;
		}
		/* One that is finished can be killed too: it still holds what it took. */
		if (!now.actors[i].killed && now.kills < scenario->kills)
			explore_one(i, true);
	}
	if (!any) {
		check_end();
		nodes[id].ends = true;
	}
	return id;
}

static void check_that_all_can_end(void)
{
	bool changed = true;
	uint32_t without = 0;

	while (changed) {
		changed = false;
		for (uint32_t n = node_count; n-- > 0;)
			for (unsigned i = 0; i < ACTORS_MAX && !nodes[n].ends; i++)
				if (nodes[n].edges[i] != NO_EDGE && nodes[nodes[n].edges[i]].ends)
					nodes[n].ends = changed = true;
	}
	for (uint32_t n = 0; n < node_count; n++)
		without += !nodes[n].ends;
	if (without > 0)
		fail_msg("%u of %u states have no way to an end: somebody hangs", without, node_count);
}

static void run(const struct scenario *s)
{
	scenario = s;
	memset(&now, 0, sizeof(now));
	memset(&usage, 0, sizeof(usage));
	memset(buckets, 0, 2 * STATES_MAX * sizeof(*buckets));
	node_count = 0;
	depth = 0;
	for (unsigned i = 0; i < s->actors; i++)
		now.actors[i].reserve.slot = s->claimed ? i : UINT32_MAX;
	for (unsigned i = 0; i < s->actors && s->claimed; i++) {
		now.owners[i] = owner_word(i + 1, 1) | UINT64_C(1) << OWNER_GENERATION_SHIFT;
		now.slots_used = i + 1;
	}
	explore();
	check_that_all_can_end();
	print_message("# %u states\n", node_count);
}

/* ---- scenarios ------------------------------------------------------------------------------------------
 */

static void exactly_one_took(const unsigned *taken, const bool *killed)
{
	unsigned all = taken[0] + taken[1] + taken[2];

	if (all != 1)
		fail_with_path(all == 0 ? "neither got it" : "more than one got it");
}

static void two_who_ask_60_percent_each_never_both_and_never_neither(void **state)
{
	static const struct scenario s = {.actors = 2,
		.gpus = 1,
		.claimed = true,
		.scripts = {{{TAKE, 60}}, {{TAKE, 60}}},
		.at_end = exactly_one_took};

	run(&s);
}

static void three_who_ask_60_percent_each_exactly_one(void **state)
{
	static const struct scenario s = {.actors = 3,
		.gpus = 1,
		.claimed = true,
		.scripts = {{{TAKE, 60}}, {{TAKE, 60}}, {{TAKE, 60}}},
		.at_end = exactly_one_took};

	run(&s);
}

static void two_who_take_and_give_leave_nothing(void **state)
{
	static const struct scenario s = {.actors = 2,
		.gpus = 1,
		.claimed = true,
		.scripts = {{{TAKE, 60}, {GIVE, 60}, {TAKE, 30}}, {{TAKE, 50}, {GIVE, 50}}}};

	run(&s);
}

static void two_of_whom_any_is_killed_at_any_step(void **state)
{
	static const struct scenario s = {.actors = 2,
		.gpus = 1,
		.kills = 2,
		.claimed = true,
		.scripts = {{{TAKE, 60}, {GIVE, 60}, {TAKE, 60}}, {{TAKE, 60}, {GIVE, 60}, {TAKE, 60}}}};

	run(&s);
}

static void three_of_whom_one_is_killed_at_any_step(void **state)
{
	static const struct scenario s = {.actors = 3,
		.gpus = 1,
		.kills = 1,
		.claimed = true,
		.scripts = {{{TAKE, 60}, {GIVE, 60}}, {{TAKE, 60}, {GIVE, 60}}, {{TAKE, 60}}}};

	run(&s);
}

static void recounts_of_two_at_once_while_the_recounters_die(void **state)
{
	static const struct scenario s = {.actors = 3,
		.gpus = 1,
		.kills = 2,
		.claimed = true,
		.scripts = {{{TAKE, 60}}, {{TAKE, 60}}, {{RECOVER}, {TAKE, 30}}}};

	run(&s);
}

static void a_recount_runs_into_takes_and_gives(void **state)
{
	static const struct scenario s = {.actors = 3,
		.gpus = 1,
		.kills = 1,
		.claimed = true,
		.scripts = {{{TAKE, 50}}, {{TAKE, 30}, {GIVE, 30}}, {{TAKE, 20}, {RECOVER}, {GIVE, 20}}}};

	run(&s);
}

static void three_of_whom_all_may_be_killed_at_any_step(void **state)
{
	static const struct scenario s = {.actors = 3,
		.gpus = 1,
		.kills = 3,
		.claimed = true,
		.scripts = {{{TAKE, 60}, {GIVE, 60}}, {{TAKE, 60}, {GIVE, 60}},
			{{TAKE, 60}, {GIVE, 60}, {TAKE, 40}}}};

	run(&s);
}

static void the_slot_of_a_dead_process_is_taken_at_any_moment(void **state)
{
	static const struct scenario s = {.actors = 2,
		.gpus = 2,
		.kills = 2,
		.scripts = {
			{{CLAIM}, {TAKE, 60, 0}, {TAKE, 60, 1}}, {{CLAIM}, {TAKE, 60, 1}, {GIVE, 60, 1}}}};

	run(&s);
}

static void a_slot_changes_hands_during_a_recount(void **state)
{
	static const struct scenario s = {.actors = 3,
		.gpus = 1,
		.kills = 1,
		.scripts = {{{CLAIM}, {TAKE, 60}}, {{CLAIM}, {TAKE, 60}}, {{CLAIM}, {TAKE, 40}}}};

	run(&s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_who_ask_60_percent_each_never_both_and_never_neither),
		cmocka_unit_test(three_who_ask_60_percent_each_exactly_one),
		cmocka_unit_test(two_who_take_and_give_leave_nothing),
		cmocka_unit_test(two_of_whom_any_is_killed_at_any_step),
		cmocka_unit_test(three_of_whom_one_is_killed_at_any_step),
		cmocka_unit_test(three_of_whom_all_may_be_killed_at_any_step),
		cmocka_unit_test(recounts_of_two_at_once_while_the_recounters_die),
		cmocka_unit_test(a_recount_runs_into_takes_and_gives),
		cmocka_unit_test(the_slot_of_a_dead_process_is_taken_at_any_moment),
		cmocka_unit_test(a_slot_changes_hands_during_a_recount),
	};

	nodes = malloc(STATES_MAX * sizeof(*nodes));
	buckets = malloc(2 * STATES_MAX * sizeof(*buckets));
	if (!nodes || !buckets)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
