/* past.h - the history of the leading scheduler, kept by the server while it runs, and the cluster as it was
 * at a moment of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "cli/ui/task.h"

struct error;
struct kubectl;

struct past {
	const struct kubectl *kubectl;
	struct task task;	/* reads the history */
	struct strbuf text;	/* as `ration history` prints it; empty: no history was read */
	int64_t from_ms, to_ms; /* Unix time; at most an hour */
	char problem[512];	/* why the last reading failed; "": it did not */
};

void past_init(struct past *past, const struct kubectl *kubectl);
void past_release(struct past *past);

/* past_begin() - starts to read, if no reading is under way; negative errno if that cannot be started.
 * past_take() - call it when task.fd is readable or its deadline is over. True: the reading has ended, and
 * `text` or `problem` is its result. */
int past_begin(struct past *past);
bool past_take(struct past *past, int64_t now_ns);

/* ---- moment.c, which is pure ---- */

/* ui_moment_range() - the Unix times of the first and of the last event, at most an hour apart. -ENODATA: it
 * has no events; -EINVAL: it is not a history; both with a sentence. */
int ui_moment_range(
	const struct strbuf *history, int64_t *ret_from_ms, int64_t *ret_to_ms, struct error *err);

/* ui_moment_json() - after the last event up to this time: a document like that of ui_data_read(), with the
 * member "at". Waiting pods have "why": [[reason, number of nodes]]. Nodes in mode dra are left out, because
 * the scheduler does not know their pods. A negative errno with a sentence. */
int ui_moment_json(const struct strbuf *history, int64_t at_ms, struct strbuf *out, struct error *err);
