/* state.h - the whole state of a core as lines of text, and a core that is made of such lines.
 *
 * A core that was read decides in the same way as the core that was written: the same events give the same
 * answers and orders. Two things are not part of the state: the functions of the caller (bind_ops,
 * resize_ops), and the caller's own pointers. */
#pragma once

#include <stddef.h>

struct archive_format;
struct core;
struct error;
struct strbuf;

/* core_write_state() - does not change the core; calls `line` with each line, without a line end; the text is
 * valid during the call. Returns 0, what `line` returned first if that is not 0, or -ENOMEM. */
typedef int (*state_line_fn)(void *userdata, const struct strbuf *line);
int core_write_state(
	struct core *core, const struct archive_format *format, state_line_fn line, void *userdata);

/* core_read_state_line() - reads the lines in the order in which they were written, into a core after
 * core_init(). parsed: the line as `format` reads it. -EINVAL, -E2BIG, -ENOMEM with a sentence: the caller
 * can only release the core. The lines may come from anywhere; lines that cannot be a state are refused. */
int core_read_state_line(
	struct core *core, const struct archive_format *format, void *parsed, struct error *err);
