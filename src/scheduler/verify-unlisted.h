/* verify-unlisted.h - pods that occupy a GPU and that the watch has not shown.
 *
 * The API server confirmed the Binding of such a pod, or a list of its node's pods showed it, so it counts.
 * If it is deleted in a gap of the watch, no event tells its end. If the list is older than the watch is by
 * then, no event tells it either. The pod would count forever. So the scheduler asks for such pods by name:
 * after each new LIST of the watch, and every CORE_VERIFY_AGAIN_NS until the watch or an answer has told of
 * all of them. */
#pragma once

struct scheduler;

/* verify_unlisted() - the watch has a new LIST: asks for each bound pod that it has not shown, and corrects
 * the ledger when the answers come. verify_unlisted_later() - an answer to another request has shown such a
 * pod. verify_unlisted_tick() - asks if it is due; call it about every second. */
void verify_unlisted(struct scheduler *scheduler);
void verify_unlisted_later(struct scheduler *scheduler);
void verify_unlisted_tick(struct scheduler *scheduler);
