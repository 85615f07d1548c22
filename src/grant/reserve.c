#include "grant/reserve.h"

/* The change under way, in the high half of a slot's word. */
#define GIVES (UINT64_C(1) << 63)
#define CHANGE_PAGES(word) ((word) >> 32 & INT32_MAX)
#define NO_SLOT UINT32_MAX

enum step {
	LOOK,
	ANNOUNCE,
	READ_TOTAL,
	CHECK_ANNOUNCED,
	CHANGE_TOTAL,
	COMMIT,
	WITHDRAW,
	JUDGE_RECOUNTER,
	SEARCH_BEGIN,
	SEARCH_OWNER,
	SEARCH_WORD,
	SEARCH_JUDGE,
	RECOUNT_BEGIN,
	RECOUNT_END,
	RECOUNT_WORD,
	RECOUNT_SETTLE,
	RECOUNT_PUBLISH,
	CLAIM_OWNER,
	CLAIM_JUDGE,
	CLAIM_TAKE,
	CLAIM_COUNT,
	CLAIM_RAISE,
	CLAIM_WORD,
	CLAIM_TOTAL,
	CLAIM_FINISH,
};

typedef _Atomic uint64_t word;

static word *total_of(struct reserve *r)
{
	return &r->usage->gpus[r->gpu].total;
}

static word *word_of(struct reserve *r, uint32_t slot)
{
	return &r->usage->slots[slot].gpus[r->gpu];
}

static bool replace(word *at, uint64_t expected, uint64_t desired)
{
	return atomic_compare_exchange_strong(at, &expected, desired);
}

static enum reserve_result go(struct reserve *r, enum step step)
{
	r->step = step;
	return RESERVE_GOES_ON;
}

/* The pages that remain after a change that gives pages back. */
static uint64_t given(uint64_t held, uint64_t pages)
{
	return held > pages ? held - pages : 0;
}

static uint64_t announced(const struct reserve *r)
{
	return r->held | (uint64_t)r->pages << 32 | (r->kind == RESERVE_GIVE ? GIVES : 0);
}

/* Continues after a recount. An announced give stays announced until this process or a recount completes
 * it. */
static enum reserve_result start_again(struct reserve *r)
{
	static const enum step step[] = {
		[RESERVE_CLAIM] = CLAIM_WORD,
		[RESERVE_TAKE] = LOOK,
		[RESERVE_GIVE] = READ_TOTAL,
		[RESERVE_RECOVER] = READ_TOTAL,
	};

	return go(r, step[r->kind]);
}

/* ---- take and give --------------------------------------------------------------------------------------
 */

static enum reserve_result read_total(struct reserve *r)
{
	r->total = atomic_load(total_of(r));
	if (USAGE_IS_RECOUNTED(r->total))
		return go(r, JUDGE_RECOUNTER);
	if (r->kind == RESERVE_RECOVER)
		return go(r, SEARCH_BEGIN);
	if (r->kind == RESERVE_TAKE && USAGE_TOTAL_PAGES(r->total) + r->pages > r->limit_pages)
		return go(r, WITHDRAW);
	return go(r, CHECK_ANNOUNCED);
}

static enum reserve_result change_total(struct reserve *r)
{
	uint64_t epoch = r->total & ~(uint64_t)UINT32_MAX, pages = USAGE_TOTAL_PAGES(r->total);

	pages = r->kind == RESERVE_TAKE ? pages + r->pages : given(pages, r->pages);
	return go(r, replace(total_of(r), r->total, epoch | pages) ? COMMIT : READ_TOTAL);
}

static enum reserve_result commit(struct reserve *r)
{
	uint64_t after = r->kind == RESERVE_TAKE ? r->held + r->pages : given(r->held, r->pages);

	if (replace(word_of(r, r->slot), announced(r), after) || r->kind == RESERVE_GIVE)
		return RESERVE_DONE;
	return go(r, LOOK);
}

static inline __attribute__((always_inline)) enum reserve_result step_change(struct reserve *r)
{
	switch (r->step) {
	case LOOK:
		r->held = USAGE_HELD_PAGES(atomic_load(word_of(r, r->slot)));
		/* A process cannot give more than it holds: the total would fall below the sum of the
		 * others. */
		if (r->kind == RESERVE_GIVE && r->pages > r->held)
			r->pages = (uint32_t)r->held;
		return go(r, ANNOUNCE);
	case ANNOUNCE:
		atomic_store(word_of(r, r->slot), announced(r));
		return go(r, READ_TOTAL);
	case READ_TOTAL:
		return read_total(r);
	case CHECK_ANNOUNCED:
		if (atomic_load(word_of(r, r->slot)) == announced(r))
			return go(r, CHANGE_TOTAL);
		return r->kind == RESERVE_GIVE ? RESERVE_DONE : go(r, LOOK);
	case CHANGE_TOTAL:
		return change_total(r);
	case COMMIT:
		return commit(r);
	default: /* WITHDRAW; if it fails, a recount has withdrawn the change already */
		replace(word_of(r, r->slot), announced(r), r->held);
		return go(r, SEARCH_BEGIN);
	}
}

