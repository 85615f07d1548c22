/* replay.h - feeds a history that `ration history` has written into the core of this version: each decision
 * is made again and compared with the recorded one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/strbuf.h"
#include "core/log/replay.h"

struct error;

#define REPLAY_ANSWERS_MAX 4096 /* the most answers of the caller during one event */

/* What the next line is part of: the head, the state at the beginning, the events, the state at the end. */
enum replay_phase { REPLAY_HEAD, REPLAY_STATE, REPLAY_EVENTS, REPLAY_END };

struct history_replay {
	struct replay replay;
	enum replay_phase phase;
	bool pending;		 /* an event was read; it is carried out after all its lines are read */
	struct read_event event; /* the event that is pending */
	struct read_answer *answers;
	size_t n_answers;
	struct strbuf recorded,
		computed; /* lines: outputs of the event; at the end, lines of the whole state */
	int64_t clock_ns; /* realtime minus its monotonic times */
	int64_t now_ns;	  /* the last time of an event */
	uint64_t lines, events, outputs;
};

int history_replay_init(struct history_replay *history);     /* -ENOMEM */
void history_replay_release(struct history_replay *history); /* accepts NULL */
#define _cleanup_history_replay_ _cleanup_(history_replay_release)

/* history_replay_line() - reads the next line. history_replay_end() - call it after the last line. Both
 * return 0; 1 with a sentence for the first event whose result differs from the record; -EINVAL, -ENOMEM with
 * a sentence if the text is not a history. */
int history_replay_line(struct history_replay *history, const char *text, size_t len, struct error *err);
int history_replay_end(struct history_replay *history, struct error *err);

/* ---- history.c ---- */

#define HISTORY_PATH "/history" /* for leader_get() */
#define HISTORY_MAX (256u << 20)

/* history_replay_file(), history_replay_text() - the whole history. Both return as history_replay_end(): 0; 1
 * with a sentence for the first event whose result differs; a negative errno with a sentence. -EFBIG: a line
 * is too long. */
int history_replay_file(struct history_replay *history, FILE *file, struct error *err);
int history_replay_text(struct history_replay *history, const struct strbuf *text, struct error *err);
