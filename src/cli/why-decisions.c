/* The recorded decisions of an answer of /why, as text. */
#include "cli/why.h"

#include <inttypes.h>
#include <string.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "cli/fields.h"
#include "kube/json.h"

void why_add_gpus(struct strbuf *out, struct json_object *decision)
{
	struct json_object *gpus = json_member(decision, "cards");

	for (size_t i = 0; i < json_count(gpus); i++) {
		struct json_object *gpu = json_item(gpus, i);

		strbuf_addf(out, "%sGPU %" PRId64 " (%" PRId64 " of %" PRId64 " units free before)",
			i ? ", " : "", number_of(gpu, "index"), number_of(gpu, "free"),
			number_of(gpu, "total"));
	}
}

static void add_reasons(struct strbuf *out, struct json_object *decision)
{
	struct json_object *reasons = json_member(decision, "reasons");

	for (size_t i = 0; i < json_count(reasons); i++)
		strbuf_addf(out, "%s%s (%" PRId64 ")",
			i ? ", " : "; not: ", json_text_of(json_item(reasons, i), "reason"),
			number_of(json_item(reasons, i), "nodes"));
}

static void add_filter(struct strbuf *out, struct json_object *decision)
{
	struct json_object *nodes = json_member(decision, "nodes");
	int64_t asked = number_of(decision, "asked"), fitting = number_of(decision, "fitting");

	strbuf_addf(out, "filter: %" PRId64 " node%s asked, ", asked, plural(asked));
	if (fitting)
		strbuf_addf(out, "%" PRId64 " fit%s", fitting, fitting == 1 ? "s" : "");
	else
		strbuf_adds(out, "none fits");
	add_reasons(out, decision);
	if (json_count(nodes) > 1)
		strbuf_adds(out, "; best first: ");
	for (size_t i = 0; json_count(nodes) > 1 && i < json_count(nodes); i++)
		strbuf_addf(out, "%s%s", i ? ", " : "", json_text_of(json_item(nodes, i), "name"));
	if (json_count(json_member(decision, "cards"))) {
		strbuf_addf(out, "; held on %s: ", json_text_of(decision, "node"));
		why_add_gpus(out, decision);
	}
	if (*json_text_of(decision, "text"))
		strbuf_addf(out, "; %s", json_text_of(decision, "text"));
}

static void add_outcome(struct strbuf *out, struct json_object *decision)
{
	int64_t us = number_of(decision, "spentUs");

	if (*json_text_of(decision, "error"))
		strbuf_addf(out, "not bound to %s: %s", json_text_of(decision, "node"),
			json_text_of(decision, "error"));
	else
		strbuf_addf(out, "bound to %s", json_text_of(decision, "node"));
	strbuf_addf(out, " (after %" PRId64 ".%" PRId64 " ms)", us / 1000, us % 1000 / 100);
}

static void add_scores(struct strbuf *out, struct json_object *decision)
{
	struct json_object *nodes = json_member(decision, "nodes");

	strbuf_adds(out, "prioritize: ");
	for (size_t i = 0; i < json_count(nodes); i++)
		strbuf_addf(out, "%s%s %" PRId64, i ? ", " : "", json_text_of(json_item(nodes, i), "name"),
			number_of(json_item(nodes, i), "score"));
}

static void add_victims(struct strbuf *out, struct json_object *decision)
{
	struct json_object *victims = json_member(decision, "victims");
	int64_t more = number_of(decision, "moreVictims");

	for (size_t i = 0; i < json_count(victims); i++) {
		struct json_object *victim = json_item(victims, i);

		strbuf_addf(out, "%s%s/%s (priority %" PRId64 ")", i ? ", " : "",
			json_text_of(victim, "namespace"), json_text_of(victim, "name"),
			number_of(victim, "priority"));
	}
	if (more)
		strbuf_addf(out, "%s%" PRId64 " more pod%s", json_count(victims) ? " and " : "", more,
			plural(more));
}

static void add_filter_error(struct strbuf *out, struct json_object *decision)
{
	strbuf_addf(out, "filter: %s", json_text_of(decision, "error"));
}

static void add_preempt(struct strbuf *out, struct json_object *decision)
{
	int64_t asked = number_of(decision, "asked");

	strbuf_addf(out, "preempt: %" PRId64 " node%s asked; ", asked, plural(asked));
	if (*json_text_of(decision, "node")) {
		strbuf_addf(out, "on %s ", json_text_of(decision, "node"));
		add_victims(out, decision);
		strbuf_adds(out, " must go, and for this pod is kept ");
		why_add_gpus(out, decision);
	} else if (*json_text_of(decision, "text")) {
		strbuf_adds(out, json_text_of(decision, "text"));
	} else {
		strbuf_adds(out, "no eviction of pods would make room");
	}
	add_reasons(out, decision);
}

