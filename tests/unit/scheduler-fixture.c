#include "scheduler-fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/client.h"
#include "model-fixture.h"
#include "net/http-server.h"
#include "net/loop.h"
#include "scheduler/actuator.h"
#include "scheduler/recorder.h"
#include "scheduler/requeue.h"
#include "scheduler/verbs.h"
#include "scheduler/sync.h"

#define REQUESTS_MAX 256

struct world world;

static struct request_sent {
	char method[8], path[512];
	kube_response_fn fn;
	void *userdata;
} requests[REQUESTS_MAX];
static size_t n_requests;

/* ---- what the scheduler calls: these definitions come before those of the libraries ----------------------
 */

/* Every clock of this program. */
int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	*ret_now = (struct timespec){world.now_ns / NS_PER_S, world.now_ns % NS_PER_S};
	return 0;
}

int kube_request(struct kube_client *client, const char *method, const char *path, const char *content_type,
	const char *body, int timeout_ms, kube_response_fn fn, void *userdata,
	struct kube_request **ret_request)
{
	struct request_sent *sent = &requests[n_requests];

	if (n_requests == REQUESTS_MAX)
		return -ENOMEM;
	n_requests++;
	snprintf(sent->method, sizeof(sent->method), "%s", method);
	snprintf(sent->path, sizeof(sent->path), "%s", path);
	sent->fn = fn;
	sent->userdata = userdata;
	if (ret_request)
		*ret_request = (struct kube_request *)sent;
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
	assert_null(call->answer);
	assert_int_equal(status, 200);
	call->answer = body;
}

bool http_call_is_gone(const struct http_call *call)
{
	return call->gone;
}

void http_call_mark(struct http_call *call, uint32_t mark)
{
}

bool http_call_has_company(const struct http_call *call, uint32_t mark)
{
	return !world.alone;
}

/* ---- the world ------------------------------------------------------------------------------------------
 */

int world_begin(uint32_t units)
{
	struct scheduler *scheduler = &world.scheduler;
	struct node_facts node;

	log_open("test", LOG_LEVEL_ERROR);
	world = (struct world){.now_ns = 1000 * NS_PER_S};
	n_requests = 0;
	core_init(&scheduler->core, NULL);
	scheduler->core.nodes_listed = scheduler->core.pods_listed = true;
	scheduler->core.following = true;
	bind_start(scheduler);
	if (loop_new(&scheduler->loop) < 0 || recorder_new(&scheduler->recorder) < 0 ||
		requeuer_new(scheduler, &scheduler->requeuer) < 0 ||
		actuator_new(scheduler, &scheduler->actuator) < 0)
		return -1;
	fixture_node(&node, "n", GPU_POLICY_BINPACK, 1, &units);
	if (ledger_set_node(&scheduler->core.ledger, &node) < 0)
		return -1;
	node_facts_release(&node);
	return 0;
}

int world_end(void)
{
	struct scheduler *scheduler = &world.scheduler;
	bool good = ledger_check(&scheduler->core.ledger, NULL) == 0 && n_requests == 0 &&
		    scheduler->core.binds.n_open == 0;

	if (!good)
		print_error("%zu requests and %zu binds are not answered, or the sums are wrong\n",
			n_requests, scheduler->core.binds.n_open);
	actuator_free(scheduler->actuator);
	requeuer_free(scheduler->requeuer);
	core_release(&scheduler->core);
	recorder_free(scheduler->recorder);
	loop_free(scheduler->loop);
	return good ? 0 : -1;
}

void world_pod_known(const char *uid)
{
	_cleanup_pod_facts_ struct pod_facts facts;

	fixture_pod(&facts, uid, 3, "");
	assert_int_equal(ledger_set_pod(&world.scheduler.core.ledger, &facts), 0);
}

void world_lose_lease(void)
{
	world.scheduler.core.ownership = (struct ownership){
		.owner = LEDGER_OWNER_OTHER, .holder = "other/one"};
}

void world_bind(struct http_call *call, const char *uid)
{
	char body[256];

	snprintf(body, sizeof(body),
		"{\"PodName\":\"%s\",\"PodNamespace\":\"default\",\"PodUID\":\"%s\",\"Node\":\"n\"}", uid,
		uid);
	bind_submit(&world.scheduler, call, body, strlen(body));
	actuate(&world.scheduler);
}

size_t world_asked(const char *method, const char *path)
{
	if (n_requests > 0) {
		assert_string_equal(requests[0].method, method);
		assert_non_null(strstr(requests[0].path, path));
	}
	return n_requests;
}

void world_answer(int result, long status, const char *body)
{
	struct kube_response response = {.result = result,
		.status = status,
		.body = body,
		.body_len = strlen(body),
		.text = "as the test has it"};
	struct request_sent first = requests[0];

	assert_true(n_requests > 0);
	memmove(requests, requests + 1, --n_requests * sizeof(requests[0]));
	first.fn(first.userdata, &response);
	actuate(&world.scheduler);
}

void world_pass(int64_t ns)
{
	world.now_ns += ns;
	if (world.scheduler.core.following)
		world.scheduler.core.heard_ns = world.now_ns;
	assert_int_equal(loop_run_once(world.scheduler.loop, 0), 0);
}

uint32_t world_used(void)
{
	return ledger_node(&world.scheduler.core.ledger, "n")->gpus[0].units_used;
}
