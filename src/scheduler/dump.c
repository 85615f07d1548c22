#include "scheduler/dump.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "base/table.h"
#include "kube/history.h"
#include "kube/json.h"
#include "net/http-server.h"
#include "net/loop.h"
#include "scheduler/decision-json.h"
#include "scheduler/journal-internal.h"
#include "scheduler/recorder.h"
#include "scheduler/scheduler.h"

#define HISTORY_MAX (256u << 20)
/* Changes during the writing; so many in a second mean that it would not end. */
#define ENTRIES_MAX (2 * JOURNAL_MAX)
/* The clock is looked at after so many objects. */
#define BATCH 32

enum phase { PHASE_NODES, PHASE_PODS, PHASE_EVENTS, PHASE_END };

struct dump {
	struct journal *journal;
	struct http_call *call;
	struct loop_timer *timer;
	struct strbuf out;
	enum phase phase;
	struct entry **entries; /* those there were, then what came since, oldest first */
	size_t n_entries, n_before;
	size_t entry_at;       /* in this phase */
	struct strbuf keys[2]; /* of nodes and pods at the beginning, each with its NUL */
	size_t key_at;	       /* in this phase, in bytes */
	struct table done;     /* keys that are written, or were not there, in this phase */
	uint64_t decision_at;  /* number of the next decision */
	uint64_t end_number;   /* what came later is not written */
};

static void dump_free(struct dump *dump)
{
	dump->journal->dump = NULL;
	for (size_t i = 0; i < dump->n_entries; i++)
		entry_unref(dump->entries[i]);
	free(dump->entries);
	strbuf_release(&dump->out);
	strbuf_release(&dump->keys[0]);
	strbuf_release(&dump->keys[1]);
	table_release(&dump->done);
	loop_timer_remove(dump->timer);
	free(dump);
}

void dump_abandon(struct dump *dump)
{
	http_call_reply(dump->call, 503, "text/plain; charset=utf-8",
		strdup("the history was not written to its end, try again\n"));
	dump_free(dump);
}

/* The ledger at the beginning. */

static bool is_new(struct dump *dump, const char *key)
{
	if (table_get(&dump->done, key))
		return false;
	if (table_set(&dump->done, key, dump) < 0)
		dump->out.failed = -ENOMEM;
	return true;
}

static void add_restore(struct dump *dump, const char *text)
{
	if (!*text)
		return;
	strbuf_adds(&dump->out, dump->phase == PHASE_NODES ? "{\"restoreNode\":" : "{\"restorePod\":");
	strbuf_adds(&dump->out, text);
	strbuf_adds(&dump->out, "}\n");
}

static void add_object(struct dump *dump, const char *key)
{
	const struct ledger *ledger = &dump->journal->scheduler->core.ledger;
	const struct node_ledger *node = dump->phase == PHASE_NODES ? ledger_node(ledger, key) : NULL;
	const struct ledger_pod *pod = dump->phase == PHASE_PODS ? ledger_pod(ledger, key) : NULL;

	if (node && node->facts.uid) {
		strbuf_adds(&dump->out, "{\"restoreNode\":");
		history_add_node(&dump->out, node, true);
		strbuf_adds(&dump->out, "}\n");
	} else if (pod) {
		strbuf_adds(&dump->out, "{\"restorePod\":");
		history_add_pod(&dump->out, pod);
		strbuf_adds(&dump->out, "}\n");
	}
}

/* Pictures first, those of changes since the last slice too: an object without one is as it was. False: this
 * phase is over. */
static bool add_beginning(struct dump *dump)
{
	enum subject subject = dump->phase == PHASE_NODES ? SUBJECT_NODE : SUBJECT_POD;
	const struct strbuf *keys = &dump->keys[dump->phase];

	if (dump->entry_at < dump->n_entries) {
		const struct entry *entry = dump->entries[dump->entry_at++];

		if (entry->subject == subject && is_new(dump, entry->key))
			add_restore(dump, entry->before);
		return true;
	}
	if (dump->key_at < keys->len) {
		const char *key = keys->data + dump->key_at;

		dump->key_at += strlen(key) + 1;
		if (is_new(dump, key))
			add_object(dump, key);
		return true;
	}
	return false;
}

/* What happened. */

static void add_entry(struct strbuf *out, const struct entry *entry)
{
	char time[TIME_TEXT_SIZE];

	if (!*entry->line)
		return;
	strbuf_adds(out, "{\"number\":");
	json_add_number(out, (int64_t)entry->number);
	strbuf_adds(out, ",\"time\":\"");
	strbuf_adds(out, time_text(entry->time_ns, time));
	strbuf_adds(out, "\",");
	strbuf_adds(out, entry->line + 1);
	strbuf_adds(out, "\n");
}

