/* The cluster as it was at a moment of the history of the scheduler, by replaying that history. Pure. */
#include "cli/ui/past.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/inspect.h"
#include "cli/replay.h"
#include "cli/ui/data.h"
#include "core/core.h"
#include "core/registry/node-ledger.h"
#include "kube/json.h"

#define HOUR_MS INT64_C(3600000)
#define KEY_SIZE 520
#define WHY_MAX 200 /* waiting pods with reasons; the page lists as many */

/* Calls fn with each line, without its newline, until fn returns something else than 0. */
typedef int line_fn(void *userdata, const char *text, size_t len, struct error *err);
static int each_line(const struct strbuf *history, line_fn *fn, void *userdata, struct error *err)
{
	int r = 0;

	for (size_t at = 0, len; at < history->len && r == 0; at += len + 1) {
		const char *end = memchr(history->data + at, '\n', history->len - at);

		len = end ? (size_t)(end - history->data) - at : history->len - at;
		r = fn(userdata, history->data + at, len, err);
	}
	return r;
}

/* ---- its beginning and its end ---- */

struct range {
	bool begun;
	int64_t clock_ns, first_ns, last_ns; /* 0: no event yet */
};

static int see_line(void *userdata, const char *text, size_t len, struct error *err)
{
	_cleanup_json_ struct json_object *line = NULL;
	struct range *range = userdata;
	int64_t at_ns = 0;
	int r = 0;

	if (range->begun && strncmp(text, "{\"event\":", 9) != 0)
		return 0;
	r = json_parse(text, len, &line, err);
	if (r < 0)
		return r;
	if (!range->begun) {
		range->begun = true;
		return json_whole(
			       json_member(line, "clock"), INT64_MIN / 2, INT64_MAX / 2, &range->clock_ns) < 0
			       ? error_set(
					 err, EINVAL, "the scheduler's history does not begin with its clock")
			       : 0;
	}
	if (json_whole(json_member(line, "at"), 1, INT64_MAX / 2, &at_ns) < 0)
		return 0;
	range->first_ns = range->first_ns ? range->first_ns : at_ns;
	range->last_ns = at_ns;
	return 0;
}

int ui_moment_range(const struct strbuf *history, int64_t *ret_from_ms, int64_t *ret_to_ms, struct error *err)
{
	struct range range = {0};
	int r = each_line(history, see_line, &range, err);

	if (r < 0)
		return r;
	if (!range.first_ns)
		return error_set(
			err, ENODATA, "the scheduler has recorded nothing yet: try again in a minute");
	*ret_from_ms = (range.clock_ns + range.first_ns) / NS_PER_MS;
	*ret_to_ms = (range.clock_ns + range.last_ns) / NS_PER_MS;
	if (*ret_to_ms - *ret_from_ms > HOUR_MS)
		*ret_from_ms = *ret_to_ms - HOUR_MS;
	return 0;
}

/* ---- up to a moment ---- */

struct playing {
	struct history_replay *history;
	int64_t at_ms;
};

/* 2: the moment is reached. An event is carried out when the line after its own is read. */
static int play_line(void *userdata, const char *text, size_t len, struct error *err)
{
	const struct playing *playing = userdata;
	struct history_replay *history = playing->history;
	int64_t event_ms;
	int r = history_replay_line(history, text, len, err);

	if (r)
		return r;
	if (history->phase == REPLAY_END)
		return 2;
	if (!history->pending || !history->event.event.now_ns)
		return 0;
	event_ms = (history->clock_ns + history->event.event.now_ns) / NS_PER_MS;
	return event_ms > playing->at_ms ? 2 : 0;
}

/* ---- what the core knows then ---- */

static int add_node(struct inspect *inspect, const struct node_ledger *node, struct node_facts *facts)
{
	static const struct node_capacity capacity = {0};

	if (!node_ledger_known(node) || !node->facts.n_gpus || node->facts.mode == GPU_MODE_DRA)
		return 0;
	node_ledger_facts(node, facts);
	return inspect_add_node(inspect, facts, &capacity);
}

static int add_pod(struct inspect *inspect, const struct ledger_pod *pod)
{
	struct inspect_node *node = pod->node ? table_get(&inspect->by_name, pod->node) : NULL;
	struct pod_facts facts = pod->facts;
	size_t before = node ? node->n_pods : 0;
	int r;

	if (pod->occupancy != OCCUPANCY_WAITING) {
		facts.node = pod->node;
		facts.has_placement = pod->has_placement;
		facts.placement = pod->placement;
		facts.finished = false; /* it holds its GPU */
	} else if (*facts.node) {
		return 0;
	}
	r = inspect_add_pod(inspect, &facts, NULL);
	if (r == 0 && node && node->n_pods > before)
		node->pods[before].orphan = pod->occupancy == OCCUPANCY_ORPHAN;
	return r;
}

