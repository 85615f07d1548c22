/* gang-internal.h - functions that the files of gang.h share, grouped by the file that defines them. */
#pragma once

#include "core/gang/gang.h"

#define member_of(in_list) list_entry(in_list, struct gang_member, item)

/* ---- gang.c: members ---- */

/* gang_member_find() - NULL if the pod is not a member. gang_member_leave() - removes the member in any
 * stage; an open call of bind for it is turned away. */
struct gang_member *gang_member_find(const struct gangs *gangs, const char *uid);
void gang_member_leave(struct gangs *gangs, struct gang_member *member);

/* gang_forget_done() - the members that have succeeded no longer count. gang_is_successor() - the pod's
 * controller had pods that were placed in this gang. gang_drop_if_unused() - frees the gang if there is
 * nothing left to remember of it. */
void gang_forget_done(struct gangs *gangs, struct gang *gang);
bool gang_is_successor(const struct gang *gang, const struct pod_facts *facts);
void gang_drop_if_unused(struct gangs *gangs, struct gang *gang);

/* gangs_order() - if memory runs out, the order is lost, and the time-outs have the same effect later.
 * gang_tell() - passes the event to the listener that keeps a record. */
void gangs_order(struct gangs *gangs, enum gang_order_kind kind, const struct gang_member *member);
void gang_tell(const struct gangs *gangs, const struct gang_event *event);

/* How long the nodes that kube-scheduler offered for a pod are believed. The time is short, because the offer
 * depends on the CPU and memory of other pods. */
#define GANG_NODES_VALID_NS (10 * INT64_C(1000000000))

/* gang_nodes_remember() - kube-scheduler asks for the member and offers these nodes for it. If there is no
 * memory for the names, the member may go anywhere, and kube-scheduler rejects a wrong node. gang_slots_new()
 * - slots for the members. Each has the nodes that were last offered for a member like it. NULL when out of
 * memory. */
void gang_nodes_remember(
	struct gangs *gangs, struct gang_member *asking, const char *const *names, size_t n, int64_t now_ns);
struct gang_slot *gang_slots_new(struct gang_member **members, size_t n, int64_t now_ns);

/* ---- gang-look.c: how a gang stands ---- */

/* How many members are in which stage. */
struct gang_count {
	size_t members, placed, waiting, planned, answered, at_bind, sent;
	size_t shown; /* placed members that the watch has shown as such */
};
struct gang_count gang_count(const struct gang *gang);

/* gang_asked_min() - how many members must be placed; 0: neither a pod nor a PodGroup says so. If members
 * differ, the largest number counts. gang_min() - the same number without the members that have succeeded, if
 * their controller creates no pods in their place. */
uint32_t gang_asked_min(const struct gang *gang, bool *ret_differ);
uint32_t gang_min(const struct gangs *gangs, const struct gang *gang);

/* gang_has_plan() - members of the gang hold places, or are at bind. */
bool gang_has_plan(const struct gang *gang);

/* gang_changed() - there may be room now: evaluate again. gang_is_another() - the gang has other members or
 * another min: what never fitted may fit now. gang_found_no_room() - the last plan found no room, and nothing
 * has changed since. */
void gang_changed(struct gang *gang);
void gang_is_another(struct gang *gang);
bool gang_found_no_room(const struct gang *gang, const struct ledger *ledger, int64_t now_ns);

/* gang_member_is_shown() - the watch has shown the member as placed. gang_member_needs_gpu() - the member
 * asks for a GPU and can be bound, so it counts as a member that waits for a place. */
bool gang_member_is_shown(const struct gang_member *member);
bool gang_member_needs_gpu(const struct gang_member *member);

/* ---- gang-turn.c: which gang is tried next ---- */

/* gang_is_asked_for() - kube-scheduler asks this process for the gang's pods. gang_is_before() - the gang is
 * tried before the other one: it is more important, or older. */
bool gang_is_asked_for(const struct gang *gang, int64_t now_ns);
bool gang_is_before(const struct gang *gang, const struct gang *other);

/* gangs_in_turn() - the gangs that have members, the first in turn first. NULL-terminated, to be freed; NULL
 * when out of memory. gangs_try_in_turn() - plans the waiting gangs of `all`, each once a round. Returns true
 * if some are left for the next evaluation. gangs_try_before() - plans the gangs whose turn comes before this
 * gang's. They have the first choice of what was freed since they were last planned. gangs_keep_out() - the
 * gang must not be tried now, because another gang is being tried. */
struct gang **gangs_in_turn(const struct gangs *gangs);
bool gangs_try_in_turn(struct gangs *gangs, struct gang **all, struct ledger *ledger, int64_t now_ns);
void gangs_try_before(struct gangs *gangs, const struct gang *gang, struct ledger *ledger, int64_t now_ns);
bool gangs_keep_out(const struct gangs *gangs, const struct gang *gang);

/* ---- gang-attempt.c ---- */

/* gang_try() - plans the members that have no fixed place yet, and holds their places. False: there is no
 * room, and nothing is held for them. asked: kube-scheduler waits for the answer. gang_give_up() - all
 * members wait again, for a while. */
bool gang_try(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns, bool asked);
void gang_give_up(
	struct gangs *gangs, struct gang *gang, struct ledger *ledger, const char *why, int64_t now_ns);

/* gang_refresh() - members whose holds have ended wait again. */
void gang_refresh(struct gangs *gangs, struct gang *gang, const struct ledger *ledger);

/* gang_waits_for() - why the gang's members get no node. GANG_NOTHING: they get nodes, or only a plan can
 * tell. */
enum gang_reason gang_waits_for(
	const struct gangs *gangs, const struct gang *gang, const struct ledger *ledger, int64_t now_ns);

/* ---- gang-keep.c ---- */

/* gangs_keep_for_first() - keeps what is free, and what becomes free next, for one gang: the first of `all`
 * that has waited too long. If two gangs shared what becomes free, both would wait forever. Returns when to
 * call again; INT64_MAX: never. gang_let_go() - keeps no GPUs any longer if they were kept for this gang.
 * gang_goes_before_kept() - call before the gang is planned. If the gang has places already, GPUs that are
 * kept for a later gang are no longer kept, since the new plan would find them taken. gang_keep_held() - call
 * before the plan is given up. If the gang has waited too long and no earlier gang has GPUs kept for it, what
 * the members hold is kept for them at once. Other gangs and pods may be tried before the next evaluation. */
int64_t gangs_keep_for_first(struct gangs *gangs, struct gang **all, struct ledger *ledger, int64_t now_ns);
void gang_let_go(struct gangs *gangs, struct gang *gang, struct ledger *ledger);
void gang_goes_before_kept(struct gangs *gangs, const struct gang *gang, struct ledger *ledger);
void gang_keep_held(struct gangs *gangs, struct gang *gang, struct ledger *ledger, int64_t now_ns);
