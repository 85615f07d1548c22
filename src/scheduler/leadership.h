/* leadership.h - connects core/leadership.h with its surroundings: the process that calls, the pods of a
 * node, and the holder of kube-scheduler's Lease. */
#pragma once

#include <stdbool.h>

struct http_call;
struct kube_response;
struct scheduler;

/* leadership_note() - kube-scheduler calls, and will get an answer. call NULL, for tests of filter itself:
 * the process of the last call. */
void leadership_note(struct scheduler *scheduler, struct http_call *call);

/* leadership_list_node() - requests the node's pods; fn gets the answer for leadership_read_pods(). */
int leadership_list_node(struct scheduler *scheduler, const char *node, int timeout_ms,
	void (*fn)(void *userdata, const struct kube_response *response), void *userdata);

/* leadership_read_pods() - reads the pods into the ledger. -EBADMSG if the answer is not a list of pods: then
 * nothing is known. */
int leadership_read_pods(struct scheduler *scheduler, const struct kube_response *response);

/* leadership_is_here() - evaluates the answer to a GET of kube-scheduler's Lease (ledger_lease_path()): its
 * holder's name begins with this host's name. Without a Lease, there is only one kube-scheduler. */
bool leadership_is_here(const struct kube_response *response);

/* Pods that occupy a GPU and that the watch has not shown.
 *
 * The API server confirmed the Binding of such a pod, or a list of its node's pods showed it, so it counts.
 * If it is deleted in a gap of the watch, no event tells its end. If the list is older than the watch is by
 * then, no event tells it either. The pod would count forever. So the scheduler asks for such pods by name:
 * after each new LIST of the watch, and every CORE_VERIFY_AGAIN_NS until the watch or an answer has told of
 * all of them.
 *
 * verify_unlisted() - the watch has a new LIST: asks for each bound pod that it has not shown, and corrects
 * the ledger when the answers come. verify_unlisted_later() - an answer to another request has shown such a
 * pod. verify_unlisted_tick() - asks if it is due; call it about every second. */
void verify_unlisted(struct scheduler *scheduler);
void verify_unlisted_later(struct scheduler *scheduler);
void verify_unlisted_tick(struct scheduler *scheduler);
