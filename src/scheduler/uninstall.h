/* uninstall.h - the chart's pre-delete hook, which runs as a program of its own. */
#pragma once

/* uninstall() - ends all replicas by deleting owner (NAMESPACE/DEPLOYMENT), then their two Leases: lease
 * (NAMESPACE/NAME, kube-scheduler's) and ration-ledger. Placements of pods stay: a later release takes them
 * over. Returns the exit status; may be run again. */
int uninstall(const char *kubeconfig, const char *owner, const char *lease);
