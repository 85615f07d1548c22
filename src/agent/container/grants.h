/* grants.h - the grants of this node: what each container on an isolated node may use of which GPU. The agent
 * writes the files (src/grant) before a container starts, and does not replace them while a container may
 * have them. Later changes are written into the live words. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct delivery;
struct error;
struct grant_file;
struct node_pod;
struct pod_facts;

struct node_grant {
	struct list item;	  /* of delivery->grants */
	char *uid, *container;	  /* its owner */
	char *namespace_, *pod;	  /* for messages; "?" if the grant does not name them */
	char *folder;		  /* STATE/grants/<uid>/<container> */
	struct grant_file *grant; /* mapped; containers have it read-only */
	int usage_fd;		  /* O_RDONLY. Never mapped: a container can cut its usage file off */
	int use_fd;		  /* kept by agent/gpu/watched.c; -1: it cannot be kept */
};

/* grants_prepare() - makes the grant of one container of a pod with a placement, unless the container has a
 * grant for the same GPUs. `starting`: the kubelet is about to start this container, so it does not run, and
 * a grant that is damaged or for other GPUs is replaced; otherwise such a grant is an error. Sets the limits.
 * Negative errno with a sentence. */
int grants_prepare(struct delivery *delivery, const struct node_pod *pod, const char *container,
	bool starting, struct error *err);

/* grants_apply_placement() - writes the limits of the pod's present placement into its grants. */
void grants_apply_placement(struct delivery *delivery, const struct pod_facts *pod);

/* grants_apply_what_is_less() - likewise, but only limits that are lower than the present ones. */
void grants_apply_what_is_less(struct delivery *delivery, const struct pod_facts *pod);

/* grants_remove() - removes all grants of the pod, with their folder. A pod without a grant is not an error.
 */
void grants_remove(struct delivery *delivery, const char *uid);

/* grants_find() - NULL if the container has no grant. Valid until grants_remove() or the next
 * grants_prepare() of it. */
struct node_grant *grants_find(const struct delivery *delivery, const char *uid, const char *container);

/* grants_release() - forgets all grants and leaves their files. */
void grants_release(struct delivery *delivery);
