/* resize.h - answers to ration.dev/resize: another size for a pod that runs.
 *
 * Each request is answered by one PATCH, yes or no, with the pod's resourceVersion as precondition: it takes
 * the request away and says the answer, and a yes carries the new placement with all that is derived from it.
 * So of all who may write at the same time exactly one does, and whoever was late looks again. Who answers is
 * the replica whose kube-scheduler leads (its Lease names our host): only its ledger knows what is held. The
 * pods of the node are listed first, as after a take-over.
 *
 * A PATCH of unknown outcome is sent again until the API server answers it clearly: by then it has landed, or
 * never will, since the resourceVersion is another. Until then the larger of both sizes stays reserved.
 *
 * A yes that the API server refuses (4xx: it would never take it) becomes a no with its sentence. If it
 * refuses the no as well, an Event of the pod says so, and nothing is sent again until the request, or the
 * length of the pod's annotations, is another.
 */
#pragma once

struct pod_facts;
struct resizes;
struct scheduler;

int resizes_new(struct scheduler *scheduler, struct resizes **ret_resizes);
void resizes_free(struct resizes *resizes); /* accepts NULL; after the client's end */

/* resizes_see() - the watch shows the pod: with or without a request. */
void resizes_see(struct resizes *resizes, const struct pod_facts *pod);

/* resizes_tick() - each second: what could not be answered yet is tried again. */
void resizes_tick(struct resizes *resizes);
