/* What kube-scheduler posts, and what the API server answers meanwhile: filter, prioritize and bind on a
 * small cluster, and what simulators post. Input: one byte for the verb (f, p, b, s for simulate/filter,
 * anything else all), the body, and after a NUL the body of each of the API server's answers, whose first
 * byte chooses the status. */
#include "fuzz.h"

#include <errno.h>
#include <json-c/json.h>

#include "base/log.h"
#include "kube/client.h"
#include "kube/json.h"
#include "net/http-server.h"
#include "net/loop.h"
#include "scheduler/actuator.h"
#include "scheduler/recorder.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"
#include "scheduler/verbs.h"

const unsigned int fuzz_rounds = 6000;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "null", "\\u0000", "\xff", "99999999999999999999",
	"\"Pod\":", "\"NodeNames\":[\"n0\",\"n1\"]", "\"Nodes\":{\"items\":[]}", "\"ration.dev/gpus\":\"[]\"",
	"\"aliyun.com/gpu-count\":\"2\"", "\"PodUID\":\"u1\"", "\"Node\":\"n0\"", "\"PodName\":\"a\"",
	"\"PodNamespace\":\"d\"", "\"aliyun.com/gpu-mem\":\"3\"", "../", "%2f", "?", NULL};

#define REQUESTS_MAX 32

static struct {
	kube_response_fn fn;
	void *userdata;
} requests[REQUESTS_MAX];
static size_t n_requests, n_replies;

/* What the scheduler uses of net/ and kube/: these come before the libraries. */
int kube_request(struct kube_client *client, const char *method, const char *path, const char *content_type,
	const char *body, int timeout_ms, kube_response_fn fn, void *userdata,
	struct kube_request **ret_request)
{
	struct json_object *parsed = body ? json_tokener_parse(body) : NULL;

	fuzz_check_path(path);
	MUST(!body || parsed);
	json_object_put(parsed);
	if (n_requests == REQUESTS_MAX)
		return -ENOMEM;
	requests[n_requests].fn = fn;
	requests[n_requests++].userdata = userdata;
	if (ret_request)
		*ret_request = (struct kube_request *)&requests[n_requests - 1];
	return 0;
}

void kube_request_cancel(struct kube_request *request)
{
}

int kube_stream(struct kube_client *client, const char *path, int idle_timeout_ms, kube_data_fn data_fn,
	kube_response_fn fn, void *userdata, struct kube_request **ret_request)
{
	return -ENOTSUP;
}

const uint64_t *kube_client_results(const struct kube_client *client)
{
	static const uint64_t none[KUBE_RESULT_MAX];

	return none;
}

void http_call_reply(struct http_call *call, unsigned status, const char *content_type, char *body)
{
	struct json_object *parsed = body ? json_tokener_parse(body) : NULL;

	MUST(status == 200 && json_object_is_type(parsed, json_type_object));
	json_object_put(parsed);
	free(body);
	n_replies++;
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
	log_open("fuzz-extender", LOG_LEVEL_ERROR);
	MUST(loop_new(&scheduler.loop) == 0);
	MUST(recorder_new(&scheduler.recorder) == 0);
	scheduler.best_nodes = 2;
	return 0;
}

static void cluster_begin(void)
{
	core_init(&scheduler.core, NULL);
	scheduler.core.nodes_listed = scheduler.core.pods_listed = true;
	MUST(requeuer_new(&scheduler, &scheduler.requeuer) == 0);
	bind_start(&scheduler);
	MUST(actuator_new(&scheduler, &scheduler.actuator) == 0);
	for (int i = 0; i < 3; i++) {
		_cleanup_node_facts_ struct node_facts facts;

		node_facts_init(&facts);
		MUST(asprintf(&facts.name, "n%d", i) > 0 && asprintf(&facts.uid, "node-%d", i) > 0);
		facts.mode = GPU_MODE_SHARE;
		facts.unit_mib = 1024;
		facts.n_gpus = (size_t)i + 1;
		for (size_t k = 0; k < facts.n_gpus; k++) {
			snprintf(facts.gpus[k].uuid, sizeof(facts.gpus[k].uuid), "GPU-%d-%zu", i, k);
			facts.gpus[k].index = (int)k;
			facts.gpus[k].mib = 8192;
			facts.gpus[k].healthy = true;
		}
		MUST(ledger_set_node(&scheduler.core.ledger, &facts) == 0);
	}
}