static void add_decision(struct strbuf *out, const struct decision *decision)
{
	_cleanup_json_ struct json_object *object = decision_to_json(decision);

	json_set(object, "number", json_object_new_uint64(decision->number));
	strbuf_adds(out, json_text(object));
	strbuf_adds(out, "\n");
}

/* Decisions from before the journal's first entry have no ledger to be replayed on. False: all is written. */
static bool add_event(struct dump *dump)
{
	const struct entry *entry = dump->entry_at < dump->n_before ? dump->entries[dump->entry_at] : NULL;
	const struct recorder *recorder = dump->journal->scheduler->recorder;
	size_t cursor = recorder_find(recorder, dump->decision_at);
	const struct decision *decision = dump->n_before ? recorder_next(recorder, &cursor) : NULL;

	if (decision && decision->number > dump->end_number)
		decision = NULL;
	if (entry && (!decision || entry->number < decision->number)) {
		add_entry(&dump->out, entry);
		dump->entry_at++;
	} else if (decision) {
		add_decision(&dump->out, decision);
		dump->decision_at = decision->number + 1;
	}
	return entry || decision;
}

static void next_phase(struct dump *dump)
{
	dump->phase++;
	dump->entry_at = dump->key_at = 0;
	table_release(&dump->done);
	table_init(&dump->done);
}

static void dump_work(struct dump *dump)
{
	int64_t end_ns = monotonic_ns() + DUMP_SLICE_NS;

	while (dump->phase < PHASE_END && !dump->out.failed && monotonic_ns() < end_ns)
		for (size_t i = 0; i < BATCH; i++)
			if (!(dump->phase == PHASE_EVENTS ? add_event(dump) : add_beginning(dump))) {
				next_phase(dump);
				break;
			}
}

static void on_slice(void *userdata)
{
	struct dump *dump = userdata;

	if (http_call_is_gone(dump->call)) {
		dump_abandon(dump);
		return;
	}
	dump_work(dump);
	if (dump->out.failed) {
		dump_abandon(dump);
	} else if (dump->phase == PHASE_END) {
		http_call_reply(dump->call, 200, "application/x-ndjson", strbuf_take(&dump->out));
		dump_free(dump);
	} else {
		loop_timer_set(dump->timer, DUMP_PAUSE_NS);
	}
}

void dump_note(struct dump *dump, struct entry *entry)
{
	if (dump->n_entries == ENTRIES_MAX) {
		dump->out.failed = -EMSGSIZE;
		return;
	}
	entry->refs++;
	dump->entries[dump->n_entries++] = entry;
}

static void note_keys(struct strbuf *keys, const struct table *table)
{
	const char *key;
	size_t cursor = 0;

	while (table_next(table, &cursor, &key, NULL))
		strbuf_add(keys, key, strlen(key) + 1);
}

int dump_begin(struct journal *journal, struct http_call *call, struct dump **ret_dump)
{
	struct scheduler *scheduler = journal->scheduler;
	struct dump *dump = calloc(1, sizeof(*dump));

	if (!dump)
		return -ENOMEM;
	*dump = (struct dump){.journal = journal, .call = call, .end_number = journal->number};
	table_init(&dump->done);
	strbuf_init(&dump->out, HISTORY_MAX);
	strbuf_init(&dump->keys[0], HISTORY_MAX);
	strbuf_init(&dump->keys[1], HISTORY_MAX);
	dump->entries = calloc(ENTRIES_MAX, sizeof(*dump->entries));
	if (!dump->entries || loop_add_timer(scheduler->loop, on_slice, dump, &dump->timer) < 0) {
		dump_free(dump);
		return -ENOMEM;
	}
	for (size_t i = 0; i < journal->n; i++)
		dump_note(dump, journal->ring[(journal->first + i) % JOURNAL_MAX]);
	dump->n_before = dump->n_entries;
	dump->decision_at = dump->n_before ? dump->entries[0]->number : 0;
	note_keys(&dump->keys[0], &scheduler->core.ledger.nodes);
	note_keys(&dump->keys[1], &scheduler->core.ledger.pods);
	strbuf_addf(&dump->out, "{\"history\":1,\"scheduler\":\"" RATION_VERSION "\",\"bestNodes\":%zu}\n",
		scheduler->best_nodes);
	if (dump->keys[0].failed || dump->keys[1].failed)
		dump->out.failed = -ENOMEM;
	loop_timer_set(dump->timer, 0);
	*ret_dump = dump;
	return 0;
}