/* ---- who is dead ----------------------------------------------------------------------------------------
 */

static enum reserve_result judge_recounter(struct reserve *r)
{
	uint32_t slot = (uint32_t)r->total;
	uint64_t owner;

	/* Only a former owner of our slot, now dead, can be recounting with it. A slot number out of range is
	 * damage and treated the same way. */
	if (slot >= USAGE_FILE_SLOTS || slot == r->slot) {
		r->dead = r->kind == RESERVE_CLAIM ? r->slot : NO_SLOT;
		return go(r, RECOUNT_BEGIN);
	}
	owner = atomic_load(&r->usage->slots[slot].owner);
	if (OWNER_PID(owner) != 0 && !r->world->is_dead(r->world->context, &r->usage->slots[slot], owner)) {
		start_again(r);
		return RESERVE_WAITS;
	}
	r->dead = slot;
	return go(r, RECOUNT_BEGIN);
}

static enum reserve_result search_next(struct reserve *r)
{
	r->at++;
	return go(r, SEARCH_OWNER);
}

/* Either no process is dead, or another process has recounted while this one searched. In the second case the
 * sum that was too large has changed, and the epoch shows that. Changes of the sum by living processes do not
 * matter; otherwise a refused process beside busy ones would search for ever. */
static enum reserve_result search_done(struct reserve *r)
{
	if (r->kind == RESERVE_RECOVER)
		return RESERVE_DONE;
	return atomic_load(total_of(r)) >> 32 == r->total >> 32 ? RESERVE_REFUSED : start_again(r);
}

static enum reserve_result step_search(struct reserve *r)
{
	switch (r->step) {
	case SEARCH_BEGIN:
		r->at = 0;
		r->end = atomic_load(&r->usage->slots_used);
		if (r->end > USAGE_FILE_SLOTS)
			r->end = USAGE_FILE_SLOTS;
		return go(r, SEARCH_OWNER);
	case SEARCH_OWNER:
		if (r->at >= r->end)
			return search_done(r);
		r->at_owner = atomic_load(&r->usage->slots[r->at].owner);
		if (OWNER_PID(r->at_owner) == 0 || r->at == r->slot)
			return search_next(r);
		return go(r, SEARCH_WORD);
	case SEARCH_WORD:
		/* A slot that holds nothing of this GPU is skipped: a read of /proc costs microseconds. */
		if (atomic_load(word_of(r, r->at)) == 0)
			return search_next(r);
		return go(r, SEARCH_JUDGE);
	default: /* SEARCH_JUDGE */
		if (!(r->at_owner & OWNER_IS_HEIR) &&
			!r->world->is_dead(r->world->context, &r->usage->slots[r->at], r->at_owner))
			return search_next(r);
		r->dead = r->at;
		return go(r, RECOUNT_BEGIN);
	}
}

/* ---- recount --------------------------------------------------------------------------------------------
 */

/* There is no need to check that the slot `dead` still belongs to the dead process. It held something of this
 * GPU, or recounted it, so only a recount could have passed it to another process. Then the total would have
 * changed. */
static enum reserve_result recount_begin(struct reserve *r)
{
	uint64_t epoch = r->total >> 32, odd = USAGE_IS_RECOUNTED(r->total) ? epoch + 2 : epoch + 1;
	uint64_t ours = odd << 32 | r->slot;

	if (!replace(total_of(r), r->total, ours))
		return start_again(r);
	r->total = ours;
	return go(r, RECOUNT_END);
}

static enum reserve_result recount_next(struct reserve *r, uint64_t held)
{
	r->sum += held;
	r->at++;
	return go(r, r->at < r->end ? RECOUNT_WORD : RECOUNT_PUBLISH);
}

static uint64_t settled(const struct reserve *r)
{
	uint64_t held = USAGE_HELD_PAGES(r->at_word);

	if (r->at == r->dead)
		return 0;
	return r->at_word & GIVES ? given(held, CHANGE_PAGES(r->at_word)) : held;
}

static enum reserve_result recount_publish(struct reserve *r)
{
	uint64_t pages = r->sum > UINT32_MAX ? UINT32_MAX : r->sum;

	replace(total_of(r), r->total, ((r->total >> 32) + 1) << 32 | pages);
	atomic_fetch_add_explicit(&r->usage->gpus[r->gpu].recounts, 1, memory_order_relaxed);
	return start_again(r);
}

static enum reserve_result step_recount(struct reserve *r)
{
	switch (r->step) {
	case RECOUNT_BEGIN:
		return recount_begin(r);
	case RECOUNT_END:
		r->sum = 0;
		r->at = 0;
		r->end = atomic_load(&r->usage->slots_used);
		if (r->end > USAGE_FILE_SLOTS)
			r->end = USAGE_FILE_SLOTS;
		return go(r, r->end > 0 ? RECOUNT_WORD : RECOUNT_PUBLISH);
	case RECOUNT_WORD:
		r->at_word = atomic_load(word_of(r, r->at));
		if (settled(r) == r->at_word)
			return recount_next(r, r->at_word);
		return go(r, RECOUNT_SETTLE);
	case RECOUNT_SETTLE:
		if (!replace(word_of(r, r->at), r->at_word, settled(r)))
			return go(r, RECOUNT_WORD);
		return recount_next(r, settled(r));
	default: /* RECOUNT_PUBLISH */
		return recount_publish(r);
	}
}

