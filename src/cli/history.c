/* A history from a file or a buffer, line by line. */
#include "cli/replay.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"

#define LINE_MAX_BYTES (16u << 20)

/* Returns whether there was a line. -EMSGSIZE: it is longer than line->max; the file may come from an
 * attacker. */
static int read_line(FILE *file, struct strbuf *line)
{
	int c, r;

	strbuf_clear(line);
	while ((c = getc_unlocked(file)) != EOF) {
		const char letter = (char)c;

		r = strbuf_add(line, &letter, 1);
		if (r < 0)
			return r;
		if (c == '\n')
			break;
	}
	return line->len > 0;
}

int history_replay_file(struct history_replay *history, FILE *file, struct error *err)
{
	_cleanup_strbuf_ struct strbuf line;
	int r, n;

	strbuf_init(&line, LINE_MAX_BYTES);
	do {
		n = read_line(file, &line);
		r = n > 0 ? history_replay_line(history, line.data, line.len, err) : 0;
	} while (n > 0 && r == 0);
	if (n == -EMSGSIZE)
		return error_set(err, EFBIG, "a line is longer than %u MiB", LINE_MAX_BYTES >> 20);
	if (n < 0)
		return error_set(err, -n, "%s", strerror(-n));
	if (r == 0 && ferror(file))
		return error_set(err, EIO, "cannot be read: %s", strerror(errno));
	return r == 0 ? history_replay_end(history, err) : r;
}

int history_replay_text(struct history_replay *history, const struct strbuf *text, struct error *err)
{
	_cleanup_fclose_ FILE *file = text->len ? fmemopen(text->data, text->len, "r") : NULL;

	if (!text->len)
		return history_replay_end(history, err);
	return file ? history_replay_file(history, file, err) : error_set(err, ENOMEM, "out of memory");
}
