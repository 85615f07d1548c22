/* event.h - what goes into a core and what comes out of it, as values: for a log that can be replayed.
 *
 * Each function of the core that is an event begins with core_begin(). If core->log is set, it receives the
 * event before the core changes. Then it receives what the caller answered to queries of the core (bind_ops,
 * resize_ops), and what the core has decided. The events and those answers alone determine the rest.
 * replay_event() feeds them to a core of the same state, which then gives the same outputs.
 *
 * A call of another function of the core inside an event is not an event of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct archive;
struct budget;
struct core;
struct gang_group;
struct node_facts;
struct ownership;
struct placement;
struct pod_facts;
struct preempt_node;
struct policy_pod_facts;
struct resource_policy;

/* Each kind stands for one function. In brackets: the members of struct core_event that it uses besides
 * now_ns. */
enum core_event_kind {
	CORE_NODE_SEEN,	   /* core_see_node() [node] */
	CORE_NODE_GONE,	   /* core_node_is_gone() [name, uid] */
	CORE_AGENT_HEARD,  /* core_hear_agent() [name, number: heard_ns] */
	CORE_AGENT_LOST,   /* core_set_agent_lost() [name, yes] */
	CORE_NODES_LISTED, /* core_nodes_are_listed() */
	CORE_NODES_TOLD,   /* core_set_nodes_told() [number: told_ns] */

	CORE_POD_SEEN,	   /* core_see_pod() [pod, number: verdict] */
	CORE_POD_GONE,	   /* core_pod_is_gone() [uid, yes: shown] */
	CORE_POD_SHOWN,	   /* core_show_pod() [pod] */
	CORE_POD_VERIFIED, /* core_pod_is_verified() [uid, outcome: enum pod_verified, pod] */
	CORE_PODS_LISTED,  /* core_pods_are_listed() */
	CORE_WATCH,	   /* core_set_watch() [yes: following, number: heard_ns] */
	CORE_TICK,	   /* core_tick() */

	CORE_OWNERSHIP, /* core_set_ownership() [ownership] */
	CORE_CALLED,	/* core_note_call() [yes: another] */
	CORE_FILTER, /* core_filter() [pod, number: best, uid and namespace_ and policy_pod: of the policy];
			TOLD_NAMES follows */
	CORE_PRIORITIZE, /* core_prioritize() [pod]; TOLD_NAMES follows */
	CORE_DROP_HOLD,	 /* core_drop_hold() [uid] */

	CORE_BIND,	       /* core_bind() [uid, namespace_, name, text: the node] */
	CORE_BIND_LISTED,      /* core_node_listed() [bind, text: why not] */
	CORE_BIND_POD_READ,    /* core_bind_pod_read() [bind, pod, text: why not] */
	CORE_BINDING_ANSWERED, /* core_binding_answered() [bind, outcome: enum binding_outcome, text: why] */
	CORE_BIND_NOT_ASKED,   /* core_bind_not_asked() [bind, text: why] */
	CORE_BIND_ANSWERED,    /* core_bind_is_answered() [bind] */
	CORE_DOUBTS_END,       /* core_end_doubts() */

	CORE_RESIZE_LEADS,     /* core_resize_leads() [uid, yes] */
	CORE_RESIZE_LISTED,    /* core_resize_listed() [uid, yes: ok, pod] */
	CORE_RESIZE_ANSWERED,  /* core_resize_answered() [uid, outcome: enum patch_outcome, text: why] */
	CORE_RESIZE_NOT_ASKED, /* core_resize_not_asked() [uid] */

	CORE_BUDGET_SEEN, /* core_see_budget() [budget] */
	CORE_BUDGET_GONE, /* core_budget_is_gone() [uid] */
	CORE_PREEMPT, /* core_preempt() [pod, candidates, uid and namespace_ and policy_pod: of the policy] */
	CORE_PREEMPT_RECALL,	  /* core_policy_recall() [uid, namespace_, policy_pod] */
	CORE_FILTER_ANSWERED,	  /* core_filter_is_answered() */
	CORE_EVICTIONS_GO_ON,	  /* core_continue_evictions() */
	CORE_EVICTION_ANSWERED,	  /* core_eviction_answered() [uid, outcome: enum eviction_outcome, text: why]
				   */
	CORE_VICTIM_MARKED,	  /* core_victim_is_marked() [uid] */
	CORE_NOMINATION_ANSWERED, /* core_nomination_answered() [uid, yes: written] */
	CORE_NOMINATION_CLEARED,  /* core_nomination_is_cleared() [uid] */
	CORE_EVICTION_NOT_ASKED,  /* core_eviction_not_asked() [uid] */

	CORE_GROUP_SEEN,     /* core_see_group() [name: its key, group] */
	CORE_GROUP_GONE,     /* core_group_is_gone() [name] */
	CORE_GROUPS_KNOWN,   /* core_set_groups_known() [yes] */
	CORE_GANG_HAS_RUN,   /* core_gang_has_run() [pod] */
	CORE_GANG_RECALLED,  /* core_gang_recalled() [uid, yes: all] */
	CORE_GANGS_MAY_LOOK, /* core_gangs_may_look(), if it changes anything */
	CORE_GANGS_LOOK,     /* core_look_at_gangs() */

