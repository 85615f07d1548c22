/* journal.h - the last changes of the ledger, so that what was decided can be replayed elsewhere (`ration
 * replay`).
 *
 * The journal is the ledger's listener. Each change is kept with what was there before it: from the ledger as
 * it is now and the oldest such picture of each object follows the ledger at the journal's beginning, so that
 * no second ledger is kept. A ring of JOURNAL_MAX entries and JOURNAL_BYTES_MAX bytes, whichever is reached
 * first.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define JOURNAL_MAX 20000
#define JOURNAL_BYTES_MAX (8u << 20)
/* Longer lists of nodes that filter is asked about are counted. */
#define JOURNAL_NAMES_MAX 256

struct gang_event;
struct http_call;
struct journal;
struct pod_facts;
struct scheduler;

/* journal_new() - listens to scheduler->core.ledger from the time that the scheduler is ready. */
int journal_new(struct scheduler *scheduler, struct journal **ret_journal);
void journal_free(struct journal *journal); /* accepts NULL */

/* journal_number() - the next number in the order of everything that happens. */
uint64_t journal_number(struct journal *journal);

/* journal_planned() - of the kind GANG_EVENT_PLAN, before what is held changes. */
void journal_planned(struct journal *journal, const struct gang_event *event);

size_t journal_bytes(const struct journal *journal);

/* journal_answer() - GET /history: JSON lines as kube/history.h tells. The whole ledger is written, with
 * thousands of nodes for some tenths of a second: in slices, see dump.h. One at a time, others are answered
 * 503. */
void journal_answer(struct journal *journal, struct http_call *call);

/* journal_stop() - an answer that is not ready is 503 now: before the HTTP server is freed. Accepts NULL. */
void journal_stop(struct journal *journal);
