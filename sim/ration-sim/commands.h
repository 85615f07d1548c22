/* commands.h - the subcommands, and what they share about a tree. */
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

/* tree_lock() - one changer of a tree at a time: a descriptor that holds flock on DIR, or negative errno. */
int tree_lock(const char *dir, struct error *err);

/* tree_map() - the tree's state, for changing. Errors say what to do. */
int tree_map(const char *dir, struct sim_state **ret_state, struct error *err);

/* tree_find_gpu() - by index or UUID. */
int tree_find_gpu(const struct sim_state *state, const char *name, uint32_t *ret_gpu, struct error *err);

/* tree_install() - put library, nvidia-smi, device nodes and mounts.json of these GPUs into DIR and remove
 * those of GPUs and versions that are gone. *ret_stand_ins: device nodes are plain files. */
int tree_install(const char *dir, const struct sim_state *state, bool *ret_stand_ins, struct error *err);

/* tree_write_state() - make state/cards and state/processes say what `state` says. What they say already is
 * left alone (*ret_changed false): health and processes stay. Else old users see their GPUs as lost. */
int tree_write_state(const char *dir, const struct sim_state *state, bool *ret_changed, struct error *err);

/* tree_write_pace() - into the file that running programs have mapped. */
int tree_write_pace(const char *dir, const struct sim_pace *pace, struct error *err);

/* tree_remove() - everything that `up` puts into DIR, and DIR itself if nothing else is in it. */
int tree_remove(const char *dir, struct error *err);

/* fault_calls() - inject a fault into the next calls of libcuda, or remove all of them ("calm"). */
int fault_calls(
	const char *dir, uint32_t gpu, const char *kind, int count, char **arguments, struct error *err);
bool fault_is_of_calls(const char *kind);
