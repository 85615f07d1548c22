/* unit.h - in what gpu-mem is to count on this node: the cluster says it, in the ConfigMap
 * kube-system/ration-policy, so that a change needs no restart of any agent; else the command line. When it
 * does is for settle.h to say. */
#pragma once

struct agent;

/* unit_told() - what the cluster's ConfigMap says of the unit ("1GiB"); NULL: nothing, so the command
 * line does. A text that is no unit is reported, and the last good one stays. */
void unit_told(struct agent *agent, const char *text);
