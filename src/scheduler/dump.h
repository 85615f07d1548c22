/* dump.h - a history being written: the ledger as it was at the journal's beginning, then its entries and the
 * decisions, up to the moment of the question.
 *
 * In slices, because filter and bind have to wait meanwhile. The ledger changes between them; what is written
 * is the state at one moment all the same: each change tells, before it happens, what was there, and the
 * oldest such picture of an object is taken instead of what is there by now. Entries that leave the journal's
 * ring meanwhile stay here; decisions that leave theirs are missing.
 */
#pragma once

/* What one slice may take; then the loop has the other work of a turn done. */
#define DUMP_SLICE_NS (2 * NS_PER_MS)
#define DUMP_PAUSE_NS NS_PER_MS

struct dump;
struct entry;
struct http_call;
struct journal;

/* dump_begin() - answers the call some slices later, and sets the journal's dump to NULL then. -ENOMEM:
 * nothing was begun, and the call is the caller's. */
int dump_begin(struct journal *journal, struct http_call *call, struct dump **ret_dump);

/* dump_note() - the journal has a new entry. */
void dump_note(struct dump *dump, struct entry *entry);

/* dump_abandon() - answers 503. */
void dump_abandon(struct dump *dump);
