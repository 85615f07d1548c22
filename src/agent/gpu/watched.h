/* watched.h - the containers of this node that have a grant, with the last sample of each: its memory, and
 * its refused allocations. It also hears when one of them asks for a sample. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/gpu/power-gpu.h"
#include "base/list.h"
#include "grant/grant.h"
#include "grant/overhead.h"
#include "grant/peek.h"
#include "model/use.h"

struct loop;
struct watched_set;

/* In the folder of a container's grant. */
#define WATCHED_USE_FILE "use"

/* More than a node runs; /metrics and /use show no more. */
#define CONTAINERS_SHOWN_MAX 1024

#define WATCHED_TOP 4 /* processes that messages name */

struct watched_process {
	pid_t pid;
	uint64_t bytes;
};

struct watched;

/* One GPU of a container's grant. */
struct watched_part {
	struct list item; /* in watched_on() */
	struct watched *of;
	unsigned index;					       /* in the grant */
	char uuid[sizeof(((struct grant_file_gpu *)0)->uuid)]; /* a copy: the grant's page stays untouched */
	uint64_t physical_bytes;			       /* of the whole GPU, likewise */
	bool looked;					       /* sampled at least once */
	uint64_t used_bytes, overhead_bytes;
	uint64_t allowed_bytes; /* watchdog_allowed() */
	size_t n_processes;
	struct watched_process top[WATCHED_TOP]; /* the processes that hold most */
	struct usage_peek_gpu refused;		 /* refused allocations, at the last sample */
	uint64_t refused_told;			 /* how many of these an Event has reported */
	struct power_gpu power;
	struct use_record use; /* since the container got its grant; watched_note_use() */
	int64_t use_ns;	       /* when the last sample was added; 0: this agent has added no sample */

	/* The container's counters and processes at the last sample. */
	struct {
		uint32_t wanted; /* number of the container's last request when the sample began */
		struct usage_peek_slot *before; /* the slots when the sample began; NULL between samples */
		size_t n_before;
		struct overhead_process *known; /* its processes; watched_remember() */
		size_t n_known;
		int64_t search_again_ns; /* for outside_note_dead() */
	} look;
};

struct watched {
	struct list item;
	char *uid, *namespace_, *pod, *container;
	struct grant_file *grant; /* the caller's */
	int usage_fd;		  /* the caller's */
	int use_fd;		  /* the caller's; -1: `use` is not kept */
	bool use_begun;		  /* that file has its header */
	const char *owner;	  /* of its pod; only while a page is made (looks_name_owners()) */
	struct watched_part *gpus;
	unsigned n_gpus;
	const struct watched_part *pauses_for; /* the container pauses for a sample of this GPU; or NULL */
	int64_t paused_ns;		       /* when its last pause began */
	bool kept;			       /* last argument of usage_file_keep() */
	int64_t told_ns; /* when the last Event about refusals was posted; 0: no Event was posted */

	struct watched_set *set;
	struct loop_watch *asks; /* tells that the container asks for a sample; NULL: not armed */
	int64_t rearm_ns;	 /* do not arm it before this time */
	int64_t paid_ns;	 /* limits the rate of the samples that the container asks for */
};

struct watched_grant {
	const char *uid, *namespace_, *pod, *container;
	struct grant_file *grant; /* mapped writable, and usage_fd open for reading, until watched_remove() */
	int usage_fd;
	int use_fd; /* -1: the use cannot be kept */
};

/* wanted: a container asks for a sample of this GPU. */
typedef void (*watched_fn)(void *userdata, const char *uuid);

int watched_set_new(struct loop *loop, watched_fn wanted, void *userdata, struct watched_set **ret_set);
void watched_set_free(struct watched_set *set); /* accepts NULL */

/* watched_add() - call it once for each container. */
int watched_add(struct watched_set *set, const struct watched_grant *grant);
void watched_remove(struct watched_set *set, const char *uid, const char *container);

/* watched_list() - the list of all containers, by struct watched.item. */
struct list *watched_list(struct watched_set *set);

/* watched_find() - NULL if the container has no grant. watched_only() - the pod's only container with a
 * grant; NULL if no container of it, or several, have one. */
struct watched *watched_find(struct watched_set *set, const char *uid, const char *container);
struct watched *watched_only(struct watched_set *set, const char *uid);

/* watched_on() - the containers with a grant for this GPU, by struct watched_part.item. */
const struct list *watched_on(struct watched_set *set, const char *uuid);

/* watched_part() - the container's part for this GPU; NULL if its grant does not have this GPU. */
struct watched_part *watched_part(struct watched *watched, const char *uuid);

/* watched_remember() - keeps the container's processes on this GPU for the next sample. */
void watched_remember(struct watched_part *gpu, const struct overhead_process *processes, size_t n);

/* watched_pause() - called after a sample of the GPU. If calls in progress made the sample inexact, the
 * container pauses its calls until the next sample, which then is due at once. Returns whether it is due. */
bool watched_pause(struct watched_part *gpu, const struct overhead *found);

/* watched_note_use() - adds a sample to the record of what the container used. Call it after each sample of
 * the GPU. idle: the container does not run. */
void watched_note_use(struct watched_part *gpu, bool idle);

/* watched_keep() - tells the containers with this GPU whether the agent samples it (usage_file_keep()). After
 * watched_add() a container sees that it does. */
void watched_keep(struct watched_set *set, const char *uuid, bool kept);

/* watched_listen() - call it after a sample, and each second: it arms the inotify watch of each container
 * again, except of those that ask too often. */
void watched_listen(struct watched_set *set);
