#include "grant/account.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "grant/owner.h"
#include "grant/private.h"
#include "grant/reserve.h"

#define STOPPED_NS INT64_C(1000000000) /* a recount takes microseconds: its process does not run */
#define OVERHEAD_WAIT_NS INT64_C(5000000)
#define NAP_NS 50000
#define LOOK_NS                                                                                              \
	INT64_C(10000000) /* a look into /proc for each neighbour costs microseconds; programs ask often */

/* All of it is zero in a child of fork(), whatever threads of its parent were doing: no slot, no lock held.
 */
struct process {
	pid_t pid; /* kept only where the kernel cannot clear the page */
	_Atomic uint32_t has_slot;
	uint32_t slot;
	_Atomic int slot_lock;
	_Atomic int locks[GRANT_FILE_CARDS_MAX];
	struct owner self;
	_Atomic int64_t looked_ns; /* when somebody last looked thoroughly for the dead */
};

struct account {
	const struct grant_file *grant;
	struct usage_file *usage;
	struct process *process;
	bool kernel_clears;
	char *usage_path; /* NULL: not told */
};

/* ---- time -----------------------------------------------------------------------------------------------
 */

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void nap(void)
{
	struct timespec time = {.tv_nsec = NAP_NS};

	nanosleep(&time, NULL);
}

/* ---- steps to the end -----------------------------------------------------------------------------------
 */

static int run(struct reserve *reserve)
{
	int64_t stop_at = 0;

	reserve_begin(reserve);
	for (;;) {
		switch (reserve_step(reserve)) {
		case RESERVE_GOES_ON:
			break;
		case RESERVE_DONE:
			return 0;
		case RESERVE_REFUSED:
			return reserve->kind == RESERVE_CLAIM ? -EUSERS : -ENOMEM;
		case RESERVE_WAITS:
			if (stop_at == 0) {
				stop_at = now_ns() + STOPPED_NS;
				sched_yield();
			} else if (now_ns() < stop_at) {
				nap();
			} else {
				reserve_abandon(reserve);
				return -EBUSY;
			}
		}
	}
}

static struct process *process_of(struct account *account)
{
	struct process *process = account->process;

	if (!account->kernel_clears && process->pid != getpid()) {
		*process = (struct process){.pid = getpid()};
	}
	return process;
}

static int claim(struct account *account, struct process *process)
{
	struct reserve reserve = {.usage = account->usage, .kind = RESERVE_CLAIM};
	struct reserve_world world = {.is_dead = owner_is_dead, .context = &process->self};
	int r;

	owner_self(&process->self);
	reserve.world = &world;
	reserve.owner = process->self.word;
	r = run(&reserve);
	if (r < 0)
		return r;
	owner_sign(&account->usage->slots[reserve.slot], reserve.owner, &process->self);
	for (unsigned i = 0; i < GRANT_FILE_CARDS_MAX; i++)
		atomic_store(&account->usage->slots[reserve.slot].shared[i], 0);
	process->slot = reserve.slot;
	atomic_store(&process->has_slot, 1);
	return 0;
}

static int have_slot(struct account *account, struct process *process)
{
	int r = 0;

	if (atomic_load(&process->has_slot))
		return 0;
	private_lock(&process->slot_lock);
	if (!atomic_load(&process->has_slot))
		r = claim(account, process);
	private_unlock(&process->slot_lock);
	return r;
}

static int change(struct account *account, struct process *process, enum reserve_kind kind, unsigned card,
	uint32_t pages, uint32_t limit_pages)
{
	struct reserve_world world = {.is_dead = owner_is_dead, .context = &process->self};
	struct reserve reserve = {
		.usage = account->usage,
		.world = &world,
		.kind = kind,
		.card = card,
		.slot = process->slot,
		.pages = pages,
		.limit_pages = limit_pages,
	};
	int r;

	private_lock(&process->locks[card]);
	r = run(&reserve);
	private_unlock(&process->locks[card]);
	return r;
}

/* ---- the limit ------------------------------------------------------------------------------------------
 */

static uint64_t pages_of(uint64_t bytes)
{
	return (bytes >> USAGE_PAGE_SHIFT) + ((bytes & ((1 << USAGE_PAGE_SHIFT) - 1)) != 0);
}

