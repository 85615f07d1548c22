/* node-ledger.h - the sums of one node: what its GPUs have, what its pods occupy (node-ledger.c), and whom
 * they have room for (node-fit.c). The result is in struct node_ledger (registry.h). */
#pragma once

#include <stdint.h>

#include "core/registry/registry.h"
#include "core/registry/reject-reason.h"

/* node_ledger_new() - a node of which only the name is known. */
struct node_ledger *node_ledger_new(const char *name);
void node_ledger_free(struct node_ledger *node); /* accepts NULL; the pods are the ledger's */

/* node_ledger_known() - the API server has shown it, it is not only named by pods. */
bool node_ledger_known(const struct node_ledger *node);

/* node_ledger_set_facts() - returns 1 if something that matters changed (then its pods are recounted), 0 if
 * not, -ENOMEM. node_ledger_forget() - the node is gone, its name stays for the pods that still name it. */
int node_ledger_set_facts(struct node_ledger *node, const struct node_facts *facts);
void node_ledger_forget(struct node_ledger *node);

/* node_ledger_add() / node_ledger_remove() - the pod occupies the node by pod->placement, or none of its
 * GPUs if it has none. */
void node_ledger_add(struct node_ledger *node, struct ledger_pod *pod);
void node_ledger_remove(struct node_ledger *node, struct ledger_pod *pod);

/* node_ledger_recount() - the sums anew, from its GPUs and pods. node_ledger_check() - recount without
 * changing anything: how many sums differ, how many GPUs are over. */
void node_ledger_recount(struct node_ledger *node);
size_t node_ledger_check(const struct node_ledger *node, size_t *over);

/* node_ledger_serves() - could the node serve this request if it were empty? */
enum reject_reason node_ledger_serves(const struct node_ledger *node, const struct request *request);

/* node_ledger_has_room() - would this placement of this request fit now? */
bool node_ledger_has_room(
	const struct node_ledger *node, const struct request *request, const struct placement *placement);

/* node_ledger_gpu() - the GPU with this UUID; NULL if the node has none. */
const struct gpu_ledger *node_ledger_gpu(const struct node_ledger *node, const char *uuid);

/* node_free_memory() - free units of the healthy GPUs less what unplaced pods take, never below 0.
 * node_free_units() - for a pod that comes: at most as many as the kubelet has ids for. */
uint64_t node_free_memory(const struct node_ledger *node);
uint64_t node_free_units(const struct node_ledger *node);

/* node_free_core() - percent free on the healthy GPUs less what unplaced pods ask for, never below 0. */
uint64_t node_free_core(const struct node_ledger *node);

/* node_ledger_sums_suffice() - would kube-scheduler say that the node has enough? It knows only sums, and
 * sick GPUs' free devices may come back. Then it finds nobody to preempt there. */
bool node_ledger_sums_suffice(const struct node_ledger *node, const struct request *request);

/* node_ledger_mixes() - pods of the other kind are there (with a percentage, or memory only), and the two may
 * not be on this node at the same time (contract 2). */
bool node_ledger_mixes(const struct node_ledger *node, const struct request *request);

uint32_t gpu_free_units(const struct gpu_ledger *gpu); /* 0 if used over its total */
uint32_t gpu_free_core(const struct gpu_ledger *gpu);  /* percent; likewise */
bool gpu_is_over(const struct gpu_ledger *gpu);	       /* of either more is used than there is */

/* gpu_reject_reason() - for the request's part on one GPU. */
enum gpu_reject_reason gpu_reject_reason(const struct gpu_ledger *gpu, const struct request *request);

/* node_ledger_has_gpus() - as many of the GPUs as the request wants have room for its part each.
 * node_ledger_gpus_reject_reason() - why they have not: REJECT_INSTANCES if it is for the number of
 * containers only, REJECT_CORE if not for the units, else REJECT_FULL. */
bool node_ledger_has_gpus(const struct node_ledger *node, const struct request *request);
enum reject_reason node_ledger_gpus_reject_reason(
	const struct node_ledger *node, const struct request *request);

/* Of a request for whole GPUs, by the positions of the node's GPUs. node_ledger_free_gpus() - those that
 * have room. node_ledger_group_gpus() - those of the other pods of its group. node_ledger_best_gpus() -
 * those that serve the pod best (links.h); fewer, or none, if fewer than it asks for are free, or without
 * memory. node_ledger_links_ask() - what is to be found there, with all of the group's GPUs as near. */
struct links_ask node_ledger_links_ask(const struct node_ledger *node, const struct request *request);
uint64_t node_ledger_free_gpus(const struct node_ledger *node, const struct request *request);
uint64_t node_ledger_group_gpus(const struct node_ledger *node, const struct request *request);
uint64_t node_ledger_best_gpus(const struct node_ledger *node, const struct request *request);

/* node_ledger_see_group() - writes into the placement of a pod of a group, which it has here, what its
 * containers see: its GPUs first, then those of the group's other pods; nothing if there are none. -ENOMEM.
 */
int node_ledger_see_group(
	const struct node_ledger *node, const struct request *request, struct placement *placement);

/* node_ledger_count_owner() - how many pods of this owner each GPU has (owned has NODE_GPUS_MAX entries).
 * Returns how many the node has, placed or not. */
size_t node_ledger_count_owner(const struct node_ledger *node, const char *owner, uint32_t *owned);
