/* registry.h - the runs of this machine: a folder each, that has the grant, so that several of them share a
 * GPU without taking more than it has.
 *
 * <place>/<pid>.<start ticks of the pid>/grant, usage (both: src/grant), cards (labels for people), lib/ and
 * host/ (layer.h). A place is a folder that every user may write to, /run/ration-runs where root has made it,
 * else /tmp/ration-runs; runs in either are counted. Nobody has to clean up after a crash: a run lives as
 * long as its first process or one that has used a GPU under it, and who meets a dead one removes it.
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
	int fd[REGISTRY_PLACES]; /* locked; -1: there is none */
	int home;		 /* where our own run goes */
};

/* What a run asked for of its GPUs' computing power, in its file "power". */
struct run_power {
	uint32_t percent, weight; /* 0: not said */
	int policy;		  /* of contract 7; -1: a run of an older version */
};

/* A run that lives. */
struct run_seen {
	char folder[PATH_MAX];
	pid_t pid;
	uid_t uid;
	const struct grant_file *grant; /* a copy: whoever truncates a mapped one kills us */
	struct run_power power;
	uint64_t used_bytes[GRANT_FILE_GPUS_MAX]; /* charged and overhead */
	bool usage_known;			  /* else it is another user's */
	char labels[GRANT_FILE_GPUS_MAX][16];	  /* index of each GPU when the run began */
};

/* registry_open() - with `lock`, nobody else starts a run until registry_close(); waits at most 10 s for
 * others. Makes a place if there is none and `lock` is set. */
int registry_open(struct registry *registry, bool lock, struct error *err);
void registry_close(struct registry *registry);
#define _cleanup_registry_ _cleanup_(registry_close)

/* registry_each() - call back for each living run, until a call returns other than 0, which is returned. The
 * dead are removed where this user may. */
int registry_each(
	struct registry *registry, int (*seen)(void *context, const struct run_seen *run), void *context);

/* registry_folder() - where the calling process's run is going to be, with room for PATH_MAX. */
int registry_folder(const struct registry *registry, char *ret_folder, struct error *err);

/* registry_stamp() - another number when a run has been added or removed. */
int64_t registry_stamp(const struct registry *registry);

/* registry_add() - make that folder, complete at once: grant has what is constant filled in; labels: index of
 * each GPU. */
int registry_add(const char *folder, struct grant_file *grant, const char labels[][16],
	const struct run_power *power, struct error *err);

/* registry_remove() - a run's folder and what registry_add() and layer_prepare() made in it; nothing else. */
void registry_remove(const char *folder);

/* registry_is_alive() - whether a process of this run lives, zombies not counted. */
bool registry_is_alive(const char *folder);
