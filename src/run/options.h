/* options.h - the command lines of `ration run` and `ration ps`.
 */
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
