/* watched.h - the containers of this node that have a grant, and what was last seen of each: what it holds,
 * what it was refused. And when one of them asks to be looked at. */
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

struct loop;
struct watched_set;

#define WATCHED_TOP 4 /* processes that are named to people */

struct watched_process {
	pid_t pid;
	uint64_t bytes;
};

struct watched;

/* One GPU of a container's grant. */
struct watched_part {
	struct list item; /* of watched_on() */
	struct watched *of;
	unsigned index;					       /* in the grant */
	char uuid[sizeof(((struct grant_file_gpu *)0)->uuid)]; /* a copy: the grant's page stays untouched */
	bool looked;					       /* once at least */
	uint64_t used_bytes, overhead_bytes;
	uint64_t allowed_bytes; /* its limit, or what it still has from before that was lowered */
	size_t n_processes;
	struct watched_process top[WATCHED_TOP]; /* those that hold most */
	struct usage_peek_gpu refused;		 /* at the last look */
	uint64_t refused_told;			 /* of that, what an Event was about */
	struct power_gpu power;

	/* What the container's counters and processes were at the last look. */
	struct {
		uint32_t wanted;		/* when the last look began */
		struct usage_peek_slot *before; /* as they were then; only during a look */
		size_t n_before;
		struct overhead_process *known; /* its processes at the last look; watched_remember() */
		size_t n_known;
		int64_t search_again_ns; /* outside_note_dead() */
	} look;
};

struct watched {
	struct list item;
	char *uid, *namespace_, *pod, *container;
	struct grant_file *grant; /* the caller's */
	int usage_fd;		  /* the caller's */
	struct watched_part *gpus;
	unsigned n_gpus;
	const struct watched_part *pauses_for; /* the container pauses for a sample of this GPU; or NULL */
	int64_t paused_ns;		       /* when it last began to */
	bool kept;			       /* as usage_file_keep() was told last */
	int64_t told_ns;		       /* when the last Event about refusals was posted; 0: none */

	int wd;		  /* of inotify; -1: not armed */
	int64_t rearm_ns; /* not before */
	int64_t paid_ns;  /* looks that it asked for are paid until then */
};

struct watched_grant {
	const char *uid, *namespace_, *pod, *container;
	struct grant_file *grant; /* mapped writable, and usage_fd open for reading, until watched_remove() */
	int usage_fd;
};

/* wanted: the container asks for a look at this GPU, now. */
typedef void (*watched_fn)(void *userdata, const char *uuid);

int watched_set_new(struct loop *loop, watched_fn wanted, void *userdata, struct watched_set **ret_set);
void watched_set_free(struct watched_set *set); /* accepts NULL */

/* watched_add() - once for each container. */
int watched_add(struct watched_set *set, const struct watched_grant *grant);
void watched_remove(struct watched_set *set, const char *uid, const char *container);

/* watched_list() - struct watched.item. */
struct list *watched_list(struct watched_set *set);

/* watched_find() - NULL if it has no grant. watched_only() - that of the pod, if there is just one. */
struct watched *watched_find(struct watched_set *set, const char *uid, const char *container);
struct watched *watched_only(struct watched_set *set, const char *uid);

/* watched_on() - the part of each grant that has this GPU: struct watched_part.item. */
const struct list *watched_on(struct watched_set *set, const char *uuid);

/* watched_part() - NULL if the grant has not this GPU. */
struct watched_part *watched_part(struct watched *watched, const char *uuid);

/* watched_remember() - the processes of the container that have memory of the GPU, with what is known of
 * each.
 */
void watched_remember(struct watched_part *gpu, const struct overhead_process *processes, size_t n);

/* watched_pause() - after a sample of the GPU: where it could not conclude enough, the container pauses, so
 * that the next one may find no call under way; it is due then. That one ends the pause. */
bool watched_pause(struct watched_part *gpu, const struct overhead *found);

/* watched_keep() - whether containers with this GPU are to see that somebody looks (usage_file_keep()); each
 * does from watched_add() on. */
void watched_keep(struct watched_set *set, const char *uuid, bool kept);

/* watched_listen() - after a look, and each second: who has asked is heard again, but for who asks too often.
 */
void watched_listen(struct watched_set *set);
