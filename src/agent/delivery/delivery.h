/* delivery.h - what lies on the node for the containers of one pod: its CDI file and, where containers are
 * held to a limit, their grants. */
#pragma once

#include <stdbool.h>

struct agent;
struct error;
struct node_pod;

/* delivery_make() - all that this container of a placed pod needs; nothing twice. starting: as in
 * grants_prepare(). Negative errno with a sentence for the pod: it must not start. */
int delivery_make(struct agent *agent, const struct node_pod *pod, const char *container, bool starting,
	struct error *err);

/* delivery_exists() - it was made before, as far as can be told without knowing the pod. */
bool delivery_exists(const struct agent *agent, const char *uid, const char *container);

/* delivery_remove() - the pod is over. */
void delivery_remove(struct agent *agent, const char *uid);

/* delivery_remove_shims() - versions of the shim that no container has. */
void delivery_remove_shims(struct agent *agent);
