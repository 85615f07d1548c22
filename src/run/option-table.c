/* option-table.c - only data: docs/options/dump.c compiles it too. */
#include "run/options.h"

#define TO(kind, member) OPTION_TO(kind, struct run_options, member)

static const struct option_choice policies[] = {{"0", SHARE_FAIR}, {"1", SHARE_PREEMPTIVE},
	{"2", SHARE_WEIGHT}, {"3", SHARE_FIXED}, {"4", SHARE_SOFT}, {"5", SHARE_NATIVE}, {0}};
static const struct option_choice layers[] = {{"mount", LAYER_MOUNT}, {"preload", LAYER_PRELOAD}, {0}};

static const struct option_row run_rows[] = {
	{"mem", 'm', "AMOUNT", TO(TEXT, mem), .required = true, .suggestions = "25% 50% 1GiB 2GiB 4GiB 8GiB",
		.help = "the memory that the program may use of each GPU, as in 2GiB, 2154MiB or 25%"},
	{"core", 'c', "PERCENT", TO(NUMBER, power.percent), .min = 1, .max = 100, .suffix = "%",
		.suggestions = "10 20 25 30 50 70",
		.help = "percent of each GPU's computing power, 1 to 100: the most that the program gets; under policy 2 a weight, under policy 4 a guaranteed minimum"},
	{"weight", 0, "N", TO(NUMBER, power.weight), .min = 1, .max = SHARE_WEIGHT_MAX,
		.help = "the run's weight beside the other runs on the GPU, under policies 2 and 4, 1 to 10000; default: the value of --core, else 1"},
	{"policy", 0, "0..5", TO(CHOICE, power.policy), .choices = policies,
		.help = "how the runs on a GPU divide its computing power: 0 a twentieth each, 1 equally, 2 by weight, 3 by --core, 4 by weight among the runs that have work, 5 as 3; default: the policy of the runs that are on the GPU already, for the first run 3, or 4 with --weight"},
	{"gpu", 'g', "GPU[,GPU...]", TO(TEXT, gpus), .standard = "0", .source = COMPLETE_LOCAL_GPUS,
		.help = "the GPUs that the program gets, each by its index in `nvidia-smi -L` or by its UUID"},
	{"driver", 0, "DIR", TO(TEXT, driver), .source = COMPLETE_FOLDERS,
		.help = "the folder with the driver's libraries; default: the folder in which the dynamic linker finds them"},
	{"layer", 0, "mount|preload", TO(CHOICE, layer), .choices = layers,
		.help = "how the program is made to load ration's libraries: mount lays them over the driver's and needs root or user namespaces, preload uses LD_PRELOAD and is weaker; default: mount if it is possible"},
	{"verbose", 'v', NULL, TO(FLAG, verbose),
		.help = "print the GPUs, the limits and the layer before the program starts"},
};

static const struct option_row run_arguments[] = {
	{NULL, 0, "PROGRAM", TO(REST, program), .source = COMPLETE_PROGRAM,
		.help = "the program to run, and its arguments"},
};

static const struct option_variable run_variables[] = {
	{"RATION_RUNS",
		"the folder with a record of each run; default: /run/ration-runs, or /tmp/ration-runs if root has not made that folder; runs with different folders do not count each other's memory"},
};

const struct option_table run_option_table = {.program = "ration run",
	.usage = "--mem AMOUNT [OPTION]... [--] PROGRAM [ARGUMENT]...",
	.summary =
		"Run a program, called a run, that can use at most AMOUNT of a GPU's memory and sees a GPU of that size. Several runs share a GPU.",
	OPTION_ROWS(run_rows),
	OPTION_ARGUMENTS(run_arguments),
	OPTION_VARIABLES(run_variables),
	.notes =
		"The program replaces `ration run` in its process, with the same terminal, and its exit status is the command's. Exit status 125: ration run failed; 126: the program cannot be run; 127: it was not found.",
	.usage_status = RUN_EXIT_FAILURE,
	.options_end_early = true};

static const struct option_variable ps_variables[] = {
	{"RATION_RUNS", "the folder with the records of `ration run`; see ration-run(1)"},
};

const struct option_table ps_option_table = {.program = "ration ps",
	.usage = "[OPTION]...",
	.summary =
		"List the programs of `ration run` on this machine, with their memory, the limit and the share of computing power on each GPU.",
	OPTION_VARIABLES(ps_variables)};
