#include "grant/overhead.h"

#include <string.h>

/* A pause takes one or two milliseconds. Pauses are this far apart, and closer if a process waits for a
 * sample or if the overhead of one is still a guess. */
#define PAUSE_AGAIN_NS INT64_C(250000000)
#define PAUSE_AGAIN_WAITED_FOR_NS INT64_C(10000000)

/* What a slot's owner has opened by IPC handles. */
struct sharing {
	uint64_t duplicate; /* bytes that are counted for another process as well */
	uint64_t ownerless; /* bytes that are counted for this process, because their maker is gone */
	uint64_t exported;  /* bytes that this process made and exported */
};

/* What one process has in its slot. If several slots could be its own, the largest value of each field. */
struct charge {
	uint64_t held, exported, imported;
	uint64_t surplus;			 /* part of `held` that the driver may not have taken */
	uint64_t duplicate, ownerless, recorded; /* what it shares by handles: struct sharing */
	uint64_t moves;				 /* of all such slots together */
	bool under_way, loose;
	bool fresh;
	uint64_t fresh_bytes;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* sharing: one for each of these slots; NULL: sharing is ignored. */
static struct charge charge_of(const struct owner *process, const struct usage_peek_slot *slots, size_t n,
	const struct sharing *sharing)
{
	struct charge charge = {0};

	for (size_t i = 0; i < n; i++) {
		if (!usage_slot_is_of(&slots[i], process))
			continue;
		charge.held = larger(charge.held, slots[i].held_bytes);
		charge.surplus = larger(charge.surplus, slots[i].surplus_bytes);
		charge.exported = larger(charge.exported, slots[i].exported_bytes);
		charge.imported = larger(charge.imported, slots[i].imported_bytes);
		charge.duplicate = larger(charge.duplicate, sharing ? sharing[i].duplicate : 0);
		charge.ownerless = larger(charge.ownerless, sharing ? sharing[i].ownerless : 0);
		charge.recorded = larger(charge.recorded, sharing ? sharing[i].exported : 0);
		charge.moves += slots[i].moves + slots[i].owner;
		charge.under_way |= USAGE_MOVES_UNDER_WAY(slots[i].moves) != 0;
		charge.fresh |= slots[i].fresh;
		charge.fresh_bytes = larger(charge.fresh_bytes, slots[i].fresh_bytes);
		charge.loose |= (slots[i].moves & USAGE_MOVES_LOOSE) != 0;
	}
	charge.exported = smaller(charge.exported, charge.held);
	charge.surplus = smaller(charge.surplus, charge.held);
	return charge;
}

static bool is_same(const struct charge *a, const struct charge *b)
{
	return a->held == b->held && a->exported == b->exported && a->imported == b->imported &&
	       a->moves == b->moves;
}

/* ---- what the processes share, as sums ------------------------------------------------------------------
 */

struct exports {
	uint64_t bytes, recorded; /* by sums, and by records */
	bool moved;
};

static struct exports exports_of(const struct overhead_process *processes, size_t n,
	const struct usage_peek_slot *before, size_t n_before, const struct usage_peek_slot *after,
	size_t n_after)
{
	struct exports all = {0};

	for (size_t i = 0; i < n; i++) {
		struct charge was = charge_of(&processes[i].owner, before, n_before, NULL);
		struct charge now = charge_of(&processes[i].owner, after, n_after, NULL);

		all.bytes += now.exported;
		all.moved |= was.exported != now.exported;
	}
	return all;
}

/* ---- what the processes share, region by region ---------------------------------------------------------
 */

/* Hostile programs may write anything. A region that does not fit into this table counts for each process
 * that has it. */
#define REGIONS_MAX 4096
#define REGION_PROBES 32
#define NO_SLOT UINT32_MAX

struct regions {
	uint64_t region[REGIONS_MAX]; /* 0: free */
	uint64_t bytes[REGIONS_MAX];
	uint32_t slot[REGIONS_MAX]; /* for which slot it counts; NO_SLOT: its maker has freed it */
};

static size_t region_at(const struct regions *regions, uint64_t region)
{
	size_t first = (size_t)(region * UINT64_C(0x9e3779b97f4a7c15) >> 52);

	for (size_t i = 0; i < REGION_PROBES; i++) {
		size_t at = (first + i) % REGIONS_MAX;

		if (regions->region[at] == 0 || regions->region[at] == region)
			return at;
	}
	return REGIONS_MAX;
}

/* has: the slot's owner has memory of this GPU. Returns true if it is giving back memory that it has
 * freed. */
static bool add_exports(struct regions *regions, const struct usage_peek_slot *slot, uint32_t index, bool has,
	struct sharing *sharing)
{
	bool freed = false;

