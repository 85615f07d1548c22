/* The command line of ration-scheduler: its words, one on each line. */
#include "fuzz.h"

#include "scheduler/lease.h"
#include "scheduler/options.h"

const unsigned int fuzz_rounds = 6000;
const char *const fuzz_words[] = {"\n", "--", "=", "--help", "--version", "--kubeconfig", "--context",
	"--listen", "127.0.0.1:80", "--probes", "--metrics", "--scheduler-lease", "a/b", "--best-nodes", "16",
	"--max-pods-per-gpu", "1000", "--node-order", "balanced", "fullest", "--job-mixing", "allow",
	"forbid", "--gang-timeout", "86400", "--gang-keep-after", "0", "--uninstall", "--log-level", "debug",
	NULL};

#define WORDS_MAX 24

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

static void check(int argc, char **argv)
{
	struct scheduler_options options;
	int r = scheduler_options_parse(argc, argv, &options);

	MUST(r == -1 || r == 0 || r == 2);
	if (r >= 0)
		return;
	MUST(options.best_nodes <= 100000 && options.max_pods_per_gpu <= 1000);
	MUST(options.gang_timeout >= 1 && options.gang_timeout <= 86400);
	MUST(options.gang_keep_after <= 86400 && (unsigned)options.log_level <= LOG_LEVEL_DEBUG);
	MUST(!options.metrics.text[0] || strchr(options.metrics.text, '.'));
	MUST(ledger_lease_is_valid_identity(options.scheduler_lease));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[WORDS_MAX + 2] = {(char *)"program"}, *text, *rest, *word;
	FILE *out = stdout, *err = stderr;
	static FILE *nowhere;
	int argc = 1;

	if (!nowhere)
		nowhere = fopen("/dev/null", "we");
	MUST(nowhere);
	rest = text = fuzz_text(data, size);
	while (argc <= WORDS_MAX && (word = strsep(&rest, "\n")))
		argv[argc++] = word;
	stdout = stderr = nowhere;
	check(argc, argv);
	stdout = out;
	stderr = err;
	free(text);
	return 0;
}
