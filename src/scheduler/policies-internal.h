/* policies-internal.h - what policies.c, policies-watch.c, policies-write.c, policies-status.c and
 * policies-verbs.c share. */
#pragma once

#include "base/list.h"
#include "base/table.h"
#include "core/policies.h"
#include "scheduler/policies.h"

struct kube_response;
struct kube_watch;
struct loop_timer;

#define NAMESPACES_MAX 100 /* namespaces with ResourcePolicies that hold: the pods of each are kept */
#define POLICIES_MAX 100   /* of one namespace */
#define POLICY_STATUS_EVERY_NS INT64_C(1000000000)
#define STATUSES_MAX 2000 /* policies that are told how they do; others are ignored */

/* How a policy is doing, for its status. */
struct policy_status {
	struct policy_namespace *ns;
	char *uid, *name;
	int64_t generation;
	bool accepted;
	bool crowded;		       /* refused only since there are too many others */
	uint64_t round;		       /* of policies->round, in which it was shown */
	char problem[512];	       /* why not */
	char since[32];		       /* when that came to be so */
	char unit[64];		       /* the last that a pod was given */
	char reason[POLICY_TEXT_SIZE]; /* and why, or why the last pod that asked waits */
	char *written;		       /* NULL: not known */
	bool busy, settled;	       /* written, and will not change by itself */
	int64_t not_before_ns;
};

/* A namespace. */
struct policy_namespace {
	struct policy_space *space; /* the core's */
	struct policies *policies;
	struct table statuses; /* uid -> struct policy_status, of policies that cannot be understood too */
	struct kube_watch
		*list; /* its pods are being read, which the watch of all pods did not show us; else NULL */
	struct table ended; /* uids whose end that watch has told since then */
	bool listed;	    /* the list is complete, and to be freed */
	bool again;	    /* its pods are to be read (anew) */
	bool is_older;	    /* its policies were there when we started, and its pods are not read since */
};

struct policies {
	struct scheduler *scheduler;
	struct table namespaces;      /* name -> struct policy_namespace, for each of the core's spaces */
	struct table namespace_names; /* uid of a policy -> name of its namespace */
	struct kube_watch *policies_watch;
	struct loop_timer *timer;
	struct list requests; /* struct policy_write */
	size_t n_requests;
	bool absent, armed;
	size_t n_statuses, n_crowded;
	uint64_t round;	    /* of LISTs that we asked for ourselves */
	bool ignored;	    /* some have not even a status */
	bool made_room;	    /* for policies that were refused since there are too many */
	int64_t listed_ns;  /* when they were listed for that last */
	bool leads, asking; /* the kube-scheduler beside us, by its Lease */
	int64_t leads_checked_ns;
	uint64_t writes;
};

/* policies_spaces() - the core's. policies_namespace() - NULL: there is none of this name. */
struct policy_spaces *policies_spaces(const struct policies *policies);
struct policy_namespace *policies_namespace(const struct policies *policies, const char *namespace_);

/* policy_namespace_is_ready() - its pods are read, and so are all nodes and pods of the cluster. */
bool policy_namespace_is_ready(const struct policy_namespace *ns);

/* policies_look_soon() - a pod may wait for what is free now, or something is to be written. */
void policies_look_soon(struct policies *policies);

/* policies-watch.c */
int policies_watch_start(struct policies *policies);
void policies_watch_stop(struct policies *policies);
void policies_list_again(struct policies *policies); /* if policies were refused that now may hold */
/* policies_follow() - reads what the policies need, and drops what none needs; not from within a list of
 * pods.
 */
void policies_follow(struct policies *policies);

/* policies-write.c */
void policies_write(struct policies *policies);
void policies_writes_stop(struct policies *policies);

/* policies-status.c: policy_status_of() adds one; NULL: out of memory, or there are STATUSES_MAX.
 * policy_status_set() - result: 0, -E2BIG if there are too many others, another error if it cannot be
 * understood. */
struct policy_status *policy_status_of(struct policy_namespace *ns, const char *uid, const char *name);
void policy_status_set(
	struct policy_status *status, struct json_object *object, int result, const char *problem);
void policy_status_drop(struct policy_namespace *ns, const char *uid);
void policy_status_note(struct policy_namespace *ns, const struct resource_policy *policy,
	const struct policy_answer *answer, const char *text);
/* policy_status_text() - what is to be written now, NULL if that is what was written. Not more than once a
 * second, since it is made of all groups of its pods. The caller frees it. */
char *policy_status_text(struct policy_status *status, int64_t now_ns);

/* A request that is under way. */
struct policy_write {
	struct list item;
	struct policies *policies;
	char *ns, *uid; /* of the pod or the policy; looked up again when the answer is there */
	struct http_call *call;
	char *good, *bad;
	char *status;
};
