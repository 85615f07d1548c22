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
#include "cli/leader.h"
#include "cli/options.h"
#include "cli/printable.h"
#include "cli/replay.h"

static int print_history(void *userdata, struct error *err)
{
	const struct history_options *options = userdata;
	_cleanup_strbuf_ struct strbuf body;
	int r;

	strbuf_init(&body, HISTORY_MAX);
	r = leader_get(&options->kubectl, HISTORY_PATH, &body, err);
	if (r < 0)
		return r;
	fputs(strbuf_cstr(&body), stdout);
	return output_end(err);
}

int history_command(int argc, char **argv)
{
	struct history_options options = {0};

	return command_run(&history_option_table, argc, argv, &options, NULL, print_history);
}

static void print_sum(const struct history_replay *history)
{
	const struct ledger *ledger = &history->replay.core.ledger;
	size_t over = 0, wrong = ledger_check(ledger, &over);

	printf("%llu events and %llu decisions: all as recorded, and so is the state at the end.\n",
		(unsigned long long)history->events, (unsigned long long)history->outputs);
	printf("At the end: %zu nodes, %zu pods, %zu wrong sums, %zu GPUs over their total.\n",
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
	r = file ? history_replay_file(&history, file, &err) : error_set(&err, errno, "%s", strerror(errno));
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
