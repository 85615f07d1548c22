#include "scheduler/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "kube/history.h"
#include "kube/json.h"
#include "net/http-server.h"
#include "scheduler/dump.h"
#include "scheduler/journal-internal.h"
#include "scheduler/scheduler.h"

static void on_change(void *userdata, const struct ledger *ledger, const struct ledger_event *event);

static void on_asked(void *userdata, const struct pod_facts *pod, const char *const *names, size_t n);

int journal_new(struct scheduler *scheduler, struct journal **ret_journal)
{
	struct journal *journal = calloc(1, sizeof(*journal));

	if (!journal)
		return -ENOMEM;
	journal->scheduler = scheduler;
	strbuf_init(&journal->before, JOURNAL_BYTES_MAX / 2);
	strbuf_init(&journal->line, JOURNAL_BYTES_MAX / 2);
	scheduler->core.ledger.listener = on_change;
	scheduler->core.ledger.listener_data = journal;
	scheduler->core.asked = on_asked;
	scheduler->core.asked_data = journal;
	*ret_journal = journal;
	return 0;
}

void entry_unref(struct entry *entry)
{
	if (--entry->refs == 0)
		free(entry);
}

static void journal_drop_oldest(struct journal *journal)
{
	struct entry *oldest = journal->ring[journal->first];

	journal->bytes -= oldest->bytes;
	journal->first = (journal->first + 1) % JOURNAL_MAX;
	journal->n--;
	entry_unref(oldest);
}

void journal_stop(struct journal *journal)
{
	if (journal && journal->dump)
		dump_abandon(journal->dump);
}

void journal_free(struct journal *journal)
{
	if (!journal)
		return;
	journal_stop(journal);
	journal->scheduler->core.ledger.listener = NULL;
	journal->scheduler->core.asked = NULL;
	while (journal->n)
		journal_drop_oldest(journal);
	strbuf_release(&journal->before);
	strbuf_release(&journal->line);
	free(journal);
}

uint64_t journal_number(struct journal *journal)
{
	return ++journal->number;
}

size_t journal_bytes(const struct journal *journal)
{
	return journal->bytes;
}

static const char *pack(char **end, const char *text, size_t len)
{
	char *copy = *end;

	memcpy(copy, text, len + 1);
	*end += len + 1;
	return copy;
}

/* A change that cannot be kept would make what follows wrong: then the history begins anew behind it. */
static void journal_add(struct journal *journal, enum subject subject, const char *key,
	const struct strbuf *before, const struct strbuf *line)
{
	size_t key_len = strlen(key), bytes = sizeof(struct entry) + key_len + before->len + line->len + 3;
	struct entry *entry = before->failed || line->failed ? NULL : malloc(bytes);
	char *end;

	while (journal->n &&
		(!entry || journal->n == JOURNAL_MAX || journal->bytes + bytes > JOURNAL_BYTES_MAX))
		journal_drop_oldest(journal);
	if (!entry)
		return;
	*entry = (struct entry){.refs = 1,
		.number = journal_number(journal),
		.time_ns = realtime_ns(),
		.subject = subject,
		.bytes = bytes};
	end = entry->data;
	entry->key = pack(&end, key, key_len);
	entry->before = pack(&end, strbuf_cstr(before), before->len);
	entry->line = pack(&end, strbuf_cstr(line), line->len);
	journal->ring[(journal->first + journal->n++) % JOURNAL_MAX] = entry;
	journal->bytes += bytes;
	if (journal->dump)
		dump_note(journal->dump, entry);
}

/* Pictures: "" for what is not there. */

static void add_node_picture(struct strbuf *out, const struct ledger *ledger, const char *name)
{
	const struct node_ledger *node = ledger_node(ledger, name);

	if (node && node->facts.uid)
		history_add_node(out, node, true);
}

static void add_pod_picture(struct strbuf *out, const struct ledger *ledger, const char *uid)
{
	const struct ledger_pod *pod = ledger_pod(ledger, uid);

	if (pod)
		history_add_pod(out, pod);
}

static void keep_pod_picture(struct journal *journal, const struct ledger *ledger, const char *uid)
{
	strbuf_clear(&journal->before);
	strbuf_clear(&journal->line);
	add_pod_picture(&journal->before, ledger, uid);
	journal_add(journal, SUBJECT_POD, uid, &journal->before, &journal->line);
}

