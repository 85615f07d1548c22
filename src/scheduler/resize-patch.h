/* resize-patch.h - what one request for another size is answered: yes with the new placement, or no. */
#pragma once

#include <stdbool.h>

struct json_object;
struct pod_facts;
struct scheduler;

struct resize_patch {
	char *text;    /* the body of the PATCH */
	char *said;    /* the sentence in it, for the log */
	bool applied;  /* a yes */
	bool reserved; /* to another size than it has: ledger_resize() is under way */
};

void resize_patch_release(struct resize_patch *patch);

/* resize_patch_make() - for the pod as the API server has just shown it (object); a yes reserves. A yes that
 * would make the annotations too long becomes a no, and a no that would do so only takes the request away.
 * refusal: the API server's sentence when it refused a yes to this request; the answer is no then. NULL if it
 * did not. -EAGAIN: nothing can be said now (the watch shows it otherwise, a resize is under way, no memory).
 */
int resize_patch_make(struct scheduler *scheduler, const struct pod_facts *pod, struct json_object *object,
	const char *refusal, struct resize_patch *ret_patch);
