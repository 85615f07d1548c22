/* node-ledger.h - the sums of one node: what its GPUs have and what its pods occupy (node-ledger.c), and
 * which pods fit (node-fit.c). The result is in struct node_ledger (registry.h). */
#pragma once

#include <stdint.h>

#include "core/registry/registry.h"
#include "core/registry/reject-reason.h"

/* node_ledger_new() - creates a node of which only the name is known. */
struct node_ledger *node_ledger_new(const char *name);
void node_ledger_free(struct node_ledger *node); /* accepts NULL; the pods are the ledger's */

/* node_ledger_compare() - for qsort() of pointers to nodes: by name. */
int node_ledger_compare(const void *a, const void *b);

/* node_host_left() - the CPU and memory that the node can allocate and its pods do not request; never below
 * 0. */
struct host_sum node_host_left(const struct node_ledger *node);

/* node_ledger_known() - true if the API server has shown the node; otherwise only pods name it. */
bool node_ledger_known(const struct node_ledger *node);

/* node_ledger_set_facts() - returns 1 if a fact that matters changed (then the node's pods are recounted), 0
 * if not, or -ENOMEM. node_ledger_forget() - the node is gone; its name stays for the pods that still name
 * it. */
int node_ledger_set_facts(struct node_ledger *node, const struct node_facts *facts);
void node_ledger_forget(struct node_ledger *node);

/* node_ledger_facts() - all facts that the ledger has of the node, so that a caller can change one and show
 * the node again. It has no links between GPUs and no gpu_details.model. The texts stay the node's. */
void node_ledger_facts(const struct node_ledger *node, struct node_facts *ret_facts);

/* node_ledger_add() / node_ledger_remove() - the pod occupies the node by pod->placement. A pod without a
 * placement occupies the node but none of its GPUs. */
void node_ledger_add(struct node_ledger *node, struct ledger_pod *pod);
void node_ledger_remove(struct node_ledger *node, struct ledger_pod *pod);

/* node_ledger_recount() - computes the sums anew from the node's GPUs and pods. node_ledger_check() -
 * recounts without changing the sums; returns how many differ. *over receives the number of GPUs that are
 * used over their total. */
void node_ledger_recount(struct node_ledger *node);
size_t node_ledger_check(const struct node_ledger *node, size_t *over);

/* node_ledger_serves() - could the node serve this request if it were empty? */
enum reject_reason node_ledger_serves(const struct node_ledger *node, const struct request *request);

/* node_ledger_has_room() - would this placement of this request fit now? */
bool node_ledger_has_room(
	const struct node_ledger *node, const struct request *request, const struct placement *placement);

/* node_ledger_gpu() - the GPU with this UUID; NULL if the node has none. */
const struct gpu_ledger *node_ledger_gpu(const struct node_ledger *node, const char *uuid);

/* node_free_memory() - the free units of the healthy GPUs, less those that unplaced pods take; never below 0.
 * node_free_units() - the same for a new pod: at most as many as the kubelet has device ids for. */
uint64_t node_free_memory(const struct node_ledger *node);
uint64_t node_free_units(const struct node_ledger *node);

/* node_free_core() - the free percent of the healthy GPUs, less what unplaced pods ask for; never below 0. */
uint64_t node_free_core(const struct node_ledger *node);

/* node_ledger_sums_suffice() - would kube-scheduler say that the node has enough? It knows only sums, and
 * free devices of unhealthy GPUs may count again. If the sums suffice, kube-scheduler finds no pod to preempt
 * there. */
bool node_ledger_sums_suffice(const struct node_ledger *node, const struct request *request);

/* node_ledger_mixes() - the node has pods of the other kind (with a percentage, or with memory only), and the
 * two kinds may not be on this node at the same time (contract 2). */
bool node_ledger_mixes(const struct node_ledger *node, const struct request *request);

uint32_t gpu_free_units(const struct gpu_ledger *gpu); /* 0 if used over its total */
uint32_t gpu_free_core(const struct gpu_ledger *gpu);  /* percent; likewise */
bool gpu_is_over(const struct gpu_ledger *gpu); /* more than the total of units or of percent is used */

/* gpu_reject_reason() - why one GPU does not fit the request's part on it. */
enum gpu_reject_reason gpu_reject_reason(const struct gpu_ledger *gpu, const struct request *request);

/* node_ledger_has_gpus() - as many GPUs as the request wants have room for its part each.
 * node_ledger_gpus_reject_reason() - why they have not: REJECT_INSTANCES if only the number of containers is
 * the cause, REJECT_CORE if the units would suffice, else REJECT_FULL. */
bool node_ledger_has_gpus(const struct node_ledger *node, const struct request *request);
enum reject_reason node_ledger_gpus_reject_reason(
	const struct node_ledger *node, const struct request *request);

/* These functions serve requests for whole GPUs. They return sets of the node's GPUs by position.
 * node_ledger_free_gpus() - the GPUs that have room. node_ledger_group_gpus() - the GPUs of the other pods of
 * the request's group. node_ledger_best_gpus() - the GPUs that serve the pod best (links.h). It returns
 * fewer, or none, if fewer than the pod asks for are free, or if memory ran out. node_ledger_links_ask() -
 * what links.h searches for there, so that all GPUs of the group are near each other. */
struct links_ask node_ledger_links_ask(const struct node_ledger *node, const struct request *request);
uint64_t node_ledger_free_gpus(const struct node_ledger *node, const struct request *request);
uint64_t node_ledger_group_gpus(const struct node_ledger *node, const struct request *request);
uint64_t node_ledger_best_gpus(const struct node_ledger *node, const struct request *request);

/* node_ledger_see_group() - for a pod whose group has other pods on this node: writes into the placement
 * which GPUs its containers see. The pod's own GPUs come first, then those of the group's other pods. Writes
 * nothing if the group has no other pods here. -ENOMEM. */
int node_ledger_see_group(
	const struct node_ledger *node, const struct request *request, struct placement *placement);

/* node_ledger_count_owner() - counts the pods of this owner on each GPU (owned has NODE_GPUS_MAX entries).
 * Returns how many the node has, placed or not. */
size_t node_ledger_count_owner(const struct node_ledger *node, const char *owner, uint32_t *owned);
