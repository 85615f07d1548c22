/* state-internal.h - the parts of a state. Each part writes some lines, and reads each of them again.
 *
 * A line is an object with one member, whose name is the kind of the line. state_begin() begins a line and
 * returns the archive to which its members are added; state_end() ends it. When a line is read, the archive
 * is already in the object of the kind; archive_fail() reports a failure.
 *
 * Tables and lists are written in their order and read into the same order, because decisions may depend on
 * it. */
#pragma once

#include "base/archive.h"
#include "core/policy/policy-book.h"
#include "core/preemption/budget.h"

struct core;
struct ownership;

/* The limit of times to which another time is added, so that the sum is a valid time, too. */
#define STATE_TIME_MAX (INT64_MAX / 4)

struct state_writer;
struct archive *state_begin(struct state_writer *writer, const char *kind);
void state_end(struct state_writer *writer);

/* Grouped by the file that defines them: state-registry.c */
void state_write_registry(struct core *core, struct state_writer *writer);
void state_read_ledger(struct core *core, struct archive *archive);
void state_read_node(struct core *core, struct archive *archive);
void state_read_pod(struct core *core, struct archive *archive);
void state_read_host_pod(struct core *core, struct archive *archive);
void state_read_order(struct core *core, struct archive *archive);

/* state-requeue.c: the list before its pods. */
void state_write_requeue(struct core *core, struct state_writer *writer);
void state_read_requeue(struct core *core, struct archive *archive);
void state_read_requeue_pod(struct core *core, struct archive *archive);

/* state-policies.c: numbers before nodes, each namespace before its policies, and these before its pods. */
void state_write_policies(struct core *core, struct state_writer *writer);
void state_read_policies(struct core *core, struct archive *archive);
void state_read_policy_node(struct core *core, struct archive *archive);
void state_read_policy_space(struct core *core, struct archive *archive);
void state_read_policy(struct core *core, struct archive *archive);
void state_read_policy_pod(struct core *core, struct archive *archive);

/* state-binds.c, state-resizing.c: the number of binds, each of them, then the orders. */
void state_write_binds(struct core *core, struct state_writer *writer);
void state_read_bind(struct core *core, struct archive *archive);
void state_read_binds(struct core *core, struct archive *archive);
void state_read_bind_orders(struct core *core, struct archive *archive);
void state_write_resizings(struct core *core, struct state_writer *writer);
void state_read_resizing(struct core *core, struct archive *archive);
void state_read_resize_orders(struct core *core, struct archive *archive);

/* state-leadership.c */
void state_write_leadership(struct core *core, struct state_writer *writer);
void state_archive_ownership(struct archive *archive, struct ownership *ownership);
void state_read_ownership(struct core *core, struct archive *archive);
void state_read_leadership(struct core *core, struct archive *archive);

/* state-evictions.c */
void state_write_evictions(struct core *core, struct state_writer *writer);
void state_read_budget(struct core *core, struct archive *archive);
void state_read_eviction(struct core *core, struct archive *archive);
void state_read_evictions(struct core *core, struct archive *archive);

/* state-gangs.c */
void state_write_gangs(struct core *core, struct state_writer *writer);
void state_read_gang_nodes(struct core *core, struct archive *archive);
void state_read_gang(struct core *core, struct archive *archive);
void state_read_gang_member(struct core *core, struct archive *archive);
void state_read_gang_order(struct core *core, struct archive *archive);
void state_read_gangs(struct core *core, struct archive *archive);

/* state-policy.c: a ResourcePolicy, the facts of a pod for it, and a PodDisruptionBudget, in an archive.
 * Reading needs a struct of zeros, which the caller frees in any case. */
void state_archive_policy(struct archive *archive, struct resource_policy *policy);
void state_archive_budget(struct archive *archive, struct budget *budget);
void state_archive_policy_pod_facts(struct archive *archive, struct policy_pod_facts *facts);
