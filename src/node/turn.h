/* turn.h - which of the listed pods had their turn. A kubelet admits one pod at a time and lists each from
 * its turn on (HandlePodAdditions(), kubelet.go:2837 at 1.36.3). So a pod that comes onto the list ends the
 * turn of all that were there before. It matters where the kubelet's record says nothing: after the loss of
 * its checkpoint.
 *
 * Pure: no I/O, no clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/table.h"

struct turn {
	struct table listed; /* "namespace/name", when the last call came */
	struct table past;   /* those of them that had their turn */
};

void turn_init(struct turn *turn);
void turn_release(struct turn *turn);

/* turn_begin() - a kubelet has started: it admits every pod anew. */
void turn_begin(struct turn *turn);

/* turn_follow() - a call has come, while the kubelet lists these pods. Without memory no pod had its turn. */
void turn_follow(struct turn *turn, const char *const *names, size_t n);

/* turn_is_past() - the pod of this name was listed before the pod that the last call is for. Another pod can
 * have its name by now. */
bool turn_is_past(const struct turn *turn, const char *name);
