#include "sim/state/claim.h"

#define OWNER ((UINT64_C(1) << 11) - 1)

_Static_assert(SIM_MAX_PROCESSES < OWNER, "a slot's number plus one fits");

static uint64_t next_version(uint64_t claim)
{
	return (claim | OWNER) + 1;
}

/* If the claim still stands after `before` and `after` were read, they belong to this claim: the owner
 * changes them only while it has no claim. */
static void finish(struct sim_process_table *table, unsigned gpu, uint64_t claim)
{
	struct sim_process *slot = &table->slots[((claim & OWNER) - 1) % SIM_MAX_PROCESSES];
	uint64_t before = atomic_load(&slot->before), after = atomic_load(&slot->after);

	if (atomic_load(&table->claims[gpu]) != claim)
		return;
	atomic_compare_exchange_strong(&slot->bytes[gpu], &before, after);
	atomic_compare_exchange_strong(&table->claims[gpu], &claim, next_version(claim));
}

uint64_t sim_claim_read(struct sim_process_table *table, unsigned gpu)
{
	uint64_t claim;

	while ((claim = atomic_load(&table->claims[gpu])) & OWNER)
		finish(table, gpu, claim);
	return claim;
}

bool sim_claim_add(struct sim_process_table *table, unsigned gpu, uint64_t version, struct sim_process *slot,
	uint64_t bytes)
{
	uint64_t before = atomic_load(&slot->bytes[gpu]);
	uint64_t claim = version | ((uint64_t)(slot - table->slots) + 1);

	atomic_store(&slot->before, before);
	atomic_store(&slot->after, sim_bytes_word(before, sim_process_bytes(slot, gpu) + bytes));
	if (!atomic_compare_exchange_strong(&table->claims[gpu], &version, claim))
		return false;
	finish(table, gpu, claim);
	return true;
}

void sim_claim_drop(struct sim_process_table *table, unsigned gpu, const struct sim_process *slot)
{
	uint64_t claim = atomic_load(&table->claims[gpu]);

	if ((claim & OWNER) == (uint64_t)(slot - table->slots) + 1)
		atomic_compare_exchange_strong(&table->claims[gpu], &claim, next_version(claim));
}
