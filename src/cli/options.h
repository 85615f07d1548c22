/* options.h - the command lines of `ration` and of kubectl-inspect-cgpu: one table for each command, and the
 * structure that it fills.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/options.h"
#include "cli/kubectl.h"

enum output { OUTPUT_TABLE, OUTPUT_WIDE, OUTPUT_JSON };

/* Except replay_options, all begin with the options that are passed on to kubectl. */

struct inspect_options {
	struct kubectl kubectl;
	enum output output;
	bool details, topology, watch;
	const char *node; /* NULL: all */
};

struct why_options {
	struct kubectl kubectl;
	const char *name, *namespace_, *node;
	enum output output;
};

struct set_options {
	struct kubectl kubectl;
	const char *name, *namespace_, *container;
	uint32_t units, timeout_s;
};

struct cordon_options {
	struct kubectl kubectl;
	const char *node, *gpu, *reason;
	uint32_t timeout_s;
};

struct top_options {
	struct kubectl kubectl;
	bool runs, once;
	enum output output;
	char **nodes; /* ended by NULL */
};

struct doctor_options {
	struct kubectl kubectl;
	enum output output;
	bool node, scheduler_config, kubeadm;
	const char *root, *driver_root, *image;
	struct option_words args;
};

struct history_options {
	struct kubectl kubectl;
};

enum plan_what { PLAN_PODS, PLAN_DRAIN, PLAN_ADD, PLAN_MOVES, PLAN_UNIT, PLAN_POLICY };

struct plan_options {
	struct kubectl kubectl;
	enum plan_what what;
	char **nodes; /* ended by NULL */
	const char *file, *like, *namespace_, *history, *objects;
	uint32_t count, max; /* 0: not given */
	int unit_mib;	     /* 0: not given */
	bool execute, force;
	uint32_t timeout_s; /* for each eviction */
	enum output output;
};

struct advise_options {
	struct kubectl kubectl;
	const char *namespace_; /* NULL: all */
	uint32_t margin, min_age_s;
	bool apply;
	enum output output;
	char **nodes; /* ended by NULL */
};

struct ui_options {
	struct kubectl kubectl;
	const char *file; /* NULL: a server */
	uint32_t port;	  /* 0: any */
	bool no_browser, runs;
	enum output output;
};

struct replay_options {
	const char *file;
};

extern const struct option_table ration_option_table; /* for the program itself: --help and --version */
extern const struct option_table inspect_option_table, cgpu_option_table; /* for struct inspect_options */
extern const struct option_table why_option_table, set_option_table, cordon_option_table,
	uncordon_option_table, top_option_table, doctor_option_table, history_option_table,
	replay_option_table, plan_option_table, advise_option_table, ui_option_table;
