/* leadership.h - whether this scheduler may choose and bind now. That depends on the owner of the ledger, and
 * on whether the calling kube-scheduler may have taken over from another replica a moment ago. Pure.
 *
 * The ledger has one owner, a pair of kube-scheduler and ration-scheduler. The Lease that scheduler/lease.h
 * reads and renews names it.
 *
 * Among the replicas of one owner, the election of kube-scheduler decides which one receives the calls. The
 * last Bindings of another replica may be applied while this process' watch has not shown them. Therefore,
 * for 5 s after a possible change of leader, the pods of the chosen node are listed, without a
 * resourceVersion, before a GPU is chosen there. Binds for that node wait for the list, which is valid for
 * 200 ms. Without that time, a burst, which fills one node after the other, would list for each bind, and
 * lists would be most of the API server's work. The agent refuses a Binding that is applied after the list,
 * so no GPU is given over its total.
 *
 * Nothing announces an election to this process. Reading kube-scheduler's Lease would cost a request for each
 * bind, and a watch of it may be as late as the one of pods. Time does not tell either. A kube-scheduler that
 * is told to end gives its Lease back (ReleaseOnCancel, cmd/kube-scheduler/app/options/options.go). Another
 * process tries to get it as soon as it has started and each 2 to 4.4 s from then on (tools/leaderelection:
 * JitterUntil of --leader-elect-retry-period). So leadership may move away, the other replica may bind, and
 * leadership may return within any time. But a process that has lost its leadership or given it back ends
 * (OnStoppedLeading, cmd/kube-scheduler/app/server.go: os.Exit, in both cases; all at 1.36.3), and its
 * successor starts after that. Therefore the 5 s begin with a call of another process than the known leader.
 * The caller of leadership_note_call() recognizes this by the open connections. (Both talk over loopback; a
 * proxy between them would hide the end of the process.)
 *
 * One case is left in which a process lives and does not lead. The process was stopped until its Lease had
 * run out, and has not noticed yet. Therefore the 5 s also begin with each call after a pause of more than 2
 * s. Such a process was stopped for at least 3 s: --leader-elect-lease-duration (15 s) less the time that it
 * goes on without a renewal (--leader-elect-renew-deadline, 10 s, after --leader-elect-retry-period, 2 s). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"

struct error;

#define LEDGER_LEASE_TEXT "the Lease kube-system/ration-ledger" /* for users */
/* A namespace (63), a slash and the name of an object (253). */
#define LEDGER_HOLDER_SIZE 320

enum ledger_owner { LEDGER_OWNER_UNKNOWN, LEDGER_OWNER_US, LEDGER_OWNER_OTHER };

/* The owner of the ledger, according to its Lease. */
struct ownership {
	enum ledger_owner owner;
	char holder[LEDGER_HOLDER_SIZE]; /* of the Lease, as last seen */
	int64_t valid_until_ns;		 /* until when the last renewal by this process is valid */
	char trouble[256];		 /* why the Lease cannot be read or renewed; "": it can */
};

/* ownership_always() - the state of a scheduler without a Lease, for tests and simulations. */
void ownership_always(struct ownership *ownership);

/* ownership_may_plan() - filter and prioritize may answer. ownership_may_bind() - a Binding may be sent now.
 * Otherwise they return -EPERM, with a sentence for kube-scheduler in err, which may be NULL. */
int ownership_may_plan(const struct ownership *ownership, struct error *err);
int ownership_may_bind(const struct ownership *ownership, int64_t now_ns, struct error *err);

struct leadership {
	int64_t last_call_ns; /* when the last call of filter or bind was answered */
	int64_t fresh_until_ns;
	uint32_t period;    /* counts the periods of 5 s: a list of a node is valid in one of them only */
	struct table nodes; /* name -> the list is under way, or when it was made in this period */
};
void leadership_init(struct leadership *leadership);
void leadership_release(struct leadership *leadership);

/* leadership_note_call() - kube-scheduler calls. another: the calling process may not be the one of the last
 * call. */
void leadership_note_call(struct leadership *leadership, bool another, int64_t now_ns);

/* leadership_node() - may a GPU be chosen on the node, or must its pods be listed first? */
enum leadership_node {
	LEADERSHIP_LIST, /* call leadership_begin(), and list the pods */
	LEADERSHIP_WAIT, /* the list is under way */
	LEADERSHIP_GO,
};
enum leadership_node leadership_node(const struct leadership *leadership, const char *node, int64_t now_ns);

/* leadership_begin() - the list of the node's pods begins; returns the period, or -ENOMEM (list the pods
 * nevertheless). leadership_end() - known: the answer to that list is in the ledger; false: there was no
 * usable answer. */
int64_t leadership_begin(struct leadership *leadership, const char *node);
void leadership_end(
	struct leadership *leadership, const char *node, int64_t period, bool known, int64_t now_ns);
