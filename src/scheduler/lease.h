/* lease.h - exactly one active ledger: the Lease kube-system/ration-ledger.
 *
 * Its holder is a pair, kube-scheduler and ration-scheduler, by the name of the pair's kube-scheduler Lease.
 * Replicas of one Deployment have the same name and renew it all: which of them is asked is decided by the
 * election of kube-scheduler, so a fail-over waits for nothing here. Another pair (the chart installed twice,
 * a default scheduler that was given our extender as well) answers that another scheduler owns the ledger,
 * and takes over when the holder has not renewed for the duration.
 *
 * Renewed every 5 s, so that two failures in a row are no reason to stop; duration 15 s, as kube-scheduler's
 * own election. Who could not renew for 10 s sends no Binding: one sent before that has a deadline of 3 s, so
 * it is over 2 s before anybody else may take the Lease. In an outage of the API server filter goes on
 * answering: nobody can bind, nobody can take the Lease, and the first renewal after it says who goes on.
 *
 * Clocks are never compared: whether the holder renews is seen by changes of renewTime, timed by our own
 * clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;
struct ledger_lease;
struct metrics;
struct scheduler;

/* ledger_lease_start() - identity: NAMESPACE/NAME of the pair's kube-scheduler Lease. */
int ledger_lease_start(struct scheduler *scheduler, const char *identity, struct ledger_lease **ret_lease);
void ledger_lease_stop(struct ledger_lease *lease); /* accepts NULL */

/* ledger_lease_is_valid_identity() - NAMESPACE/NAME as Kubernetes names objects. */
bool ledger_lease_is_valid_identity(const char *identity);

/* ledger_lease_is_known() - the API server has answered who owns the ledger, or that it does not say. Stays
 * true. */
bool ledger_lease_is_known(const struct ledger_lease *lease);

/* ledger_lease_path() - of the Lease by which the kube-scheduler beside us is elected, in the API. -ENOENT
 * for a lease of NULL. */
int ledger_lease_path(const struct ledger_lease *lease, char *ret_path, size_t size);

/* ledger_lease_metrics() - who owns the ledger, and how old that knowledge is; nothing for NULL. */
void ledger_lease_metrics(const struct ledger_lease *lease, struct metrics *page);
