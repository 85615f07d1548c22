/* mig.h - what the agent tells of GPUs that MIG divides: they are not shared, and a person who labelled the
 * node may not know why. */
#pragma once

struct events;
struct node_registry;
struct inventory;

/* mig_report() - an Event for each GPU that MIG divides, once, where the labels ask for a mode that is
 * served. Elsewhere the GPUs are not ration's business. Cheap; call it whenever something may have changed.
 */
void mig_report(struct node_registry *node, const struct events *events);

/* mig_to_json() - the annotation ration.dev/mig; the caller frees it. NULL when out of memory. */
char *mig_to_json(const struct inventory *inventory);
