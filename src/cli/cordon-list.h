/* cordon-list.h - the ConfigMap kube-system/unhealthy-gpu-<node>, where ration-agent reads which GPUs take
 * no new pods, changed through the user's own kubectl. Of two who change it at once neither loses his change:
 * each write names the version that it was made from, and is made anew where that is not the last one. */
#pragma once

#include <stdbool.h>

#include "kube/fault-list.h"

struct error;
struct inspect_node;
struct kubectl;

struct cordon_change {
	const char *node;
	const struct inspect_node *gpus; /* their indices now; NULL: not known */
	bool uncordon;
	struct fault fault; /* of whom; reason "" leaves the one that is there */
};

/* cordon_list_change() - *ret_changed false: it said so already. */
int cordon_list_change(const struct kubectl *kubectl, const struct cordon_change *change, bool *ret_changed,
	struct error *err);
