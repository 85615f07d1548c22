/* leadership.h - whether the kube-scheduler beside us leads, and the first seconds after its leadership may
 * have come to it.
 *
 * The other replica's last Bindings may be applied and not yet shown by our watch. So for 5 s the pods of the
 * chosen node are listed, without a resourceVersion, before a GPU is chosen there. Binds
 * that come meanwhile wait for that answer, and it is good for 200 ms (a burst fills one node after the
 * other, and a list for each bind would be most of what the API server does). (A Binding that lands
 * after our list is the agent's to refuse: no GPU is given over its total.)
 *
 * We are told of no election, and reading kube-scheduler's Lease would cost a request for each bind: a watch
 * of it may be as late as the one of the pods. Nor does time tell: a kube-scheduler that is told to end gives
 * its Lease back (ReleaseOnCancel, cmd/kube-scheduler/app/options/options.go), a process tries to get it as
 * soon as it has started and each 2 to 4.4 s from then on (tools/leaderelection: JitterUntil of
 * --leader-elect-retry-period), so leadership may go away, bind, and be back within any time. But a process
 * that has lost it, or given it back, ends (OnStoppedLeading, cmd/kube-scheduler/app/server.go: os.Exit, in
 * both cases; all at 1.36.3), and its successor starts when it has ended. So these seconds begin with a call
 * when no connection is open on which the leader known so far has called: while one is, its process
 * lives and leads. Go's client keeps at least one open while calls go on. (The two talk over loopback: a
 * proxy between them would hide the end of the process.)
 *
 * One process is left that lives and does not lead: one that was stopped until its Lease had run out, and has
 * not found out yet. So these seconds begin, too, with each call after a pause of more than 2 s: it was
 * stopped for at least 3 s, --leader-elect-lease-duration (15 s) less what it goes on without a renewal
 * (--leader-elect-renew-deadline, 10 s, after --leader-elect-retry-period, 2 s).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"

struct http_call;
struct kube_response;
struct scheduler;

struct leadership {
	int64_t last_call_ns; /* of filter or bind, that we served */
	int64_t fresh_until_ns;
	uint32_t period; /* counts these seconds: what is known of a node is known for one of them; the mark
			    of the leader's connections */
	struct table nodes; /* name -> being listed, or when it was, in this period */
};
void leadership_release(struct leadership *leadership);

/* leadership_note_call() - kube-scheduler asks us, and will be served. A call of NULL is from nobody: for
 * tests of filter itself. */
void leadership_note_call(struct leadership *leadership, struct http_call *call, int64_t now_ns);

/* leadership_node() - may a GPU be chosen there, or must the node be listed first? */
enum leadership_node {
	LEADERSHIP_LIST, /* nobody has: leadership_begin() and list it */
	LEADERSHIP_WAIT, /* somebody does */
	LEADERSHIP_GO,
};
enum leadership_node leadership_node(const struct leadership *leadership, const char *node, int64_t now_ns);

/* leadership_begin() - the node is being listed; returns the period, or -ENOMEM (list it all the same).
 * leadership_end() - the answer to that list is in the ledger, or there is none. */
int64_t leadership_begin(struct leadership *leadership, const char *node);
void leadership_end(
	struct leadership *leadership, const char *node, int64_t period, bool known, int64_t now_ns);

/* leadership_list_node() - asks for the node's pods; fn gets the answer for leadership_read_pods(). */
int leadership_list_node(struct scheduler *scheduler, const char *node, int timeout_ms,
	void (*fn)(void *userdata, const struct kube_response *response), void *userdata);

/* leadership_read_pods() - into the ledger. -EBADMSG if it is no list of pods: nothing is known then. */
int leadership_read_pods(struct scheduler *scheduler, const struct kube_response *response);

/* leadership_is_here() - by the answer to a GET of kube-scheduler's Lease (ledger_lease_path()): its holder's
 * name begins with our host's. No Lease: a kube-scheduler that is alone. */
bool leadership_is_here(const struct kube_response *response);
