/* leadership.h - whether this scheduler may choose and bind now: who owns the ledger, and whether the
 * kube-scheduler that asks may have taken over from another replica a moment ago. Pure.
 *
 * The ledger has one owner, a pair of kube-scheduler and ration-scheduler, by the Lease that
 * scheduler/lease.h reads and renews.
 *
 * Among the replicas of one owner, the election of kube-scheduler decides which of them is asked. The last
 * Bindings of another replica may be applied and not yet shown by our watch. Therefore, for 5 s after a
 * possible change of leader, the pods of the chosen node are listed, without a resourceVersion, before a GPU
 * is chosen there. Binds for that node wait for the list, and it is good for 200 ms (a burst fills one node
 * after the other, and a list for each bind would be most of what the API server does). A Binding that is
 * applied after our list is refused by the agent: no GPU is given over its total.
 *
 * Nothing announces an election to us. Reading kube-scheduler's Lease would cost a request for each bind,
 * and a watch of it may be as late as the one of pods. Time does not tell either: a kube-scheduler that is
 * told to end gives its Lease back (ReleaseOnCancel, cmd/kube-scheduler/app/options/options.go), another
 * process tries to get it as soon as it has started and each 2 to 4.4 s from then on (tools/leaderelection:
 * JitterUntil of --leader-elect-retry-period), so leadership may leave, bind, and return within any time.
 * But a process that has lost its leadership or given it back ends (OnStoppedLeading,
 * cmd/kube-scheduler/app/server.go: os.Exit, in both cases; all at 1.36.3), and its successor starts after
 * that. The 5 s therefore begin with a call of another process than the leader known so far: the caller of
 * leadership_note_call() tells it by the open connections. (The two talk over loopback: a proxy between them
 * would hide the end of the process.)
 *
 * One process is left that lives and does not lead: a process that was stopped until its Lease had run out,
 * and has not noticed yet. The 5 s therefore begin, too, with each call after a pause of more than 2 s: it
 * was stopped for at least 3 s, --leader-elect-lease-duration (15 s) less the time that it goes on without a
 * renewal (--leader-elect-renew-deadline, 10 s, after --leader-elect-retry-period, 2 s).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"

struct error;

#define LEDGER_LEASE_TEXT "the Lease kube-system/ration-ledger" /* for people */
/* A namespace (63), a slash and the name of an object (253). */
#define LEDGER_HOLDER_SIZE 320

enum ledger_owner { LEDGER_OWNER_UNKNOWN, LEDGER_OWNER_US, LEDGER_OWNER_OTHER };

/* Who owns the ledger, as its Lease says. */
struct ownership {
	enum ledger_owner owner;
	char holder[LEDGER_HOLDER_SIZE]; /* of the Lease, as last seen */
	int64_t valid_until_ns;		 /* of our last renewal */
	char trouble[256];		 /* why the Lease cannot be read or renewed; "": it can */
};

/* ownership_always() - the state of a scheduler without a Lease, for tests and simulations. */
void ownership_always(struct ownership *ownership);

/* ownership_may_plan() - filter and prioritize may answer. ownership_may_bind() - a Binding may be sent now.
 * Otherwise -EPERM, with the sentence for kube-scheduler in err, which may be NULL. */
int ownership_may_plan(const struct ownership *ownership, struct error *err);
int ownership_may_bind(const struct ownership *ownership, int64_t now_ns, struct error *err);

struct leadership {
	int64_t last_call_ns; /* of filter or bind, that was answered */
	int64_t fresh_until_ns;
	uint32_t period;    /* counts the times of 5 s: a list of a node is good for one of them */
	struct table nodes; /* name -> being listed, or when it was, in this period */
};
void leadership_init(struct leadership *leadership);
void leadership_release(struct leadership *leadership);

/* leadership_note_call() - kube-scheduler asks. another: not surely the process that asked last. */
void leadership_note_call(struct leadership *leadership, bool another, int64_t now_ns);

/* leadership_node() - may a GPU be chosen on the node, or must its pods be listed first? */
enum leadership_node {
	LEADERSHIP_LIST, /* leadership_begin(), and list them */
	LEADERSHIP_WAIT, /* they are being listed */
	LEADERSHIP_GO,
};
enum leadership_node leadership_node(const struct leadership *leadership, const char *node, int64_t now_ns);

/* leadership_begin() - the node is being listed; returns the period, or -ENOMEM (list it all the same).
 * leadership_end() - known: the answer to that list is in the ledger; false: no usable answer came. */
int64_t leadership_begin(struct leadership *leadership, const char *node);
void leadership_end(
	struct leadership *leadership, const char *node, int64_t period, bool known, int64_t now_ns);
