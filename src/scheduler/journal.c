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
};

static void on_change(void *userdata, const struct ledger *ledger, const struct ledger_event *event);

int journal_new(struct scheduler *scheduler, struct journal **ret_journal)
{
	struct journal *journal = calloc(1, sizeof(*journal));

	if (!journal)
		return -ENOMEM;
	journal->scheduler = scheduler;
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

static const char *pack(char **end, const char *text)
{
	char *copy = *end;

	*end += strlen(text) + 1;
	return strcpy(copy, text);
}

/* A change that cannot be kept would make what follows wrong: then the history begins anew behind it. */
static void journal_add(
	struct journal *journal, enum subject subject, const char *key, const char *before, const char *line)
{
	struct entry *entry = NULL;
	size_t bytes = 0;
	char *end;

	if (before && line) {
		bytes = sizeof(*entry) + strlen(key) + strlen(before) + strlen(line) + 3;
		entry = malloc(bytes);
	}
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
	entry->key = pack(&end, key);
	entry->before = pack(&end, before);
	entry->line = pack(&end, line);
	journal->ring[(journal->first + journal->n++) % JOURNAL_MAX] = entry;
	journal->bytes += bytes;
}

/* Pictures. */

static struct json_object *node_picture(const struct ledger *ledger, const char *name)
{
	const struct node_ledger *node = ledger_node(ledger, name);

	return node && node->facts.uid ? history_node_to_json(node) : NULL;
}

static struct json_object *pod_picture(const struct ledger *ledger, const char *uid)
{
	const struct ledger_pod *pod = ledger_pod(ledger, uid);

	return pod ? history_pod_to_json(pod) : NULL;
}

static const char *text_or_nothing(struct json_object *object)
{
	return object ? json_text(object) : "";
}

static void keep_pod_picture(struct journal *journal, const struct ledger *ledger, const char *uid)
{
	_cleanup_json_ struct json_object *before = pod_picture(ledger, uid);

	journal_add(journal, SUBJECT_POD, uid, text_or_nothing(before), "");
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
static bool is_repetition(const struct ledger *ledger, const struct ledger_event *event)
{
	const struct node_ledger *node = event->verb == LEDGER_SET_NODE ? ledger_node(ledger, event->key)
									: NULL;
	const struct ledger_pod *pod = event->verb == LEDGER_SET_POD ? ledger_pod(ledger, event->key) : NULL;
	_cleanup_json_ struct json_object *is = NULL, *said = NULL;

	if (node && node->facts.uid) {
		is = history_node_to_json(node);
		json_object_object_del(is, "lost"); /* not what the node object says */
		said = history_node_facts_to_json(event->node);
	} else if (pod && pod->listed) {
		is = history_pod_facts_to_json(&pod->facts);
		said = history_pod_facts_to_json(event->pod);
	}
	return is && said && strcmp(json_text(is), json_text(said)) == 0;
}

static enum subject subject_of(enum ledger_verb verb)
{
	return verb == LEDGER_SET_NODE || verb == LEDGER_REMOVE_NODE || verb == LEDGER_AGENT_LOST
		       ? SUBJECT_NODE
		       : SUBJECT_POD;
}

static void on_change(void *userdata, const struct ledger *ledger, const struct ledger_event *event)
{
	_cleanup_json_ struct json_object *before = NULL, *line = NULL;
	enum subject subject = subject_of(event->verb);
	struct journal *journal = userdata;

	if (!scheduler_is_ready(journal->scheduler) || is_repetition(ledger, event))
		return;
	if (event->verb == LEDGER_SET_NODE || event->verb == LEDGER_REMOVE_NODE)
		keep_ghosts(journal, ledger, event);
	before = subject == SUBJECT_NODE ? node_picture(ledger, event->key) : pod_picture(ledger, event->key);
	line = history_event_to_json(event);
	journal_add(journal, subject, event->key, text_or_nothing(before), line ? json_text(line) : NULL);
}

static struct json_object *names_json(const char *const *names, size_t n)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < n; i++)
		json_object_array_add(array, json_object_new_string(names[i]));
	return array;
}

void journal_asked(struct journal *journal, const struct pod_facts *pod, const char *const *names, size_t n)
{
	_cleanup_json_ struct json_object *line = json_object_new_object();

	if (n <= JOURNAL_NAMES_MAX)
		json_set(line, "asked", names_json(names, n));
	else
		json_set(line, "asked", json_object_new_int64((int64_t)n));
	json_set(line, "pod", history_pod_facts_to_json(pod));
	journal_add(journal, SUBJECT_NONE, "", "", json_text(line));
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
	if (*text)
		strbuf_addf(out, "{\"%s\":%s}\n", what, text);
}

static void add_beginning(struct strbuf *out, const struct ledger *ledger, const struct pictures *pictures)
{
	const struct entry *entry;
	const char *key;
	size_t cursor = 0;

	table_for_each (&pictures->nodes, c, entry)
		add_restore(out, "restoreNode", entry->before);
	while (table_next(&ledger->nodes, &cursor, &key, NULL)) {
		_cleanup_json_ struct json_object *now = NULL;

		if (!table_get(&pictures->nodes, key))
			now = node_picture(ledger, key);
		add_restore(out, "restoreNode", text_or_nothing(now));
	}
	table_for_each (&pictures->pods, c, entry)
		add_restore(out, "restorePod", entry->before);
	cursor = 0;
	while (table_next(&ledger->pods, &cursor, &key, NULL)) {
		_cleanup_json_ struct json_object *now = NULL;

		if (!table_get(&pictures->pods, key))
			now = pod_picture(ledger, key);
		add_restore(out, "restorePod", text_or_nothing(now));
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