	CORE_POLICIES_KNOWN,	  /* core_set_policies_known() [yes] */
	CORE_POLICY_SPACE_BEGINS, /* core_add_policy_space() [namespace_] */
	CORE_POLICY_SPACE_ENDS,	  /* core_remove_policy_space() [namespace_] */
	CORE_POLICY_SEEN,	  /* core_see_policy() [namespace_, policy] */
	CORE_POLICY_GONE,	  /* core_policy_is_gone() [namespace_, uid] */
	CORE_POLICY_NODE_SEEN,	  /* core_see_policy_node() [name, text: labels] */
	CORE_POLICY_NODE_GONE,	  /* core_policy_node_is_gone() [name] */
	CORE_POLICY_POD_SEEN,	  /* core_see_policy_pod() [namespace_, policy_pod] */
	CORE_POLICY_POD_GONE,	  /* core_policy_pod_is_gone() [namespace_, uid] */
	CORE_POLICY_LIST_BEGINS,  /* core_policy_pods_list_begins() [namespace_] */
	CORE_POLICY_PODS_LISTED,  /* core_policy_pods_are_listed() [namespace_, yes: older] */
	CORE_POLICY_MARKS_FAILED, /* core_policy_marks_failed() [namespace_, uid, number: until_ns] */
	CORE_POLICY_NARROW,	  /* core_policy_narrow() [namespace_, uid, policy_pod]; TOLD_NAMES follows */
	CORE_POLICIES_LOOK_ANEW,  /* core_look_at_policies_anew() */
	CORE_POLICIES_LOOK,	  /* core_look_at_policies() */

	CORE_REQUEUES_LOOK,  /* core_look_at_requeues() */
	CORE_REQUEUE_FAILED, /* core_requeue_failed() [uid] */

	CORE_KIND_MAX,
};

struct core_event {
	enum core_event_kind kind;
	int64_t now_ns;
	const char *name, *uid, *namespace_, *text;
	bool yes;
	int outcome;
	int64_t number;
	uint64_t bind; /* the bind's number (binds.h) */
	const struct node_facts *node;
	const struct pod_facts *pod;
	const struct ownership *ownership;
	const struct gang_group *group;
	const struct resource_policy *policy;
	const struct policy_pod_facts *policy_pod;
	const struct budget *budget;
	const struct preempt_node *candidates; /* with the victims that kube-scheduler has chosen */
	size_t n_candidates;
};

/* What belongs to an event. TOLD_: the caller's answers to queries of the core, which a replay gives again.
 * GAVE_: what the core has decided, which a replay compares. */
enum core_output_kind {
	TOLD_NAMES,	  /* the nodes of the call [text: numbers, names: others] */
	TOLD_CALLER_GONE, /* kube-scheduler has closed the connection of this bind [bind] */
	TOLD_NO_BINDING,  /* the Binding cannot be written [bind, text: why] */
	TOLD_RESIZE, /* the request of a resize [uid, number: errno, text: why not, placement: the target] */
	TOLD_PATCH,  /* the PATCH for it [uid, yes, number: errno, text: what it says, or why not] */
	TOLD_MAX,

	GAVE_FILTER = TOLD_MAX, /* [uid, outcome: enum filter_outcome, number: how many fit, names: the first
				   of those offered, reasons, text] */
	GAVE_SCORES,		/* [uid, names and scores: the nodes whose score is not 0, the best first] */
	GAVE_NARROWED,		/* by core_policy_narrow() [uid, number: how many are left, text] */
	GAVE_HOLD,		/* [uid, name: the node, placement] */
	GAVE_BINDING,		/* [bind, placement, yes: its gang has not started] */
	GAVE_BIND_ORDER,	/* [bind, uid, name: the node, outcome: enum bind_order, text: the answer] */
	GAVE_RESIZE_ORDER,	/* [uid, outcome: enum resize_order, text: what the PATCH says] */
	GAVE_PREEMPTION, /* [uid, outcome: enum preempt_outcome, name: the node, names: victims, placement] */
	GAVE_VICTIMS,	 /* for an eviction by ration [uid, name: the node, placement] */
	GAVE_EVICTION_ORDER, /* [uid, outcome: enum eviction_order, name: the victim's uid] */
	GAVE_GANG_ORDER,     /* [uid, outcome: enum gang_order_kind] */
	GAVE_REQUEUE,	     /* [uid] */
	OUTPUT_KIND_MAX,
};

/* How many offered nodes an output names at most. */
#define OUTPUT_NAMES_MAX 16

struct core_output {
	enum core_output_kind kind;
	const char *uid, *name, *text;
	bool yes;
	int outcome;
	int64_t number;
	uint64_t bind;
	const struct placement *placement;
	const char *const *names;
	size_t n_names;
	const int *scores; /* one for each name; NULL: none */
	const uint32_t
		*reasons; /* by enum reject_reason, REJECT_MAX of them: how many nodes have it; NULL: none */
};

struct core_log {
	void (*event)(void *userdata, const struct core *core, const struct core_event *event);
	void (*output)(void *userdata, const struct core_output *output);
	void *userdata;
};

/* core_begin() - write `_event_ struct core *event = core_begin(..)` as the first statement of a function
 * that is an event. Then core_end() is called when the function returns. Returns the core. core_tell() - an
 * output. */
struct core *core_begin(struct core *core, const struct core_event *event);
void core_end(struct core **core);
#define _event_ __attribute__((cleanup(core_end), unused))
void core_tell(const struct core *core, const struct core_output *output);

/* core_tell_names() - TOLD_NAMES: the nodes that a call names, as a set of their numbers, so that thousands
 * of them take a few bytes. Their order decides nothing. verdicts NULL: the nodes were not looked up yet. If
 * memory runs out, the log lacks the names, and its replay differs. */
struct node_verdict;
void core_tell_names(
	const struct core *core, const char *const *names, const struct node_verdict *verdicts, size_t n);

/* The kinds as words: "pod-seen", "caller-gone". */
const char *core_event_kind_text(enum core_event_kind kind);
const char *core_output_kind_text(enum core_output_kind kind);
