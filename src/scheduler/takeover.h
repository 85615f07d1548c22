/* takeover.h - the first seconds after kube-scheduler's leadership may have come to us.
 *
 * The other replica's last Bindings may be applied and not yet shown by our watch. So for 5 s the pods of the
 * chosen node are listed, without a resourceVersion, before a card is chosen there. We are told of no
 * election: leadership cannot have been elsewhere while kube-scheduler kept asking, so these seconds begin
 * with each call after a pause longer than kube-scheduler's --leader-elect-retry-period, 2 s. (A Binding that
 * lands after our list is the agent's to refuse: no card is given over its total.)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct kube_response;
struct scheduler;

struct takeover {
	int64_t last_call_ns; /* of filter or bind, that we served */
	int64_t fresh_until_ns;
};

/* takeover_note_call() - kube-scheduler asks us. */
void takeover_note_call(struct takeover *takeover, int64_t now_ns);

/* takeover_is_fresh() - look first. */
bool takeover_is_fresh(const struct takeover *takeover, int64_t now_ns);

/* takeover_list_node() - asks for the node's pods; fn gets the answer for takeover_read_pods(). */
int takeover_list_node(struct scheduler *scheduler, const char *node, int timeout_ms,
	void (*fn)(void *userdata, const struct kube_response *response), void *userdata);

/* takeover_read_pods() - into the ledger. -EBADMSG if it is no list of pods: nothing is known then. */
int takeover_read_pods(struct scheduler *scheduler, const struct kube_response *response);
