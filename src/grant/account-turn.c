/* account-turn.c - turns: one process of a container at a time makes a call whose memory use is measured. */
#include <errno.h>

#include "grant/account-internal.h"
#include "grant/wait.h"

#define EARLY_NS INT64_C(1000000) /* most turns end within this time */
#define LATER_NAP_NS 1000000
#define ASK_NS INT64_C(10000000) /* a check whether a process lives costs microseconds */
#define PATIENCE_NS INT64_C(30000000000)

static uint64_t turn_of(const struct account *account, uint32_t slot)
{
	return USAGE_TURN(slot, atomic_load(&account->usage->slots[slot].owner));
}

/* True if the turn's process died, or if its slot has had another owner since. */
static bool is_left(struct account *account, struct process *process, uint64_t turn)
{
	uint32_t slot = (uint32_t)turn - 1;
	const struct usage_slot *of = &account->usage->slots[slot];
	uint64_t owner;

	if (slot >= USAGE_FILE_SLOTS || turn != turn_of(account, slot))
		return true;
	owner = atomic_load(&of->owner);
	return slot != process->slot &&
	       (owner_has_ended(&process->self, of, owner) || owner_is_dead(&process->self, of, owner));
}

static int wait_for_turn(struct account *account, struct process *process, _Atomic uint64_t *word)
{
	uint64_t ours = turn_of(account, process->slot), turn = 0;
	int64_t begin = wait_now_ns(), asked = begin, now = begin;

	while (!atomic_compare_exchange_strong(word, &turn, ours)) {
		int64_t waited_ns;

		if (now - asked >= ASK_NS) {
			asked = now;
			if (is_left(account, process, turn))
				continue; /* the loop then expects the dead owner's turn */
		}
		if (now - begin > PATIENCE_NS)
			return -EBUSY;
		waited_ns = now - begin;
		nanosleep(&(struct timespec){.tv_nsec = waited_ns < EARLY_NS ? WAIT_NAP_NS : LATER_NAP_NS},
			NULL);
		now = wait_now_ns();
		turn = 0;
	}
	return 0;
}

int account_begin_turn(struct account *account, unsigned gpu, enum account_turn which)
{
	int r = account_join(account), saved = errno;

	if (r == 0)
		r = wait_for_turn(account, process_of(account), &account->usage->gpus[gpu].turns[which]);
	errno = saved;
	return r;
}

void account_end_turn(struct account *account, unsigned gpu, enum account_turn which)
{
	struct process *process = process_of(account);
	uint64_t turn = atomic_load(&process->has_slot) ? turn_of(account, process->slot) : 0;

	/* A child of fork() in the middle of a call has no turn to end. */
	if (turn)
		atomic_compare_exchange_strong(&account->usage->gpus[gpu].turns[which], &turn, UINT64_C(0));
}

uint32_t account_unsampled(const struct account *account, unsigned gpu)
{
	const struct usage_file *usage = account->usage;
	uint32_t slots = atomic_load(&usage->slots_used);
	uint32_t calls = atomic_load(&usage->look_wanted) -
			 (uint32_t)atomic_load(&account->grant->live[gpu].looked_for);

	for (uint32_t i = 0; i < slots && i < USAGE_FILE_SLOTS; i++)
		calls += USAGE_MOVES_UNDER_WAY(atomic_load(&usage->slots[i].moves));
	return calls;
}
