/* links-memo.c - remembers the scores of sets of GPUs by their links, so that each is computed once. */
#include <stdlib.h>
#include <string.h>

#include "core/placement/links.h"

#define SLOTS 512 /* enough for all sets of eight GPUs, and some more */

struct slot {
	const struct links *links; /* NULL: empty */
	struct links_ask ask;
	struct links_score score;
};

struct links_memo {
	size_t computed;
	struct slot slots[SLOTS];
};

struct links_memo *links_memo_new(void)
{
	return calloc(1, sizeof(struct links_memo));
}

void links_memo_free(struct links_memo *memo)
{
	free(memo);
}

size_t links_memo_computed(const struct links_memo *memo)
{
	return memo->computed;
}

static bool same_links(const struct links *a, const struct links *b)
{
	return a == b || (a->n == b->n && a->nvlink_gbps == b->nvlink_gbps &&
				 memcmp(a->at, b->at, a->n * a->n * sizeof(a->at[0])) == 0);
}

static bool holds(const struct slot *slot, const struct links *links, const struct links_ask *ask)
{
	return slot->links && slot->ask.free == ask->free && slot->ask.near == ask->near &&
	       slot->ask.gpus == ask->gpus && slot->ask.pods == ask->pods && same_links(slot->links, links);
}

static struct links_score compute(const struct links *links, const struct links_ask *ask)
{
	struct links_ask clean = *ask;
	uint64_t part, all;

	clean.near &= ~ask->free;
	if (links_plan_job(links, &clean, &part, &all) < 0)
		part = 0;
	return links_score(links, ask->near | part);
}

static size_t slot_of(const struct links_ask *ask)
{
	uint64_t mixed = (ask->free ^ ask->near * UINT64_C(0x9e3779b97f4a7c15) ^ ask->pods << 20) *
			 UINT64_C(0xff51afd7ed558ccd);

	return (size_t)(mixed >> 40) % SLOTS;
}

struct links_score links_memo_plan_score(
	struct links_memo *memo, const struct links *links, const struct links_ask *ask)
{
	struct slot *slot = memo ? &memo->slots[slot_of(ask)] : NULL;
	struct links_score score;

	if (slot && holds(slot, links, ask))
		return slot->score;
	score = compute(links, ask);
	if (!slot)
		return score;
	memo->computed++;
	*slot = (struct slot){.links = links, .ask = *ask, .score = score};
	return score;
}
