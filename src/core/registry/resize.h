/* resize.h - gives a running pod another size (`ration set`).
 *
 * The pod keeps its GPUs; its units on them change. The API server decides: the new placement is one PATCH.
 * Each placement counts how often its pod was resized, so that an older event is recognized. While a PATCH is
 * on its way, the pod occupies the larger of both sizes. */
#pragma once

#include "core/registry/registry.h"

struct error;

/* A PATCH on its way. */
struct ledger_resize {
	struct placement before, target;
};

/* ledger_resize_fits() - both sizes have the containers and GPUs of this placement. */
bool ledger_resize_fits(const struct ledger_resize *resize, const struct placement *placement);

void ledger_resize_free(struct ledger_resize *resize); /* accepts NULL */

/* placement_resize() - gives the container this many units in this copy of the pod's placement, on all its
 * GPUs together. request: the pod's request. -EINVAL with a sentence if no such container asks for units, or
 * if units is 0 or cannot be divided among the GPUs. The caller increases placement->resizes once for all
 * containers. */
int placement_resize(struct placement *placement, const struct request *request, const char *container,
	uint32_t units, struct error *err);

/* request_resize() - changes the request to what this placement of it gives: the same containers, the same
 * GPUs, other units. -EINVAL if the placement is not one of this request; then nothing changed. What the spec
 * asks for stays in container_request.asked. */
int request_resize(struct request *request, const struct placement *placement);

/* ledger_resize() - the PATCH is about to be sent. The bound pod occupies the larger of its size and the
 * target until ledger_resize_confirm() (the API server accepted it), ledger_resize_release() (it surely did
 * not), or an event of the watch. Both functions change nothing if no resize is under way.
 *
 * -ENOENT: no such bound pod with a placement; -EBUSY: a resize is under way; -EINVAL: the target is not the
 * next size of the pod's placement; -EOPNOTSUPP: the node does not enforce memory limits; -ENOSPC: a GPU does
 * not have enough left for it; -ENOMEM. err has a sentence for each, and nothing changed. */
int ledger_resize(struct ledger *ledger, const char *uid, const struct placement *target, struct error *err);
void ledger_resize_confirm(struct ledger *ledger, const char *uid);
void ledger_resize_release(struct ledger *ledger, const char *uid);

/* ledger_resize_restore() - for use inside the ledger: restores a resize that was under way in another
 * ledger. The pod occupies the larger size already. -ENOMEM. */
int ledger_resize_restore(struct ledger_pod *pod, const struct ledger_resize *image);

/* ledger_pod_follow_resize() - for use inside the ledger: the API server shows the bound pod like this. The
 * ledger takes over a later size than the one that it knows. -ENOMEM: nothing changed. */
int ledger_pod_follow_resize(struct ledger *ledger, struct ledger_pod *pod, struct pod_facts *shown);
