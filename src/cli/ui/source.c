#include "cli/ui/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/printable.h"
#include "cli/ui/data.h"
#include "kube/json.h"

#define INTERVAL_NS (2 * NS_PER_S)
#define READING_MAX_NS (120 * NS_PER_S)

void source_init(struct source *source, const struct kubectl *kubectl)
{
	*source = (struct source){.kubectl = kubectl};
	task_init(&source->task);
}

void source_release(struct source *source)
{
	task_stop(&source->task);
	snapshot_unref(source->latest);
	source->latest = NULL;
}

struct snapshot *snapshot_ref(struct snapshot *snapshot)
{
	snapshot->refs++;
	return snapshot;
}

void snapshot_unref(struct snapshot *snapshot)
{
	if (!snapshot || --snapshot->refs)
		return;
	strbuf_release(&snapshot->text);
	free(snapshot);
}

int ui_write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* Runs in the child. Status 1: what is written is a sentence. */
static int read_cluster(void *userdata, int fd)
{
	const struct source *source = userdata;
	_cleanup_strbuf_ struct strbuf out;
	struct error err = {""};
	int r;

	strbuf_init(&out, UI_DATA_MAX);
	r = source->kubectl ? ui_data_read(source->kubectl, &out, &err) : ui_runs_read(&out, &err);
	if (r < 0)
		ui_write_all(fd, err.text, strlen(err.text));
	else
		r = ui_write_all(fd, strbuf_cstr(&out), out.len);
	return r < 0;
}

bool source_is_fresh(const struct source *source, int64_t now_ns)
{
	return source->latest && source->task.pid < 0 && now_ns - source->asked_ns < INTERVAL_NS;
}

int source_begin(struct source *source, int64_t now_ns)
{
	if (source->task.pid > 0)
		return 0;
	source->asked_ns = now_ns;
	return task_start(&source->task, read_cluster, source, UI_DATA_MAX, READING_MAX_NS);
}

static int add_error(struct strbuf *out, int r, const struct strbuf *said)
{
	char text[256];

	if (r == 1 && said->len)
		snprintf(text, sizeof(text), "%s", strbuf_cstr(said));
	else
		snprintf(text, sizeof(text), "the cluster could not be read: %s",
			r == -ETIMEDOUT	 ? "kubectl took longer than two minutes"
			: r == -EMSGSIZE ? "it is too large for one page"
					 : "the process that reads it has ended");
	strbuf_adds(out, "{\"error\": ");
	json_add_string(out, printable(text));
	strbuf_adds(out, "}\n");
	return out->failed;
}

bool source_take(struct source *source, int64_t now_ns)
{
	struct snapshot *snapshot;
	int status = 0, r = task_read(&source->task, now_ns, &status);

	if (r == 0)
		return false;
	source->read_ns = now_ns;
	if (r == 1 && status == 0 && source->latest && source->latest->version &&
		source->latest->text.len == source->task.out.len &&
		memcmp(source->latest->text.data, source->task.out.data, source->task.out.len) == 0) {
		task_stop(&source->task);
		return true;
	}
	snapshot = calloc(1, sizeof(*snapshot));
	if (!snapshot)
		return source->latest != NULL;
	snapshot->refs = 1;
	strbuf_init(&snapshot->text, UI_DATA_MAX + 1024);
	if (r == 1 && status == 0) {
		snapshot->version = ++source->versions;
		snapshot->text = source->task.out;
		strbuf_init(&source->task.out, 0);
	} else {
		add_error(&snapshot->text, r, &source->task.out);
	}
	snapshot_unref(source->latest);
	source->latest = snapshot;
	task_stop(&source->task);
	return true;
}
