#include "scheduler/journal.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "kube/history.h"
#include "kube/json.h"
#include "net/http-server.h"
#include "scheduler/decision-json.h"
#include "scheduler/recorder.h"
#include "scheduler/scheduler.h"

#define HISTORY_MAX (256u << 20)

/* What was there before a change, or that there was nothing. */
enum subject { SUBJECT_NONE, SUBJECT_NODE, SUBJECT_POD };

struct entry {
	uint64_t number;
	int64_t time_ns;
	enum subject subject;
	size_t bytes;
	const char *key, *before, *line; /* before "": was not there; line "": only a picture */
	char data[];
};

struct journal {
	struct scheduler *scheduler;
	struct entry *ring[JOURNAL_MAX];
	size_t first, n;
	size_t bytes;
	uint64_t number;
	struct strbuf before, line; /* of the change at hand; kept for their memory */
};

static void on_change(void *userdata, const struct ledger *ledger, const struct ledger_event *event);

int journal_new(struct scheduler *scheduler, struct journal **ret_journal)
{
	struct journal *journal = calloc(1, sizeof(*journal));

	if (!journal)
		return -ENOMEM;
	journal->scheduler = scheduler;
	strbuf_init(&journal->before, JOURNAL_BYTES_MAX / 2);
	strbuf_init(&journal->line, JOURNAL_BYTES_MAX / 2);
	scheduler->ledger.listener = on_change;
	scheduler->ledger.listener_data = journal;
	*ret_journal = journal;
	return 0;
}

static void journal_drop_oldest(struct journal *journal)
{
	struct entry *oldest = journal->ring[journal->first];

	journal->bytes -= oldest->bytes;
	journal->first = (journal->first + 1) % JOURNAL_MAX;
	journal->n--;
	free(oldest);
}

