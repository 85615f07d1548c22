#include "cli/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/log/state.h"
#include "kube/json-archive.h"
#include "kube/json.h"

#define HISTORY_VERSION 4
#define DIFFERS 1
#define TEXT_MAX (256u << 20) /* bytes of a state, or of the outputs of an event */

static void on_output(void *userdata, const struct core_output *output)
{
	struct history_replay *history = userdata;
	struct archive archive;

	if (output->kind < TOLD_MAX)
		return;
	archive_to_write(&archive, &json_archive, &history->computed);
	archive_begin(&archive);
	record_output(&archive, output);
	archive_end(&archive);
	strbuf_add(&history->computed, "\n", 1);
}

int history_replay_init(struct history_replay *history)
{
	*history = (struct history_replay){.answers = calloc(REPLAY_ANSWERS_MAX, sizeof(*history->answers))};
	replay_init(&history->replay);
	strbuf_init(&history->recorded, TEXT_MAX);
	strbuf_init(&history->computed, TEXT_MAX);
	history->replay.core.log = (struct core_log){.output = on_output, .userdata = history};
	return history->answers ? 0 : -ENOMEM;
}

/* The next event begins without the data of this one. */
static void clear_event(struct history_replay *history)
{
	read_event_release(&history->event);
	for (size_t i = 0; i < history->n_answers; i++)
		read_answer_release(&history->answers[i]);
	history->n_answers = 0;
	history->pending = false;
	strbuf_clear(&history->recorded);
	strbuf_clear(&history->computed);
}

void history_replay_release(struct history_replay *history)
{
	if (!history)
		return;
	clear_event(history);
	free(history->answers);
	strbuf_release(&history->recorded);
	strbuf_release(&history->computed);
	replay_release(&history->replay);
}

#define EXCERPT_BEGIN                                                                                        \
	40 /* for a long line: how much of its beginning is shown before the place that differs */
#define EXCERPT_BEFORE 40
#define EXCERPT_AFTER 70

/* Writes the part of a line for a message; the first `at` bytes are equal in both lines. "nothing": there is
 * no line. */
static void excerpt(const char *line, size_t at, char *buf, size_t size)
{
	size_t len = strcspn(line, "\n");

	if (!*line)
		snprintf(buf, size, "nothing");
	else if (at <= EXCERPT_BEGIN + EXCERPT_BEFORE)
		snprintf(buf, size, "%.*s", (int)(len < at + EXCERPT_AFTER ? len : at + EXCERPT_AFTER), line);
	else
		snprintf(buf, size, "%.*s .. %.*s", EXCERPT_BEGIN, line,
			(int)(len < at + EXCERPT_AFTER ? len - at + EXCERPT_BEFORE
						       : EXCERPT_BEFORE + EXCERPT_AFTER),
			line + at - EXCERPT_BEFORE);
}

/* Finds the first line that differs; *ret_at is where in that line. */
static size_t first_difference(const char *a, const char *b, size_t *ret_at)
{
	size_t begin = 0, i = 0;

	for (; a[i] && a[i] == b[i]; i++)
		if (a[i] == '\n')
			begin = i + 1;
	*ret_at = i - begin;
	return begin;
}

static int compare(struct history_replay *history, const char *what, struct error *err)
{
	const char *recorded = strbuf_cstr(&history->recorded), *computed = strbuf_cstr(&history->computed);
	char a[256], b[256];
	size_t begin, at;

	if (history->recorded.failed || history->computed.failed)
		return error_set(
			err, ENOMEM, "out of memory, or more than %u MiB belong together", TEXT_MAX >> 20);
	if (strcmp(recorded, computed) == 0)
		return 0;
	begin = first_difference(recorded, computed, &at);
	excerpt(recorded + begin, at, a, sizeof(a));
	excerpt(computed + begin, at, b, sizeof(b));
	error_set(err, EILSEQ, "%.120s: recorded: %s; computed: %s", what, a, b);
	return DIFFERS;
}

static void describe_event(const struct history_replay *history, char *buf, size_t size)
{
	const struct core_event *event = &history->event.event;
	const char *about = event->pod ? event->pod->name : event->uid ? event->uid : event->name;
	time_t seconds = (time_t)((history->now_ns + history->clock_ns) / NS_PER_S);
	char time[40] = "?";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &tm);
	snprintf(buf, size, "event %llu at %s, %s%s%.60s", (unsigned long long)history->events, time,
		core_event_kind_text(event->kind), about ? " of " : "", about ? about : "");
}

