/* replay-internal.h - what replay.c (answers to the core's queries) and apply.c (what an event does) share.
 */
#pragma once

#include "core/log/replay.h"

/* replay_answer() - what the caller answered during the present event. uid NULL: for any pod. Returns NULL if
 * there is no such answer. */
const struct core_output *replay_answer(
	const struct replay *replay, enum core_output_kind kind, uint64_t bind, const char *uid, bool yes);

/* event_is_whole() - the event has all that its kind needs. event_apply() - carries out the event. */
bool event_is_whole(const struct core_event *event);
int event_apply(struct replay *replay, struct read_event *read, struct error *err);
