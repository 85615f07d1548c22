/* orphan.h - pods that are gone from the API server while their containers may still use a GPU. They are
 * ordinary entries of the ledger with OCCUPANCY_ORPHAN. Used by ledger.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* An agent that has not renewed its Lease for this time is silent; it renews every 10 s
 * (src/agent/node/lease.c). */
#define SILENT_NS (ORPHAN_NS / 2)
#define ORPHAN_UNTIMED INT64_MAX /* the time begins when ledger_expire() sees the orphan */

struct ledger;
struct ledger_pod;
struct node_ledger;
struct node_facts;

/* orphans_follow() - the node now looks like this. Orphans whose end `held` tells are removed; those that it
 * lists are added, or stay in the size that it lists. Call before the node takes the facts over, because the
 * change counts. -ENOMEM: some orphans are missing; repeat the call. Another machine that has joined under
 * the name of a removed node shows other GPUs. With the first GPUs that it shows, orphans on GPUs that it
 * does not have end, unless it lists them. An orphan may disappear from `held` without a word about its end,
 * for example if a user removed the annotation or the agent lost its records. Such an orphan ends by time. */
int orphans_follow(struct ledger *ledger, struct node_ledger *node, const struct node_facts *facts);

/* orphans_forget() - the node is gone, and what its agent said no longer counts: its orphans end by time. */
void orphans_forget(struct ledger *ledger, struct node_ledger *node);

/* orphans_begin_time() - orphans that end by time have ORPHAN_NS from now on. */
void orphans_begin_time(struct node_ledger *node, int64_t now_ns);

/* orphan_is_over() - the orphan's time is over, its node's agent was heard during all of it, and the watch of
 * nodes has told what the agent wrote in it. */
bool orphan_is_over(const struct ledger *ledger, struct ledger_pod *orphan, int64_t now_ns);
