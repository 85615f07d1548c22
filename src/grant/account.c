#include "grant/account-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "grant/private.h"
#include "grant/reserve.h"
#include "grant/wait.h"

/* How long a refused charge waits for a sample. While a keeper lives, it waits until a sample has the needed
 * knowledge. */
#define OVERHEAD_WAIT_NS INT64_C(5000000)
#define OTHERS_WAIT_NS INT64_C(50000000) /* the keeper samples all processes of the machine */
#define KEPT_WAIT_NS INT64_C(1000000000)
#define LOOK_NS INT64_C(10000000) /* between two searches; each slot costs microseconds */

/* ---- one process ----------------------------------------------------------------------------------------
 */

static void see(const struct account *account, struct owner *ret_self)
{
	owner_self(ret_self);
	ret_self->grant = account->grant;
	ret_self->usage = account->usage;
}

static int claim(struct account *account, struct process *process)
{
	struct reserve reserve = {.usage = account->usage, .kind = RESERVE_CLAIM};
	struct reserve_world world = {.is_dead = owner_is_dead, .context = &process->self};
	uint64_t moves;
	int r;

	see(account, &process->self);
	reserve.world = &world;
	reserve.owner = process->self.word;
	r = reserve_run(&reserve);
	if (r < 0)
		return r;
	owner_sign(&account->usage->slots[reserve.slot], reserve.owner, &process->self);
	for (unsigned i = 0; i < GRANT_FILE_GPUS_MAX; i++)
		atomic_store(&account->usage->slots[reserve.slot].shared[i], 0);
	atomic_store(&account->usage->slots[reserve.slot].fresh, 0);
	atomic_store(&account->usage->slots[reserve.slot].surplus, 0);
	atomic_store(&account->usage->slots[reserve.slot].surplus_elsewhere, 0);
	atomic_store(&account->usage->slots[reserve.slot].surplus_gpu, 0);
	/* No call of this process is under way. The count of the slot's previous owner stopped when that
	 * process died. */
	moves = atomic_load(&account->usage->slots[reserve.slot].moves);
	atomic_store(&account->usage->slots[reserve.slot].moves,
		((moves >> 32) + 1) << 32 | (atomic_load(&process->is_loose) ? USAGE_MOVES_LOOSE : 0));
	process->slot = reserve.slot;
	atomic_store(&process->has_slot, 1);
	return 0;
}

static int take_slot(struct account *account, struct process *process)
{
	int r = 0, saved = errno;

	private_lock(&process->slot_lock);
	if (!atomic_load(&process->has_slot))
		r = claim(account, process);
	private_unlock(&process->slot_lock);
	errno = saved;
	return r;
}

static inline int have_slot(struct account *account, struct process *process)
{
	return __builtin_expect(atomic_load(&process->has_slot), 1) ? 0 : take_slot(account, process);
}

static int change(struct account *account, struct process *process, enum reserve_kind kind, unsigned gpu,
	uint32_t pages, uint32_t limit_pages)
{
	struct reserve_world world = {.is_dead = owner_is_dead, .context = &process->self};
	struct reserve reserve = {
		.usage = account->usage,
		.world = &world,
		.kind = kind,
		.gpu = gpu,
		.slot = process->slot,
		.pages = pages,
		.limit_pages = limit_pages,
	};
	int r;

	private_lock(&process->locks[gpu]);
	r = reserve_run(&reserve);
	private_unlock(&process->locks[gpu]);
	return r;
}

/* ---- the limit ------------------------------------------------------------------------------------------
 */

static uint32_t limit_pages(const struct account *account, unsigned gpu, uint64_t overhead_bytes)
{
	uint64_t limit = grant_file_limit_bytes(account->grant, gpu) >> USAGE_PAGE_SHIFT;
	uint64_t overhead = pages_of(overhead_bytes);

	limit = limit > overhead ? limit - overhead : 0;
	return limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit;
}

