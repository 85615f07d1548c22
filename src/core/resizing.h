/* resizing.h - answers to ration.dev/resize: another size for a running pod. Pure: the caller sends the
 * requests to the API server; orders tell it what to do next.
 *
 * Each request is answered by one PATCH, yes or no, with the pod's resourceVersion as precondition. The PATCH
 * removes the request and states the answer; a yes also carries the new placement with all that is derived
 * from it. So if several processes write at the same time, exactly one succeeds, and the others evaluate
 * again. The replica whose kube-scheduler leads answers (its Lease names this host), because only its ledger
 * knows what is held. The pods of the node are listed first, as after a change of leader.
 *
 * A PATCH of unknown outcome is sent again until the API server answers it clearly. By then it has been
 * applied, or can never be, because the resourceVersion has changed. Until then the larger of both sizes
 * stays reserved.
 *
 * If the API server refuses a yes (4xx: it would never accept it), the answer becomes a no with that
 * sentence. If it refuses the no as well, an Event of the pod says so. Nothing is sent again until the
 * request, or the length of the pod's annotations, changes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/resizings.h"

struct core;

void resize_answer_release(struct resize_answer *answer);

void resizings_init(struct resizings *resizings);
/* resizings_release() - also frees those whose requests are under way: the caller has cancelled these. */
void resizings_release(struct resizings *resizings);

/* resizings_find() - the resize of this pod; NULL if it has none. */
struct resizing *resizings_find(const struct resizings *resizings, const char *uid);

/* core_see_resize() - the watch shows the pod bound, with or without a request. For core_see_pod(). */
void core_see_resize(struct core *core, const struct pod_facts *facts, int64_t now_ns);

/* core_tick_resizes() - for core_tick(): tries again what could not be answered yet. */
void core_tick_resizes(struct core *core, int64_t now_ns);

/* core_next_resize_order() - the oldest order that is not carried out yet, which the caller must carry out
 * now; NULL: none. It stays valid until the caller reports the result by one of the functions below. */
struct resizing *core_next_resize_order(struct core *core);

void core_resize_leads(struct core *core, struct resizing *resizing, bool leads, int64_t now_ns);

/* core_resize_listed() - ok: the list came and is in the ledger. facts: the pod as the list shows it; NULL if
 * the list lacks it, or it cannot be read. shown: a value of the caller's, passed to its ops. */
void core_resize_listed(struct core *core, struct resizing *resizing, bool ok, const struct pod_facts *facts,
	void *shown, int64_t now_ns);

/* The API server's answer to the PATCH. patch_outcome() - result: 0 if there was an answer, else a negative
 * errno; status: HTTP. */
enum patch_outcome {
	PATCH_APPLIED,
	PATCH_GONE,	/* there is no such pod */
	PATCH_CONFLICT, /* another resourceVersion: this PATCH can never be applied (again) */
	PATCH_REFUSED,	/* it would be refused again: validation, admission, or a missing right */
	PATCH_LATER,	/* surely not applied; it may be accepted next time */
	PATCH_UNKNOWN,	/* it may have been applied, now or later */
};
enum patch_outcome patch_outcome(int result, long status);
void core_resize_answered(struct core *core, struct resizing *resizing, enum patch_outcome outcome,
	const char *why, int64_t now_ns);

/* core_resize_not_asked() - the caller could not start the request of the last order. */
void core_resize_not_asked(struct core *core, struct resizing *resizing, int64_t now_ns);
