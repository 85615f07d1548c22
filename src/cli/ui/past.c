#include "cli/ui/past.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/replay.h"
#include "cli/leader.h"
#include "cli/printable.h"
#include "cli/ui/source.h"

#define READING_MAX_NS (90 * NS_PER_S)
#define FIRST_LINE_MAX 64

void past_init(struct past *past, const struct kubectl *kubectl)
{
	*past = (struct past){.kubectl = kubectl};
	task_init(&past->task);
	strbuf_init(&past->text, HISTORY_MAX);
}

void past_release(struct past *past)
{
	task_stop(&past->task);
	strbuf_release(&past->text);
}

/* A task_fn: "FROM TO" in a line, then the history; status 1: what is written is a sentence. */
static int read_history(void *userdata, int fd)
{
	const struct past *past = userdata;
	_cleanup_strbuf_ struct strbuf text;
	struct error err = {""};
	char line[FIRST_LINE_MAX];
	int64_t from_ms, to_ms;
	int r;

	strbuf_init(&text, HISTORY_MAX);
	r = leader_get(past->kubectl, HISTORY_PATH, &text, &err);
	if (r == 0)
		r = ui_moment_range(&text, &from_ms, &to_ms, &err);
	if (r < 0) {
		ui_write_all(fd, err.text, strlen(err.text));
		return EXIT_FAILURE;
	}
	snprintf(line, sizeof(line), "%" PRId64 " %" PRId64 "\n", from_ms, to_ms);
	r = ui_write_all(fd, line, strlen(line));
	return r < 0 || ui_write_all(fd, text.data, text.len) < 0;
}

int past_begin(struct past *past)
{
	return past->task.pid > 0 ? 0
				  : task_start(&past->task, read_history, past, HISTORY_MAX + FIRST_LINE_MAX,
					    READING_MAX_NS);
}

bool past_take(struct past *past, int64_t now_ns)
{
	struct strbuf *out = &past->task.out;
	int status = 0, r = task_read(&past->task, now_ns, &status);
	char *end = r == 1 && status == 0 && out->len ? memchr(out->data, '\n', out->len) : NULL;

	if (r == 0)
		return false;
	past->problem[0] = '\0';
	if (end && sscanf(out->data, "%" SCNd64 " %" SCNd64, &past->from_ms, &past->to_ms) == 2) {
		strbuf_drop_front(out, (size_t)(end - out->data) + 1);
		strbuf_release(&past->text);
		past->text = *out;
		strbuf_init(out, 0);
	} else {
		snprintf(past->problem, sizeof(past->problem), "%s",
			r == 1 && out->len ? printable(out->data)
			: r == -ETIMEDOUT  ? "the scheduler's history took longer than 90 seconds"
			: r == -EMSGSIZE   ? "the scheduler's history is too large"
					   : "the process that reads the scheduler's history has ended");
	}
	task_stop(&past->task);
	return true;
}
