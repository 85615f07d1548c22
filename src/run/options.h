/* options.h - the command lines of `ration run` and `ration ps`, and the commands. */
#pragma once

#include <stdbool.h>

#include "base/options.h"
#include "run/division.h"
#include "run/layer.h"

struct run_options {
	const char *mem;
	const char *gpus; /* "0,2", or UUIDs */
	const char *driver;
	struct division_wish power;
	enum layer layer; /* LAYER_INVALID: the strongest */
	bool verbose;
	char **program; /* with arguments, ended by NULL */
};

/* What no option says. */
#define RUN_OPTIONS_INIT                                                                                     \
	{                                                                                                    \
		.layer = LAYER_INVALID, .power = {.policy = -1 }                                             \
	}

extern const struct option_table run_option_table; /* of struct run_options */
extern const struct option_table ps_option_table;  /* without any members */

/* The commands of this program. Each returns the exit status. */
#define RUN_EXIT_FAILURE                                                                                     \
	125 /* as env(1), timeout(1) and docker-run(1): differs from any status of the program */
#define RUN_EXIT_CANNOT_EXEC 126
#define RUN_EXIT_NOT_FOUND 127

int run_command(int argc, char **argv);
int ps_command(int argc, char **argv);
int sample_command(void);
