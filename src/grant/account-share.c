/* account-share.c - counts the memory that this process exports and imports, and records its shared regions.
 */
#include <errno.h>

#include "grant/account-internal.h"
#include "grant/share.h"

static uint64_t moved(uint64_t pages, int64_t bytes)
{
	uint64_t change = pages_of((uint64_t)(bytes < 0 ? -bytes : bytes));

	if (bytes < 0)
		return pages > change ? pages - change : 0;
	return pages + change > UINT32_MAX ? UINT32_MAX : pages + change;
}

void account_share(struct account *account, unsigned gpu, int64_t exported, int64_t imported)
{
	struct process *process = process_of(account);
	_Atomic uint64_t *word;
	uint64_t old, new;

	if (account_join(account) < 0)
		return;
	word = &account->usage->slots[process->slot].shared[gpu];
	old = atomic_load(word);
	do
		new = moved(old >> 32, exported) << 32 | moved(old & UINT32_MAX, imported);
	while (!atomic_compare_exchange_weak(word, &old, new));
}

bool account_has_importers(struct account *account, unsigned gpu)
{
	struct process *process = process_of(account);

	return atomic_load(&process->has_slot) && share_has_importers(account->usage, process->slot, gpu);
}

int account_note_shared(struct account *account, uint64_t word)
{
	if (account_join(account) < 0)
		return -ENOSPC;
	for (unsigned k = account->usage->gpu_count; k < GRANT_FILE_GPUS_MAX; k++)
		if (account_change_shared(account, k, 0, word))
			return (int)k;
	return -ENOSPC;
}

bool account_change_shared(struct account *account, unsigned place, uint64_t from, uint64_t to)
{
	struct process *process = process_of(account);

	return atomic_load(&process->has_slot) &&
	       atomic_compare_exchange_strong(&account->usage->slots[process->slot].shared[place], &from, to);
}

bool account_is_imported(struct account *account, uint64_t export)
{
	struct process *process = process_of(account);

	return atomic_load(&process->has_slot) && share_is_imported(account->usage, process->slot, export);
}
