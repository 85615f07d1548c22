#include "grant/share.h"

static uint32_t slots_of(const struct usage_file *usage)
{
	uint32_t slots = atomic_load(&usage->slots_used);

	return slots < USAGE_FILE_SLOTS ? slots : USAGE_FILE_SLOTS;
}

bool share_is_imported(const struct usage_file *usage, uint32_t slot, uint64_t export)
{
	uint32_t slots = slots_of(usage);

	for (uint32_t i = 0; i < slots; i++)
		for (uint32_t k = usage->gpu_count; i != slot && k < GRANT_FILE_GPUS_MAX; k++) {
			uint64_t word = atomic_load(&usage->slots[i].shared[k]);

			if (share_kind(word) == SHARE_IMPORT && share_region(word) == share_region(export))
				return true;
		}
	return false;
}

static bool imports(const struct usage_file *usage, uint32_t slot, unsigned gpu)
{
	const struct usage_slot *of = &usage->slots[slot];

	if (atomic_load(&of->shared[gpu]) & UINT32_MAX)
		return true;
	for (uint32_t k = usage->gpu_count; k < GRANT_FILE_GPUS_MAX; k++) {
		uint64_t word = atomic_load(&of->shared[k]);

		if (share_kind(word) == SHARE_IMPORT && share_gpu(word) == gpu)
			return true;
	}
	return false;
}

bool share_has_importers(const struct usage_file *usage, uint32_t slot, unsigned gpu)
{
	uint32_t slots = slots_of(usage);

	for (uint32_t i = 0; i < slots; i++)
		if (i != slot && imports(usage, i, gpu))
			return true;
	return false;
}

bool share_is_used(const struct usage_file *usage, uint32_t slot)
{
	for (uint32_t k = 0; k < GRANT_FILE_GPUS_MAX; k++) {
		uint64_t word = atomic_load(&usage->slots[slot].shared[k]);

		if (k < usage->gpu_count) {
			if (word >> 32 && share_has_importers(usage, slot, k))
				return true;
		} else if ((share_kind(word) == SHARE_EXPORT || share_kind(word) == SHARE_FREED) &&
			   share_is_imported(usage, slot, word)) {
			return true;
		}
	}
	return false;
}
