/* replay-internal.h - what replay.c (answers to what the core asks) and apply.c (what an event does) share.
 */
#pragma once

#include "core/log/replay.h"

/* replay_answer() - what the caller had answered during the event at hand; uid: NULL: of any pod. NULL:
 * nothing. */
const struct core_output *replay_answer(
	const struct replay *replay, enum core_output_kind kind, uint64_t bind, const char *uid, bool yes);

/* event_is_whole() - it has all that an event of its kind needs. event_apply() - it happens. */
bool event_is_whole(const struct core_event *event);
int event_apply(struct replay *replay, struct read_event *read, struct error *err);
