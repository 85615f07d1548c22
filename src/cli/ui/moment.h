/* moment.h - the cluster as it was at a moment of the scheduler's history, by replaying the history. Pure. */
#pragma once

#include <stdint.h>

struct error;
struct strbuf;

/* ui_moment_range() - the Unix times of the first and of the last event, at most an hour apart. -ENODATA: it
 * has no events; -EINVAL: it is not a history; both with a sentence. */
int ui_moment_range(
	const struct strbuf *history, int64_t *ret_from_ms, int64_t *ret_to_ms, struct error *err);

/* ui_moment_json() - after the last event up to this time: a document like that of ui_data_read(), with the
 * member "at". Waiting pods have "why": [[reason, number of nodes]]. Nodes in mode dra are left out, because
 * the scheduler does not know their pods. A negative errno with a sentence. */
int ui_moment_json(const struct strbuf *history, int64_t at_ms, struct strbuf *out, struct error *err);
