/* lease.h - exactly one active ledger: the Lease kube-system/ration-ledger.
 *
 * Its holder is a pair, kube-scheduler and ration-scheduler, named by the pair's kube-scheduler Lease.
 * Replicas of one Deployment have the same name and all renew the Lease. kube-scheduler's election decides
 * which replica receives the calls, so a fail-over does not wait for this Lease. There may be another pair:
 * the chart was installed twice, or a default scheduler was given this extender as well. That pair answers
 * that another scheduler owns the ledger, and takes over if the holder has not renewed for the duration.
 *
 * The Lease is renewed every 5 s, so that two failures in a row do not matter. Its duration is 15 s, as in
 * kube-scheduler's own election. A process that could not renew for 10 s sends no Binding. A Binding sent
 * before that has a deadline of 3 s, so it is over 2 s before another pair can take the Lease. In an outage
 * of the API server filter goes on answering: no process can bind or take the Lease, and the first renewal
 * after it decides who continues.
 *
 * Clocks are never compared: this process detects renewals by changes of renewTime, timed by its own clock.
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

/* ledger_lease_is_known() - the API server has answered who owns the ledger, or that it does not tell. Stays
 * true. */
bool ledger_lease_is_known(const struct ledger_lease *lease);

/* ledger_lease_path() - the path of the Lease by which the kube-scheduler of this pair is elected. -ENOENT
 * for a lease of NULL. */
int ledger_lease_path(const struct ledger_lease *lease, char *ret_path, size_t size);

/* ledger_lease_metrics() - the owner of the ledger, and the age of that knowledge; nothing for NULL. */
void ledger_lease_metrics(const struct ledger_lease *lease, struct metrics *page);