	for (size_t i = 0; i < slot->n_shares; i++) {
		uint64_t word = slot->shares[i];
		size_t at = region_at(regions, share_region(word));

		if (share_kind(word) == SHARE_IMPORT || at == REGIONS_MAX)
			continue;
		if (regions->region[at] == 0)
			regions->slot[at] = NO_SLOT;
		regions->region[at] = share_region(word);
		regions->bytes[at] = share_bytes(word);
		if (has && share_kind(word) == SHARE_EXPORT && regions->slot[at] != index) {
			regions->slot[at] = index;
			sharing->exported += regions->bytes[at];
		}
		freed |= has && share_kind(word) == SHARE_FREED;
	}
	return freed;
}

/* If several processes opened a region whose maker no longer has it, it counts for the first of them. */
static void add_import(struct regions *regions, uint64_t word, uint32_t index, struct sharing *sharing)
{
	size_t at = region_at(regions, share_region(word));
	uint64_t bytes = share_bytes(word);

	if (at == REGIONS_MAX) {
		sharing->ownerless += bytes;
		return;
	}
	if (regions->region[at] == 0) {
		regions->region[at] = share_region(word);
		regions->bytes[at] = bytes;
		regions->slot[at] = NO_SLOT;
	}
	if (regions->slot[at] == NO_SLOT) {
		regions->slot[at] = index;
		/* A region of unknown size is being opened and may be complete a little later. */
		sharing->ownerless += bytes ? bytes : regions->bytes[at];
	} else if (regions->slot[at] != index) {
		sharing->duplicate += smaller(bytes, regions->bytes[at]);
	}
}

static bool is_listed(const struct usage_peek_slot *slot, const struct overhead_process *processes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (usage_slot_is_of(slot, &processes[i].owner))
			return true;
	return false;
}

/* Returns true if memory that its maker has freed is still charged. */
static bool sharing_of(const struct overhead_process *processes, size_t n,
	const struct usage_peek_slot *slots, size_t n_slots, struct sharing *ret_sharing)
{
	struct regions regions;
	bool any = false, freed = false;

	memset(ret_sharing, 0, n_slots * sizeof(*ret_sharing));
	for (size_t s = 0; s < n_slots; s++)
		any |= slots[s].n_shares > 0;
	if (!any)
		return false;
	memset(regions.region, 0, sizeof(regions.region));
	for (size_t s = 0; s < n_slots; s++)
		if (slots[s].n_shares)
			freed |= add_exports(&regions, &slots[s], (uint32_t)s,
				is_listed(&slots[s], processes, n), &ret_sharing[s]);
	for (size_t s = 0; s < n_slots; s++)
		if (slots[s].n_shares && is_listed(&slots[s], processes, n)) {
			uint32_t index = (uint32_t)s;
			for (size_t i = 0; i < slots[s].n_shares; i++)
				if (share_kind(slots[s].shares[i]) == SHARE_IMPORT)
					add_import(&regions, slots[s].shares[i], index, &ret_sharing[s]);
		}
	return freed;
}

/* ---- one process ----------------------------------------------------------------------------------------
 */

/* Pools may return memory that is still charged at any moment. So a lower value is believed only the second
 * time. */
static void learn_exactly(struct overhead_known *known, uint64_t seen, uint64_t ownerless, bool loose)
{
	uint64_t bytes = loose && known->certain ? larger(seen, known->latest) : seen;

	*known = (struct overhead_known){
		.bytes = bytes, .latest = seen, .ownerless = ownerless, .certain = true};
}

/* This holds even if calls moved: a region that has lost its maker counts for the process that has it from
 * this sample on, and the maker's charge is dropped after the sample. */
static void learn_ownerless(struct overhead_known *known, uint64_t ownerless)
{
	known->bytes += ownerless - smaller(ownerless, known->ownerless);
	known->ownerless = larger(known->ownerless, ownerless);
}

/* Calls are under way, but none has begun or ended. The charges are at least as large as the memory behind
 * them, so the overhead is at least the difference. */
static void learn_least(struct overhead_known *known, uint64_t seen)
{
	known->bytes = larger(known->bytes, seen);
}

/* The charges at the moment of the driver's answer are unknown. Whatever the numbers before and after are,
 * nothing follows from them. */
static void learn_nothing(struct overhead_known *known, uint64_t guess)
{
	if (!known->certain)
		known->bytes = guess;
}

/* The least of several processes counts, because each may have more than its context. */
static void learn_context(const struct charge *now, uint64_t bytes, uint64_t *context_bytes)
{
	uint64_t others = now->held - smaller(now->held, now->fresh_bytes);
	uint64_t found = bytes - smaller(bytes, others);

	if (now->fresh && found && (*context_bytes == 0 || found < *context_bytes))
		*context_bytes = found;
}

static void sample_process(struct overhead_process *process, const struct charge *was,
	const struct charge *now, const struct exports *exports, struct overhead *sum)
{
	/* What the process imported from others of the container is counted there. */
	uint64_t unmatched = now->imported + now->ownerless, of_records = now->recorded + now->duplicate;
	uint64_t by_sum = smaller(unmatched, exports->bytes - smaller(exports->bytes, now->exported));
	uint64_t bytes, seen;
	bool still;

	/* Imported bytes that no record of this process explains may be explained by records of their
	 * makers. */
	by_sum += smaller(now->imported - smaller(now->imported, by_sum),
		exports->recorded - smaller(exports->recorded, of_records));
	bytes = process->bytes - smaller(process->bytes, now->duplicate + by_sum);
	seen = bytes - smaller(bytes, now->held);
	still = is_same(was, now) && !(now->imported && exports->moved);
	learn_ownerless(&process->known, unmatched - by_sum);
	if (still && !now->under_way) {
		seen = bytes - smaller(bytes, now->held - now->surplus);
		learn_exactly(&process->known, seen, unmatched - by_sum, now->loose);
		sum->doubtful |= process->known.bytes > seen;
		learn_context(now, bytes, &sum->context_bytes);
	} else if (still) {
		sum->doubtful = true;
		sum->moved |= !process->known.certain;
		sum->guessed |= !process->known.certain;
		learn_least(&process->known, seen);
	} else {
		sum->moved = true;
		sum->guessed |= !process->known.certain;
		learn_nothing(&process->known, bytes - smaller(bytes, larger(was->held, now->held)));
	}
	sum->used_bytes += bytes;
	sum->overhead_bytes += process->known.bytes;
}

/* ---- public ---------------------------------------------------------------------------------------------
 */

void overhead_recall(
	struct overhead_process *processes, size_t n, const struct overhead_process *last, size_t n_last)
{
	for (size_t i = 0; i < n; i++) {
		processes[i].known = (struct overhead_known){0};
		for (size_t k = 0; k < n_last; k++)
			/* The order of the processes rarely changes between two samples. */
			if (last[(i + k) % n_last].pid == processes[i].pid &&
				last[(i + k) % n_last].owner.start_ticks == processes[i].owner.start_ticks) {
				processes[i].known = last[(i + k) % n_last].known;
				break;
			}
	}
}

void overhead_compute(struct overhead_process *processes, size_t n, const struct usage_peek_slot *before,
	size_t n_before, const struct usage_peek_slot *after, size_t n_after, struct overhead *ret_overhead)
{
	struct exports exports = exports_of(processes, n, before, n_before, after, n_after);
	struct sharing sharing[USAGE_FILE_SLOTS];
	struct overhead sum = {0};

	n_after = n_after < USAGE_FILE_SLOTS ? n_after : USAGE_FILE_SLOTS;
	sum.doubtful = sharing_of(processes, n, after, n_after, sharing);
	for (size_t i = 0; i < n_after; i++)
		exports.recorded += sharing[i].exported;

	for (size_t i = 0; i < n; i++) {
		struct charge was = charge_of(&processes[i].owner, before, n_before, NULL);
		struct charge now = charge_of(&processes[i].owner, after, n_after, sharing);

		sample_process(&processes[i], &was, &now, &exports, &sum);
	}
	*ret_overhead = sum;
}

bool overhead_wants_pause(const struct overhead *found, bool asked, int64_t since_ns)
{
	int64_t again = found->guessed || asked ? PAUSE_AGAIN_WAITED_FOR_NS : PAUSE_AGAIN_NS;

	return found->moved && since_ns >= again;
}

bool overhead_is_ambiguous(const struct owner *process, const struct usage_peek_slot *slots, size_t n_slots)
{
	size_t count = 0;

	for (size_t i = 0; i < n_slots; i++)
		count += usage_slot_is_of(&slots[i], process);
	return count > 1;
}
