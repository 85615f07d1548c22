/* why-gang.h - what `ration why` says about the gang of a pod. */
#pragma once

struct json_object;
struct ledger_pod;
struct scheduler;

/* why_add_gang() - root's "gang": the pod's gang, if it has one; and "gangLabel": the gang that the labels of
 * a bound pod name, if it was bound outside that gang. */
void why_add_gang(struct json_object *root, const struct scheduler *scheduler, const struct ledger_pod *pod);
