/* settle.h - which mode and unit this node serves under (terms.h), from its labels, the cluster's unit and
 * its pods. */
#pragma once

struct agent;

/* settle_terms() - once node, pods and the cluster's unit are known, and whenever one of them changes. The
 * first time, what is in force is what the pods that are there came under, whatever is asked for meanwhile.
 */
void settle_terms(struct agent *agent);
