/* cordon.h - the ConfigMap kube-system/unhealthy-gpu-<node>, in which ration-agent reads the GPUs that take
 * no new pods, and whether the agent has applied a change of it. The list is changed through the user's own
 * kubectl. If two users change it at once, no change is lost: each write names the version on which it is
 * based, and is repeated if that is not the last one. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/inspect.h"
#include "kube/fault-list.h"

struct error;
struct kubectl;

struct cordon_change {
	const char *node;
	const struct inspect_node *gpus; /* with their present indices; NULL: unknown */
	bool uncordon;
	bool own; /* if the entry has another reason, another user has made it, and it stays as it is */
	struct fault fault; /* the GPU; reason "" keeps the present reason */
};

/* cordon_list_change() - *ret_changed false: the list already had this state. */
int cordon_list_change(const struct kubectl *kubectl, const struct cordon_change *change, bool *ret_changed,
	struct error *err);

/* cordon_look() - reads the node; inspect is released first. cordon_node() - the node that was read; NULL: it
 * shows no GPUs. cordon_gpu() - the GPU that the fault is about; NULL: the node does not have it. */
int cordon_look(
	const struct kubectl *kubectl, const char *node, struct inspect *ret_inspect, struct error *err);
const struct inspect_node *cordon_node(const struct inspect *inspect);
const struct inspect_gpu *cordon_gpu(const struct inspect_node *node, const struct fault *fault);

/* cordon_await() - reads the node until its agent has applied the change, at least once; timeout_s 0: only
 * once. stop: NULL, or a flag that ends the wait without an error when it is not 0. -ETIMEDOUT with a
 * sentence: the change is in the list and not applied. */
int cordon_await(const struct kubectl *kubectl, const struct cordon_change *change, uint32_t timeout_s,
	const volatile sig_atomic_t *stop, struct inspect *inspect, struct error *err);
