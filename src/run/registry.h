/* registry.h - the runs of this machine. Each has a folder with its grant, so that several of them share a
 * GPU without exceeding it.
 *
 * <place>/<pid>.<start ticks of the pid>/grant, usage (both: src/grant), cards (labels for users), lib/ and
 * host/ (layer.h). A place is a folder to which every user may write: /run/ration-runs if root has made it,
 * else /tmp/ration-runs. Runs in both are counted. A crash needs no clean-up. A run lives as long as its
 * first process, or a process that has used a GPU under it, and any process that finds a dead run removes it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "grant/grant.h"

#define REGISTRY_PLACES 2
#define REGISTRY_VARIABLE "RATION_RUNS" /* one place instead of both: for tests */

struct registry {
	char place[REGISTRY_PLACES][PATH_MAX];
	int fd[REGISTRY_PLACES]; /* locked; -1: it does not exist */
	int home;		 /* the place of this process' own run */
};

/* What a run asked of its GPUs' computing power, in its file "power". */
struct run_power {
	uint32_t percent, weight; /* 0: not set */
	int policy;		  /* of contract 7; -1: a run of an older version */
};

/* A living run. */
struct run_seen {
	char folder[PATH_MAX];
	pid_t pid;
	uid_t uid;
	const struct grant_file *grant; /* a copy, because truncating a mapped file would kill this process */
	struct run_power power;
	uint64_t used_bytes[GRANT_FILE_GPUS_MAX]; /* charged and overhead */
	bool usage_known;			  /* false: it belongs to another user */
	char labels[GRANT_FILE_GPUS_MAX][16];	  /* index of each GPU when the run began */
};

/* registry_open() - with `lock`, no other process starts a run until registry_close(); waits at most 10 s for
 * others. With `lock`, registry_open() makes a folder for the runs if none can be used. */
int registry_open(struct registry *registry, bool lock, struct error *err);
void registry_close(struct registry *registry);
#define _cleanup_registry_ _cleanup_(registry_close)

/* registry_each() - calls back for each living run, until a call returns a value other than 0, which is
 * returned. Dead runs are removed if this user may do so. */
int registry_each(
	struct registry *registry, int (*seen)(void *context, const struct run_seen *run), void *context);

/* registry_folder() - the folder that the calling process's run will have; room for PATH_MAX. */
int registry_folder(const struct registry *registry, char *ret_folder, struct error *err);

/* registry_stamp() - a number that changes when a run is added or removed. */
int64_t registry_stamp(const struct registry *registry);

/* registry_add() - makes that folder in one step. grant has its constant members filled in; labels: index of
 * each GPU. */
int registry_add(const char *folder, struct grant_file *grant, const char labels[][16],
	const struct run_power *power, struct error *err);

/* registry_remove() - removes a run's folder and what registry_add() and layer_prepare() made in it, but no
 * other files. */
void registry_remove(const char *folder);

/* registry_is_alive() - whether a process of this run lives; zombies do not count. */
bool registry_is_alive(const char *folder);

/* Identifies a process, even if its pid was used again. */
/* process_start_ticks() - when the process started (/proc/PID/stat, field 22). -ESRCH: no process has this
 * pid, or it has ended and waits for its parent. */
int process_start_ticks(pid_t pid, uint64_t *ret_ticks);

/* process_is_alive() - the process with this start time lives; start_ticks 0: any process with this pid. */
bool process_is_alive(pid_t pid, uint64_t start_ticks);
