#include "grant/peek.h"

#include <errno.h>
#include <unistd.h>

#include "grant/reserve.h"

#define CHUNK 8 /* slots that are read at once */

int usage_peek(int fd, struct usage_peek *ret_peek)
{
	uint64_t ignored[GRANT_FILE_CARDS_MAX];
	uint32_t words[4]; /* slot_count, card_count, slots_used, look_wanted */
	int r;

	if (pread(fd, words, sizeof(words), offsetof(struct usage_file, slot_count)) != sizeof(words))
		return -EBADMSG;
	r = usage_file_read(fd, 0, ignored);
	if (r < 0)
		return r;
	*ret_peek = (struct usage_peek){
		.card_count = words[1] < GRANT_FILE_CARDS_MAX ? words[1] : GRANT_FILE_CARDS_MAX,
		.slots_used = words[2] < USAGE_FILE_SLOTS ? words[2] : USAGE_FILE_SLOTS,
		.look_wanted = words[3],
	};
	return 0;
}

int usage_peek_card(int fd, unsigned card, struct usage_peek_card *ret_card)
{
	off_t at = (off_t)(offsetof(struct usage_file, cards) + card * sizeof(struct usage_card));
	struct usage_card found;

	if (pread(fd, &found, sizeof(found), at) != sizeof(found))
		return -EBADMSG;
	*ret_card = (struct usage_peek_card){
		.refused = atomic_load(&found.refused), .refused_bytes = atomic_load(&found.refused_bytes)};
	return 0;
}

static struct usage_peek_slot slot_of(const struct usage_slot *slot, uint32_t index, unsigned card)
{
	uint64_t shared = atomic_load(&slot->shared[card]);

	return (struct usage_peek_slot){
		.slot = index,
		.owner = atomic_load(&slot->owner),
		.start_ticks = atomic_load(&slot->start_ticks),
		.time_namespace = atomic_load(&slot->time_namespace),
		.image = atomic_load(&slot->image),
		.held_bytes = USAGE_HELD_PAGES(atomic_load(&slot->cards[card])) << USAGE_PAGE_SHIFT,
		.exported_bytes = shared >> 32 << USAGE_PAGE_SHIFT,
		.imported_bytes = (shared & UINT32_MAX) << USAGE_PAGE_SHIFT,
	};
}

int usage_peek_slots(int fd, const struct usage_peek *peek, unsigned card, struct usage_peek_slot *ret_slots)
{
	struct usage_slot slots[CHUNK];
	int count = 0;

	for (uint32_t first = 0; first < peek->slots_used; first += CHUNK) {
		uint32_t n = peek->slots_used - first < CHUNK ? peek->slots_used - first : CHUNK;
		off_t at = (off_t)(offsetof(struct usage_file, slots) + first * sizeof(slots[0]));

		if (pread(fd, slots, n * sizeof(slots[0]), at) != (ssize_t)(n * sizeof(slots[0])))
			return -EBADMSG;
		for (uint32_t i = 0; i < n; i++) {
			uint64_t owner = atomic_load(&slots[i].owner);

			if (OWNER_PID(owner) != 0 && !(owner & OWNER_IS_HEIR))
				ret_slots[count++] = slot_of(&slots[i], first + i, card);
		}
	}
	return count;
}

/* A signature that a former owner of the slot left has another generation, and says nothing. */
static bool differs(uint64_t signature, uint64_t owner, uint64_t value)
{
	uint64_t mask = (1 << OWNER_GENERATION_BITS) - 1;

	if (signature == 0 || (signature & mask) != OWNER_GENERATION(owner))
		return false;
	return value != 0 && signature >> OWNER_GENERATION_BITS != 0 &&
	       signature >> OWNER_GENERATION_BITS != (value & (UINT64_MAX >> OWNER_GENERATION_BITS));
}

bool usage_slot_is_of(const struct usage_peek_slot *slot, const struct owner *process)
{
	uint32_t theirs = OWNER_NAMESPACE(process->word), its = OWNER_NAMESPACE(slot->owner);

	if (OWNER_PID(slot->owner) != OWNER_PID(process->word) || (its && theirs && its != theirs))
		return false;
	/* Start times of two time namespaces cannot be compared. */
	if (!differs(slot->time_namespace, slot->owner, process->time_namespace) &&
		differs(slot->start_ticks, slot->owner, process->start_ticks))
		return false;
	return !differs(slot->image, slot->owner, process->image);
}