static void add_search(struct strbuf *out, struct json_object *decision)
{
	struct json_object *nodes = json_member(decision, "nodes");
	int64_t asked = number_of(decision, "asked");

	strbuf_addf(out, "search for pods to evict: %" PRId64 " node%s looked at; ", asked, plural(asked));
	strbuf_adds(out, json_count(nodes) ? "possible, best first: " : json_text_of(decision, "text"));
	for (size_t i = 0; i < json_count(nodes); i++)
		strbuf_addf(out, "%s%s", i ? ", " : "", json_text_of(json_item(nodes, i), "name"));
}

static void add_eviction_plan(struct strbuf *out, struct json_object *decision)
{
	strbuf_addf(out, "eviction on %s: ", json_text_of(decision, "node"));
	if (json_count(json_member(decision, "victims")))
		add_victims(out, decision);
	else
		strbuf_adds(out, "no pod is evicted: pods that are being deleted make room");
	strbuf_adds(out, "; kept: ");
	why_add_gpus(out, decision);
}

static void add_eviction_answer(struct strbuf *out, struct json_object *decision)
{
	strbuf_adds(out, "eviction of ");
	add_victims(out, decision);
	strbuf_addf(out, " from %s: %s", json_text_of(decision, "node"),
		*json_text_of(decision, "error") ? json_text_of(decision, "error") : "accepted");
}

static void add_eviction_end(struct strbuf *out, struct json_object *decision)
{
	strbuf_addf(out, "end of the eviction%s%s: %s", *json_text_of(decision, "node") ? " on " : "",
		json_text_of(decision, "node"), json_text_of(decision, "text"));
}

static void add_bind(struct strbuf *out, struct json_object *decision)
{
	strbuf_addf(out, "bind: reserved on %s: ", json_text_of(decision, "node"));
	why_add_gpus(out, decision);
}

static void add_gang_plan(struct strbuf *out, struct json_object *decision)
{
	strbuf_addf(out, "gang: held on %s: ", json_text_of(decision, "node"));
	why_add_gpus(out, decision);
	strbuf_addf(out, "; %s", json_text_of(decision, "text"));
}

static void add_gang_given_up(struct strbuf *out, struct json_object *decision)
{
	strbuf_addf(out, "gang: its place on %s is given back: %s", json_text_of(decision, "node"),
		json_text_of(decision, "text"));
}

static void add_gang_kept(struct strbuf *out, struct json_object *decision)
{
	strbuf_addf(out, "gang: kept on %s: ", json_text_of(decision, "node"));
	why_add_gpus(out, decision);
}

static void add_gang_evict(struct strbuf *out, struct json_object *decision)
{
	strbuf_addf(out, "gang: evicted from %s, where only a part of it was placed: %s",
		json_text_of(decision, "node"),
		*json_text_of(decision, "error") ? json_text_of(decision, "error") : "accepted");
}

static void add_requeue(struct strbuf *out, struct json_object *decision)
{
	strbuf_adds(out, "woken: something that it fits on was freed");
}

static const struct {
	const char *kind;
	void (*add)(struct strbuf *out, struct json_object *decision);
} kinds[] = {
	{"filter", add_filter},
	{"filter-error", add_filter_error},
	{"prioritize", add_scores},
	{"bind", add_bind},
	{"outcome", add_outcome},
	{"nudge", add_requeue},
	{"preempt", add_preempt},
	{"evict-search", add_search},
	{"evict-plan", add_eviction_plan},
	{"evict-answer", add_eviction_answer},
	{"evict-end", add_eviction_end},
	{"gang-plan", add_gang_plan},
	{"gang-given-up", add_gang_given_up},
	{"gang-kept", add_gang_kept},
	{"gang-evict", add_gang_evict},
	{"level", add_filter},
};

static void add_decision(struct strbuf *out, struct json_object *decision, const char *who)
{
	const char *kind = json_text_of(decision, "decision"),
		   *namespace_ = json_text_of(decision, "namespace");
	size_t len = strlen(namespace_), i = 0;

	strbuf_addf(out, "  %s  ", json_text_of(decision, "time"));
	if (strncmp(who, namespace_, len) != 0 || who[len] != '/' ||
		strcmp(who + len + 1, json_text_of(decision, "name")) != 0)
		strbuf_addf(out, "for pod %s/%s: ", namespace_, json_text_of(decision, "name"));
	while (i < ARRAY_SIZE(kinds) && strcmp(kind, kinds[i].kind) != 0)
		i++;
	if (i < ARRAY_SIZE(kinds))
		kinds[i].add(out, decision);
	else
		strbuf_adds(out, kind);
	strbuf_adds(out, "\n");
}

void why_add_decisions(struct json_object *answer, const char *who, struct strbuf *out)
{
	struct json_object *decisions = json_member(answer, "decisions");
	int64_t older = number_of(answer, "olderDecisions");

	if (!json_count(decisions)) {
		strbuf_adds(out, "\nNo decisions about it are recorded.\n");
		return;
	}
	strbuf_adds(out, "\nDecisions, oldest first:\n");
	if (older)
		strbuf_addf(out, "  %" PRId64 " older ones are not shown\n", older);
	for (size_t i = 0; i < json_count(decisions); i++)
		add_decision(out, json_item(decisions, i), who);
}
