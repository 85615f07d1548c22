#include "core/log/event.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "core/core.h"

struct core *core_begin(struct core *core, const struct core_event *event)
{
	if (core->depth++ == 0 && core->log.event)
		core->log.event(core->log.userdata, core, event);
	return core;
}

void core_end(struct core **core)
{
	if (*core)
		(*core)->depth--;
}

void core_tell(const struct core *core, const struct core_output *output)
{
	if (core->log.output)
		core->log.output(core->log.userdata, output);
}

/* ---- the nodes of a question ---- */

#define RANGES_MAX (1u << 20) /* bytes of their numbers */

static void add_number(struct strbuf *out, const char *before, size_t number)
{
	char digits[24], *first = digits + sizeof(digits);

	do
		*--first = (char)('0' + number % 10);
	while (number /= 10);
	strbuf_adds(out, before);
	strbuf_add(out, first, (size_t)(digits + sizeof(digits) - first));
}

/* "0-99,101,103-4999" */
static void add_ranges(const uint8_t *bits, size_t n, struct strbuf *out)
{
	for (size_t i = 0; i < n; i++) {
		size_t first = i;

		if (i % 8 == 0 && !bits[i / 8]) {
			i += 7;
			continue;
		}
		if (!(bits[i / 8] & 1u << i % 8))
			continue;
		while (i + 1 < n && bits[(i + 1) / 8] & 1u << (i + 1) % 8)
			i++;
		add_number(out, out->len ? "," : "", first);
		if (i > first)
			add_number(out, "-", i);
	}
}

void core_tell_names(
	const struct core *core, const char *const *names, const struct node_verdict *verdicts, size_t n)
{
	size_t n_bits = core->ledger.n_nodes_ever, n_others = 0;
	_cleanup_free_ uint8_t *bits = NULL;
	_cleanup_free_ const char **others = NULL;
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, RANGES_MAX);
	if (!core->log.output)
		return;
	bits = calloc(n_bits / 8 + 1, 1);
	others = calloc(n + 1, sizeof(*others));
	for (size_t i = 0; bits && others && i < n; i++) {
		const struct node_ledger *node = verdicts ? verdicts[i].node
							  : ledger_node(&core->ledger, names[i]);

		if (node)
			bits[node->number / 8] |= (uint8_t)(1u << node->number % 8);
		else
			others[n_others++] = names[i];
	}
	if (bits && others)
		add_ranges(bits, n_bits, &text);
	core_tell(core, &(struct core_output){TOLD_NAMES, .text = strbuf_cstr(&text), .names = others,
				.n_names = n_others});
}

/* ---- words ---- */

