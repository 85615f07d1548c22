/* source.h - the cluster's data, read at most once every two seconds for all connections together. */
#pragma once

#include <stdbool.h>

#include "cli/kubectl.h"
#include "cli/ui/task.h"

/* One reading of the cluster, or the error message if it failed. Connections that send it hold a reference.
 */
struct snapshot {
	unsigned refs;
	uint64_t version; /* changes with the text; 0: the text is an error */
	struct strbuf text;
};

struct source {
	const struct kubectl *kubectl; /* NULL: the programs of this machine */
	struct task task;	       /* reads the cluster while a connection waits for it */
	struct snapshot *latest;       /* NULL: not read yet */
	uint64_t versions;	       /* how many snapshots there were */
	int64_t asked_ns, read_ns;     /* when the last reading began; when it ended */
};

void source_init(struct source *source, const struct kubectl *kubectl);
void source_release(struct source *source);

/* source_is_fresh() - whether `latest` is new enough for a request that arrives now. source_begin() - starts
 * to read, if no reading is under way; negative errno if that cannot be started. source_take() - call it when
 * task.fd is readable or its deadline is over. True: `latest` is the result. */
bool source_is_fresh(const struct source *source, int64_t now_ns);
int source_begin(struct source *source, int64_t now_ns);
bool source_take(struct source *source, int64_t now_ns);

struct snapshot *snapshot_ref(struct snapshot *snapshot);
void snapshot_unref(struct snapshot *snapshot); /* accepts NULL */

/* ui_write_all() - writes to a pipe or file until everything is written. Negative errno. */
int ui_write_all(int fd, const char *data, size_t len);
