/* account.h - one process's account of its container's memory: what the shim calls around the driver.
 *
 * Any thread may call; a child of fork() has an account of its own from its first call on. errno is kept.
 */
#pragma once

#include "grant/usage.h"

struct account;

/* account_open() - for a grant and its usage file, both mapped as long as the account lives. Takes no slot
 * yet: a process that never charges is not seen by others. NULL if there is no memory. */
struct account *account_open(const struct grant_file *grant, struct usage_file *usage);

/* account_set_path() - where the usage file lies, as this process finds it. The keeper of a container is the
 * agent, which maps no file that a container can cut off, and so waits on no futex in it: it watches who
 * opens it (inotify). Ignored if there is no memory: then it looks each second only. */
void account_set_path(struct account *account, const char *usage_path);

/* account_want_look() - wakes the keeper: the driver has memory of this process, or none any more, that no
 * call shows. Returns what grant_was_looked() wants to know. */
uint32_t account_want_look(struct account *account);

/* account_is_kept() - whether a keeper lives that looks. False also where that cannot be known: no path was
 * set, or it leads nowhere for this process. */
bool account_is_kept(const struct account *account);

/* account_close() - for an account that has charged nothing. */
void account_close(struct account *account);

/* account_join() - take a slot before anything is charged: a process that has a context holds memory of the
 * GPU that only the keeper can see, if it knows the process. -EUSERS: more processes than slots. */
int account_join(struct account *account);

/* account_enter() - begins a call that changes what the driver has of this process, or what it has charged: a
 * sample of the driver concludes little from it until account_leave(). Takes a slot; waits while the keeper
 * wants a sample without such calls, 20 ms at most, or a second where it lives. -EUSERS: more processes than
 * slots. */
int account_enter(struct account *account);
void account_leave(struct account *account);

/* account_enter_charged() - the same, with bytes charged as by account_charge(), or refused: then the call
 * has not begun. account_enter_tried(): as account_try(). While these wait, nothing of the caller's is under
 * way, so that the sample which they wait for can conclude something. */
int account_enter_charged(struct account *account, unsigned gpu, uint64_t bytes);
int account_enter_tried(struct account *account, unsigned gpu, uint64_t bytes);

/* account_is_loose() - from now on this process has pools: memory may go back to the driver at any moment. */
void account_is_loose(struct account *account);

/* account_change_surplus() - so many bytes more (or fewer) of what this process is charged for on the GPU
 * the driver may not have taken: usage_slot.surplus. Within a call. */
void account_change_surplus(struct account *account, unsigned gpu, int64_t bytes);

/* account_note_fresh() - this process has just made its first context on the GPU, charged with so much, and
 * has nothing else there that is not charged; false: that is no longer so. */
void account_note_fresh(struct account *account, unsigned gpu, uint64_t bytes, bool fresh);

/* account_charge() - bytes of the GPU, rounded up to 4 KiB, within its limit less overhead, over all
 * processes of the container at once. -ENOMEM: that is more than is left, though the dead were looked for;
 * and if overhead is in the way, a sample that knows the overhead of each process was waited for (while a
 * keeper lives a second at most, else 5 ms). Nothing is charged then. -EUSERS: more processes than slots.
 * -EBUSY: a process that recounts has been stopped for a second. */
int account_charge(struct account *account, unsigned gpu, uint64_t bytes);

/* account_charge_beyond() - bytes that the driver has taken already, whether or not they are within the
 * limit. If not, everything else is refused until as much was given back. */
void account_charge_beyond(struct account *account, unsigned gpu, uint64_t bytes);

/* account_has_room() - whether so much could be charged at this moment, without a wait, and without a search
 * for the dead. */
bool account_has_room(struct account *account, unsigned gpu, uint64_t bytes);

/* Calls of which nobody knows before how much the driver will take for them. */
enum account_turn {
	ACCOUNT_TURN_POOL, /* a pool that may have to grow */
	ACCOUNT_TURN_CODE, /* modules, and limits of contexts */
};

/* account_begin_turn() - waits until no other thread of the container has this turn on this GPU. A process
 * that dies in its turn has it no more. -EBUSY: another had it for half a minute. -EUSERS. */
int account_begin_turn(struct account *account, unsigned gpu, enum account_turn which);
void account_end_turn(struct account *account, unsigned gpu, enum account_turn which);

/* account_unsampled() - at least so many calls may have taken memory that no sample has seen yet: those under
 * way, and those after which the keeper was asked for a sample. */
uint32_t account_unsampled(const struct account *account, unsigned gpu);

/* account_try() - the same for a caller that can make room and ask again: a refusal is not counted as one. */
int account_try(struct account *account, unsigned gpu, uint64_t bytes);

/* account_refund() - bytes that were charged by this process, rounded up in the same way. */
void account_refund(struct account *account, unsigned gpu, uint64_t bytes);

/* account_used_bytes() - what is taken of the GPU's limit by all living processes, with the overhead; at
 * most the limit. The bytes of the dead are recovered first. */
uint64_t account_used_bytes(struct account *account, unsigned gpu);

/* account_held_bytes() - what this process has charged. */
uint64_t account_held_bytes(struct account *account, unsigned gpu);

/* account_share() - this process has let others have `exported` bytes of what it holds, and has `imported`
 * bytes of others (negative: no longer). account_has_importers() - whether another process has any. */
void account_share(struct account *account, unsigned gpu, int64_t exported, int64_t imported);
bool account_has_importers(struct account *account, unsigned gpu);

/* The same region by region (share.h). account_note_shared() - a record of this process; its place, or
 * -ENOSPC: it has as many as there is room for. account_change_shared() - to another word, 0: none any more;
 * false: it is not there. account_is_imported() - whether another process has opened this export. */
int account_note_shared(struct account *account, uint64_t word);
bool account_change_shared(struct account *account, unsigned place, uint64_t from, uint64_t to);
bool account_is_imported(struct account *account, uint64_t export);
