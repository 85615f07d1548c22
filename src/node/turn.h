/* turn.h - which of the listed pods had their turn. A kubelet admits one pod at a time and lists each from
 * its turn on (HandlePodAdditions(), kubelet.go:2837 at 1.36.3). So when a pod enters the list, the turn of
 * all pods before it is over. This matters if the kubelet's record is empty, after the loss of its
 * checkpoint.
 *
 * Pure: no I/O, no clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/table.h"

struct turn {
	struct table listed; /* "namespace/name" of the pods of the last list */
	struct table past;   /* those of them that had their turn */
};

void turn_init(struct turn *turn);
void turn_release(struct turn *turn);

/* turn_begin() - a kubelet has started: it admits every pod again. */
void turn_begin(struct turn *turn);

/* turn_follow() - the kubelet lists these pods, for a call or at any other time. If memory runs out, no pod
 * counts as having had its turn. */
void turn_follow(struct turn *turn, const char *const *names, size_t n);

/* turn_took() - the call is for the listed pod with this name, and no other pod can be meant: the turn of all
 * other listed pods is over. Call it after turn_follow(). */
void turn_took(struct turn *turn, const char *name);

/* turn_is_past() - the pod with this name was listed when the turn of another pod began. Another pod can have
 * its name by now. */
bool turn_is_past(const struct turn *turn, const char *name);
