/* history.h - a ledger's state and its changes as JSON lines: what ration-scheduler dumps as a history and
 * what `ration replay` feeds into a ledger again. Names, uids and numbers of nodes, GPUs and pods only: no
 * labels, no other annotations, no environment, no credentials.
 *
 *   {"history":1,"bestNodes":16}                              first line
 *   {"restoreNode":{..}} {"restorePod":{..}}                  the ledger at the beginning
 *   {"number","time","event":"hold","key",..}                 a change (ledger-event.h), in order
 *   {"number","time","asked":[node..]|count,"pod":{..}}       filter is asked; a count where there were too
 * many
 *   {"number","time","plan":gang,..}                          places of a gang's pods are looked for
 *   {"number","time","decision":..}                           what was decided (scheduler/decision-json.h)
 */
#pragma once

#include "core/registry/ledger.h"

struct error;
struct gang_event;
struct json_object;
struct strbuf;

/* Written behind what is in the buffer; what fails is seen in out->failed. with_lost: whether the node's
 * agent has gone, too, which the node object does not say. */
void history_add_node_facts(struct strbuf *out, const struct node_facts *facts);
void history_add_node(struct strbuf *out, const struct node_ledger *node, bool with_lost);
void history_add_pod_facts(struct strbuf *out, const struct pod_facts *facts);
void history_add_pod(struct strbuf *out, const struct ledger_pod *pod);
void history_add_event(struct strbuf *out, const struct ledger_event *event);

/* history_add_plan() - of the kind GANG_EVENT_PLAN. Lists of nodes longer than names_max are counted. */
void history_add_plan(struct strbuf *out, const struct gang_event *event, size_t names_max);

/* history_pod_facts_from_json() - the caller releases *ret_facts either way. -EINVAL with a sentence. */
int history_pod_facts_from_json(struct json_object *object, struct pod_facts *ret_facts, struct error *err);

/* history_restore_node() / history_restore_pod() - all nodes first, into a ledger that nobody else uses. */
int history_restore_node(struct ledger *ledger, struct json_object *object, struct error *err);
int history_restore_pod(struct ledger *ledger, struct json_object *object, struct error *err);

/* An event read back; release it in any case. */
struct history_event {
	struct ledger_event event; /* points into the rest and into the object, which must stay */
	struct node_facts node;
	struct pod_facts pod;
	struct placement placement;
};
int history_event_from_json(struct json_object *object, struct history_event *ret_event, struct error *err);
void history_event_release(struct history_event *event);
