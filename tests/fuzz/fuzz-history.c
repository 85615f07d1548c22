/* Histories, which `ration replay` takes from anybody: a state of a core as lines, then events. What the
 * lines say is refused with a sentence, or happens: then the state that the core has become can be written
 * and read again. */
#include "fuzz.h"

#include "base/error.h"
#include "cli/replay.h"
#include "core/log/state.h"
#include "kube/json-archive.h"
#include "kube/json.h"

#define STATE_MAX (64u << 20)

const unsigned int fuzz_rounds = 3000;
const char *const fuzz_words[] = {"{\"history\":4,\"clock\":0}\n", "{\"end\":true}\n", "\n", "{", "}", "[",
	"]", "null", "\\u0000", "99999999999999999999", "9223372036854775807", "2147483647", "-1", "0", "1",
	"true",
	/* lines of a state */
	"{\"core\":{", "{\"forgotten\":{", "{\"verdict\":{", "{\"failed\":{", "{\"node\":{", "{\"pod\":{",
	"{\"order\":{", "{\"ledger\":{", "{\"requeue\":{", "{\"requeuePod\":{", "{\"policies\":{",
	"{\"policyNode\":{", "{\"policySpace\":{", "{\"policy\":{", "{\"policyPod\":{", "{\"binds\":{",
	"{\"bind\":{", "{\"bindOrders\":{", "{\"resizing\":{", "{\"resizeOrders\":{", "{\"ownership\":{",
	"{\"leadership\":{", "{\"budget\":{", "{\"eviction\":{", "{\"evictions\":{", "{\"gangNodes\":{",
	"{\"gang\":{", "{\"gangMember\":{", "{\"gangOrder\":{", "{\"gangs\":{",
	/* events */
	"{\"event\":\"node-seen\",", "{\"event\":\"node-gone\",", "{\"event\":\"agent-heard\",",
	"{\"event\":\"agent-lost\",", "{\"event\":\"nodes-listed\",", "{\"event\":\"nodes-told\",",
	"{\"event\":\"pod-seen\",", "{\"event\":\"pod-gone\",", "{\"event\":\"pod-shown\",",
	"{\"event\":\"pod-verified\",", "{\"event\":\"pods-listed\",", "{\"event\":\"watch\",",
	"{\"event\":\"tick\",", "{\"event\":\"ownership\",", "{\"event\":\"called\",",
	"{\"event\":\"filter\",", "{\"event\":\"prioritize\",", "{\"event\":\"drop-hold\",",
	"{\"event\":\"bind\",", "{\"event\":\"bind-listed\",", "{\"event\":\"bind-pod-read\",",
	"{\"event\":\"binding-answered\",", "{\"event\":\"bind-not-asked\",", "{\"event\":\"bind-answered\",",
	"{\"event\":\"doubts-end\",", "{\"event\":\"resize-leads\",", "{\"event\":\"resize-listed\",",
	"{\"event\":\"resize-answered\",", "{\"event\":\"resize-not-asked\",", "{\"event\":\"budget-seen\",",
	"{\"event\":\"budget-gone\",", "{\"event\":\"preempt\",", "{\"event\":\"preempt-recall\",",
	"{\"event\":\"filter-answered\",", "{\"event\":\"evictions-go-on\",",
	"{\"event\":\"eviction-answered\",", "{\"event\":\"victim-marked\",",
	"{\"event\":\"nomination-answered\",", "{\"event\":\"nomination-cleared\",",
	"{\"event\":\"eviction-not-asked\",", "{\"event\":\"group-seen\",", "{\"event\":\"group-gone\",",
	"{\"event\":\"groups-known\",", "{\"event\":\"gang-has-run\",", "{\"event\":\"gang-recalled\",",
	"{\"event\":\"gangs-may-look\",", "{\"event\":\"gangs-look\",", "{\"event\":\"policies-known\",",
	"{\"event\":\"policy-space-begins\",", "{\"event\":\"policy-space-ends\",",
	"{\"event\":\"policy-seen\",", "{\"event\":\"policy-gone\",", "{\"event\":\"policy-node-seen\",",
	"{\"event\":\"policy-node-gone\",", "{\"event\":\"policy-pod-seen\",",
	"{\"event\":\"policy-pod-gone\",", "{\"event\":\"policy-list-begins\",",
	"{\"event\":\"policy-pods-listed\",", "{\"event\":\"policy-marks-failed\",",
	"{\"event\":\"policy-narrow\",", "{\"event\":\"policies-look-anew\"}\n",
	"{\"event\":\"policies-look\"}\n", "{\"event\":\"requeues-look\",", "{\"event\":\"requeue-failed\",",
	"{\"told\":\"names\",\"text\":\"0-3\"}\n", "{\"told\":\"caller-gone\",", "{\"told\":\"no-binding\",",
	"{\"told\":\"resize\",", "{\"told\":\"patch\",", "{\"gave\":\"hold\"}\n",
	/* what both have */
	"\"at\":1000000000000", "\"yes\":true", "\"outcome\":2", "\"number\":16", "\"bind\":1",
	"\"uid\":\"u1\"", "\"name\":\"n0\"", "\"namespace\":\"d\"", "\"node\":\"n0\"", "\"on\":\"n0\"",
	"\"state\":4", "\"listed\":true", "\"gang\":\"g\"", "\"gangMin\":2",
	"\"candidates\":[{\"node\":\"n0\",\"uids\":[\"u1\"]}]", "\"names\":[\"n0\",\"n1\"]",
	"\"priority\":1000", "\"deleting\":true", "\"finished\":true", "\"labels\":\"app=web\\n\"",
	"\"units\":[{\"hasMax\":true,\"max\":1}]", "\"where\":3", "\"step\":2", NULL};

