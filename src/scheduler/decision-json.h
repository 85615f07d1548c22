/* decision-json.h - a recorded decision as JSON: in the answer of /why and in a dumped history. */
#pragma once

#include <stdint.h>

struct decision;
struct json_object;

/* decision_to_json() - {"time", "decision": decision_kind_text(), "uid", "namespace", "name", "units",
 * "asked", "fitting", "nodes": [{"name", "score"}], "reasons": [{"reason", "nodes"}], "node", "policy",
 * "cardsFitting", "cards": [{"index", "uuid", "free", "total"}], "victims": [{"namespace", "name",
 * "priority"}], "moreVictims", "error", "text", "spentUs"}; members that a kind of decision does not have are
 * left out. The caller puts it. */
struct json_object *decision_to_json(const struct decision *decision);

#define TIME_TEXT_SIZE 40
/* time_text() - RFC 3339, UTC, with microseconds. Returns buf. */
const char *time_text(int64_t realtime_ns, char buf[TIME_TEXT_SIZE]);