struct reasons {
	struct ledger *ledger;
	struct table waiting; /* "namespace/name" -> struct ledger_pod */
	const char **nodes;
	struct node_verdict *verdicts;
	size_t n_nodes, told;
};

static const char *key_of(const char *namespace_, const char *name, char *buf)
{
	snprintf(buf, KEY_SIZE, "%.255s/%.255s", namespace_, name);
	return buf;
}

/* A struct ui_more: why the pod is on none of the nodes. */
static void add_reasons(void *userdata, const struct inspect_waiting *waiting, struct strbuf *out)
{
	struct reasons *reasons = userdata;
	size_t counts[REJECT_MAX] = {0};
	const struct ledger_pod *pod;
	const char *between = "";
	char text[KEY_SIZE];

	pod = table_get(&reasons->waiting, key_of(waiting->namespace_, waiting->name, text));
	if (!pod || reasons->told++ >= WHY_MAX)
		return;
	ledger_feasibility(reasons->ledger, reasons->nodes, reasons->n_nodes, &pod->facts, reasons->verdicts);
	for (size_t i = 0; i < reasons->n_nodes; i++)
		counts[reasons->verdicts[i].reject_reason]++;
	strbuf_adds(out, ", \"why\": [");
	for (size_t i = 0; i < REJECT_MAX; i++) {
		if (!counts[i])
			continue;
		strbuf_addf(out, "%s[", between);
		json_add_string(out, i == FITS ? "it has room"
					       : reject_reason_text((enum reject_reason)i,
							 &pod->facts.request, text, sizeof(text)));
		strbuf_addf(out, ", %zu]", counts[i]);
		between = ", ";
	}
	strbuf_adds(out, "]");
}

static int reasons_init(struct reasons *reasons, struct ledger *ledger, const struct inspect *inspect)
{
	char key[KEY_SIZE];
	void *value;
	int r = 0;

	*reasons = (struct reasons){.ledger = ledger,
		.nodes = calloc(inspect->n_nodes + 1, sizeof(char *)),
		.verdicts = calloc(inspect->n_nodes + 1, sizeof(*reasons->verdicts))};
	table_init(&reasons->waiting);
	for (size_t i = 0; i < inspect->n_nodes && reasons->nodes; i++)
		reasons->nodes[reasons->n_nodes++] = inspect->nodes[i]->name;
	table_for_each (&ledger->pods, cursor, value) {
		struct ledger_pod *pod = value;

		if (r == 0 && pod->occupancy == OCCUPANCY_WAITING)
			r = table_set(
				&reasons->waiting, key_of(pod->facts.namespace_, pod->facts.name, key), pod);
	}
	return r < 0 || !reasons->nodes || !reasons->verdicts ? -ENOMEM : 0;
}

static int take_ledger(struct inspect *inspect, const struct ledger *ledger)
{
	_cleanup_free_ struct node_facts *facts = malloc(sizeof(*facts));
	void *value;
	int r = facts ? 0 : -ENOMEM;

	table_for_each (&ledger->nodes, cursor, value)
		r = r == 0 ? add_node(inspect, value, facts) : r;
	table_for_each (&ledger->pods, cursor, value)
		r = r == 0 ? add_pod(inspect, value) : r;
	return r == 0 ? inspect_finish(inspect) : r;
}

static int write_state(struct ledger *ledger, int64_t at_ms, struct strbuf *out, struct error *err)
{
	_cleanup_inspect_ struct inspect inspect;
	struct strbuf notes;
	struct reasons reasons;
	const struct ui_more more = {.add = add_reasons, .userdata = &reasons};
	int r;

	inspect_init(&inspect);
	inspect.everything = true;
	strbuf_init(&notes, 0); /* there are no warnings */
	r = take_ledger(&inspect, ledger);
	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = reasons_init(&reasons, ledger, &inspect);
	strbuf_addf(out, "{\"at\": %" PRId64 ", ", at_ms);
	r = r < 0 ? error_set(err, ENOMEM, "out of memory") : ui_data_add(&inspect, &notes, &more, out, err);
	table_release(&reasons.waiting);
	free(reasons.nodes);
	free(reasons.verdicts);
	return r;
}

int ui_moment_json(const struct strbuf *history, int64_t at_ms, struct strbuf *out, struct error *err)
{
	_cleanup_history_replay_ struct history_replay replay;
	struct core *core = &replay.replay.core;
	struct playing playing = {.history = &replay, .at_ms = at_ms};
	int r = history_replay_init(&replay);

	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = each_line(history, play_line, &playing, err);
	if (r == 1)
		return error_set(err, EILSEQ,
			"this version of ration decides otherwise than the scheduler, so it cannot show its past; use the scheduler's version");
	if (r == 0)
		return error_set(err, EINVAL, "the scheduler's history ends in the middle");
	if (r < 0)
		return r;
	core->log = (struct core_log){0};
	return write_state(&core->ledger, (replay.clock_ns + replay.now_ns) / NS_PER_MS, out, err);
}
