/* settle.h - which mode and unit this node serves under (node/terms.h): what is asked for, by its labels and
 * the cluster's unit, comes into force when its pods allow it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/terms.h"

struct events;
struct json_object;
struct node_registry;

struct settle {
	struct node_registry *node; /* what is asked for and what is in force is written here */
	const struct events *events;
	uint32_t unit_mib;     /* what gpu-mem counts in where the cluster says nothing */
	struct terms reported; /* an Event told that this waits; else what is in force */
	char refused_unit[64]; /* the value that was last reported */
};

/* settle_unit_told() - what the cluster's ConfigMap kube-system/ration-policy says of the unit ("1GiB"), so
 * that a change needs no restart of any agent; NULL: nothing, so the command line does. A text that is no
 * unit is reported, and the last good one stays. */
void settle_unit_told(struct settle *settle, const char *text);

/* What settle_terms() looks at beside the registry. */
struct settle_seen {
	struct json_object *object; /* the Node as it was seen last; NULL: not yet, or gone */
	size_t n_orphans; /* pods that the API server has forgotten while their containers may run */
	bool following;	  /* the watch of pods is open */
};

/* settle_terms() - once node, pods and the cluster's unit are known, and whenever one of them changes. The
 * first time, what is in force is what the pods that are there came under, whatever is asked for meanwhile.
 */
void settle_terms(struct settle *settle, const struct settle_seen *what);