static uint32_t limit_pages(const struct account *account, unsigned card, uint64_t overhead_bytes)
{
	uint64_t limit = grant_file_limit_bytes(account->grant, card) >> USAGE_PAGE_SHIFT;
	uint64_t overhead = pages_of(overhead_bytes);

	limit = limit > overhead ? limit - overhead : 0;
	return limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit;
}

static uint64_t charged_pages(struct account *account, unsigned card)
{
	struct usage_file *usage = account->usage;
	uint64_t total = atomic_load(&usage->cards[card].total), pages = 0;
	uint32_t slots = atomic_load(&usage->slots_used);

	if (!USAGE_IS_RECOUNTED(total))
		return USAGE_TOTAL_PAGES(total);
	for (uint32_t i = 0; i < slots && i < USAGE_FILE_SLOTS; i++)
		pages += USAGE_HELD_PAGES(atomic_load(&usage->slots[i].cards[card]));
	return pages;
}

static int open_usage(const struct account *account)
{
	if (!account->usage_path)
		return -1;
	return open(account->usage_path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

uint32_t account_want_look(struct account *account)
{
	uint32_t wanted = atomic_fetch_add(&account->usage->look_wanted, 1) + 1;
	int saved = errno, fd;

	syscall(SYS_futex, &account->usage->look_wanted, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	fd = open_usage(account);
	if (fd >= 0)
		close(fd);
	errno = saved;
	return wanted;
}

bool account_is_kept(const struct account *account)
{
	int saved = errno, fd = open_usage(account);
	bool kept = fd >= 0 && usage_file_is_kept(fd);

	if (fd >= 0)
		close(fd);
	errno = saved;
	return kept;
}

/* The keeper may not have seen yet that a context ended: let it look, once. True if there is newer overhead.
 */
static bool wait_for_overhead(struct account *account, unsigned card, uint64_t generation)
{
	int64_t stop_at = now_ns() + OVERHEAD_WAIT_NS;
	uint32_t wanted = account_want_look(account);

	do {
		nap();
		if (grant_was_looked(account->grant, card, wanted))
			return true;
	} while (now_ns() < stop_at);
	return atomic_load(&account->grant->live[card].overhead_generation) != generation;
}

static int charge(struct account *account, struct process *process, unsigned card, uint32_t pages)
{
	const struct grant_file_live *live = &account->grant->live[card];
	uint64_t generation = atomic_load(&live->overhead_generation),
		 overhead = atomic_load(&live->overhead_bytes);
	int r = change(account, process, RESERVE_TAKE, card, pages, limit_pages(account, card, overhead));

	if (r != -ENOMEM || overhead == 0 ||
		charged_pages(account, card) + pages > limit_pages(account, card, 0) ||
		!wait_for_overhead(account, card, generation))
		return r;
	overhead = atomic_load(&live->overhead_bytes);
	return change(account, process, RESERVE_TAKE, card, pages, limit_pages(account, card, overhead));
}

/* ---- public ---------------------------------------------------------------------------------------------
 */

struct account *account_open(const struct grant_file *grant, struct usage_file *usage)
{
	struct account *account = malloc(sizeof(*account));

	if (!account)
		return NULL;
	*account = (struct account){.grant = grant, .usage = usage};
	account->process = private_map(sizeof(*account->process), &account->kernel_clears);
	if (account->process)
		return account;
	free(account);
	return NULL;
}

void account_close(struct account *account)
{
	if (!account)
		return;
	private_unmap(account->process, sizeof(*account->process));
	free(account->usage_path);
	free(account);
}

void account_set_path(struct account *account, const char *usage_path)
{
	free(account->usage_path);
	account->usage_path = strdup(usage_path);
}

int account_join(struct account *account)
{
	int saved = errno, r = have_slot(account, process_of(account));

	errno = saved;
	return r;
}

int account_try(struct account *account, unsigned card, uint64_t bytes)
{
	struct process *process = process_of(account);
	uint64_t pages = pages_of(bytes);
	int saved = errno, r = have_slot(account, process);

	if (r == 0)
		r = pages > INT32_MAX ? -ENOMEM : charge(account, process, card, (uint32_t)pages);
	errno = saved;
	return r;
}

int account_charge(struct account *account, unsigned card, uint64_t bytes)
{
	int r = account_try(account, card, bytes);

	if (r < 0) {
		/* In this order: who sees the count sees what was asked. */
		atomic_store(&account->usage->cards[card].refused_bytes, bytes);
		atomic_fetch_add(&account->usage->cards[card].refused, 1);
	}
	return r;
}

void account_refund(struct account *account, unsigned card, uint64_t bytes)
{
	struct process *process = process_of(account);
	uint64_t pages = pages_of(bytes);
	int saved = errno;

	if (atomic_load(&process->has_slot) && pages <= INT32_MAX)
		change(account, process, RESERVE_GIVE, card, (uint32_t)pages, 0);
	errno = saved;
}

/* Does anybody hold memory of the card who is dead? Most times nobody does, and then no slot is needed. */
static bool has_dead(struct account *account, struct process *process, unsigned card)
{
	struct usage_file *usage = account->usage;
	uint32_t slots = atomic_load(&usage->slots_used);
	bool has_slot = atomic_load(&process->has_slot), thorough;
	struct owner self = {0};
	int64_t now = now_ns();

	thorough = now - atomic_load(&process->looked_ns) > LOOK_NS;
	if (thorough)
		atomic_store(&process->looked_ns, now);

	for (uint32_t i = 0; i < slots && i < USAGE_FILE_SLOTS; i++) {
		uint64_t owner;

		if ((has_slot && i == process->slot) || atomic_load(&usage->slots[i].cards[card]) == 0)
			continue;
		owner = atomic_load(&usage->slots[i].owner);
		if (self.word == 0 && has_slot)
			self = process->self;
		else if (self.word == 0)
			owner_self(&self);
		if (thorough ? owner_is_dead(&self, &usage->slots[i], owner) : owner_is_gone(&self, owner))
			return true;
	}
	return false;
}

uint64_t account_used_bytes(struct account *account, unsigned card)
{
	uint64_t limit = grant_file_limit_bytes(account->grant, card), used;
	struct process *process = process_of(account);
	int saved = errno;

	if (has_dead(account, process, card) && have_slot(account, process) == 0)
		change(account, process, RESERVE_RECOVER, card, 0, 0);
	used = (charged_pages(account, card) << USAGE_PAGE_SHIFT) +
	       atomic_load(&account->grant->live[card].overhead_bytes);
	errno = saved;
	return used < limit ? used : limit;
}

uint64_t account_held_bytes(struct account *account, unsigned card)
{
	struct process *process = process_of(account);

	if (!atomic_load(&process->has_slot))
		return 0;
	return USAGE_HELD_PAGES(atomic_load(&account->usage->slots[process->slot].cards[card]))
	       << USAGE_PAGE_SHIFT;
}

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

uint64_t account_duplicate_bytes(struct account *account, unsigned card)
{
	struct usage_file *usage = account->usage;
	uint32_t slots = atomic_load(&usage->slots_used);
	uint64_t exported[USAGE_FILE_SLOTS], all = 0, pages = 0;
	struct owner self;

	slots = slots < USAGE_FILE_SLOTS ? slots : USAGE_FILE_SLOTS;
	for (uint32_t i = 0; i < slots; i++) {
		/* Who has ended holds nothing, once that is recovered. */
		uint64_t held = USAGE_HELD_PAGES(atomic_load(&usage->slots[i].cards[card]));

		exported[i] = atomic_load(&usage->slots[i].shared[card]) >> 32;
		exported[i] = exported[i] < held ? exported[i] : held;
		all += exported[i];
	}
	if (all == 0)
		return 0;
	owner_self(&self);
	for (uint32_t i = 0; i < slots; i++) {
		uint64_t imported = atomic_load(&usage->slots[i].shared[card]) & UINT32_MAX;

		if (imported == 0 ||
			owner_is_dead(&self, &usage->slots[i], atomic_load(&usage->slots[i].owner)))
			continue;
		pages += imported < all - exported[i] ? imported : all - exported[i];
	}
	return pages << USAGE_PAGE_SHIFT;
}
