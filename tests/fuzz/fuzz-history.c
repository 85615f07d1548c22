/* Histories, which `ration replay` takes from anybody: JSON lines into an empty ledger. */
#include "fuzz.h"

#include "base/error.h"
#include "cli/replay.h"

const unsigned int fuzz_rounds = 8000;
const char *const fuzz_words[] = {"{\"history\":1,\"bestNodes\":2}\n", "\n", "{", "}", "[", "]", "null",
	"\\u0000", "99999999999999999999", "-1", "\"event\":\"set-node\"", "\"event\":\"remove-node\"",
	"\"event\":\"set-pod\"", "\"event\":\"remove-pod\"", "\"event\":\"delete-pod\"",
	"\"event\":\"agent-lost\"", "\"event\":\"hold\"", "\"event\":\"drop-hold\"", "\"event\":\"reserve\"",
	"\"event\":\"confirm\"", "\"event\":\"release\"", "\"event\":\"nominate\"",
	"\"event\":\"drop-nomination\"", "\"state\":\"waiting\"", "\"state\":\"tentative\"",
	"\"state\":\"reserved\"", "\"state\":\"bound\"", "\"state\":\"ghost\"", "\"on\":\"n0\"",
	"\"key\":\"u1\"", "\"nodeUid\":\"nu0\"", "\"expires\":true", "\"listed\":true", "\"cards\":2",
	"\"node\":\"n0\"", "\"finished\":true", "\"units\":2147483647", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = fuzz_text(data, size);
	_cleanup_replay_ struct replay replay;
	struct error err = {""};
	int r = 0;

	replay_init(&replay);
	for (size_t at = 0, len; at < size && r == 0; at += len) {
		len = strcspn(text + at, "\n");
		len += text[at + len] == '\n';
		if (len == 0)
			break; /* a NUL */
		r = replay_line(&replay, text + at, len, &err);
		MUST(r == 0 || err.text[0]);
		MUST(ledger_check(&replay.ledger, NULL) == 0);
	}
	return 0;
}
