/* uninstall.h - the chart's pre-delete hook: a run of its own, on any node. */
#pragma once

struct options;

/* uninstall() - tells the agents that they are the last ones (delivery_clear()), ends them by deleting
 * options->uninstall (NAMESPACE/DAEMONSET), and takes from all nodes what agents wrote there, dead ones
 * included, and their Leases. Annotations and labels that people set stay, and so do the placements of pods,
 * which a later release takes over. Returns the exit status; may be run again. */
int uninstall(const struct options *options);
