/* waiting.h - pods that filter rejected, and their wake-up.
 *
 * kube-scheduler sees the end of a pod before or after our watch does. If it asks first, we reject from the
 * old book and no further event may come for five minutes. So when something was freed that a rejected pod
 * fits on, we touch an annotation of that pod: any update of a pending pod wakes it (tried at 1.36.3: filter
 * within 0.1 s).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct json_object;
struct pod_facts;
struct scheduler;
struct waiting_room;
struct wakeup_state;

int waiting_room_new(struct scheduler *scheduler, struct waiting_room **ret_room);
void waiting_room_free(struct waiting_room *room); /* accepts NULL */

/* waiting_room_rejected() - filter found no node. waiting_room_leave() - bound, gone or finished. */
void waiting_room_rejected(struct waiting_room *room, const struct pod_facts *pod);
void waiting_room_leave(struct waiting_room *room, const char *uid);

/* waiting_room_found() - when we start, the pod is there and unschedulable: what freed a GPU for it may have
 * happened while nobody looked. */
void waiting_room_found(struct waiting_room *room, const struct pod_facts *pod);

/* waiting_room_look() - the ledger may have changed: look soon whether somebody fits now. */
void waiting_room_look(struct waiting_room *room);

/* waiting_room_wake() - touch this pod now, whether it fits or not. */
void waiting_room_wake(struct waiting_room *room, const struct pod_facts *pod);

/* waiting_room_forget_gone() - pods that the watch does not know although it had time to: they were deleted
 * just before kube-scheduler asked, and no event will tell of them again. */
void waiting_room_forget_gone(struct waiting_room *room);

/* waiting_room_find() - wakeup_find(): how a pod waits; false if it does not. */
bool waiting_room_find(const struct waiting_room *room, const char *uid, struct wakeup_state *ret_state);

size_t waiting_room_count(const struct waiting_room *room);
