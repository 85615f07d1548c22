/* choose.h - which GPU of a node a pod gets. "Why did my pod land on GPU 2" is answered in choose.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/registry/registry.h"
#include "core/registry/reject-reason.h"

/* placement_rank_gpus() - the GPUs of the node that have room for the request, best first (the order below).
 * ret_gpus has NODE_GPUS_MAX entries. Returns their number. */
size_t placement_rank_gpus(const struct node_ledger *node, const struct request *request, const char *owner,
	const struct gpu_ledger **ret_gpus);

/* placement_order_text() - this order in a sentence for users, without its full stop; whole: for whole GPUs.
 */
const char *placement_order_text(bool whole, enum gpu_policy policy);

/* placement_on_gpus() - places the request on the first request_gpus() of these GPUs of the node, without
 * checking for room; sorts them by index. -ENOMEM. */
int placement_on_gpus(const struct node_ledger *node, const struct gpu_ledger **gpus,
	const struct request *request, struct placement *ret_placement);

/* placement_choose() - picks the GPU, or GPUs, of one node for a request.
 *
 * binpack: the GPU with the least free units that fits; spread: the GPU with the fewest pods of the same
 * owner, then the most free units. Ties are broken by computing power in the same sense, then by lowest
 * index, then UUID. This is a total order, so that two replicas agree. If owner is "" (no controller), spread
 * compares free units only. A request for M GPUs gets the first M of that order that have its part free each;
 * the placement names them by index. For whole GPUs, links_plan_job() chooses among the free ones.
 *
 * Returns FITS and fills *ret_placement (the caller releases it), or the reason; -ENOMEM is the only negative
 * value. *ret_placement is untouched unless FITS. ret_placement may be NULL if only the result is needed. */
int placement_choose(const struct node_ledger *node, const struct request *request, const char *owner,
	struct placement *ret_placement);
