/* leadership.h - what core/leadership.h needs from outside: the process that calls, the pods of a node, and
 * who holds kube-scheduler's Lease. */
#pragma once

#include <stdbool.h>

struct http_call;
struct kube_response;
struct scheduler;

/* leadership_note() - kube-scheduler asks us, and will be answered. call: NULL, in tests of filter itself, is
 * from the process that asked last. */
void leadership_note(struct scheduler *scheduler, struct http_call *call);

/* leadership_list_node() - asks for the node's pods; fn gets the answer for leadership_read_pods(). */
int leadership_list_node(struct scheduler *scheduler, const char *node, int timeout_ms,
	void (*fn)(void *userdata, const struct kube_response *response), void *userdata);

/* leadership_read_pods() - into the ledger. -EBADMSG if it is no list of pods: nothing is known then. */
int leadership_read_pods(struct scheduler *scheduler, const struct kube_response *response);

/* leadership_is_here() - by the answer to a GET of kube-scheduler's Lease (ledger_lease_path()): its holder's
 * name begins with our host's. No Lease: a kube-scheduler that is alone. */
bool leadership_is_here(const struct kube_response *response);
