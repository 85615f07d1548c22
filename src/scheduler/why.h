/* why.h - GET /why: one pod against the ledger now, node by node and GPU by GPU, and its past decisions.
 *
 *   /why?namespace=NS&name=POD[&uid=UID][&node=NODE]
 *
 * The size of the answer is bounded for every cluster. WHY_NODES_MAX nodes are shown GPU by GPU, and the
 * others are counted by reason. The newest WHY_DECISIONS_MAX decisions follow. ?node= shows that one node.
 * docs/man/ration.1.scd has the form. */
#pragma once

#define WHY_NODES_MAX 32
#define WHY_DECISIONS_MAX 200
#define WHY_PODS_MAX 500 /* holders of GPUs in the whole answer */

struct http_call;
struct scheduler;

void why_answer(struct scheduler *scheduler, struct http_call *call);