static const char *const kind_texts[CORE_KIND_MAX] = {
	[CORE_NODE_SEEN] = "node-seen",
	[CORE_NODE_GONE] = "node-gone",
	[CORE_AGENT_HEARD] = "agent-heard",
	[CORE_AGENT_LOST] = "agent-lost",
	[CORE_NODES_LISTED] = "nodes-listed",
	[CORE_NODES_TOLD] = "nodes-told",
	[CORE_POD_SEEN] = "pod-seen",
	[CORE_POD_GONE] = "pod-gone",
	[CORE_POD_SHOWN] = "pod-shown",
	[CORE_POD_VERIFIED] = "pod-verified",
	[CORE_PODS_LISTED] = "pods-listed",
	[CORE_WATCH] = "watch",
	[CORE_TICK] = "tick",
	[CORE_OWNERSHIP] = "ownership",
	[CORE_CALLED] = "called",
	[CORE_FILTER] = "filter",
	[CORE_PRIORITIZE] = "prioritize",
	[CORE_DROP_HOLD] = "drop-hold",
	[CORE_BIND] = "bind",
	[CORE_BIND_LISTED] = "bind-listed",
	[CORE_BIND_POD_READ] = "bind-pod-read",
	[CORE_BINDING_ANSWERED] = "binding-answered",
	[CORE_BIND_NOT_ASKED] = "bind-not-asked",
	[CORE_BIND_ANSWERED] = "bind-answered",
	[CORE_DOUBTS_END] = "doubts-end",
	[CORE_RESIZE_LEADS] = "resize-leads",
	[CORE_RESIZE_LISTED] = "resize-listed",
	[CORE_RESIZE_ANSWERED] = "resize-answered",
	[CORE_RESIZE_NOT_ASKED] = "resize-not-asked",
	[CORE_BUDGET_SEEN] = "budget-seen",
	[CORE_BUDGET_GONE] = "budget-gone",
	[CORE_PREEMPT] = "preempt",
	[CORE_PREEMPT_RECALL] = "preempt-recall",
	[CORE_FILTER_ANSWERED] = "filter-answered",
	[CORE_EVICTIONS_GO_ON] = "evictions-go-on",
	[CORE_EVICTION_ANSWERED] = "eviction-answered",
	[CORE_VICTIM_MARKED] = "victim-marked",
	[CORE_NOMINATION_ANSWERED] = "nomination-answered",
	[CORE_NOMINATION_CLEARED] = "nomination-cleared",
	[CORE_EVICTION_NOT_ASKED] = "eviction-not-asked",
	[CORE_GROUP_SEEN] = "group-seen",
	[CORE_GROUP_GONE] = "group-gone",
	[CORE_GROUPS_KNOWN] = "groups-known",
	[CORE_GANG_HAS_RUN] = "gang-has-run",
	[CORE_GANG_RECALLED] = "gang-recalled",
	[CORE_GANGS_MAY_LOOK] = "gangs-may-look",
	[CORE_GANGS_LOOK] = "gangs-look",
	[CORE_POLICIES_KNOWN] = "policies-known",
	[CORE_POLICY_SPACE_BEGINS] = "policy-space-begins",
	[CORE_POLICY_SPACE_ENDS] = "policy-space-ends",
	[CORE_POLICY_SEEN] = "policy-seen",
	[CORE_POLICY_GONE] = "policy-gone",
	[CORE_POLICY_NODE_SEEN] = "policy-node-seen",
	[CORE_POLICY_NODE_GONE] = "policy-node-gone",
	[CORE_POLICY_POD_SEEN] = "policy-pod-seen",
	[CORE_POLICY_POD_GONE] = "policy-pod-gone",
	[CORE_POLICY_LIST_BEGINS] = "policy-list-begins",
	[CORE_POLICY_PODS_LISTED] = "policy-pods-listed",
	[CORE_POLICY_MARKS_FAILED] = "policy-marks-failed",
	[CORE_POLICY_NARROW] = "policy-narrow",
	[CORE_POLICIES_LOOK_ANEW] = "policies-look-anew",
	[CORE_POLICIES_LOOK] = "policies-look",
	[CORE_REQUEUES_LOOK] = "requeues-look",
	[CORE_REQUEUE_FAILED] = "requeue-failed",
};

static const char *const output_texts[OUTPUT_KIND_MAX] = {
	[TOLD_NAMES] = "names",
	[TOLD_CALLER_GONE] = "caller-gone",
	[TOLD_NO_BINDING] = "no-binding",
	[TOLD_RESIZE] = "resize",
	[TOLD_PATCH] = "patch",
	[GAVE_FILTER] = "filter",
	[GAVE_SCORES] = "scores",
	[GAVE_NARROWED] = "narrowed",
	[GAVE_HOLD] = "hold",
	[GAVE_BINDING] = "binding",
	[GAVE_BIND_ORDER] = "bind-order",
	[GAVE_RESIZE_ORDER] = "resize-order",
	[GAVE_PREEMPTION] = "preemption",
	[GAVE_VICTIMS] = "victims",
	[GAVE_EVICTION_ORDER] = "eviction-order",
	[GAVE_GANG_ORDER] = "gang-order",
	[GAVE_REQUEUE] = "requeue",
};

const char *core_event_kind_text(enum core_event_kind kind)
{
	return kind_texts[kind];
}

const char *core_output_kind_text(enum core_output_kind kind)
{
	return output_texts[kind];
}
