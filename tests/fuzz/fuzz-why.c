/* Questions to /why about a ledger that others have filled. Input: namespace, name, uid and node
 * of the question, a line each (empty: not in the question), then a line for each thing that happens: n NODE,
 * p POD (objects as the API server shows them), f FILTER (a body), d UID. What was recorded
 * of it must replay.
 */
#include "fuzz.h"

#include <json-c/json.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/json.h"
#include "kube/node.h"
#include "kube/pod.h"
#include "log-fixture.h"
#include "net/http-server.h"
#include "net/loop.h"
#include "scheduler/pages.h"
#include "scheduler/recorder.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"
#include "scheduler/verbs.h"

#define HISTORY_MAX (64u << 20)

const unsigned int fuzz_rounds = 2000;
const char *const fuzz_words[] = {"\n", "d\na\n\n\n", "\nd u1\n", "\nd u2\n", "n0\n", "{", "}", "[", "]",
	"\"", "null", "\\u0000", "\\u001b[2J", "\xff", "\"uid\":\"u1\"", "\"uid\":\"u2\"", "\"name\":\"a\"",
	"\"namespace\":\"d\"", "\"nodeName\":\"n0\"", "\"phase\":\"Running\"", "\"deletionTimestamp\":\"x\"",
	"\"aliyun.com/gpu-mem\":\"3\"", "\"aliyun.com/gpu-count\":\"2\"", "\"ration.dev/serving\":\"false\"",
	"\"ration.dev/mode\":\"share\"", "\"ration.dev/unit\":\"128\"", "\"NodeNames\":[\"n0\",\"n1\"]",
	NULL};

/* A question, with lines of the input, and its answer. */
struct http_call {
	const char *values[4];
	unsigned status;
	char *body;
};

const char *http_call_query(const struct http_call *call, const char *key)
{
	static const char *const keys[] = {"namespace", "name", "uid", "node"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(key, keys[i]) == 0)
			return call->values[i];
	return NULL;
}

void http_call_reply(struct http_call *call, unsigned status, const char *content_type, char *body)
{
	MUST(!call->body && body);
	call->status = status;
	call->body = body;
}

bool http_call_is_gone(const struct http_call *call)
{
	return false;
}

void http_call_mark(struct http_call *call, uint32_t mark)
{
}

bool http_call_has_company(const struct http_call *call, uint32_t mark)
{
	return true;
}

static struct scheduler scheduler;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	log_open("fuzz-why", LOG_LEVEL_ERROR);
	MUST(loop_new(&scheduler.loop) == 0);
	scheduler.best_nodes = 2;
	return 0;
}

static void happen(char *line)
{
	_cleanup_json_ struct json_object *object = NULL;
	_cleanup_node_facts_ struct node_facts node;
	_cleanup_pod_facts_ struct pod_facts pod;
	size_t len = strlen(line);

	node_facts_init(&node);
	pod_facts_init(&pod);
	if (len < 3 || line[1] != ' ')
		return;
	if (line[0] == 'd')
		core_pod_is_gone(&scheduler.core, line + 2, true, monotonic_ns());
	if (line[0] == 'f')
		free(extender_filter(&scheduler, NULL, line + 2, len - 2, &(bool){false}));
	if ((line[0] != 'n' && line[0] != 'p') || json_parse(line + 2, len - 2, &object, NULL) < 0)
		return;
	if (line[0] == 'n' && node_facts_from_json(object, &node, NULL) == 0)
		MUST(core_see_node(&scheduler.core, &node) == 0);
	if (line[0] == 'p' && pod_facts_from_json(object, &pod, NULL) == 0)
		MUST(core_see_pod(&scheduler.core, &pod, 0, monotonic_ns()) == 0);
}

static void ask_why(struct http_call *call)
{
	_cleanup_json_ struct json_object *answer = NULL;

	why_answer(&scheduler, call);
	MUST(call->status == (call->values[0] && call->values[1] ? 200u : 400u));
	if (call->status == 200) {
		answer = json_tokener_parse(call->body);
		MUST(json_object_is_type(answer, json_type_object) && json_member(answer, "decisions"));
	}
	free(call->body);
	call->body = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = fuzz_text(data, size);
	struct http_call call = {.status = 0};
	_cleanup_strbuf_ struct strbuf history;
	struct error err = {""};
	char *rest = text, *line;

	for (size_t i = 0; i < ARRAY_SIZE(call.values); i++) {
		line = strsep(&rest, "\n");
		call.values[i] = line && *line ? line : NULL;
	}
	core_init(&scheduler.core, NULL);
	scheduler.core.nodes_listed = scheduler.core.pods_listed = true;
	MUST(recorder_new(&scheduler.recorder) == 0 && requeuer_new(&scheduler, &scheduler.requeuer) == 0);
	strbuf_init(&history, HISTORY_MAX);
	log_begin(&scheduler.core, &history);
	while ((line = strsep(&rest, "\n")))
		happen(line);
	ask_why(&call);
	requeuer_free(scheduler.requeuer); /* its timer would wake pods, and there is no API server */
	log_end(&scheduler.core, &history);
	if (log_replay(&history, &err)) {
		fprintf(stderr, "%s\n%s\n", err.text, strbuf_cstr(&history));
		abort();
	}
	MUST(ledger_check(&scheduler.core.ledger, NULL) == 0);
	core_release(&scheduler.core);
	recorder_free(scheduler.recorder);
	return 0;
}
