/* log-fixture.h - a core's log in memory, as ration-scheduler writes it, and its replay. */
#pragma once

#include "base/strbuf.h"

struct core;
struct error;

/* log_begin() - the core's state, then all that comes in and goes out, is added to text, which is initialised
 * and must stay where it is. Between two events, with all orders carried out. log_end() - it ends, with the
 * state by then. */
void log_begin(struct core *core, struct strbuf *text);
void log_end(struct core *core, struct strbuf *text);

/* log_replay() - 0: all comes out as recorded; 1 or a negative errno, with a sentence: it does not. */
int log_replay(const struct strbuf *text, struct error *err);