/* Carries out the event that was read, and compares the outputs of the core. */
static int happen(struct history_replay *history, struct error *err)
{
	char what[160];
	int r;

	if (!history->pending)
		return 0;
	if (history->event.event.now_ns)
		history->now_ns = history->event.event.now_ns;
	history->events++;
	strbuf_clear(&history->computed);
	describe_event(history, what, sizeof(what));
	r = replay_event(&history->replay, &history->event, history->answers, history->n_answers, err);
	if (r == 0)
		r = compare(history, what, err);
	else
		error_prefix(err, "%s", what);
	clear_event(history);
	return r;
}

static int take_first_line(struct history_replay *history, struct json_object *line, struct error *err)
{
	int64_t version = 0;

	if (json_whole(json_member(line, "history"), 0, INT64_MAX, &version) < 0 ||
		version != HISTORY_VERSION)
		return error_set(err, EINVAL,
			"the first line is not that of a history of version %d: make one with `ration history`",
			HISTORY_VERSION);
	json_whole(json_member(line, "clock"), INT64_MIN / 2, INT64_MAX / 2, &history->clock_ns);
	history->phase = REPLAY_STATE;
	return 0;
}

static int failure(const struct archive *archive, struct error *err)
{
	return error_set(err, -archive->failed, "%s", archive->error.text);
}

static int take_answer(struct history_replay *history, struct archive *archive, struct error *err)
{
	if (history->n_answers == REPLAY_ANSWERS_MAX || !history->pending)
		return error_set(err, EINVAL, "an answer without an event, or too many answers to one event");
	read_answer(archive, &history->answers[history->n_answers++]);
	return archive->failed ? failure(archive, err) : 0;
}

static int add_state_line(void *userdata, const struct strbuf *line)
{
	struct strbuf *lines = userdata;

	strbuf_add(lines, line->data, line->len);
	return strbuf_add(lines, "\n", 1);
}

static int take_end(struct history_replay *history, struct error *err)
{
	int r = happen(history, err);

	history->phase = REPLAY_END;
	if (r == 0 &&
		core_write_state(&history->replay.core, &json_archive, add_state_line, &history->computed))
		r = error_set(err, ENOMEM, "out of memory");
	return r;
}

static int take_line(struct history_replay *history, struct json_object *line, const char *text, size_t len,
	struct error *err)
{
	struct archive archive;
	int r;

	if (history->phase == REPLAY_HEAD)
		return take_first_line(history, line, err);
	archive_to_read(&archive, &json_archive, line);
	if (history->phase == REPLAY_END) {
		strbuf_add(&history->recorded, text, len);
		strbuf_add(&history->recorded, "\n", 1);
		return 0;
	}
	if (json_member(line, "end"))
		return take_end(history, err);
	if (json_member(line, "gave")) {
		history->outputs++;
		strbuf_add(&history->recorded, text, len);
		strbuf_add(&history->recorded, "\n", 1);
		return history->pending ? 0 : error_set(err, EINVAL, "a decision without an event");
	}
	if (json_member(line, "told"))
		return take_answer(history, &archive, err);
	if (!json_member(line, "event"))
		return history->phase == REPLAY_STATE
			       ? core_read_state_line(&history->replay.core, &json_archive, line, err)
			       : error_set(err, EINVAL, "neither an event nor what belongs to one");
	history->phase = REPLAY_EVENTS;
	r = happen(history, err);
	if (r)
		return r;
	history->pending = true;
	read_event(&archive, &history->event);
	return archive.failed ? failure(&archive, err) : 0;
}

int history_replay_line(struct history_replay *history, const char *text, size_t len, struct error *err)
{
	_cleanup_json_ struct json_object *line = NULL;
	int r;

	history->lines++;
	while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	r = json_parse(text, len, &line, err);
	if (r >= 0)
		r = take_line(history, line, text, len, err);
	if (r < 0)
		error_prefix(err, "line %llu", (unsigned long long)history->lines);
	return r;
}

int history_replay_end(struct history_replay *history, struct error *err)
{
	if (history->phase == REPLAY_HEAD)
		return error_set(err, EINVAL, "it is empty");
	if (history->phase != REPLAY_END)
		return error_set(
			err, EINVAL, "it ends in the middle: the history was not written to its end");
	return compare(history, "the state at the end", err);
}
