/* ghost.h - pods that are gone from the API server while their containers may still use a card. They are
 * entries of the ledger like others, with OCCUPANCY_GHOST. Used by ledger.c. */
#pragma once

struct ledger;
struct ledger_pod;
struct node_ledger;
struct node_facts;

/* ghosts_follow() - the node now looks like this: ghosts that `held` tells the end of go, those it lists
 * come or stay. -ENOMEM: some are missing; tell again. Call before the node takes the facts over: what
 * changed counts. */
int ghosts_follow(struct ledger *ledger, struct node_ledger *node, const struct node_facts *facts);

/* ghosts_forget() - the node is gone, and with it what its agent said; others expire. */
void ghosts_forget(struct ledger *ledger, struct node_ledger *node);
