/* resize.h - another size for a pod that runs (`ration set`).
 *
 * The GPUs stay, the units on them change. The API server decides: the new placement is one PATCH, and each
 * placement counts how often its pod was resized, so that an older event is known as such. While a PATCH is
 * on its way the pod occupies the larger of both sizes.
 */
#pragma once

#include "core/registry/registry.h"

struct error;

/* A PATCH on its way. */
struct ledger_resize {
	struct placement before, target;
};

/* ledger_resize_fits() - both sizes are of the containers and GPUs of this placement. */
bool ledger_resize_fits(const struct ledger_resize *resize, const struct placement *placement);

void ledger_resize_free(struct ledger_resize *resize); /* accepts NULL */

/* placement_resize() - in this copy of a pod's placement the container gets so many units, on all its GPUs
 * together; request: the pod's. -EINVAL with a sentence if there is no such container that asks for units, or
 * they are none or do not divide. The caller counts placement->resizes up, once for all containers. */
int placement_resize(struct placement *placement, const struct request *request, const char *container,
	uint32_t units, struct error *err);

/* request_resize() - the request becomes what this placement of it gives: same containers, same GPUs, other
 * units. -EINVAL if it is not one of this request; then nothing changed. What the spec asks for stays in
 * container_request.asked. */
int request_resize(struct request *request, const struct placement *placement);

/* ledger_resize() - the PATCH is about to be sent: the bound pod occupies the larger of what it has and of
 * the target until ledger_resize_confirm() (the API server accepted it), ledger_resize_release() (it surely
 * did not), or what the watch shows. Both change nothing if there is none under way.
 *
 * -ENOENT: no such bound pod with a placement; -EBUSY: one is under way; -EINVAL: the target is not the next
 * size of what the pod has; -EOPNOTSUPP: the node holds nobody to its memory; -ENOSPC: a GPU has not that
 * much left for it; -ENOMEM. err has a sentence for each, and nothing changed. */
int ledger_resize(struct ledger *ledger, const char *uid, const struct placement *target, struct error *err);
void ledger_resize_confirm(struct ledger *ledger, const char *uid);
void ledger_resize_release(struct ledger *ledger, const char *uid);

/* ledger_resize_restore() - inside the ledger: a resize of the pod, which occupies the larger size already,
 * as it was under way in another ledger. -ENOMEM. */
int ledger_resize_restore(struct ledger_pod *pod, const struct ledger_resize *image);

/* ledger_pod_follow_resize() - inside the ledger: the API server shows the bound pod like this; a later size
 * than the one that is known is taken over. -ENOMEM: nothing changed. */
int ledger_pod_follow_resize(struct ledger *ledger, struct ledger_pod *pod, struct pod_facts *shown);
