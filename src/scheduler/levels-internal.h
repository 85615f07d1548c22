/* levels-internal.h - what levels.c (questions), levels-confirm.c, levels-gang.c, levels-watch.c,
 * levels-write.c, levels-status.c and levels-verbs.c share. */
#pragma once

#include "base/list.h"
#include "base/table.h"
#include "core/policy/level-book.h"
#include "scheduler/levels.h"

struct kube_response;
struct kube_watch;
struct loop_timer;

#define SPACES_MAX 100	 /* namespaces with ResourcePolicies that hold: the pods of each are kept */
#define POLICIES_MAX 100 /* of one namespace */
#define LEVEL_STATUS_EVERY_NS INT64_C(1000000000)
#define STATUSES_MAX 2000 /* policies that are told how they do; others are ignored */

/* How a policy is doing, for its status. */
struct level_status {
	struct level_space *space;
	char *uid, *name;
	int64_t generation;
	bool accepted;
	bool crowded;		      /* refused only since there are too many others */
	uint64_t round;		      /* of levels->round, in which it was shown */
	char problem[512];	      /* why not */
	char since[32];		      /* when that came to be so */
	char level[64];		      /* the last that a pod was given */
	char reason[LEVEL_TEXT_SIZE]; /* and why, or why the last pod that asked waits */
	char *written;		      /* NULL: not known */
	bool busy, settled;	      /* written, and will not change by itself */
	int64_t not_before_ns;
};

/* A namespace. */
struct level_space {
	struct levels *levels;
	char *name;
	struct level_book book;
	struct table statuses; /* uid -> struct level_status, of policies that cannot be understood too */
	struct kube_watch
		*list; /* its pods are being read, which the watch of all pods did not show us; else NULL */
	struct table ended; /* uids whose end that watch has told since then */
	bool is_read;
	bool is_older;	    /* its policies were there when we started, and its pods are not read since */
	bool unwritten;	    /* pods may need something to be written */
	uint64_t looked_at; /* book.freed, when everybody who waits was looked at */
};

struct levels {
	struct scheduler *scheduler;
	struct table spaces;	  /* name -> struct level_space */
	struct table space_names; /* uid of a policy -> name of its space */
	struct level_nodes nodes;
	int64_t watched_ns; /* since when the watch of pods is open, for all we have seen each second; 0: it
			       is not */
	struct kube_watch *policies_watch;
	struct loop_timer *timer;
	struct list requests; /* struct level_write */
	size_t n_requests;
	bool known, absent, armed;
	size_t n_statuses, n_crowded;
	uint64_t round;	    /* of LISTs that we asked for ourselves */
	bool ignored;	    /* some have not even a status */
	bool made_room;	    /* for policies that were refused since there are too many */
	int64_t listed_ns;  /* when they were listed for that last */
	bool leads, asking; /* the kube-scheduler beside us, by its Lease */
	int64_t leads_checked_ns;
	uint64_t given, waited, writes;
};

struct level_space *levels_space(const struct levels *levels, const char *namespace_);

/* levels_space_is_ready() - its pods are read. Nobody asks us before the nodes are. */
bool levels_space_is_ready(const struct level_space *space);

/* levels_select() - the pod as a question shows it, if a policy has a say; else NULL. say: as far as known.
 */
struct level_pod *levels_select(struct levels *levels, struct json_object *object,
	struct level_space **ret_space, struct levels_say *ret_say);

/* levels_cannot_say() - nobody can say yet: the pod is woken when somebody can. */
bool levels_cannot_say(struct level_space *space, struct level_pod *pod, struct levels_say *say);

/* levels_use(), levels_wait() - what was answered, by the text in say. */
void levels_use(struct level_space *space, struct level_pod *pod, size_t level, struct levels_say *say);
void levels_wait(struct level_space *space, struct level_pod *pod, const struct level_answer *answer,
	int64_t now, const struct levels_say *say);

/* levels_look_soon() - somebody may wait for what is free now, or something is to be written. */
void levels_look_soon(struct levels *levels);

/* levels-gang.c: levels_drop_given_up() - what was taken for pods that did not ask, whose gang has no plan
 * any more. */
void levels_drop_given_up(struct level_space *space);

/* levels-watch.c */
int levels_watch_start(struct levels *levels);
void levels_watch_stop(struct levels *levels);
void levels_list_again(struct levels *levels); /* if policies were refused that now may hold */
/* levels_follow() - reads what the policies need, and drops what none needs; not from within a list of pods.
 */
void levels_follow(struct levels *levels);

/* levels-write.c */
void levels_write(struct levels *levels);
void levels_writes_stop(struct levels *levels);

/* levels-status.c: status_of() adds one; NULL: out of memory, or there are STATUSES_MAX. status_set() -
 * result: 0, -E2BIG if there are too many others, another error if it cannot be understood. */
struct level_status *level_status_of(struct level_space *space, const char *uid, const char *name);
void level_status_set(
	struct level_status *status, struct json_object *object, int result, const char *problem);
void level_status_drop(struct level_space *space, const char *uid);
void level_status_free(struct level_status *status);
void level_status_note(struct level_space *space, const struct level_policy *policy,
	const struct level_answer *answer, const char *text);
/* level_status_text() - what is to be written now, NULL if that is what was written. Not more than once a
 * second, since it is made of all groups of its pods. The caller frees it. */
char *level_status_text(struct level_status *status, int64_t now_ns);

/* A request that is under way. */
struct level_write {
	struct list item;
	struct levels *levels;
	char *space, *uid; /* of the pod or the policy; looked up again when the answer is there */
	struct http_call *call;
	char *good, *bad;
	char *status;
};
struct level_write *level_write_new(struct levels *levels, const char *space, const char *uid);
void level_write_free(struct level_write *write);
