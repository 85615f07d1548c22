/* option-table.c - data only: docs/options/dump.c compiles it too. */
#include "sim/ration-sim/options.h"

#include "sim/ration-sim/gpus.h"

#define EVERY_MAX_MS 3600000

#define DIR_OF(type)                                                                                         \
	{                                                                                                    \
		NULL, 0, "DIR", OPTION_TO(TEXT, type, dir), .min = 1, .max = 4096,                           \
							    .source = COMPLETE_FOLDERS,                      \
							    .help = "the folder of the simulated driver"     \
	}
#define GPU_OF(type)                                                                                         \
	{                                                                                                    \
		NULL, 0, "GPU", OPTION_TO(TEXT, type, gpu), .source = COMPLETE_TREE_GPUS,                    \
							    .help = "a GPU, by its index or its UUID"        \
	}

/* In the order of pace_keys. */
#define PACE_ROWS(type)                                                                                      \
	{"slice-us", 0, "N", OPTION_TO(TEXT, type, pace[0]),                                                 \
		.help = "the time slice, in microseconds, of a context while other contexts have work"},     \
		{"latency-ns", 0, "N", OPTION_TO(TEXT, type, pace[1]),                                       \
			.help = "the delay, in nanoseconds, until a launch reaches an idle GPU"},            \
		{"jitter-percent", 0, "N", OPTION_TO(TEXT, type, pace[2]),                                   \
			.help = "how much the duration of a kernel varies, in percent, in both directions"}, \
	{                                                                                                    \
		"seed", 0, "N", OPTION_TO(TEXT, type, pace[3]), .help = "the seed of this variation"         \
	}

static const struct option_row up_rows[] = {
	{"gpus", 0, "SPEC", OPTION_TO(TEXT, struct up_options, spec),
		.suggestions = "1x16384MiB 2x16160MiB 4x40960MiB 8x81559MiB",
		.help = "the GPUs by count and size: COUNTxSIZEMiB[+...], as in 4x16160MiB+1x81559MiB; required for a new folder, unless --gpus-file is given"},
	{"gpus-file", 0, "FILE", OPTION_TO(TEXT, struct up_options, file), .source = COMPLETE_FILES,
		.help = "a file with the GPUs, in the format of DIR/gpus.json"},
	{"links", 0, "MACHINE", OPTION_TO(TEXT, struct up_options, links),
		.suggestions = "dgx1-v100 dgx-a100 pcie-8",
		.help = "connect eight GPUs as in this machine: dgx1-v100, dgx-a100 or pcie-8"},
	{"driver-version", 0, "VERSION", OPTION_TO(TEXT, struct up_options, driver_version),
		.suggestions = GPUS_DEFAULT_DRIVER,
		.help = "the driver's version; default: the folder's present version, else " GPUS_DEFAULT_DRIVER},
	PACE_ROWS(struct up_options),
};
static const struct option_row up_arguments[] = {DIR_OF(struct up_options)};
const struct option_table sim_up_option_table = {.program = "ration-sim up",
	.usage = "DIR [OPTION]...",
	.summary = "Make the folder of a simulated driver, or change it.",
	OPTION_ROWS(up_rows),
	OPTION_ARGUMENTS(up_arguments)};

static const struct option_row sim_arguments[] = {DIR_OF(struct sim_options)};
const struct option_table sim_status_option_table = {.program = "ration-sim status",
	.usage = "DIR",
	.summary = "Show the GPUs, their health, and the processes that hold their memory.",
	OPTION_ARGUMENTS(sim_arguments)};

static const struct option_row fault_arguments[] = {
	DIR_OF(struct fault_options),
	GPU_OF(struct fault_options),
	{NULL, 0, "KIND", OPTION_TO(TEXT, struct fault_options, kind),
		.suggestions = "xid lost ecc heal oom slow fail kill calm",
		.help = "xid N, lost, ecc, heal, oom [TIMES], slow CALL MS [TIMES], fail CALL CODE [TIMES], kill POINT [SKIP] or calm; ration-sim(1) explains them"},
	{NULL, 0, "ARGUMENT", OPTION_TO(REST, struct fault_options, arguments), .optional = true,
		.help = "the arguments of this kind of fault"},
};
const struct option_table sim_fault_option_table = {.program = "ration-sim fault",
	.usage = "DIR GPU KIND [ARGUMENT]...",
	.summary = "Inject a fault, or repair the GPU.",
	OPTION_ARGUMENTS(fault_arguments),
	.options_end_early = true};

static const struct option_row set_rows[] = {PACE_ROWS(struct sim_options)};
const struct option_table sim_set_option_table = {.program = "ration-sim set",
	.usage = "DIR [OPTION]...",
	.summary = "Change the timing of the GPUs, and show it. Running programs follow at once.",
	OPTION_ROWS(set_rows),
	OPTION_ARGUMENTS(sim_arguments)};

static const struct option_row usage_rows[] = {
	{"json", 0, NULL, OPTION_TO(FLAG, struct sim_options, json), .help = "print JSON, in nanoseconds"},
	{"every", 0, "MS", OPTION_TO(NUMBER, struct sim_options, every_ms), .min = 1, .max = EVERY_MAX_MS,
		.help = "with --json: print a line each time this many milliseconds have passed"},
};
const struct option_table sim_usage_option_table = {.program = "ration-sim usage",
	.usage = "DIR [OPTION]...",
	.summary = "Show how long each process kept each GPU busy, and how many kernels it launched.",
	OPTION_ROWS(usage_rows),
	OPTION_ARGUMENTS(sim_arguments)};

static const struct option_row hold_arguments[] = {
	DIR_OF(struct hold_options),
	GPU_OF(struct hold_options),
	{NULL, 0, "MIB", OPTION_TO(TEXT, struct hold_options, mib), .help = "how much memory, in MiB"},
};
const struct option_table sim_hold_option_table = {.program = "ration-sim hold",
	.usage = "DIR GPU MIB",
	.summary = "Hold memory of a GPU until interrupted. The memory counts as that of a process.",
	OPTION_ARGUMENTS(hold_arguments)};

const struct option_table sim_down_option_table = {.program = "ration-sim down",
	.usage = "DIR",
	.summary = "Remove what `ration-sim up` has made.",
	OPTION_ARGUMENTS(sim_arguments)};

static const struct option_command commands[] = {
	{"up", "make the folder of a simulated driver, or change it"},
	{"status", "show the GPUs, their health and their processes"},
	{"fault", "inject a fault, or repair the GPU"},
	{"set", "change the timing of the GPUs, and show it"},
	{"usage", "show how long each process kept each GPU busy"},
	{"hold", "hold memory of a GPU until interrupted"},
	{"down", "remove what `ration-sim up` has made"},
	{"help", "print this text and exit; `ration-sim COMMAND --help` explains a command"},
};
const struct option_table sim_option_table = {.program = "ration-sim",
	.usage = "COMMAND [ARGUMENT]...",
	.summary = "A simulated NVIDIA driver: GPUs without hardware, for tests and demonstrations.",
	OPTION_COMMANDS(commands),
	.version = "ration-sim",
	.options_end_early = true};
