/* commands.h - the subcommands, and the functions on trees that they share. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "sim/state/layout.h"

/* Each gets argv with its own name as argv[0] and returns the exit code. */
int command_up(int argc, char **argv);
int command_status(int argc, char **argv);
int command_fault(int argc, char **argv);
int command_set(int argc, char **argv);
int command_usage(int argc, char **argv);
int command_hold(int argc, char **argv);
int command_down(int argc, char **argv);

/* command_fail() - "ration-sim: <error>" on stderr; returns exit code 1. */
int command_fail(const struct error *err);

/* tree_lock() - one process at a time may change a tree. Returns a descriptor that holds flock on DIR, or a
 * negative errno. */
int tree_lock(const char *dir, struct error *err);

/* tree_map() - maps the tree's state for changes. Errors say what to do. */
int tree_map(const char *dir, struct sim_state **ret_state, struct error *err);

/* tree_find_gpu() - finds a GPU by index or UUID. */
int tree_find_gpu(const struct sim_state *state, const char *name, uint32_t *ret_gpu, struct error *err);

/* tree_install() - puts library, nvidia-smi, device nodes and mounts.json for these GPUs into DIR, and
 * removes those of former GPUs and versions. *ret_stand_ins: device nodes are plain files. */
int tree_install(const char *dir, const struct sim_state *state, bool *ret_stand_ins, struct error *err);

/* tree_write_state() - writes state/cards and state/processes for `state`. If they match already they are
 * left alone (*ret_changed false), so health and processes stay. Otherwise programs that use the old files
 * see their GPUs as lost. */
int tree_write_state(const char *dir, const struct sim_state *state, bool *ret_changed, struct error *err);

/* tree_write_pace() - writes into the file that running programs have mapped. */
int tree_write_pace(const char *dir, const struct sim_pace *pace, struct error *err);

/* tree_remove() - removes everything that `up` puts into DIR, and DIR itself if it is then empty. */
int tree_remove(const char *dir, struct error *err);

/* fault_calls() - injects a fault into the next calls of libcuda, or removes all faults ("calm"). */
int fault_calls(
	const char *dir, uint32_t gpu, const char *kind, int count, char **arguments, struct error *err);
bool fault_is_of_calls(const char *kind);
