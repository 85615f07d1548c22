/* orphan.h - pods that are gone from the API server while their containers may still use a GPU. They are
 * entries of the ledger like others, with OCCUPANCY_ORPHAN. Used by ledger.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* An agent that renews no Lease for so long is silent; it does so each 10 s (src/agent/node/lease.c). */
#define SILENT_NS (ORPHAN_NS / 2)
#define ORPHAN_UNTIMED INT64_MAX /* its time begins when ledger_expire() sees it */

struct ledger;
struct ledger_pod;
struct node_ledger;
struct node_facts;

/* orphans_follow() - the node now looks like this: orphans that `held` tells the end of go, those it lists
 * come or stay. -ENOMEM: some are missing; tell again. Call before the node takes the facts over: what
 * changed counts. Another machine that has joined under the name of one that is gone shows other GPUs: with
 * the first that it shows, orphans on GPUs that it has not end, unless it lists them. One that is listed no
 * more without a word about its end (somebody took the annotation away, the agent has lost its records) ends
 * by time. */
int orphans_follow(struct ledger *ledger, struct node_ledger *node, const struct node_facts *facts);

/* orphans_forget() - the node is gone, and with it what its agent said: its orphans end by time. */
void orphans_forget(struct ledger *ledger, struct node_ledger *node);

/* orphans_begin_time() - those that end by time have ORPHAN_NS from now on. */
void orphans_begin_time(struct node_ledger *node, int64_t now_ns);

/* orphan_is_over() - its time is over, and its node's agent was heard all the while. */
bool orphan_is_over(const struct ledger *ledger, struct ledger_pod *orphan, int64_t now_ns);
