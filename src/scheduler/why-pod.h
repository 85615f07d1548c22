/* why-pod.h - what `ration why` says about the pod itself: its request and state, how long it has waited, its
 * gang. */
#pragma once

struct json_object;
struct ledger;
struct ledger_pod;
struct scheduler;
struct requeue_state;

struct json_object *why_pod_json(const struct ledger *ledger, const struct ledger_pod *pod);
struct json_object *why_waiting_json(const struct requeue_state *state);

/* why_add_gang() - root's "gang": the pod's gang, if it has one; and "gangLabel": the gang that the labels of
 * a bound pod name, if it was bound outside that gang. */
void why_add_gang(struct json_object *root, struct scheduler *scheduler, const struct ledger_pod *pod);