static uint64_t charged_pages(struct account *account, unsigned gpu)
{
	struct usage_file *usage = account->usage;
	uint64_t total = atomic_load(&usage->gpus[gpu].total), pages = 0;
	uint32_t slots = atomic_load(&usage->slots_used);

	if (!USAGE_IS_RECOUNTED(total))
		return USAGE_TOTAL_PAGES(total);
	for (uint32_t i = 0; i < slots && i < USAGE_FILE_SLOTS; i++)
		pages += USAGE_HELD_PAGES(atomic_load(&usage->slots[i].gpus[gpu]));
	return pages;
}

static int open_usage(const struct account *account)
{
	if (!account->usage_path)
		return -1;
	return open(account->usage_path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

uint32_t account_request_sample(struct account *account)
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

bool account_has_room(struct account *account, unsigned gpu, uint64_t bytes)
{
	uint64_t overhead = atomic_load(&account->grant->live[gpu].overhead_bytes), pages = pages_of(bytes);

	return pages <= UINT32_MAX &&
	       charged_pages(account, gpu) + pages <= limit_pages(account, gpu, overhead);
}

/* ---- calls under way ------------------------------------------------------------------------------------
 */

static inline _Atomic uint64_t *moves_of(struct account *account, struct process *process)
{
	return &account->usage->slots[process->slot].moves;
}

/* The keeper wants a sample without calls under way. A dead keeper must not delay this process for long; a
 * living one may itself be waiting for a processor. */
static __attribute__((noinline)) void wait_for_sample(
	struct account *account, struct process *process, uint64_t pause)
{
	const _Atomic uint64_t *word = &account->grant->live[0].pause;
	int64_t begin = wait_now_ns(), for_ns = GRANT_PAUSE_NS;
	int saved = errno;

	while (atomic_load(word) == pause && for_ns > 0) {
		wait_nap();
		if (wait_now_ns() - begin >= for_ns)
			for_ns = for_ns < KEPT_WAIT_NS && account_is_kept(account) ? KEPT_WAIT_NS : 0;
	}
	atomic_store(&process->paused, pause);
	errno = saved;
}

static inline void begin_move(struct account *account, struct process *process)
{
	uint64_t pause = atomic_load_explicit(&account->grant->live[0].pause, memory_order_relaxed);

	if (__builtin_expect(pause != 0, 0) && pause != atomic_load(&process->paused))
		wait_for_sample(account, process, pause);
	atomic_fetch_add(moves_of(account, process), USAGE_MOVE_BEGINS);
}

static inline void end_move(struct account *account, struct process *process)
{
	atomic_fetch_sub(moves_of(account, process), 1);
}

/* Only the keeper knows whether processes of other pid namespaces live. The charge of a dead process may
 * remain until a sample (owner_is_dead()). */
static bool others_hold(struct account *account, struct process *process, unsigned gpu)
{
	struct usage_file *usage = account->usage;
	uint32_t slots = atomic_load(&usage->slots_used);

	for (uint32_t i = 0; i < slots && i < USAGE_FILE_SLOTS; i++) {
		const struct usage_slot *slot = &usage->slots[i];
		uint64_t owner = atomic_load(&slot->owner);

		if (USAGE_HELD_PAGES(atomic_load(&slot->gpus[gpu])) > 0 &&
			(!owner_is_of_our_namespace(&process->self, owner) ||
				owner_has_ended(&process->self, slot, owner)))
			return true;
	}
	return false;
}

static int take(struct account *account, struct process *process, unsigned gpu, uint32_t pages)
{
	const struct grant_file_live *live = &account->grant->live[gpu];
	uint64_t overhead = atomic_load(&live->overhead_bytes), after;
	int r = change(account, process, RESERVE_TAKE, gpu, pages, limit_pages(account, gpu, overhead));

	/* Meanwhile the charge of a process that made shared memory may have become overhead. Its charge is
	 * gone then, but the limit was computed with the old overhead. */
	after = atomic_load(&live->overhead_bytes);
	if (r < 0 || __builtin_expect(after <= overhead, 1) ||
		charged_pages(account, gpu) <= limit_pages(account, gpu, after))
		return r;
	change(account, process, RESERVE_GIVE, gpu, pages, 0);
	return -ENOMEM;
}

static bool await_sample(const struct account *account, unsigned gpu, uint32_t wanted, int64_t for_ns)
{
	int64_t stop_at = wait_now_ns() + for_ns;

	do {
		wait_nap();
		if (grant_was_looked(account->grant, gpu, wanted))
			return true;
	} while (wait_now_ns() < stop_at);
	return false;
}

/* Charges after a sample: the keeper may not have noticed yet that a context or a process ended.
 *
 * If calls began or ended during that sample, it may miss this as well; then another sample is requested. The
 * caller has no call under way while it waits, so the sample can reach a conclusion. Without `moves` a call
 * may be under way, and one sample has to suffice. */
static int take_after_sample(struct account *account, struct process *process, unsigned gpu, uint32_t pages,
	int64_t for_ns, bool moves)
{
	int64_t begin = wait_now_ns();
	uint32_t first, wanted;

	if (moves)
		end_move(account, process); /* before the keeper is woken, because it may run at once */
	first = wanted = account_request_sample(account);
	for (;;) {
		bool looked = await_sample(account, gpu, wanted, for_ns);
		bool known = grant_was_known(account->grant, gpu, first);
		int r;

		if (moves)
			begin_move(account, process);
		r = take(account, process, gpu, pages);
		if (r != -ENOMEM || known || !moves || wait_now_ns() - begin > KEPT_WAIT_NS ||
			!account_is_kept(account))
			return r;
		end_move(account, process);
		if (looked) {
			nanosleep(&(struct timespec){.tv_nsec = OVERHEAD_WAIT_NS}, NULL);
			wanted = account_request_sample(account);
		}
	}
}

/* moves: the caller has just begun its call and has charged nothing for it yet. */
static int charge(struct account *account, struct process *process, unsigned gpu, uint32_t pages, bool moves)
{
	int saved = errno, r = take(account, process, gpu, pages);
	bool others;

	if (r != -ENOMEM)
		return r;
	others = others_hold(account, process, gpu);
	if (others || (atomic_load(&account->grant->live[gpu].overhead_bytes) > 0 &&
			      charged_pages(account, gpu) + pages <= limit_pages(account, gpu, 0)))
		r = take_after_sample(
			account, process, gpu, pages, others ? OTHERS_WAIT_NS : OVERHEAD_WAIT_NS, moves);
	errno = saved;
	return r;
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
	return have_slot(account, process_of(account));
}

int account_enter(struct account *account)
{
	struct process *process = process_of(account);
	int r = have_slot(account, process);

	if (r == 0)
		begin_move(account, process);
	return r;
}

void account_leave(struct account *account)
{
	struct process *process = process_of(account);

	/* A child of fork() in the middle of a call has not begun one. */
	if (atomic_load(&process->has_slot))
		end_move(account, process);
}

void account_is_loose(struct account *account)
{
	struct process *process = process_of(account);

	if (atomic_exchange(&process->is_loose, 1) == 0 && atomic_load(&process->has_slot))
		atomic_fetch_or(moves_of(account, process), USAGE_MOVES_LOOSE);
}

void account_change_surplus(struct account *account, unsigned gpu, int64_t bytes)
{
	struct process *process = process_of(account);
	uint32_t pages = (uint32_t)(bytes / (INT64_C(1) << USAGE_PAGE_SHIFT)), first = 0;
	struct usage_slot *slot;

	if (pages == 0 || !atomic_load(&process->has_slot))
		return;
	slot = &account->usage->slots[process->slot];
	if (atomic_compare_exchange_strong(&slot->surplus_gpu, &first, gpu + 1) || first == gpu + 1)
		atomic_fetch_add(&slot->surplus, pages);
	else
		atomic_fetch_add(&slot->surplus_elsewhere, pages);
}

void account_note_fresh(struct account *account, unsigned gpu, uint64_t bytes, bool fresh)
{
	struct process *process = process_of(account);

	if (atomic_load(&process->has_slot))
		atomic_store(&account->usage->slots[process->slot].fresh,
			fresh ? USAGE_FRESH | (uint64_t)(gpu & 63) << 32 | (pages_of(bytes) & UINT32_MAX)
			      : 0);
}

static int charge_bytes(struct account *account, unsigned gpu, uint64_t bytes, bool moves)
{
	uint64_t pages = pages_of(bytes);

	if (pages == 0)
		return 0;
	if (pages > INT32_MAX)
		return -ENOMEM;
	return charge(account, process_of(account), gpu, (uint32_t)pages, moves);
}

int account_enter_tried(struct account *account, unsigned gpu, uint64_t bytes)
{
	int r = account_enter(account);

	if (r < 0)
		return r;
	r = charge_bytes(account, gpu, bytes, true);
	if (r < 0)
		account_leave(account);
	return r;
}

/* In this order, so that a reader who sees the new count also sees the matching size. */
static void note_refusal(struct account *account, unsigned gpu, uint64_t bytes)
{
	atomic_store(&account->usage->gpus[gpu].refused_bytes, bytes);
	atomic_fetch_add(&account->usage->gpus[gpu].refused, 1);
}

int account_enter_charged(struct account *account, unsigned gpu, uint64_t bytes)
{
	int r = account_enter_tried(account, gpu, bytes);

	if (r < 0)
		note_refusal(account, gpu, bytes);
	return r;
}

int account_try(struct account *account, unsigned gpu, uint64_t bytes)
{
	int r = account_join(account);

	return r == 0 ? charge_bytes(account, gpu, bytes, false) : r;
}

int account_charge(struct account *account, unsigned gpu, uint64_t bytes)
{
	int r = account_try(account, gpu, bytes);

	if (r < 0)
		note_refusal(account, gpu, bytes);
	return r;
}

void account_charge_beyond(struct account *account, unsigned gpu, uint64_t bytes)
{
	uint64_t pages = pages_of(bytes);

	if (pages <= INT32_MAX && account_join(account) == 0)
		change(account, process_of(account), RESERVE_TAKE, gpu, (uint32_t)pages, UINT32_MAX);
}

void account_refund(struct account *account, unsigned gpu, uint64_t bytes)
{
	struct process *process = process_of(account);
	uint64_t pages = pages_of(bytes);

	if (atomic_load(&process->has_slot) && pages <= INT32_MAX)
		change(account, process, RESERVE_GIVE, gpu, (uint32_t)pages, 0);
}

/* True if a dead process holds memory of the GPU. Usually none does, and the caller then needs no slot. */
static bool has_dead(struct account *account, struct process *process, unsigned gpu)
{
	struct usage_file *usage = account->usage;
	uint32_t slots = atomic_load(&usage->slots_used);
	bool has_slot = atomic_load(&process->has_slot), thorough;
	struct owner self = {0};
	int64_t now = wait_now_ns();

	thorough = now - atomic_load(&process->looked_ns) > LOOK_NS;
	if (thorough)
		atomic_store(&process->looked_ns, now);

	for (uint32_t i = 0; i < slots && i < USAGE_FILE_SLOTS; i++) {
		uint64_t owner;

		if ((has_slot && i == process->slot) || atomic_load(&usage->slots[i].gpus[gpu]) == 0)
			continue;
		owner = atomic_load(&usage->slots[i].owner);
		if (self.word == 0 && has_slot)
			self = process->self;
		else if (self.word == 0)
			see(account, &self);
		if (thorough ? owner_is_dead(&self, &usage->slots[i], owner) : owner_is_gone(&self, owner))
			return true;
	}
	return false;
}

uint64_t account_used_bytes(struct account *account, unsigned gpu)
{
	uint64_t limit = grant_file_limit_bytes(account->grant, gpu), used;
	struct process *process = process_of(account);
	int saved = errno;

	if (has_dead(account, process, gpu) && have_slot(account, process) == 0)
		change(account, process, RESERVE_RECOVER, gpu, 0, 0);
	used = (charged_pages(account, gpu) << USAGE_PAGE_SHIFT) +
	       atomic_load(&account->grant->live[gpu].overhead_bytes);
	errno = saved;
	return used < limit ? used : limit;
}

uint64_t account_held_bytes(struct account *account, unsigned gpu)
{
	struct process *process = process_of(account);

	if (!atomic_load(&process->has_slot))
		return 0;
	return USAGE_HELD_PAGES(atomic_load(&account->usage->slots[process->slot].gpus[gpu]))
	       << USAGE_PAGE_SHIFT;
}
