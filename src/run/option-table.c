/* option-table.c - only data: docs/options/dump.c compiles it too. */
#include "run/commands.h"
#include "run/options.h"

#define TO(kind, member) OPTION_TO(kind, struct run_options, member)

static const struct option_choice policies[] = {{"0", SHARE_FAIR}, {"1", SHARE_PREEMPTIVE},
	{"2", SHARE_WEIGHT}, {"3", SHARE_FIXED}, {"4", SHARE_SOFT}, {"5", SHARE_NATIVE}, {0}};
static const struct option_choice layers[] = {{"mount", LAYER_MOUNT}, {"preload", LAYER_PRELOAD}, {0}};

static const struct option_row run_rows[] = {
	{"mem", 'm', "AMOUNT", TO(TEXT, mem), .required = true, .suggestions = "25% 50% 1GiB 2GiB 4GiB 8GiB",
		.help = "memory of each GPU: 2GiB, 2154MiB or 25%"},
	{"core", 'c', "PERCENT", TO(NUMBER, power.percent), .min = 1, .max = 100, .suffix = "%",
		.suggestions = "10 20 25 30 50 70",
		.help = "computing power of each GPU, 1 to 100: a cap; under policy 2 a weight, under policy 4 a guarantee"},
	{"weight", 0, "N", TO(NUMBER, power.weight), .min = 1, .max = SHARE_WEIGHT_MAX,
		.help = "weight against the other runs of the GPU under policies 2 and 4, 1 to 10000; default: the percentage, else 1"},
	{"policy", 0, "0..5", TO(CHOICE, power.policy), .choices = policies,
		.help = "how the runs of a GPU divide its computing power: 0 a twentieth each, 1 equally, 2 by weight, 3 by --core, 4 by weight among those with work, 5 not at all; default: the policy of the runs on it, and for the first run 3, or 4 with --weight"},
	{"gpu", 'g', "GPU[,GPU...]", TO(TEXT, gpus), .standard = "0", .source = COMPLETE_LOCAL_GPUS,
		.help = "the GPUs, each by its index in `nvidia-smi -L` or by its UUID"},
	{"driver", 0, "DIR", TO(TEXT, driver), .source = COMPLETE_FOLDERS,
		.help = "folder of the driver's libraries; default: where the dynamic linker finds them"},
	{"layer", 0, "mount|preload", TO(CHOICE, layer), .choices = layers,
		.help = "by which means the program is limited; default: the strongest that works here"},
	{"verbose", 'v', NULL, TO(FLAG, verbose),
		.help = "print which GPUs, how much of them, and which layer"},
};

static const struct option_row run_arguments[] = {
	{NULL, 0, "PROGRAM", TO(REST, program), .source = COMPLETE_PROGRAM,
		.help = "the program to run, and its arguments"},
};

static const struct option_variable run_variables[] = {
	{"RATION_RUNS",
		"folder for the grants of runs; runs with different folders do not know of each other"},
};

const struct option_table run_option_table = {.program = "ration run",
	.usage = "--mem AMOUNT [OPTION]... [--] PROGRAM [ARGUMENT]...",
	.summary =
		"Run a program that can use no more than this much of a GPU's memory, and sees a GPU of that size.",
	OPTION_ROWS(run_rows),
	OPTION_ARGUMENTS(run_arguments),
	OPTION_VARIABLES(run_variables),
	.notes =
		"The program takes the place of `ration run`: its exit status, signals and terminal are its own. Exit status 125: ration run failed; 126: the program cannot be run; 127: it was not found.",
	.usage_status = RUN_EXIT_FAILURE,
	.options_end_early = true};

static const struct option_variable ps_variables[] = {
	{"RATION_RUNS", "folder for the grants of runs, as for `ration run`"},
};

const struct option_table ps_option_table = {.program = "ration ps",
	.usage = "[OPTION]...",
	.summary =
		"List the runs of this machine: granted and used memory, and computing power, of each GPU.",
	OPTION_VARIABLES(ps_variables)};
