/* replay.h - feeds a log into a core again. */
#pragma once

#include "core/core.h"
#include "core/log/record.h"

struct error;

struct replay {
	struct core core;
	const struct read_answer *answers; /* to the core's queries during the present event */
	size_t n_answers;
};

/* replay_init() - makes a core whose queries are answered by what was recorded. Next, the caller reads the
 * state into replay->core (state.h), and sets replay->core.log to see outputs. */
void replay_init(struct replay *replay);
void replay_release(struct replay *replay); /* accepts NULL */

/* replay_event() - carries out the event in the core, which takes over what it keeps of it; afterwards the
 * caller can only release the event. answers: the caller's answers during the recorded event. Orders count as
 * carried out, because the next events tell their results. -EINVAL with a sentence: the event cannot have
 * happened in this state. -ENOMEM. */
int replay_event(struct replay *replay, struct read_event *event, const struct read_answer *answers,
	size_t n_answers, struct error *err);
