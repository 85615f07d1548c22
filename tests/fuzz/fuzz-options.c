/* Command lines. The first byte chooses a program, the rest are its words, one on each line. Nothing is
 * executed, and no cluster answers (kubectl-of-input.h). */
#include "fuzz.h"

#include <getopt.h>

#include "agent/options.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/doctor/machine.h"
#include "kubectl-of-input.h"
#include "model/shares.h"
#include "run/options.h"

const unsigned int fuzz_rounds = 10000;
const char *const fuzz_words[] = {"\n", "--", "-", "=", "--help", "-h", "--version", "--mem", "2GiB", "25%",
	"--core", "30", "--weight", "--policy", "5", "--gpu", "0,1", "--driver", "--layer", "mount", "-v",
	"--node-name", "n1", "--kubeconfig", "--metrics", "127.0.0.1:80", "none", "--unit", "256MiB",
	"--log-level", "debug", "--on-bypass", "evict", "--unknown-functions", "refuse", "--no-fault-lists",
	"--uninstall", "a/b", "--listen", "--scheduler-lease", "--best-nodes", "--max-pods-per-gpu",
	"--job-mixing", "allow", "--gang-timeout", "--gang-keep-after", "-n", "-o", "json", "wide", "-d",
	"-w", "--watch", "--topology", "--container", "--timeout", "--reason", "--once", "--margin",
	"--min-age", "--apply", "--runs", "--node", "--root", "--scheduler-config", "--kubeadm", "--image",
	"--arg", "--server", "--token", "--as", "pod/a", "/", NULL};

#define WORDS_MAX 24

/* By the linker in the place of the real ones (meson.build). */
void __wrap_machine_examine(const char *root, const char *driver_root, struct report *report);
int __wrap_isatty(int fd);

void __wrap_machine_examine(const char *root, const char *driver_root, struct report *report)
{
	MUST(*root == '/' && *driver_root == '/');
}

int __wrap_isatty(int fd)
{
	return 0;
}

static void agent(int argc, char **argv)
{
	struct options options = {.node_name = "untouched"};
	int r = agent_options_parse(argc, argv, &options);

	MUST(r == -1 || r == 0 || r == 2);
	if (r >= 0) {
		MUST(strcmp(options.node_name, "untouched") == 0);
		return;
	}
	MUST(options.uninstall || (options.node_name && *options.node_name));
	MUST(options.unit_mib == 1024 || options.unit_mib == 512 || options.unit_mib == 256 ||
		options.unit_mib == 128);
	MUST((unsigned)options.policy < SHARE_POLICY_MAX && (unsigned)options.log_level <= LOG_LEVEL_DEBUG);
	MUST(options.state_dir && options.cdi_dir && options.host_driver_root);
}

static void ration_run(int argc, char **argv)
{
	struct run_options options = RUN_OPTIONS_INIT;
	int r = options_parse(&run_option_table, argc, argv, &options);

	MUST(r == -1 || r == EXIT_SUCCESS || r == RUN_EXIT_FAILURE);
	if (r != -1)
		return;
	MUST(options.mem && options.program[0]);
	MUST(options.power.percent <= 100 && options.power.weight <= SHARE_WEIGHT_MAX);
	MUST(options.power.policy >= -1 && options.power.policy < SHARE_POLICY_MAX);
}

static int inspect(int argc, char **argv)
{
	return inspect_command(argc, argv, &inspect_option_table, "ration");
}

static const struct {
	char letter;
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {{'i', "inspect", inspect}, {'w', "why", why_command}, {'s', "set", set_command},
	{'c', "cordon", cordon_command}, {'u', "uncordon", cordon_command}, {'h', "history", history_command},
	{'t', "top", top_command}, {'d', "doctor", doctor_command}, {'v', "advise", advise_command}};

static void run(char letter, int argc, char **argv)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (commands[i].letter == letter) {
			int status;

			argv[0] = (char *)commands[i].name;
			status = commands[i].run(argc, argv);
			MUST(status >= 0 && status <= 3);
		}
	if (letter == 'a')
		agent(argc, argv);
	else if (letter == 'r')
		ration_run(argc, argv);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	setenv("KUBECTL", "/nowhere/kubectl", 1);
	unsetenv("NODE_NAME");
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[WORDS_MAX + 2] = {(char *)"program"}, *text, *rest, *word;
	FILE *out = stdout, *err = stderr;
	static FILE *nowhere;
	int argc = 1;

	if (!size)
		return 0;
	if (!nowhere)
		nowhere = fopen("/dev/null", "we");
	MUST(nowhere);
	rest = text = fuzz_text(data + 1, size - 1);
	while (argc <= WORDS_MAX && (word = strsep(&rest, "\n")))
		argv[argc++] = word;
	kubectl_answers("", 0);
	optind = 0;
	stdout = stderr = nowhere;
	run((char)data[0], argc, argv);
	stdout = out;
	stderr = err;
	free(text);
	return 0;
}
