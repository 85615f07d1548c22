/* gang-internal.h - steps that the files of gang.h share, by the file that takes them. */
#pragma once

#include "core/gang/gang.h"

#define member_of(in_list) list_entry(in_list, struct gang_member, item)

/* ---- gang.c: members ---- */

/* gang_member_find() - NULL if the pod is no member. gang_member_leave() - its end in any stage; a call
 * of bind that is still open is turned away. */
struct gang_member *gang_member_find(const struct gangs *gangs, const char *uid);
void gang_member_leave(struct gangs *gangs, struct gang_member *member);

/* gang_forget_done() - those that have succeeded do not count. gang_is_successor() - made by a controller
 * whose pods have been placed here together. gang_drop_if_unused() - nothing is left to remember of it. */
void gang_forget_done(struct gangs *gangs, struct gang *gang);
bool gang_is_successor(const struct gang *gang, const struct pod_facts *facts);
void gang_drop_if_unused(struct gangs *gangs, struct gang *gang);

/* gangs_order() - out of memory loses the order, and the time-outs do the rest. gang_tell() - to those who
 * keep a record. */
void gangs_order(struct gangs *gangs, enum gang_order_kind kind, const struct gang_member *member);
void gang_tell(const struct gangs *gangs, const struct gang_event *event);

/* What kube-scheduler let a pod go to says little later: other pods' CPU and memory are in it. */
#define GANG_NODES_VALID_NS (10 * INT64_C(1000000000))

/* gang_nodes_remember() - kube-scheduler asks for it, and would let it go there; without memory for the names
 * the member may go anywhere, and kube-scheduler says no. gang_slots_new() - each with the names that one
 * like it was offered last; NULL when out of memory. */
void gang_nodes_remember(
	struct gangs *gangs, struct gang_member *asking, const char *const *names, size_t n, int64_t now_ns);
struct gang_slot *gang_slots_new(struct gang_member **members, size_t n, int64_t now_ns);

/* ---- gang-look.c: how a gang stands, and whose turn it is ---- */

/* How many members are where. */
struct gang_count {
	size_t members, placed, waiting, planned, answered, at_bind, sent;
	size_t shown; /* of those placed, whom the watch has shown so */
};
struct gang_count gang_count(const struct gang *gang);

/* gang_asked_min() - how many have to be placed; 0: nobody says. Where members differ the largest counts.
 * gang_min() - less those that have succeeded already, where nobody is made in their place. */
uint32_t gang_asked_min(const struct gang *gang, bool *ret_differ);
uint32_t gang_min(const struct gangs *gangs, const struct gang *gang);

/* gang_has_plan() - its members hold places, or are at bind. gang_is_asked_for() - kube-scheduler asks us for
 * its pods. */
bool gang_has_plan(const struct gang *gang);
bool gang_is_asked_for(const struct gang *gang, int64_t now_ns);

/* gang_changed() - there may be room now: look again. gang_is_another() - other members or another number:
 * what never fitted may fit now. gang_found_no_room() - and nothing has changed since. */
void gang_changed(struct gang *gang);
void gang_is_another(struct gang *gang);
bool gang_found_no_room(const struct gang *gang, const struct ledger *ledger, int64_t now_ns);

/* gang_member_is_shown() - the watch has shown it placed. gang_member_needs_gpu() - it asks for a GPU, and
 * can be bound: so it counts as one that waits for a place. */
bool gang_member_is_shown(const struct gang_member *member);
bool gang_member_needs_gpu(const struct gang_member *member);

/* gangs_try_before() - gangs whose turn comes before this one's have the first choice of what was freed since
 * they looked. gangs_keep_out() - the gang is not to be tried now, for the sake of another one. */
void gangs_try_before(struct gangs *gangs, const struct gang *gang, struct ledger *ledger, int64_t now_ns);
bool gangs_keep_out(const struct gangs *gangs, const struct gang *gang);

/* ---- gang-attempt.c ---- */

/* gang_try() - plan the members that nothing is fixed for yet, and hold their places; false if there is no
 * room: then nothing is held for them. asked: kube-scheduler waits for the answer. gang_give_up() - everybody
 * waits again, for a while. */
bool gang_try(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns, bool asked);
void gang_give_up(
	struct gangs *gangs, struct gang *gang, struct ledger *ledger, const char *why, int64_t now_ns);

/* gang_refresh() - members whose holds have ended wait again. */
void gang_refresh(struct gangs *gangs, struct gang *gang, const struct ledger *ledger);

/* gang_waits_for() - why its members get no node; GANG_NOTHING: they do, or only a plan can tell. */
enum gang_reason gang_waits_for(
	const struct gangs *gangs, const struct gang *gang, const struct ledger *ledger, int64_t now_ns);

/* ---- gang-keep.c ---- */

/* gangs_keep_for_first() - keep what is free, and what becomes free next, for the members of the first of
 * `all` that has waited too long, and of no other: two that share what becomes free would both wait for ever.
 * Returns when to call again; INT64_MAX: never. gang_let_go() - no more, if it was for this one. */
int64_t gangs_keep_for_first(struct gangs *gangs, struct gang **all, struct ledger *ledger, int64_t now_ns);
void gang_let_go(struct gangs *gangs, struct gang *gang, struct ledger *ledger);
