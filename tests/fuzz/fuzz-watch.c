/* What the API server sends to LIST and WATCH, through kube/watch.c and scheduler/sync.c into the ledger.
 * Input: pieces that end with a NUL, each a whole answer with status 200 to whom its first byte names (n
 * nodes, p pods, l leases, d disruption budgets): first the LISTs, then WATCHes. */
#include "fuzz.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"
#include "net/loop.h"
#include "scheduler/actuator.h"
#include "scheduler/recorder.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"

const unsigned int fuzz_rounds = 6000;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "null", "\\u0000", "\xff", "\"items\":[",
	"\"items\":null", "\"type\":\"DELETED\"", "\"type\":\"BOOKMARK\"", "\"type\":\"ERROR\"",
	"\"code\":410", "\"object\":", "\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"d\"}",
	"\"resourceVersion\":\"7\"", "\"continue\":\"c\"", "\"nodeName\":\"n0\"", "\"phase\":\"Failed\"",
	"\"deletionTimestamp\":\"x\"", "\"annotations\":{\"ration.dev/resize\":\"{}\"}", "\"resizes\":1",
	NULL};

static struct stream {
	kube_data_fn data_fn;
	kube_response_fn fn;
	void *userdata;
} streams[4]; /* as in kinds; fn NULL: none is open */
static const char kinds[] = "npld";
static size_t n_asked;
static struct {
	kube_response_fn fn;
	void *userdata;
} asked[64];

int kube_stream(struct kube_client *client, const char *path, int idle_timeout_ms, kube_data_fn data_fn,
	kube_response_fn fn, void *userdata, struct kube_request **ret_request)
{
	size_t which = strstr(path, "/poddisruptionbudgets") ? 3
		       : strstr(path, "/leases")	     ? 2
							     : strncmp(path, "/api/v1/pods", 12) == 0;
	struct stream *stream = &streams[which];

	MUST(!stream->fn);
	fuzz_check_path(path);
	*stream = (struct stream){data_fn, fn, userdata};
	*ret_request = (struct kube_request *)stream;
	return 0;
}

void kube_request_cancel(struct kube_request *request)
{
	for (size_t i = 0; i < ARRAY_SIZE(streams); i++)
		if (request == (void *)&streams[i])
			streams[i] = (struct stream){0};
}

int kube_request(struct kube_client *client, const char *method, const char *path, const char *content_type,
	const char *body, int timeout_ms, kube_response_fn fn, void *userdata,
	struct kube_request **ret_request)
{
	fuzz_check_path(path);
	if (n_asked == sizeof(asked) / sizeof(asked[0]))
		return -ENOMEM;
	asked[n_asked].fn = fn;
	asked[n_asked++].userdata = userdata;
	if (ret_request)
		*ret_request = (struct kube_request *)asked;
	return 0;
}

const uint64_t *kube_client_results(const struct kube_client *client)
{
	static const uint64_t none[KUBE_RESULT_MAX];

	return none;
}

static struct scheduler scheduler;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	log_open("fuzz-watch", LOG_LEVEL_ERROR);
	MUST(loop_new(&scheduler.loop) == 0);
	MUST(recorder_new(&scheduler.recorder) == 0);
	return 0;
}

static void stream_answer(struct stream *stream, const char *text, size_t len)
{
	struct kube_response response = {.status = 200, .body = "", .text = "cut off"};
	struct stream was = *stream;
	size_t step = len % 61 + 1;

	stream->fn = NULL;
	response.result = was.data_fn(was.userdata, "", 0);
	for (size_t at = 0; at < len && response.result == 0; at += step)
		response.result = was.data_fn(was.userdata, text + at, len - at < step ? len - at : step);
	was.fn(was.userdata, &response);
}

static void answer_questions(void)
{
	struct kube_response response = {.status = 404, .body = "", .text = "not there"};

	for (size_t i = 0; i < n_asked; i++)
		asked[i].fn(asked[i].userdata, &response);
	n_asked = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	size_t turn = 0, over;

	core_init(&scheduler.core, NULL);
	MUST(requeuer_new(&scheduler, &scheduler.requeuer) == 0);
	MUST(actuator_new(&scheduler, &scheduler.actuator) == 0);
	resizes_start(&scheduler);
	MUST(sync_start(&scheduler, &scheduler.sync) == 0);
	for (size_t at = 0; at <= size && turn < 64; turn++) {
		size_t len = strlen(text + at);
		const char *kind;

		for (int i = 0; i < 3; i++)
			loop_run_once(scheduler.loop, 0);
		answer_questions();
		core_tick(&scheduler.core, monotonic_ns());
		actuate(&scheduler);
		if (len && (kind = strchr(kinds, text[at])) && streams[kind - kinds].fn)
			stream_answer(&streams[kind - kinds], text + at + 1, len - 1);
		at += len + 1;
		MUST(ledger_check(&scheduler.core.ledger, &over) == 0);
	}
	answer_questions();
	sync_stop(scheduler.sync);
	actuator_free(scheduler.actuator);
	requeuer_free(scheduler.requeuer);
	core_release(&scheduler.core);
	free(text);
	return 0;
}
