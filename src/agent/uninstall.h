/* uninstall.h - the chart's pre-delete hook, which runs as a program of its own on any node. */
#pragma once

struct options;

/* uninstall() - tells the agents that they are the last ones (delivery_clear()), and ends them by deleting
 * options->uninstall (NAMESPACE/DAEMONSET). Then it removes what agents wrote from all nodes, including dead
 * ones, and their Leases. Annotations and labels that users set stay. So do the placements of pods, which a
 * later release takes over. Returns the exit status; may be run again. */
int uninstall(const struct options *options);
