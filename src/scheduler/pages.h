/* pages.h - the pages for users and tools: /why, /inspect and /metrics. Returned strings are malloc'ed; NULL
 * means out of memory. */
#pragma once

#include "core/registry/ledger.h"

struct http_call;
struct json_object;
struct requeue_state;
struct scheduler;

/* GET /why: one pod against the ledger now, node by node and GPU by GPU, and its past decisions.
 *
 *   /why?namespace=NS&name=POD[&uid=UID][&node=NODE]
 *
 * The size of the answer is bounded for every cluster. WHY_NODES_MAX nodes are shown GPU by GPU, and the
 * others are counted by reason. The newest WHY_DECISIONS_MAX decisions follow. ?node= shows that one node.
 * docs/man/ration.1.scd has the form. */
#define WHY_NODES_MAX 32
#define WHY_DECISIONS_MAX 200
#define WHY_PODS_MAX 500 /* holders of GPUs in the whole answer */

void why_answer(struct scheduler *scheduler, struct http_call *call);

struct json_object *why_pod_json(const struct ledger *ledger, const struct ledger_pod *pod);
struct json_object *why_waiting_json(const struct requeue_state *state);

/* why_add_gang() - root's "gang": the pod's gang, if it has one; and "gangLabel": the gang that the labels of
 * a bound pod name, if it was bound outside that gang. */
void why_add_gang(struct json_object *root, struct scheduler *scheduler, const struct ledger_pod *pod);

/* inspect_json() - all nodes with GPUs, or the one named (NULL: all), in the structure of gpushare's /inspect
 * with more keys. */
char *inspect_json(const struct scheduler *scheduler, const char *node);

/* occupancy_text() - "waiting", "tentative", "reserved", "bound". */
const char *occupancy_text(enum occupancy occupancy);

/* units_on() - what a pod of this node occupies on one GPU; uuid NULL: what it occupies on no GPU of the
 * node. */
uint32_t units_on(const struct node_ledger *node, const struct ledger_pod *pod, const char *uuid);

/* scheduler_metrics_page() - the page /metrics. Names: docs/internals/metrics.md. It reads all nodes and
 * pods, but the page has only sums of the cluster, without names of nodes or pods. */
char *scheduler_metrics_page(const struct scheduler *scheduler);
