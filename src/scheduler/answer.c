#include "scheduler/answer.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "core/registry/node-ledger.h"
#include "kube/json.h"

/* Enough for every node with its longest name and reason, in the largest request that is read. */
#define ANSWER_MAX (64u << 20)

static void add_comma(struct strbuf *out, bool *first)
{
	if (!*first)
		strbuf_add(out, ",", 1);
	*first = false;
}

char *answer_names(const char *const *names, size_t n)
{
	_cleanup_strbuf_ struct strbuf out;
	bool first = true;

	strbuf_init(&out, ANSWER_MAX);
	strbuf_adds(&out, "{\"NodeNames\":[");
	for (size_t i = 0; i < n; i++) {
		add_comma(&out, &first);
		json_add_string(&out, names[i]);
	}
	strbuf_adds(&out, "],\"Error\":\"\"}");
	return strbuf_take(&out);
}

char *answer_nodes(const struct node_ledger *const *nodes, size_t n)
{
	_cleanup_free_ const char **names = calloc(n + 1, sizeof(*names));

	if (!names)
		return NULL;
	for (size_t i = 0; i < n; i++)
		names[i] = nodes[i]->facts.name;
	return answer_names(names, n);
}

struct rejection {
	const struct request *request;
	const struct node_ledger *waits_for;
	const char *unit;
	struct strbuf texts[REJECT_MAX]; /* as JSON, the same for thousands of nodes */
};

/* True if no eviction can help, or if in-tree preemption would find no victim because the node's sum
 * suffices. In the latter case it would fail with an internal text in the pod's condition (preemption.go
 * "expected at least one victim"; 1.36.3). */
static bool is_unresolvable(const struct node_verdict *verdict, const struct rejection *rejection)
{
	const struct node_ledger *node = verdict->node;
	const struct request *request = rejection->request;

	if (!node || !reject_reason_is_occupancy(verdict->reject_reason))
		return true;
	if (node == rejection->waits_for)
		return false;
	return node_ledger_sums_suffice(node, request);
}

static void add_rejected(struct strbuf *out, const char *const *names, const struct node_verdict *verdicts,
	size_t n, const struct rejection *rejection, bool unresolvable)
{
	bool first = true;

	for (size_t i = 0; i < n; i++) {
		if (is_unresolvable(&verdicts[i], rejection) != unresolvable)
			continue;
		add_comma(out, &first);
		json_add_string(out, names[i]);
		strbuf_add(out, ":", 1);
		strbuf_adds(out, strbuf_cstr(&rejection->texts[verdicts[i].reject_reason]));
	}
}

static void rejection_release(struct rejection *rejection)
{
	for (int reject_reason = 0; reject_reason < REJECT_MAX; reject_reason++)
		strbuf_release(&rejection->texts[reject_reason]);
}

/* Writes the text of a reject reason as JSON; false: out of memory. */
static bool describe(struct rejection *rejection, enum reject_reason reject_reason)
{
	struct strbuf *out = &rejection->texts[reject_reason];
	char text[64];

	strbuf_init(out, 1024);
	json_add_string(
		out, reject_reason == REJECT_POLICY_UNIT
			     ? rejection->unit
			     : reject_reason_text(reject_reason, rejection->request, text, sizeof(text)));
	return !out->failed;
}

char *answer_rejection(const char *const *names, const struct node_verdict *verdicts, size_t n,
	const struct request *request, const struct node_ledger *waits_for, const char *unit)
{
	_cleanup_(rejection_release) struct rejection rejection = {
		.request = request, .waits_for = waits_for, .unit = unit};
	_cleanup_strbuf_ struct strbuf out;
	bool described = true;

	strbuf_init(&out, ANSWER_MAX);
	for (int reject_reason = 0; reject_reason < REJECT_MAX; reject_reason++)
		described = describe(&rejection, (enum reject_reason)reject_reason) && described;
	if (!described)
		return NULL;
	strbuf_adds(&out, "{\"NodeNames\":[],\"FailedNodes\":{");
	add_rejected(&out, names, verdicts, n, &rejection, false);
	strbuf_adds(&out, "},\"FailedAndUnresolvableNodes\":{");
	add_rejected(&out, names, verdicts, n, &rejection, true);
	strbuf_adds(&out, "},\"Error\":\"\"}");
	return strbuf_take(&out);
}

char *answer_unresolvable(const char *const *names, size_t n, const char *reason)
{
	_cleanup_strbuf_ struct strbuf out;
	bool first = true;

	strbuf_init(&out, ANSWER_MAX);
	strbuf_adds(&out, "{\"NodeNames\":[],\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{");
	for (size_t i = 0; i < n; i++) {
		add_comma(&out, &first);
		json_add_string(&out, names[i]);
		strbuf_add(&out, ":", 1);
		json_add_string(&out, reason);
	}
	strbuf_adds(&out, "},\"Error\":\"\"}");
	return strbuf_take(&out);
}

char *answer_scores(const char *const *names, const int *scores, size_t n)
{
	_cleanup_strbuf_ struct strbuf out;
	bool first = true;

	strbuf_init(&out, ANSWER_MAX);
	strbuf_add(&out, "[", 1);
	for (size_t i = 0; i < n; i++) {
		add_comma(&out, &first);
		strbuf_adds(&out, "{\"Host\":");
		json_add_string(&out, names[i]);
		strbuf_adds(&out, ",\"Score\":");
		json_add_number(&out, scores[i]);
		strbuf_add(&out, "}", 1);
	}
	strbuf_add(&out, "]", 1);
	return strbuf_take(&out);
}

/* The answer is an error, and also a valid, empty result of the verb. */
char *answer_error(const char *text)
{
	struct json_object *answer = json_object_new_object();
	char *out;

	json_object_object_add(answer, "Error", json_object_new_string(text));
	out = strdup(json_object_to_json_string_ext(answer, JSON_C_TO_STRING_PLAIN));
	json_object_put(answer);
	return out;
}
