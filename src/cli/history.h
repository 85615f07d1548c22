/* history.h - the history of the leading scheduler, from the cluster or from a file that `ration history` has
 * written, fed into a core of this version (replay.h). */
#pragma once

#include <stdio.h>

struct error;
struct history_replay;
struct strbuf;

#define HISTORY_PATH "/history" /* for leader_get() */
#define HISTORY_MAX (256u << 20)

/* history_replay_file(), history_replay_text() - the whole history. Both return as history_replay_end(): 0; 1
 * with a sentence for the first event whose result differs; a negative errno with a sentence. -EFBIG: a line
 * is too long. */
int history_replay_file(struct history_replay *history, FILE *file, struct error *err);
int history_replay_text(struct history_replay *history, const struct strbuf *text, struct error *err);