/* All that was asked is answered, with what the input says. */
static void api_server_answers(const char *text, size_t len)
{
	static const struct {
		int result;
		long status;
	} kinds[] = {{0, 200}, {0, 201}, {0, 409}, {0, 404}, {0, 500}, {-ETIMEDOUT, 0}, {0, 200}, {0, 200}};
	size_t kind = len ? (unsigned char)text[0] % 8 : 0;
	struct kube_response response = {.result = kinds[kind].result,
		.status = kinds[kind].status,
		.body = len ? text + 1 : "",
		.body_len = len ? len - 1 : 0,
		.text = "as it was asked for"};

	while (n_requests) {
		for (size_t i = 0; i < n_requests; i++)
			requests[i].fn(requests[i].userdata, &response);
		n_requests = 0;
		actuate(&scheduler);
	}
}

static void cluster_end(void)
{
	size_t over = 0;

	MUST(ledger_check(&scheduler.core.ledger, &over) == 0 && over == 0);
	MUST(scheduler.core.binds.n_open == 0);
	actuator_free(scheduler.actuator);
	requeuer_free(scheduler.requeuer);
	core_release(&scheduler.core);
}

static void check_answer(char *answer, enum json_type type)
{
	struct json_object *parsed = answer ? json_tokener_parse(answer) : NULL;

	MUST(json_object_is_type(parsed, type));
	json_object_put(parsed);
	free(answer);
}

/* Whatever is asked, the ledger stays as it is. */
static void check_simulation(const char *body, size_t len)
{
	uint64_t generation = scheduler.core.ledger.generation;

	check_answer(simulate_filter(&scheduler, body, len), json_type_object);
	MUST(scheduler.core.ledger.generation == generation && list_empty(&scheduler.core.ledger.holds));
	MUST(ledger_check(&scheduler.core.ledger, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size > 1 ? memchr(data + 1, 0, size - 1) : NULL;
	size_t len = !size ? 0 : (nul ? (size_t)(nul - data) : size) - 1;
	char *body, *answer;
	char verb = size ? (char)data[0] : 'f';

	body = fuzz_text(data + !!size, len);
	answer = nul ? fuzz_text(nul + 1, (size_t)(data + size - nul - 1)) : fuzz_text(NULL, 0);
	cluster_begin();
	n_replies = 0;
	if (verb != 'f' && verb != 'p' && verb != 'b')
		check_simulation(body, len);
	if (verb != 'p' && verb != 'b' && verb != 's')
		check_answer(extender_filter(
				     &scheduler, (struct http_call *)&n_replies, body, len, &(bool){false}),
			json_type_object);
	if (verb != 'f' && verb != 'b' && verb != 's')
		check_answer(extender_prioritize(&scheduler, body, len), json_type_array);
	if (verb != 'f' && verb != 'p' && verb != 's') {
		bind_submit(&scheduler, (struct http_call *)&n_replies, body, len);
		actuate(&scheduler);
		api_server_answers(answer, nul ? (size_t)(data + size - nul - 1) : 0);
		MUST(n_replies == 1);
	}
	loop_run_once(scheduler.loop, 0);
	loop_run_once(scheduler.loop, 0);
	api_server_answers(answer, nul ? (size_t)(data + size - nul - 1) : 0);
	cluster_end();
	free(answer);
	free(body);
	return 0;
}
