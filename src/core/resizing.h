/* resizing.h - answers to ration.dev/resize: another size for a pod that runs. Pure: the requests to the API
 * server are the caller's, and what it has to do next comes out as orders.
 *
 * Each request is answered by one PATCH, yes or no, with the pod's resourceVersion as precondition: it takes
 * the request away and says the answer, and a yes carries the new placement with all that is derived from it.
 * So of all that may write at the same time exactly one does, and the others look again. The replica whose
 * kube-scheduler leads answers (its Lease names our host): only its ledger knows what is held. The pods of
 * the node are listed first, as after a change of leader.
 *
 * A PATCH of unknown outcome is sent again until the API server answers it clearly: by then it has been
 * applied, or never will be, since the resourceVersion is another. Until then the larger of both sizes stays
 * reserved.
 *
 * A yes that the API server refuses (4xx: it would never take it) becomes a no with its sentence. If it
 * refuses the no as well, an Event of the pod says so, and nothing is sent again until the request, or the
 * length of the pod's annotations, is another.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/resizings.h"

struct core;

void resize_answer_release(struct resize_answer *answer);

void resizings_init(struct resizings *resizings);
/* resizings_release() - also those whose requests are under way: the caller has cancelled these. */
void resizings_release(struct resizings *resizings);

/* resizings_find() - that of this pod; NULL if it has none. */
struct resizing *resizings_find(const struct resizings *resizings, const char *uid);

/* core_see_resize() - the watch shows the pod bound, with or without a request. For core_see_pod(). */
void core_see_resize(struct core *core, const struct pod_facts *facts, int64_t now_ns);

/* core_tick_resizes() - for core_tick(): what could not be answered yet is tried again. */
void core_tick_resizes(struct core *core, int64_t now_ns);

/* core_next_resize_order() - the oldest order that is not carried out, which the caller now does; NULL: none.
 * It stays valid until its answer is told by one of the functions below. */
struct resizing *core_next_resize_order(struct core *core);

void core_resize_leads(struct core *core, struct resizing *resizing, bool leads, int64_t now_ns);

/* core_resize_listed() - ok: the list came and is in the ledger. facts: the pod as the list shows it; NULL if
 * it is not in it, or cannot be read. shown: the caller's own, for its ops. */
void core_resize_listed(struct core *core, struct resizing *resizing, bool ok, const struct pod_facts *facts,
	void *shown, int64_t now_ns);

/* How the API server has answered the PATCH. patch_outcome() - result: 0 if there was an answer, else a
 * negative errno; status: HTTP. */
enum patch_outcome {
	PATCH_APPLIED,
	PATCH_GONE,	/* there is no such pod */
	PATCH_CONFLICT, /* another resourceVersion: this PATCH can never be applied (again) */
	PATCH_REFUSED,	/* it would be refused again: validation, admission, no right */
	PATCH_LATER,	/* surely not applied, and it may be next time */
	PATCH_UNKNOWN,	/* it may have been applied, now or later */
};
enum patch_outcome patch_outcome(int result, long status);
void core_resize_answered(struct core *core, struct resizing *resizing, enum patch_outcome outcome,
	const char *why, int64_t now_ns);

/* core_resize_not_asked() - the request of the last order could not be started. */
void core_resize_not_asked(struct core *core, struct resizing *resizing, int64_t now_ns);
