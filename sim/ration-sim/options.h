/* options.h - the command lines of ration-sim: one table for each command, and the structure that it fills.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/options.h"
#include "sim/ration-sim/pace.h"

/* All but fault, hold and up. */
struct sim_options {
	const char *dir;
	const char *pace[PACE_KEYS]; /* of set; NULL: unchanged */
	bool json;		     /* of usage */
	uint32_t every_ms;	     /* of usage; 0: once */
};

struct up_options {
	const char *dir, *spec, *file, *driver_version, *links;
	const char *pace[PACE_KEYS];
};

struct fault_options {
	const char *dir, *gpu, *kind;
	char **arguments; /* ended by NULL */
};

struct hold_options {
	const char *dir, *gpu, *mib;
};

extern const struct option_table sim_option_table; /* of the program itself: --help and --version */
extern const struct option_table sim_up_option_table, sim_fault_option_table, sim_hold_option_table;
extern const struct option_table sim_status_option_table, sim_set_option_table, sim_usage_option_table,
	sim_down_option_table; /* of struct sim_options */
