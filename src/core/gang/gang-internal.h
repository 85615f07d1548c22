/* gang-internal.h - steps that the files of gang.h share. */
#pragma once

#include "core/gang/gang.h"

#define member_of(in_list) list_entry(in_list, struct gang_member, item)

/* How many members are where. */
struct gang_count {
	size_t members, placed, waiting, planned, answered, at_bind, sent;
	size_t shown; /* of those placed, whom the watch has shown so */
};
struct gang_count gang_count(const struct gang *gang);

/* gang_is_short() - its controllers had the time to make all members, and there are too few.
 *
 * gang_asked_min() - how many have to be placed; 0: nobody says. Where members differ the largest counts.
 * gang_min() - less those that have succeeded already, where nobody is made in their place;
 * gang_forget_done() - these are none. */
bool gang_is_short(const struct gangs *gangs, const struct gang *gang);
uint32_t gang_asked_min(const struct gang *gang, bool *ret_differ);
uint32_t gang_min(const struct gangs *gangs, const struct gang *gang);
void gang_forget_done(struct gangs *gangs, struct gang *gang);

/* gang_has_plan() - its members hold places, or are at bind. */
bool gang_has_plan(const struct gang *gang);

/* gangs_order() - out of memory loses the order, and the time-outs do the rest. */
void gangs_order(struct gangs *gangs, enum gang_order_kind kind, const struct gang_member *member);

/* gang_changed() - there may be room now, or other members: look again. gang_found_no_room() - and nothing
 * has changed since. */
void gang_changed(struct gang *gang);
bool gang_found_no_room(const struct gang *gang, const struct ledger *ledger, int64_t now_ns);

/* gang_try() - plan the members that nothing is fixed for yet, and hold their places; false if there is no
 * room: then nothing is held for them. asked: kube-scheduler waits for the answer. gang_give_up() - everybody
 * waits again, for a while. */
bool gang_try(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns, bool asked);
void gang_give_up(
	struct gangs *gangs, struct gang *gang, struct ledger *ledger, const char *why, int64_t now_ns);

/* gang_tell() - to those who keep a record. */
void gang_tell(const struct gangs *gangs, const struct gang_event *event);

/* gangs_try_before() - gangs whose turn comes before this one's have the first choice of what was freed since
 * they looked. */
void gangs_try_before(struct gangs *gangs, const struct gang *gang, struct ledger *ledger, int64_t now_ns);

/* gangs_keep_out() - the gang is not to be tried now, for the sake of another one. */
bool gangs_keep_out(const struct gangs *gangs, const struct gang *gang);

/* gang_waits_for() - why its members get no node; GANG_NOTHING: they do, or only a plan can tell.
 * gang_reason_text() - as filter says it to people. */
enum gang_reason gang_waits_for(
	const struct gangs *gangs, const struct gang *gang, const struct ledger *ledger, int64_t now_ns);
const char *gang_reason_text(enum gang_reason reason);

/* gang_goes_singly() - it is whole, or as good as: its other pods go one by one. */
bool gang_goes_singly(const struct gangs *gangs, const struct gang *gang);

/* gang_refresh() - members whose holds have ended wait again. gang_member_wait() - nothing is planned for the
 * member any more. */
void gang_refresh(struct gangs *gangs, struct gang *gang, const struct ledger *ledger);
void gang_member_wait(struct gangs *gangs, struct gang_member *member);

/* gang_keep() - keep what is free, and what becomes free next, for its members; false: that would never do.
 * gang_let_go() - no more, if it was for this one. */
bool gang_keep(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns);
void gang_let_go(struct gangs *gangs, struct gang *gang, struct ledger *ledger);

/* gang_free_members() - those that a plan may move, at most GANG_SLOTS_MAX; *ret_fixed: the others that
 * count. */
size_t gang_free_members(const struct gang *gang, struct gang_member **members, size_t *ret_fixed);

/* What kube-scheduler let a pod go to says little later: other pods' CPU and memory are in it. */
#define GANG_NODES_VALID_NS (10 * INT64_C(1000000000))

/* gang_nodes_remember() - kube-scheduler asks for it, and would let it go there; without memory for the names
 * the member may go anywhere, and kube-scheduler says no.  gang_slots_new() - each with the names that one
 * like it was offered last; NULL when out of memory. */
void gang_nodes_remember(
	struct gangs *gangs, struct gang_member *asking, const char *const *names, size_t n, int64_t now_ns);
struct gang_slot *gang_slots_new(struct gang_member **members, size_t n, int64_t now_ns);

/* gang_is_successor() - made by a controller whose pods have been placed here together. */
bool gang_is_successor(const struct gang *gang, const struct pod_facts *facts);

/* gang_member_find() - NULL: it is none, or not any more. */
struct gang_member *gang_member_find(const struct gangs *gangs, const char *uid);

void gang_drop_if_unused(struct gangs *gangs, struct gang *gang);
void gang_nodes_drop(struct gangs *gangs, struct gang_member *member);

/* gang_member_is_shown() - the watch has shown it placed. gang_member_leave() - its end in any stage; its
 * call of bind is still open in one of them. */
bool gang_member_is_shown(const struct gang_member *member);

/* gang_member_needs_gpu() - it asks for a GPU, and can be bound: so it counts as one that waits for a place.
 */
bool gang_member_needs_gpu(const struct gang_member *member);
void gang_member_leave(struct gangs *gangs, struct gang_member *member);
