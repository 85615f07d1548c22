/* options.h - the arguments of `ration run`. */
#pragma once

#include <stdbool.h>

#include "run/division.h"
#include "run/layer.h"

struct run_options {
	const char *mem;
	const char *gpus; /* "0,2", or UUIDs; NULL: the first GPU */
	const char *driver;
	struct division_wish power;
	enum layer layer; /* LAYER_INVALID: the strongest */
	bool verbose;
	char **program; /* with arguments, ended by NULL */
};

/* options_parse() - -1 to go on, or the status to end with: help was printed, or what is wrong. */
int options_parse(int argc, char **argv, struct run_options *ret_options);
