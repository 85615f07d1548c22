/* state-fixture.h - cores that are written, read and compared. A script is a sequence of events, which says
 * what the core decided; a core that is read after any of them must decide the rest as the first one does. */
#pragma once

#include "base/strbuf.h"
#include "core/core.h"

struct script {
	size_t n_steps;
	void (*prepare)(struct core *core); /* what is not state: functions; may be NULL */
	void (*step)(struct core *core, size_t step, struct strbuf *out);
};

/* state_try_script() - fails the test unless, for each step, a core that is written after it and read again
 * is written the same, and decides all later steps the same. */
void state_try_script(const struct script *script);

/* state_text() - the core as lines; the caller frees it. */
char *state_text(struct core *core);

/* state_read() - these lines into the core, until one cannot be read: its error, and the sentence. */
int state_read(struct core *core, const char *text, struct error *err);

/* state_must_refuse() - the last line of the text is refused with this sentence, and no line before it. */
void state_must_refuse(const char *text, const char *sentence);
