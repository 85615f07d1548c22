/* replay.h - a log fed into a core again. */
#pragma once

#include "core/core.h"
#include "core/log/record.h"

struct error;

struct replay {
	struct core core;
	const struct read_answer *answers; /* to what the core asks during the event at hand */
	size_t n_answers;
};

/* replay_init() - a core that answers what it asks by what was recorded. The state is then read into
 * replay->core (state.h), and replay->core.log set by who wants to see outputs. */
void replay_init(struct replay *replay);
void replay_release(struct replay *replay); /* accepts NULL */

/* replay_event() - the event happens in the core, which takes over what it keeps of it: the event can only be
 * released afterwards. answers: those that the caller had given during it. What is ordered counts as carried
 * out: the next events tell what came of it. -EINVAL with a sentence: the event cannot have happened in this
 * state. -ENOMEM. */
int replay_event(struct replay *replay, struct read_event *event, const struct read_answer *answers,
	size_t n_answers, struct error *err);
