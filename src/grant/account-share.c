#include "grant/account-internal.h"

static uint64_t moved(uint64_t pages, int64_t bytes)
{
	uint64_t change = pages_of((uint64_t)(bytes < 0 ? -bytes : bytes));

	if (bytes < 0)
		return pages > change ? pages - change : 0;
	return pages + change > UINT32_MAX ? UINT32_MAX : pages + change;
}

void account_share(struct account *account, unsigned card, int64_t exported, int64_t imported)
{
	struct process *process = process_of(account);
	_Atomic uint64_t *word;
	uint64_t old, new;

	if (account_join(account) < 0)
		return;
	word = &account->usage->slots[process->slot].shared[card];
	old = atomic_load(word);
	do
		new = moved(old >> 32, exported) << 32 | moved(old & UINT32_MAX, imported);
	while (!atomic_compare_exchange_weak(word, &old, new));
}
