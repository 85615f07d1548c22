/* node-template.h - nodes that do not exist: what an agent would write on a node of this object after it has
 * joined. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/facts.h"

struct error;
struct json_object;

/* What the cluster gives to each node. */
struct node_template_rules {
	uint32_t unit_mib;	   /* of a template that names none; 0: the default */
	uint32_t max_pods_per_gpu; /* as in gpu_instances_max() */
	bool mixing;
};

/* node_template_complete() - facts: what node_facts_from_json() has read of the object. A template may be a
 * copy of an old node, but that node's faults, orphans and changes do not apply to the new one. A template
 * without an inventory has the sums of resources of its status. -EINVAL with a sentence: the size of its GPUs
 * is unknown. */
int node_template_complete(struct json_object *node, const struct node_template_rules *rules,
	struct node_facts *facts, struct error *err);
