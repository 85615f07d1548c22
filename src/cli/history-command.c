/* ration history: the recorded history of the leading scheduler. ration replay: repeats that history offline.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/complain.h"
#include "cli/forward.h"
#include "cli/inspect.h"
#include "cli/kubectl.h"
#include "cli/leader.h"
#include "cli/options.h"
#include "cli/replay.h"

#define HISTORY_MAX (256u << 20)
#define LINE_MAX_BYTES (16u << 20)

static int fetch(const struct kubectl *kubectl, struct error *err)
{
	_cleanup_strbuf_ struct strbuf body;
	_cleanup_free_ char *leader = NULL;
	int r;

	strbuf_init(&body, HISTORY_MAX);
	r = leader_find_pod(kubectl, &leader, err);
	if (r == 0)
		r = forward_get(kubectl, leader, "/history", &body, err);
	if (r < 0)
		return r;
	fputs(strbuf_cstr(&body), stdout);
	if (fflush(stdout) == EOF || ferror(stdout))
		return error_set(err, EIO, "the output cannot be written");
	return 0;
}

int history_command(int argc, char **argv)
{
	struct history_options options = {0};
	struct error err = {""};
	int r;

	kubectl_init(&options.kubectl);
	r = options_parse(&history_option_table, argc, argv, &options);
	if (r < 0)
		r = complain_end(fetch(&options.kubectl, &err), &err);
	kubectl_release(&options.kubectl);
	return r;
}

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

static int replay_file(FILE *file, struct history_replay *history, struct error *err)
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

static void print_sum(const struct history_replay *history)
{
	const struct ledger *ledger = &history->replay.core.ledger;
	size_t over = 0, wrong = ledger_check(ledger, &over);

	printf("%llu events and %llu decisions: all as recorded, and so is the state at the end.\n",
		(unsigned long long)history->events, (unsigned long long)history->outputs);
	printf("At the end: %zu nodes, %zu pods, %zu wrong sums, %zu cards over their total.\n",
		ledger->nodes.count, ledger->pods.count, wrong, over);
}

int replay_command(int argc, char **argv)
{
	_cleanup_history_replay_ struct history_replay history;
	_cleanup_fclose_ FILE *file = NULL;
	struct error err = {""};
	struct replay_options options = {0};
	const char *path;
	int r = history_replay_init(&history),
	    status = options_parse(&replay_option_table, argc, argv, &options);

	if (status >= 0)
		return status;
	path = options.file;
	file = r == 0 ? fopen(strcmp(path, "-") == 0 ? "/dev/stdin" : path, "re") : NULL;
	r = file ? replay_file(file, &history, &err) : error_set(&err, errno, "%s", strerror(errno));
	if (r == 0) {
		print_sum(&history);
		return EXIT_SUCCESS;
	}
	if (r < 0) {
		error_prefix(&err, "%.200s", path);
		complain("ration", err.text);
	} else {
		printf("The first difference: %s\n", printable(err.text));
	}
	return EXIT_FAILURE;
}
