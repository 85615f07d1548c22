/* cordon-wait.h - the GPUs of one node as its agent shows them, and whether the agent has applied a change of
 * the list of cordoned GPUs (cordon-list.h). */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/cordon-list.h"
#include "cli/inspect.h"

struct error;
struct kubectl;

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
