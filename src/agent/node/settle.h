/* settle.h - which mode and unit this node serves under (terms.h), from its labels, the cluster's unit and
 * its pods. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "agent/node/terms.h"

struct agent;

/* settle_terms() - once node, pods and the cluster's unit are known, and whenever one of them changes. The
 * first time, what is in force is what the pods that are there came under, whatever is asked for meanwhile.
 */
void settle_terms(struct agent *agent);

/* settle_asked() - by the labels and the cluster's unit. settle_in_force() - what pods are served under. */
struct terms settle_asked(const struct agent *agent);
struct terms settle_in_force(const struct agent *agent);

/* settle_count_holders() - who has, or will have, devices under what is in force: pods of this node that ask
 * for a GPU and are not over, and containers that outlived their pod. */
size_t settle_count_holders(const struct agent *agent);