/* A change of a node takes orphans along: those on it, and those that its agent lists. */
static void keep_orphans(
	struct journal *journal, const struct ledger *ledger, const struct ledger_event *event)
{
	const struct node_ledger *node = ledger_node(ledger, event->key);

	if (node)
		list_for_each (item, &node->pods) {
			const struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);

			if (pod->occupancy == OCCUPANCY_ORPHAN)
				keep_pod_picture(journal, ledger, pod->facts.uid);
		}
	for (size_t i = 0; event->node && i < event->node->held.n_pods; i++)
		keep_pod_picture(journal, ledger, event->node->held.pods[i].uid);
}

/* The API server repeats itself: what says nothing new is not kept. */
static bool is_repetition(
	struct journal *journal, const struct ledger *ledger, const struct ledger_event *event)
{
	const struct node_ledger *node = event->verb == LEDGER_SET_NODE ? ledger_node(ledger, event->key)
									: NULL;
	const struct ledger_pod *pod = event->verb == LEDGER_SET_POD ? ledger_pod(ledger, event->key) : NULL;
	struct strbuf *is = &journal->before, *said = &journal->line;

	strbuf_clear(is);
	strbuf_clear(said);
	if (node && node->facts.uid) {
		history_add_node(is, node, false);
		history_add_node_facts(said, event->node);
	} else if (pod && pod->listed) {
		history_add_pod_facts(is, &pod->facts);
		history_add_pod_facts(said, event->pod);
	}
	return is->len && !is->failed && !said->failed && strcmp(strbuf_cstr(is), strbuf_cstr(said)) == 0;
}

static enum subject subject_of(enum ledger_verb verb)
{
	return verb == LEDGER_SET_NODE || verb == LEDGER_REMOVE_NODE || verb == LEDGER_AGENT_LOST
		       ? SUBJECT_NODE
		       : SUBJECT_POD;
}

static void on_change(void *userdata, const struct ledger *ledger, const struct ledger_event *event)
{
	enum subject subject = subject_of(event->verb);
	struct journal *journal = userdata;

	if (!core_is_ready(&journal->scheduler->core) || is_repetition(journal, ledger, event))
		return;
	if (event->verb == LEDGER_SET_NODE || event->verb == LEDGER_REMOVE_NODE)
		keep_orphans(journal, ledger, event);
	strbuf_clear(&journal->before);
	strbuf_clear(&journal->line);
	if (subject == SUBJECT_NODE)
		add_node_picture(&journal->before, ledger, event->key);
	else
		add_pod_picture(&journal->before, ledger, event->key);
	history_add_event(&journal->line, event);
	journal_add(journal, subject, event->key, &journal->before, &journal->line);
}

/* Filter looks for a node among these. */
static void on_asked(void *userdata, const struct pod_facts *pod, const char *const *names, size_t n)
{
	struct journal *journal = userdata;
	struct strbuf *line = &journal->line;

	strbuf_clear(&journal->before);
	strbuf_clear(line);
	strbuf_adds(line, "{\"asked\":");
	if (n > JOURNAL_NAMES_MAX)
		json_add_number(line, (int64_t)n);
	for (size_t i = 0; n <= JOURNAL_NAMES_MAX && i < n; i++) {
		strbuf_adds(line, i ? "," : "[");
		json_add_string(line, names[i]);
	}
	if (n <= JOURNAL_NAMES_MAX)
		strbuf_adds(line, n ? "]" : "[]");
	strbuf_adds(line, ",\"pod\":");
	history_add_pod_facts(line, pod);
	strbuf_adds(line, "}");
	journal_add(journal, SUBJECT_NONE, "", &journal->before, line);
}

void journal_planned(struct journal *journal, const struct gang_event *event)
{
	strbuf_clear(&journal->before);
	strbuf_clear(&journal->line);
	history_add_plan(&journal->line, event, JOURNAL_NAMES_MAX);
	journal_add(journal, SUBJECT_NONE, "", &journal->before, &journal->line);
}

void journal_answer(struct journal *journal, struct http_call *call)
{
	if (journal->dump)
		http_call_reply(call, 503, "text/plain; charset=utf-8",
			strdup("another history is being written, try again in a second\n"));
	else if (dump_begin(journal, call, &journal->dump) < 0)
		http_call_reply(call, 500, "text/plain; charset=utf-8", NULL);
}
