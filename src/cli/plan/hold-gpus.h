/* hold-gpus.h - keeps new pods off the GPUs of a pod while it is moved: they are cordoned, and uncordoned
 * when its new pod has another place. */
#pragma once

#include <signal.h>
#include <stddef.h>

#include "kube/fault-list.h"

struct error;
struct kubectl;
struct plan_outcome;

struct held_gpus {
	const char *node; /* borrowed */
	struct fault *gpus;
	size_t n;
};

/* hold_gpus() - cordons the GPUs of this place that take new pods now, and waits until the node's agent has
 * applied that. The caller calls release_gpus() afterwards, also on failure. reason: as in `ration cordon`.
 * stop: a flag that ends the wait when it is not 0. */
int hold_gpus(const struct kubectl *kubectl, const struct plan_outcome *place, const char *reason,
	const volatile sig_atomic_t *stop, struct held_gpus *held, struct error *err);

/* release_gpus() - uncordons what hold_gpus() has cordoned, also what it may have cordoned. A negative errno
 * with the GPU that stays cordoned, and the command that uncordons it: another call tries again. stop: NULL,
 * or release_gpus() also waits until the node's agent has applied that, as long as *stop is 0. Without this
 * wait, hold_gpus() would take the GPU for one that someone else has cordoned. -ETIMEDOUT with held->n 0: the
 * GPUs are uncordoned, and the agent has not applied it. held_gpus_release() - frees the memory. */
int release_gpus(const struct kubectl *kubectl, const volatile sig_atomic_t *stop, struct held_gpus *held,
	struct error *err);
void held_gpus_release(struct held_gpus *held);
