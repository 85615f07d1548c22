/* settle.h - the mode and unit under which this node serves (node/terms.h). The node's labels and the
 * cluster's unit ask for them; they come into force when the node's pods allow it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/terms.h"

struct events;
struct json_object;
struct node_registry;

struct settle {
	struct node_registry *node; /* receives what is asked for and what is in force */
	const struct events *events;
	uint32_t unit_mib;     /* the unit of gpu-mem if the cluster sets no unit */
	struct terms reported; /* an Event said that these wait; else what is in force */
	char refused_unit[64]; /* the last invalid value that was reported */
};

/* settle_unit_told() - the unit in the cluster's ConfigMap kube-system/ration-policy ("1GiB"), so that a
 * change needs no restart of any agent; NULL: the ConfigMap sets no unit, so that of the command line counts.
 * An invalid unit is reported, and the last valid one stays. */
void settle_unit_told(struct settle *settle, const char *text);

/* What settle_terms() reads besides the registry. */
struct settle_seen {
	struct json_object *object; /* the Node as last seen; NULL: not yet, or gone */
	size_t n_orphans;	/* pods that are gone from the API server while their containers may run */
	bool offered_to_claims; /* the ResourceSlice is there: kube-scheduler may still give GPUs to claims */
	bool following;		/* the watch of pods is open */
};

/* settle_terms() - call it when node, pods and the cluster's unit are known, and whenever one of them
 * changes. At the first call, the terms of the present pods come into force, whatever is asked for meanwhile.
 */
void settle_terms(struct settle *settle, const struct settle_seen *what);
