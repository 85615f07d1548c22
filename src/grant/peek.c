#include "grant/peek.h"

#include <errno.h>
#include <unistd.h>

#include "grant/reserve.h"

#define CHUNK 8 /* slots per read */

_Static_assert(offsetof(struct usage_file, gpus) == USAGE_HEAD_BYTES, "one read has both");

int usage_peek(int fd, unsigned n, struct usage_peek *ret_peek)
{
	struct {
		uint32_t words[USAGE_HEAD_BYTES / sizeof(uint32_t)];
		struct usage_gpu gpus[GRANT_FILE_GPUS_MAX];
	} found;
	size_t size = USAGE_HEAD_BYTES + n * sizeof(found.gpus[0]);
	/* slot_count, gpu_count, slots_used, look_wanted */
	const uint32_t *words = found.words + offsetof(struct usage_file, slot_count) / sizeof(uint32_t);

	if (pread(fd, &found, size, 0) != (ssize_t)size || usage_file_verify(&found) || n > words[1])
		return -EBADMSG;
	ret_peek->gpu_count = words[1];
	ret_peek->slots_used = words[2] < USAGE_FILE_SLOTS ? words[2] : USAGE_FILE_SLOTS;
	ret_peek->look_wanted = words[3];
	for (unsigned i = 0; i < n; i++)
		ret_peek->gpus[i] = (struct usage_peek_gpu){.refused = atomic_load(&found.gpus[i].refused),
			.refused_bytes = atomic_load(&found.gpus[i].refused_bytes),
			.turns = {
				atomic_load(&found.gpus[i].turns[0]), atomic_load(&found.gpus[i].turns[1])}};
	return 0;
}

int usage_peek_power(int fd, unsigned gpu, struct usage_peek_power *ret_power)
{
	off_t at = (off_t)(offsetof(struct usage_file, gpus) + gpu * sizeof(struct usage_gpu));
	struct usage_gpu found;

	if (pread(fd, &found, sizeof(found), at) != (ssize_t)sizeof(found))
		return -EBADMSG;
	*ret_power = (struct usage_peek_power){
		.started_ns = atomic_load(&found.core_started_ns),
		.copied_ns = atomic_load(&found.copy_started_ns[0]) + atomic_load(&found.copy_started_ns[1]),
		.waited_ns = atomic_load(&found.core_waited_ns),
		.asked = atomic_load(&found.core_asked),
	};
	return 0;
}

static void read_shares(
	const struct usage_slot *slot, unsigned gpu_count, unsigned gpu, struct usage_peek_slot *ret_slot)
{
	for (unsigned i = gpu_count; i < GRANT_FILE_GPUS_MAX; i++) {
		uint64_t word = atomic_load(&slot->shared[i]);

		if (share_kind(word) && share_gpu(word) == gpu)
			ret_slot->shares[ret_slot->n_shares++] = word;
	}
}

static uint64_t surplus_pages(const struct usage_slot *slot, unsigned gpu)
{
	uint32_t first = atomic_load(&slot->surplus_gpu);

	return first == gpu + 1 ? atomic_load(&slot->surplus) : atomic_load(&slot->surplus_elsewhere);
}

static struct usage_peek_slot slot_of(const struct usage_slot *slot, uint32_t index, unsigned gpu)
{
	uint64_t shared = atomic_load(&slot->shared[gpu]), fresh = atomic_load(&slot->fresh);

	return (struct usage_peek_slot){
		.slot = index,
		.owner = atomic_load(&slot->owner),
		.start_ticks = atomic_load(&slot->start_ticks),
		.time_namespace = atomic_load(&slot->time_namespace),
		.image = atomic_load(&slot->image),
		.moves = atomic_load(&slot->moves),
		.fresh = fresh & USAGE_FRESH && USAGE_FRESH_GPU(fresh) == gpu,
		.fresh_bytes = (fresh & UINT32_MAX) << USAGE_PAGE_SHIFT,
		.surplus_bytes = surplus_pages(slot, gpu) << USAGE_PAGE_SHIFT,
		.held_bytes = USAGE_HELD_PAGES(atomic_load(&slot->gpus[gpu])) << USAGE_PAGE_SHIFT,
		.exported_bytes = shared >> 32 << USAGE_PAGE_SHIFT,
		.imported_bytes = (shared & UINT32_MAX) << USAGE_PAGE_SHIFT,
	};
}

int usage_peek_slots(int fd, const struct usage_peek *peek, unsigned gpu, struct usage_peek_slot *ret_slots)
{
	const uint64_t *turns = peek->gpus[gpu].turns;
	struct usage_slot slots[CHUNK];
	int count = 0;

	for (uint32_t first = 0; first < peek->slots_used; first += CHUNK) {
		uint32_t n = peek->slots_used - first < CHUNK ? peek->slots_used - first : CHUNK;
		off_t at = (off_t)(offsetof(struct usage_file, slots) + first * sizeof(slots[0]));

		if (pread(fd, slots, n * sizeof(slots[0]), at) != (ssize_t)(n * sizeof(slots[0])))
			return -EBADMSG;
		for (uint32_t i = 0; i < n; i++) {
			uint64_t owner = atomic_load(&slots[i].owner);

			if (OWNER_PID(owner) == 0 || owner & OWNER_IS_HEIR)
				continue;
			ret_slots[count] = slot_of(&slots[i], first + i, gpu);
			read_shares(&slots[i], peek->gpu_count, gpu, &ret_slots[count]);
			ret_slots[count++].has_turn = turns[0] == USAGE_TURN(first + i, owner) ||
						      turns[1] == USAGE_TURN(first + i, owner);
		}
	}
	return count;
}

/* A signature that a former owner of the slot left has another generation and is ignored. */
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
