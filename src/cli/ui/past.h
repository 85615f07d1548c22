/* past.h - the history of the leading scheduler, kept by the server while it runs, so that the page can ask
 * for moments of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "cli/ui/task.h"

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
