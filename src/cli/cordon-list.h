/* cordon-list.h - the ConfigMap kube-system/unhealthy-gpu-<node>, in which ration-agent reads the GPUs that
 * take no new pods. It is changed through the user's own kubectl. If two users change it at once, no change
 * is lost: each write names the version on which it is based, and is repeated if that is not the last one. */
#pragma once

#include <stdbool.h>

#include "kube/fault-list.h"

struct error;
struct inspect_node;
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
