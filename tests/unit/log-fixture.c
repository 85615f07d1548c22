#include "log-fixture.h"

#include <string.h>

#include "base/error.h"
#include "cli/replay.h"
#include "core/log/record.h"
#include "core/log/state.h"
#include "kube/json-archive.h"

static int add_line(void *userdata, const struct strbuf *line)
{
	struct strbuf *text = userdata;

	strbuf_add(text, line->data, line->len);
	return strbuf_add(text, "\n", 1);
}

static void on_event(void *userdata, const struct core *core, const struct core_event *event)
{
	struct strbuf *text = userdata;
	struct archive archive;

	archive_to_write(&archive, &json_archive, text);
	archive_begin(&archive);
	record_event(&archive, event);
	archive_end(&archive);
	strbuf_add(text, "\n", 1);
}

static void on_output(void *userdata, const struct core_output *output)
{
	struct strbuf *text = userdata;
	struct archive archive;

	archive_to_write(&archive, &json_archive, text);
	archive_begin(&archive);
	record_output(&archive, output);
	archive_end(&archive);
	strbuf_add(text, "\n", 1);
}

void log_begin(struct core *core, struct strbuf *text)
{
	strbuf_adds(text, "{\"history\":4}\n");
	core_write_state(core, &json_archive, add_line, text);
	core->log = (struct core_log){.event = on_event, .output = on_output, .userdata = text};
}

void log_end(struct core *core, struct strbuf *text)
{
	core->log = (struct core_log){0};
	strbuf_adds(text, "{\"end\":true}\n");
	core_write_state(core, &json_archive, add_line, text);
}

int log_replay(const struct strbuf *text, struct error *err)
{
	_cleanup_history_replay_ struct history_replay history;
	int r = history_replay_init(&history);

	for (const char *line = strbuf_cstr(text), *end; r == 0 && (end = strchr(line, '\n')); line = end + 1)
		r = history_replay_line(&history, line, (size_t)(end - line), err);
	return r ? r : history_replay_end(&history, err);
}