static int add_line(void *userdata, const struct strbuf *line)
{
	strbuf_add(userdata, line->data, line->len);
	return strbuf_add(userdata, "\n", 1);
}

static void write_state(struct core *core, struct strbuf *out)
{
	strbuf_init(out, STATE_MAX);
	MUST(core_write_state(core, &json_archive, add_line, out) == 0 && !out->failed);
}

/* Everything that was read or has happened is a state that can be read. */
static void check_state(struct core *core)
{
	_cleanup_strbuf_ struct strbuf text, again;
	struct error err = {""};
	struct replay copy;

	write_state(core, &text);
	replay_init(&copy);
	for (const char *line = strbuf_cstr(&text), *end; *line; line = end) {
		_cleanup_json_ struct json_object *parsed = NULL;

		end = line + strcspn(line, "\n") + 1;
		MUST(json_parse(line, (size_t)(end - line), &parsed, &err) == 0);
		if (core_read_state_line(&copy.core, &json_archive, parsed, &err) != 0) {
			if (strstr(err.text, "is not a whole number"))
				break; /* times to which others were added, in the far future */
			fprintf(stderr, "%s\n%s\n", err.text, strbuf_cstr(&text));
			abort();
		}
	}
	write_state(&copy.core, &again);
	if (!err.text[0] && strcmp(strbuf_cstr(&text), strbuf_cstr(&again)) != 0) {
		fprintf(stderr, "%s\nis read as\n%s\n", strbuf_cstr(&text), strbuf_cstr(&again));
		abort();
	}
	replay_release(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = fuzz_text(data, size);
	_cleanup_history_replay_ struct history_replay history;
	struct error err = {""};
	int r = 0;

	MUST(history_replay_init(&history) == 0);
	for (size_t at = 0, len; at < size && r == 0; at += len) {
		len = strcspn(text + at, "\n");
		len += text[at + len] == '\n';
		if (len == 0)
			break; /* a NUL */
		r = history_replay_line(&history, text + at, len, &err);
		MUST(r == 0 || err.text[0]);
		/* What decisions are compared with is the fuzzer's invention: the events go on. */
		if (r > 0)
			r = 0;
	}
	if (r == 0 && history.phase != REPLAY_HEAD)
		check_state(&history.replay.core);
	MUST(ledger_check(&history.replay.core.ledger, NULL) == 0);
	return 0;
}
