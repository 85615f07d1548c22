/* What the API server says of the Lease of the ledger, which anybody who may write Leases can have written.
 * Input: pieces that end with a NUL, each the answer to the next request; its first byte chooses the status.
 */
#include "fuzz.h"

#include <errno.h>
#include <json-c/json.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/json.h"
#include "net/loop.h"
#include "scheduler/lease.h"
#include "scheduler/scheduler.h"

const unsigned int fuzz_rounds = 6000;
const char *const fuzz_words[] = {"{", "}", "[", "]", "\"", "null", "\\u0000", "\xff", "99999999999999999999",
	"-1", "\"spec\":", "\"metadata\":{\"resourceVersion\":\"7\"}",
	"\"holderIdentity\":\"kube-system/us\"", "\"holderIdentity\":\"x/y\"", "\"holderIdentity\":\"\"",
	"\"leaseDurationSeconds\":1", "\"renewTime\":\"2026-05-04T03:02:01.000000Z\"",
	"\"leaseTransitions\":2147483647", NULL};

#define US "kube-system/us"

static struct scheduler scheduler;
static struct {
	kube_response_fn fn;
	void *userdata;
	bool writes;
} asked;
static time_t now_s = 1;
static bool renewed, ours; /* is the clock */

/* A second between two looks, not waited for. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!ours || fuzz_in_alarm())
		return (int)syscall(SYS_clock_gettime, clock, time);
	*time = (struct timespec){.tv_sec = now_s};
	return 0;
}

static void check_body(const char *body)
{
	_cleanup_json_ struct json_object *object = NULL;
	struct json_object *spec;

	MUST(json_parse(body, strlen(body), &object, NULL) == 0);
	spec = json_member(object, "spec");
	MUST(strcmp(json_member_string(spec, "holderIdentity"), US) == 0);
	MUST(json_member_string(spec, "renewTime"));
}

int kube_request(struct kube_client *client, const char *method, const char *path, const char *content_type,
	const char *body, int timeout_ms, kube_response_fn fn, void *userdata,
	struct kube_request **ret_request)
{
	fuzz_check_path(path);
	MUST(!asked.fn && strstr(path, "/namespaces/kube-system/leases"));
	asked.fn = fn;
	asked.userdata = userdata;
	asked.writes = strcmp(method, "GET") != 0;
	MUST(asked.writes == (body != NULL));
	if (body)
		check_body(body);
	*ret_request = (struct kube_request *)&asked;
	return 0;
}

void kube_request_cancel(struct kube_request *request)
{
	if (request)
		asked.fn = NULL;
}

int kube_stream(struct kube_client *client, const char *path, int idle_timeout_ms, kube_data_fn data_fn,
	kube_response_fn fn, void *userdata, struct kube_request **ret_request)
{
	return -ENOTSUP;
}

const uint64_t *kube_client_results(const struct kube_client *client)
{
	return NULL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	log_open("fuzz-lease", LOG_LEVEL_ERROR);
	MUST(loop_new(&scheduler.loop) == 0);
	return 0;
}

static void answer(const char *text, size_t len)
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
	kube_response_fn fn = asked.fn;

	asked.fn = NULL;
	renewed |= asked.writes && response.result == 0 && response.status / 100 == 2;
	fn(asked.userdata, &response);
}

/* Nobody binds before a write has succeeded, and whoever may not says why. */
static void check(void)
{
	struct error err = {""};

	if (ownership_may_bind(&scheduler.core.ownership, monotonic_ns(), &err) == 0)
		MUST(renewed && ownership_may_plan(&scheduler.core.ownership, &err) == 0);
	else
		MUST(err.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = fuzz_text(data, size);
	struct ledger_lease *lease;
	int turns = 0;

	renewed = false;
	ours = true;
	MUST(ledger_lease_start(&scheduler, US, &lease) == 0);
	for (size_t at = 0, len; at < size && turns < 64; at += len + 1, turns++) {
		len = strlen(text + at);
		for (int i = 0; i < 8 && !asked.fn; i++) {
			now_s++;
			loop_run_once(scheduler.loop, 0);
		}
		if (asked.fn)
			answer(text + at, len);
		check();
	}
	ledger_lease_stop(lease);
	MUST(!asked.fn);
	ours = false;
	return 0;
}
