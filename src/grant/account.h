/* account.h - one process's account of its container's memory. The shim calls it around calls of the driver.
 *
 * Any thread may call. A child of fork() has its own account from its first call on. errno is preserved.
 */
#pragma once

#include "grant/usage.h"

struct account;

/* account_open() - opens an account for a grant and its usage file. Both must stay mapped while the account
 * lives. It takes no slot yet, so other processes do not see a process that never charges. Returns NULL if
 * out of memory. */
struct account *account_open(const struct grant_file *grant, struct usage_file *usage);

/* account_set_path() - sets the path of the usage file as this process sees it. The keeper of a container is
 * the agent. It maps no file that a container can truncate, so it cannot wait on a futex in it and watches
 * with inotify who opens the file. If out of memory the call is ignored, and the agent samples only once a
 * second. */
void account_set_path(struct account *account, const char *usage_path);

/* account_request_sample() - wakes the keeper: the driver now holds memory of this process, or has released
 * some, that no call shows. Returns the number to pass to grant_was_looked(). */
uint32_t account_request_sample(struct account *account);

/* account_is_kept() - whether a living keeper takes samples. False also if that cannot be determined: no path
 * was set, or the path leads nowhere for this process. */
bool account_is_kept(const struct account *account);

/* account_close() - closes an account that has charged nothing. */
void account_close(struct account *account);

/* account_join() - takes a slot before anything is charged. A process with a context holds GPU memory that
 * only the keeper can see, and the keeper must know the process for that. -EUSERS: more processes than
 * slots. */
int account_join(struct account *account);

/* account_enter() - begins a call that changes what the driver holds for this process or what the process has
 * charged. Until account_leave(), a sample of the driver proves little about this process. Takes a slot. If
 * the keeper wants a sample without calls under way, it waits at most 20 ms, or a second if the keeper lives.
 * -EUSERS: more processes than slots. */
int account_enter(struct account *account);
void account_leave(struct account *account);

/* account_enter_charged() - account_enter() and account_charge() in one. If the charge is refused the call
 * has not begun. account_enter_tried(): the same with account_try(). While these wait the caller has no call
 * under way, so the sample that they wait for can reach a conclusion. */
int account_enter_charged(struct account *account, unsigned gpu, uint64_t bytes);
int account_enter_tried(struct account *account, unsigned gpu, uint64_t bytes);

/* account_is_loose() - notes that this process has memory pools: from now on memory may return to the driver
 * at any moment. */
void account_is_loose(struct account *account);

/* account_change_surplus() - adds to (or subtracts from) usage_slot.surplus: bytes charged to this process on
 * the GPU that the driver may not have taken. Only between account_enter() and account_leave(). */
void account_change_surplus(struct account *account, unsigned gpu, int64_t bytes);

/* account_note_fresh() - fresh: this process has just created its first context on the GPU, charged with
 * `bytes`, and has nothing uncharged there. Not fresh: that is no longer so. */
void account_note_fresh(struct account *account, unsigned gpu, uint64_t bytes, bool fresh);

/* account_charge() - charges bytes of the GPU, rounded up to 4 KiB, against its limit less overhead,
 * atomically for all processes of the container.
 *
 * -ENOMEM: too little is left, even after a search for dead processes. If overhead is the reason, the call
 * has waited for a sample that knows the overhead of each process: at most a second while a keeper lives,
 * else 5 ms. Nothing is charged then. -EUSERS: more processes than slots. -EBUSY: a process that recounts has
 * been stopped for a second. */
int account_charge(struct account *account, unsigned gpu, uint64_t bytes);

/* account_charge_beyond() - charges bytes that the driver has already taken, even beyond the limit. While the
 * total is above the limit every other charge is refused. */
void account_charge_beyond(struct account *account, unsigned gpu, uint64_t bytes);

/* account_has_room() - whether these bytes could be charged right now. It neither waits nor searches for dead
 * processes. */
bool account_has_room(struct account *account, unsigned gpu, uint64_t bytes);

/* Kinds of calls for which the memory that the driver will take is not known beforehand. */
enum account_turn {
	ACCOUNT_TURN_POOL, /* a pool that may have to grow */
	ACCOUNT_TURN_CODE, /* modules, and limits of contexts */
};

/* account_begin_turn() - waits until no other thread of the container has this turn on this GPU. A process
 * that dies loses its turn. -EBUSY: another thread had the turn for half a minute. -EUSERS: more processes
 * than slots. */
int account_begin_turn(struct account *account, unsigned gpu, enum account_turn which);
void account_end_turn(struct account *account, unsigned gpu, enum account_turn which);

/* account_unsampled() - a lower bound of the calls that may have taken memory which no sample has seen yet:
 * calls under way, and calls after which the keeper was asked for a sample. */
uint32_t account_unsampled(const struct account *account, unsigned gpu);

/* account_try() - account_charge() for a caller that can make room and try again: a refusal is not
 * counted. */
int account_try(struct account *account, unsigned gpu, uint64_t bytes);

/* account_refund() - returns bytes that this process has charged, rounded up to 4 KiB like the charge. */
void account_refund(struct account *account, unsigned gpu, uint64_t bytes);

/* account_used_bytes() - the bytes of the GPU's limit that all living processes use, including overhead; at
 * most the limit. The bytes of dead processes are recovered first. */
uint64_t account_used_bytes(struct account *account, unsigned gpu);

/* account_held_bytes() - the bytes that this process has charged. */
uint64_t account_held_bytes(struct account *account, unsigned gpu);

/* account_share() - adds to the bytes that this process holds and has `exported` to others, and to the bytes
 * of others that it has `imported`. Negative numbers subtract. account_has_importers() - whether another
 * process has imported any bytes on this GPU. */
void account_share(struct account *account, unsigned gpu, int64_t exported, int64_t imported);
bool account_has_importers(struct account *account, unsigned gpu);

/* The same for single regions (share.h). account_note_shared() - adds a record of this process. Returns its
 * place, or -ENOSPC if all its places are taken. account_change_shared() - replaces the word at a place; 0
 * removes the record. False: the old word is not there. account_is_imported() - whether another process has
 * opened this export. */
int account_note_shared(struct account *account, uint64_t word);
bool account_change_shared(struct account *account, unsigned place, uint64_t from, uint64_t to);
bool account_is_imported(struct account *account, uint64_t export);
