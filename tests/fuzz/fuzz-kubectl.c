/* What kubectl prints for the commands of `ration`: lists and objects of the API server, answers of
 * ration-scheduler and ration-agent, and complaints. The first byte chooses a command, the others are
 * kubectl's answers, one after the other (kubectl-of-input.h). */
#include "fuzz.h"

#include <getopt.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "kubectl-of-input.h"

const unsigned int fuzz_rounds = 4000;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "null", "\\u0000", "\xff",
	"\"kind\":\"NodeList\"", "\"kind\":\"PodList\"", "\"kind\":\"ResourceClaimList\"", "\"items\":[",
	"\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"d\"}", "\"continue\":\"c\"",
	"\"nodeName\":\"n1\"", "\"annotations\":{", "\"ration.dev/placement\":", "\"ration.dev/gpus\":",
	"\"scheduler.framework.gpushare.allocation\":\"{\\\"0\\\":{\\\"0\\\":3}}\"",
	"\"ALIYUN_COM_GPU_MEM_IDX\":\"0\"",
	"\"allocatable\":{\"aliyun.com/gpu-mem\":\"16\",\"aliyun.com/gpu-count\":\"2\"}",
	"\"status\":", "\"spec\":", "\"holderIdentity\":\"kube-system/ack-co-scheduler\"",
	"\"renewTime\":\"2026-01-31T12:00:00.000000Z\"", "(NotFound)", "Forbidden",
	"ration_gpu_memory_bytes{gpu=\"0\",UUID=\"GPU-a\"} 1", "\"data\":{\"gpus\":\"0\"}", "e", "o", "f",
	NULL};

#define ARGS_MAX 6
static int inspect(int argc, char **argv)
{
	return inspect_command(argc, argv, &inspect_option_table, "ration");
}

static const struct {
	char letter;
	int (*run)(int argc, char **argv);
	const char *args[ARGS_MAX];
} commands[] = {
	{'i', inspect, {"inspect"}},
	{'w', inspect, {"inspect", "-o", "wide"}},
	{'d', inspect, {"inspect", "-d", "n1"}},
	{'j', inspect, {"inspect", "-o", "json"}},
	{'t', inspect, {"inspect", "--topology"}},
	{'y', why_command, {"why", "a", "-n", "d"}},
	{'Y', why_command, {"why", "a"}},
	{'s', set_command, {"set", "a", "-n", "d", "--mem", "3"}},
	{'c', cordon_command, {"cordon", "n1", "0", "--reason", "r"}},
	{'u', cordon_command, {"uncordon", "n1", "GPU-a"}},
	{'h', history_command, {"history"}},
	{'o', top_command, {"top", "--once", "n1"}},
	{'r', top_command, {"top", "--once", "--runs"}},
	{'D', doctor_command, {"doctor"}},
	{'J', doctor_command, {"doctor", "-o", "json"}},
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	setenv("KUBECTL", "/nowhere/kubectl", 1);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *nowhere;
	char *argv[ARGS_MAX + 1] = {NULL};
	FILE *out = stdout, *err = stderr;
	char *text;
	int argc = 0, status;

	if (!size)
		return 0;
	if (!nowhere)
		nowhere = fopen("/dev/null", "we");
	MUST(nowhere);
	text = fuzz_text(data + 1, size - 1);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (commands[i].letter != (char)data[0])
			continue;
		for (; argc < ARGS_MAX && commands[i].args[argc]; argc++)
			argv[argc] = (char *)commands[i].args[argc];
		kubectl_answers(text, size - 1);
		optind = 0;
		stdout = stderr = nowhere;
		status = commands[i].run(argc, argv);
		stdout = out;
		stderr = err;
		MUST(status >= 0 && status <= 3 && status != EXIT_USAGE);
		MUST(kubectl_calls() > 0);
	}
	free(text);
	return 0;
}