/* ---- a slot of one's own --------------------------------------------------------------------------------
 */

static enum reserve_result claim_take(struct reserve *r)
{
	uint64_t generation = OWNER_GENERATION(r->at_owner) + 1;
	uint64_t ours = r->owner | OWNER_IS_HEIR | generation << OWNER_GENERATION_SHIFT;

	if (!replace(&r->usage->slots[r->at].owner, r->at_owner, ours))
		return go(r, CLAIM_OWNER);
	r->slot = r->at;
	r->owner = ours;
	return go(r, CLAIM_COUNT);
}

static enum reserve_result step_claim(struct reserve *r)
{
	switch (r->step) {
	case CLAIM_OWNER:
		if (r->at >= USAGE_FILE_SLOTS)
			return RESERVE_REFUSED;
		r->at_owner = atomic_load(&r->usage->slots[r->at].owner);
		return go(r, OWNER_PID(r->at_owner) == 0 ? CLAIM_TAKE : CLAIM_JUDGE);
	case CLAIM_JUDGE:
		if (r->world->is_dead(r->world->context, &r->usage->slots[r->at], r->at_owner))
			return go(r, CLAIM_TAKE);
		r->at++;
		return go(r, CLAIM_OWNER);
	case CLAIM_TAKE:
		return claim_take(r);
	case CLAIM_COUNT:
		r->end = atomic_load(&r->usage->slots_used);
		return go(r, r->end > r->slot ? CLAIM_WORD : CLAIM_RAISE);
	case CLAIM_RAISE:
		return go(r, atomic_compare_exchange_strong(&r->usage->slots_used, &r->end, r->slot + 1)
				     ? CLAIM_WORD
				     : CLAIM_COUNT);
	case CLAIM_WORD:
		if (r->gpu >= r->usage->gpu_count || r->gpu >= GRANT_FILE_GPUS_MAX)
			return go(r, CLAIM_FINISH);
		r->at_word = atomic_load(word_of(r, r->slot));
		return go(r, CLAIM_TOTAL);
	case CLAIM_TOTAL:
		/* The previous owner died, perhaps while it held memory or recounted a GPU. */
		r->total = atomic_load(total_of(r));
		r->dead = r->slot;
		if (USAGE_IS_RECOUNTED(r->total))
			return go(r, JUDGE_RECOUNTER);
		if (r->at_word != 0)
			return go(r, RECOUNT_BEGIN);
		r->gpu++;
		return go(r, CLAIM_WORD);
	default: /* CLAIM_FINISH */
		r->owner &= ~OWNER_IS_HEIR;
		atomic_store(&r->usage->slots[r->slot].owner, r->owner);
		return RESERVE_DONE;
	}
}

/* ---------------------------------------------------------------------------------------------------------
 */

void reserve_begin(struct reserve *reserve)
{
	static const enum step first[] = {
		[RESERVE_CLAIM] = CLAIM_OWNER,
		[RESERVE_TAKE] = LOOK,
		[RESERVE_GIVE] = LOOK,
		[RESERVE_RECOVER] = READ_TOTAL,
	};

	reserve->step = first[reserve->kind];
	reserve->total = reserve->held = reserve->sum = 0;
	reserve->at = reserve->end = 0;
	reserve->at_owner = reserve->at_word = 0;
	reserve->dead = NO_SLOT;
	if (reserve->kind == RESERVE_CLAIM) {
		reserve->slot = NO_SLOT;
		reserve->gpu = 0;
	}
}

enum reserve_result reserve_step(struct reserve *reserve)
{
	if (reserve->step <= WITHDRAW)
		return step_change(reserve);
	if (reserve->step == JUDGE_RECOUNTER)
		return judge_recounter(reserve);
	if (reserve->step <= SEARCH_JUDGE)
		return step_search(reserve);
	if (reserve->step <= RECOUNT_PUBLISH)
		return step_recount(reserve);
	return step_claim(reserve);
}

/* Nearly every change succeeds at the first attempt, so the loop is optimised for that case. */
enum reserve_result reserve_steps(struct reserve *reserve)
{
	enum reserve_result result = RESERVE_GOES_ON;

	while (result == RESERVE_GOES_ON && reserve->step <= WITHDRAW)
		result = step_change(reserve);
	while (result == RESERVE_GOES_ON)
		result = reserve_step(reserve);
	return result;
}

void reserve_abandon(struct reserve *reserve)
{
	uint64_t held = reserve->kind == RESERVE_GIVE ? given(reserve->held, reserve->pages) : reserve->held;

	if (reserve->kind == RESERVE_TAKE || reserve->kind == RESERVE_GIVE)
		replace(word_of(reserve, reserve->slot), announced(reserve), held);
}
