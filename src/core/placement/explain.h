/* explain.h - why a node and each of its GPUs can or cannot serve a pod: the answer of placement_choose()
 * with its reasons, by the same checks in the same order. `ration why` shows it. */
#pragma once

#include <stddef.h>

#include "core/registry/ledger.h"

struct gpu_explanation {
	const struct gpu_ledger *gpu;
	enum gpu_reject_reason reject_reason;
	uint32_t units_free; /* without the pod's own hold */
	uint32_t core_free;  /* percent, likewise */
	size_t turn;	     /* 1: placement_choose() would take it first; 0: it does not fit */
};

struct node_explanation {
	enum reject_reason reject_reason;
	size_t n_gpus;
	struct gpu_explanation gpus[NODE_GPUS_MAX]; /* as in node->gpus */
};

/* node_explain() - valid until the ledger changes. Its reject_reason is exactly what placement_choose()
 * returns. A GPU may fit on a node that does not fit, because pods without a placement count against the node
 * as a whole. */
void node_explain(const struct node_ledger *node, const struct request *request, const char *owner,
	struct node_explanation *ret_explanation);

/* ledger_explain() - node_explain() with the sums that ledger_choose() uses. An unknown node has no GPUs. */
void ledger_explain(struct ledger *ledger, const char *node, const struct pod_facts *pod,
	struct node_explanation *ret_explanation);

/* gpu_reject_reason_text() - constant texts, including "fits". */
const char *gpu_reject_reason_text(enum gpu_reject_reason reject_reason);