void journal_free(struct journal *journal)
{
	if (!journal)
		return;
	journal->scheduler->ledger.listener = NULL;
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
	*entry = (struct entry){.number = journal_number(journal),
		.time_ns = realtime_ns(),
		.subject = subject,
		.bytes = bytes};
	end = entry->data;
	entry->key = pack(&end, key, key_len);
	entry->before = pack(&end, strbuf_cstr(before), before->len);
	entry->line = pack(&end, strbuf_cstr(line), line->len);
	journal->ring[(journal->first + journal->n++) % JOURNAL_MAX] = entry;
	journal->bytes += bytes;
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

/* A change of a node takes ghosts along: those on it, and those that its agent lists. */
static void keep_ghosts(
	struct journal *journal, const struct ledger *ledger, const struct ledger_event *event)
{
	const struct node_ledger *node = ledger_node(ledger, event->key);

	if (node)
		list_for_each (item, &node->pods) {
			const struct ledger_pod *pod = list_entry(item, struct ledger_pod, item);

			if (pod->occupancy == OCCUPANCY_GHOST)
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

	if (!scheduler_is_ready(journal->scheduler) || is_repetition(journal, ledger, event))
		return;
	if (event->verb == LEDGER_SET_NODE || event->verb == LEDGER_REMOVE_NODE)
		keep_ghosts(journal, ledger, event);
	strbuf_clear(&journal->before);
	strbuf_clear(&journal->line);
	if (subject == SUBJECT_NODE)
		add_node_picture(&journal->before, ledger, event->key);
	else
		add_pod_picture(&journal->before, ledger, event->key);
	history_add_event(&journal->line, event);
	journal_add(journal, subject, event->key, &journal->before, &journal->line);
}

void journal_asked(struct journal *journal, const struct pod_facts *pod, const char *const *names, size_t n)
{
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

/* The dump. */

/* The oldest picture of each object that changed since. */
struct pictures {
	struct table nodes, pods; /* key -> struct entry */
};

static int pictures_take(const struct journal *journal, struct pictures *pictures)
{
	table_init(&pictures->nodes);
	table_init(&pictures->pods);
	for (size_t i = journal->n; i-- > 0;) {
		struct entry *entry = journal->ring[(journal->first + i) % JOURNAL_MAX];

		if (entry->subject == SUBJECT_NONE)
			continue;
		if (table_set(entry->subject == SUBJECT_NODE ? &pictures->nodes : &pictures->pods, entry->key,
			    entry) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void pictures_release(struct pictures *pictures)
{
	table_release(&pictures->nodes);
	table_release(&pictures->pods);
}

static void add_restore(struct strbuf *out, const char *what, const char *text)
{
	if (!*text)
		return;
	strbuf_adds(out, what);
	strbuf_adds(out, text);
	strbuf_adds(out, "}\n");
}

#define RESTORE_NODE "{\"restoreNode\":"
#define RESTORE_POD "{\"restorePod\":"

static void add_beginning(struct strbuf *out, const struct ledger *ledger, const struct pictures *pictures)
{
	const struct entry *entry;
	const char *key;
	size_t cursor = 0;

	table_for_each (&pictures->nodes, c, entry)
		add_restore(out, RESTORE_NODE, entry->before);
	while (table_next(&ledger->nodes, &cursor, &key, NULL)) {
		const struct node_ledger *node = ledger_node(ledger, key);

		if (!node->facts.uid || table_get(&pictures->nodes, key))
			continue;
		strbuf_adds(out, RESTORE_NODE);
		history_add_node(out, node, true);
		strbuf_adds(out, "}\n");
	}
	table_for_each (&pictures->pods, c, entry)
		add_restore(out, RESTORE_POD, entry->before);
	cursor = 0;
	while (table_next(&ledger->pods, &cursor, &key, NULL)) {
		if (table_get(&pictures->pods, key))
			continue;
		strbuf_adds(out, RESTORE_POD);
		history_add_pod(out, ledger_pod(ledger, key));
		strbuf_adds(out, "}\n");
	}
}

static void add_entry(struct strbuf *out, const struct entry *entry)
{
	char time[TIME_TEXT_SIZE];

	if (*entry->line)
		strbuf_addf(out, "{\"number\":%llu,\"time\":\"%s\",%s\n", (unsigned long long)entry->number,
			time_text(entry->time_ns, time), entry->line + 1);
}

static void add_decision(struct strbuf *out, const struct decision *decision)
{
	_cleanup_json_ struct json_object *object = decision_to_json(decision);

	json_set(object, "number", json_object_new_uint64(decision->number));
	strbuf_addf(out, "%s\n", json_text(object));
}

/* Decisions from before the journal's first entry have no ledger to be replayed on. */
static void add_events(struct strbuf *out, const struct journal *journal, const struct recorder *recorder)
{
	const struct decision *decision;
	size_t cursor = 0, i = 0;

	while ((decision = recorder_next(recorder, &cursor))) {
		if (!journal->n || decision->number < journal->ring[journal->first]->number)
			continue;
		for (; i < journal->n; i++) {
			const struct entry *entry = journal->ring[(journal->first + i) % JOURNAL_MAX];

			if (entry->number > decision->number)
				break;
			add_entry(out, entry);
		}
		add_decision(out, decision);
	}
	for (; i < journal->n; i++)
		add_entry(out, journal->ring[(journal->first + i) % JOURNAL_MAX]);
}

void journal_answer(struct journal *journal, struct http_call *call)
{
	struct scheduler *scheduler = journal->scheduler;
	struct pictures pictures;
	struct strbuf out;

	strbuf_init(&out, HISTORY_MAX);
	strbuf_addf(&out, "{\"history\":1,\"scheduler\":\"" RATION_VERSION "\",\"bestNodes\":%zu}\n",
		scheduler->best_nodes);
	if (pictures_take(journal, &pictures) == 0) {
		add_beginning(&out, &scheduler->ledger, &pictures);
		add_events(&out, journal, scheduler->recorder);
	} else {
		out.failed = -ENOMEM;
	}
	pictures_release(&pictures);
	http_call_reply(call, 200, "application/x-ndjson", strbuf_take(&out));
}
