/* mig.h - reports GPUs that MIG divides: they are not shared, and the user who labelled the node may not know
 * why. */
#pragma once

struct events;
struct node_registry;
struct inventory;

/* mig_report() - an Event for each GPU that MIG divides, once, if the labels ask for a mode that is served.
 * On other nodes ration does not manage the GPUs. It is cheap; call it whenever something may have changed.
 */
void mig_report(struct node_registry *node, const struct events *events);

/* mig_to_json() - the annotation ration.dev/mig; the caller frees it. NULL when out of memory. */
char *mig_to_json(const struct inventory *inventory);
