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

#define NAMESPACES_MAX 100 /* namespaces with valid ResourcePolicies, whose pods are kept */
#define POLICIES_MAX 100   /* of one namespace */
#define POLICY_STATUS_EVERY_NS INT64_C(1000000000)
#define STATUSES_MAX 2000 /* policies that get a status; others are ignored */

/* The state of a policy, for its status. */
struct policy_status {
	struct policy_namespace *ns;
	char *uid, *name;
	int64_t generation;
	bool accepted;
	bool crowded;		       /* refused only because there are too many others */
	uint64_t round;		       /* the policies->round in which it was last shown */
	char problem[512];	       /* why it is refused */
	char since[32];		       /* since when the policy has this state */
	char unit[64];		       /* the last unit that a pod was given */
	char reason[POLICY_TEXT_SIZE]; /* and why; or why the last pod waits */
	char *written;		       /* the status that was last written; NULL: unknown */
	bool busy, settled;	       /* settled: the status is written, and will not change by itself */
	int64_t not_before_ns;
};

/* A namespace. */
struct policy_namespace {
	struct policy_space *space; /* the core's struct */
	struct policies *policies;
	struct table statuses;	 /* uid -> struct policy_status, including invalid policies */
	struct kube_watch *list; /* the list of its pods, which the watch of all pods did not show; NULL: not
				    being read */
	struct table ended;	 /* uids whose end the watch has told since the list began */
	bool listed;		 /* the list is complete and must be freed */
	bool again;		 /* its pods must be read (again) */
	bool is_older; /* its policies existed before this process began, and its pods have not been read
			  since */
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
	uint64_t round;	    /* counts the LISTs that this process requested */
	bool ignored;	    /* some policies do not even have a status */
	bool made_room;	    /* there is room for policies that were refused because there were too many */
	int64_t listed_ns;  /* when the policies were last listed for that */
	bool leads, asking; /* leads: the kube-scheduler of this pair leads, by its Lease; asking: the Lease
			       is being read */
	int64_t leads_checked_ns;
	uint64_t writes;
};

/* policies_spaces() - the core's spaces. policies_namespace() - NULL: the core knows no ResourcePolicy in
 * this namespace. */
struct policy_spaces *policies_spaces(const struct policies *policies);
struct policy_namespace *policies_namespace(const struct policies *policies, const char *namespace_);

/* policy_namespace_is_ready() - its pods are read, and so are all nodes and pods of the cluster. */
bool policy_namespace_is_ready(const struct policy_namespace *ns);

/* policies_look_soon() - a pod may wait for what is free now, or something must be written. */
void policies_look_soon(struct policies *policies);

/* policies-watch.c */
int policies_watch_start(struct policies *policies);
void policies_watch_stop(struct policies *policies);
void policies_list_again(struct policies *policies); /* reads them if refused ones may be valid now */
/* policies_follow() - reads what the policies need, and drops what no policy needs; not to be called from
 * within a list of pods. */
void policies_follow(struct policies *policies);

/* policies-write.c */
void policies_write(struct policies *policies);
void policies_writes_stop(struct policies *policies);

/* policies-status.c: policy_status_of() - finds or adds one; NULL: out of memory, or there are STATUSES_MAX.
 * policy_status_set() - result: 0, -E2BIG if there are too many other policies, another error if the policy
 * is invalid. */
struct policy_status *policy_status_of(struct policy_namespace *ns, const char *uid, const char *name);
void policy_status_set(
	struct policy_status *status, struct json_object *object, int result, const char *problem);
void policy_status_drop(struct policy_namespace *ns, const char *uid);
void policy_status_note(struct policy_namespace *ns, const struct resource_policy *policy,
	const struct policy_answer *answer, const char *text);
/* policy_status_text() - the status to write now; NULL if it is the one last written. Do not call it more
 * than once a second, because it is computed from all groups of the policy's pods. The caller frees it. */
char *policy_status_text(struct policy_status *status, int64_t now_ns);

/* A request that is under way. */
struct policy_write {
	struct list item;
	struct policies *policies;
	char *ns, *uid; /* of the pod or the policy; looked up again when the answer comes */
	struct http_call *call;
	char *good, *bad;
	char *status;
};
