/* ResourcePolicies and the verbs /levels/filter and /levels/preempt. Input: pieces that end with a NUL. Their
 * first byte says what the rest is: r, n and p are a ResourcePolicy, a Node and a pod as watches show them, l
 * a pod as the list of its namespace has it; R and P are the uid and N the name of one that was deleted; f
 * and v are the bodies of filter and preempt; a is an answer of the API server to all that it was asked,
 * whose first byte chooses the status; y ends the first LIST of everything, z says that there are no
 * ResourcePolicies; t lets ten seconds pass. */
#include "fuzz.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/json.h"
#include "kube/watch.h"
#include "net/http-server.h"
#include "net/loop.h"
#include "scheduler/policies.h"
#include "scheduler/recorder.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"
#include "log-fixture.h"

#define HISTORY_MAX (64u << 20)

const unsigned int fuzz_rounds = 1500;
const char *const fuzz_words[] = {"\"metadata\":{\"uid\":\"u1\",\"name\":\"a\",\"namespace\":\"d\"}",
	"\"labels\":{\"app\":\"a\"}", "\"spec\":{\"selector\":{\"app\":\"a\"},\"units\":[",
	"{\"resource\":\"idc\",\"max\":1}", "{\"resource\":\"eci\"}", "\"maxResources\":{\"cpu\":\"1\"}",
	"\"podLabels\":{\"l\":\"1\"}", "\"podAnnotations\":{\"l\":\"1\"}",
	"\"nodeSelector\":{\"pool\":\"a\"}",
	"\"whenTryNextUnits\":{\"policy\":\"TimeoutOrExceedMax\",\"timeout\":\"1s\"}",
	"\"preemptPolicy\":\"BeforeNextUnit\"", "\"NodeNames\":[\"n0\",\"n1\"]",
	"\"Pod\":", "\"NodeNameToMetaVictims\":{\"n0\":{}}", "\"nodeName\":\"n0\"",
	"\"type\":\"virtual-kubelet\"", "\"deletionTimestamp\":\"x\"", "\"phase\":\"Running\"", "null", "{",
	"}", "[", "]", NULL};

struct http_call {
	bool replied;
};

#define CALLS_MAX 32
#define PENDING_MAX 64

struct kube_watch {
	const struct kube_watch_ops *ops;
	void *userdata;
	char kind; /* as in the letters; 0: not open */
};
static struct kube_watch watches[128];
static struct {
	kube_response_fn fn;
	void *userdata;
} pending[PENDING_MAX];
static size_t n_pending, n_calls;
static struct http_call calls[CALLS_MAX];
static time_t now_s = 1000;
static bool ours; /* is the clock */
static struct scheduler scheduler;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!ours || fuzz_in_alarm())
		return (int)syscall(SYS_clock_gettime, clock, time);
	*time = (struct timespec){.tv_sec = now_s};
	return 0;
}

void log_write(enum log_level unit, const char *format, ...)
{
}

static int start(char kind, const char *collection, const struct kube_watch_ops *ops, void *userdata,
	struct kube_watch **ret_watch)
{
	fuzz_check_path(collection);
	for (size_t i = 0; i < ARRAY_SIZE(watches); i++)
		if (!watches[i].kind) {
			watches[i] = (struct kube_watch){ops, userdata, kind};
			*ret_watch = &watches[i];
			return 0;
		}
	return -ENOMEM;
}

int kube_watch_start(struct kube_client *client, struct loop *loop, const char *collection, const char *query,
	const struct kube_watch_ops *ops, void *userdata, struct kube_watch **ret_watch)
{
	return start(
		strstr(collection, "resourcepolicies") ? 'r' : '?', collection, ops, userdata, ret_watch);
}

int kube_list_start(struct kube_client *client, struct loop *loop, const char *collection, const char *query,
	const struct kube_watch_ops *ops, void *userdata, struct kube_watch **ret_list)
{
	return start('l', collection, ops, userdata, ret_list);
}

void kube_watch_free(struct kube_watch *watch)
{
	if (watch)
		watch->kind = 0;
}

void kube_watch_set_backoff_max_ms(struct kube_watch *watch, uint32_t backoff_max_ms)
{
}

void kube_watch_set_first_list_query(struct kube_watch *watch, const char *query)
{
}

bool kube_watch_synced(const struct kube_watch *watch)
{
	return true;
}

bool kube_watch_connected(const struct kube_watch *watch)
{
	return true;
}

const char *kube_watch_version(const struct kube_watch *watch)
{
	return "7";
}

const struct kube_watch_counts *kube_watch_counts(const struct kube_watch *watch)
{
	static const struct kube_watch_counts none;

	return &none;
}

int kube_request(struct kube_client *client, const char *method, const char *path, const char *content_type,
	const char *body, int timeout_ms, kube_response_fn fn, void *userdata,
	struct kube_request **ret_request)
{
	struct json_object *parsed = body ? json_tokener_parse(body) : NULL;

	fuzz_check_path(path);
	MUST(!body || parsed);
	json_object_put(parsed);
	if (n_pending == PENDING_MAX)
		return -ENOMEM;
	pending[n_pending].fn = fn;
	pending[n_pending++].userdata = userdata;
	if (ret_request)
		*ret_request = (struct kube_request *)&pending[n_pending - 1];
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
	struct json_object *parsed = body && status == 200 ? json_tokener_parse(body) : NULL;

	MUST(!call->replied && body && *body);
	MUST(status == 400 || (status == 200 && json_object_is_type(parsed, json_type_object)));
	json_object_put(parsed);
	call->replied = true;
	free(body);
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

const char *http_call_query(const struct http_call *call, const char *key)
{
	return NULL;
}

/* By the linker in the place of that of scheduler/lease.c (meson.build): this replica may write if the Lease
 * of the kube-scheduler beside it, which is asked for, says so. */
int __wrap_ledger_lease_path(const struct ledger_lease *lease, char *path, size_t size);

int __wrap_ledger_lease_path(const struct ledger_lease *lease, char *path, size_t size)
{
	snprintf(path, size, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/ack-co-scheduler");
	return 0;
}

static void api_server_answers(const char *text)
{
	static const struct {
		int result;
		long status;
	} kinds[] = {{0, 200}, {0, 409}, {0, 404}, {0, 500}, {-ETIMEDOUT, 0}, {0, 422}, {0, 403}, {0, 200}};
	size_t kind = (unsigned char)*text % ARRAY_SIZE(kinds), n = n_pending;
	struct kube_response response = {.result = kinds[kind].result,
		.status = kinds[kind].status,
		.body = *text ? text + 1 : "",
		.body_len = *text ? strlen(text + 1) : 0,
		.text = "as the input says"};

	for (size_t i = 0; i < n; i++)
		pending[i].fn(pending[i].userdata, &response);
	memmove(pending, pending + n, (n_pending - n) * sizeof(pending[0]));
	n_pending -= n;
}

static void show(struct policies *policies, char kind, const char *text)
{
	struct json_object *object = NULL;
	const char *name;

	if (islower(kind) && json_parse(text, strlen(text), &object, NULL) < 0)
		return;
	name = json_member_string(json_member(object, "metadata"), "name");
	if (kind == 'n' && name)
		policies_see_node(policies, name, object);
	else if (kind == 'N')
		policies_forget_node(policies, text);
	else if (kind == 'p')
		policies_see_pod(policies, object);
	else if (kind == 'P')
		policies_forget_pod(policies, text, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(watches); i++) {
		struct kube_watch *watch = &watches[i];

		if (watch->kind != tolower(kind))
			continue;
		if (object)
			watch->ops->object(watch->userdata, object);
		else
			watch->ops->deleted(watch->userdata, text, NULL);
	}
	json_object_put(object);
}

static void all_synced(bool absent)
{
	policies_look_anew(scheduler.policies, true);
	for (size_t i = 0; i < ARRAY_SIZE(watches); i++) {
		struct kube_watch *watch = &watches[i];

		if (watch->kind == 'r' && absent)
			watch->ops->absent(watch->userdata);
		else if (watch->kind)
			watch->ops->synced(watch->userdata);
	}
}

static void take_piece(struct policies *policies, const char *text)
{
	if (strchr("rnplRNP", *text))
		show(policies, *text, text + 1);
	else if (strchr("fv", *text) && n_calls < CALLS_MAX)
		policies_answer(policies, &calls[n_calls++], *text == 'f' ? "filter" : "preempt", text + 1,
			strlen(text + 1));
	else if (*text == 'a')
		api_server_answers(text + 1);
	else if (strchr("yz", *text))
		all_synced(*text == 'z');
	else if (*text == 't')
		now_s += 10;
	loop_run_once(scheduler.loop, 0);
	core_set_watch(&scheduler.core, true, now_s * NS_PER_S);
	core_tick(&scheduler.core, now_s * NS_PER_S);
	policies_tick(policies);
	requeuer_look(scheduler.requeuer);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	MUST(loop_new(&scheduler.loop) == 0);
	MUST(recorder_new(&scheduler.recorder) == 0);
	scheduler.lease = (struct ledger_lease *)&scheduler;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	_cleanup_strbuf_ struct strbuf history;
	struct policies *policies;
	struct error err = {""};

	ours = true;
	memset(calls, 0, sizeof(calls));
	n_calls = n_pending = 0;
	core_init(&scheduler.core, NULL);
	scheduler.core.nodes_listed = scheduler.core.pods_listed = true;
	scheduler.core.following = true;
	strbuf_init(&history, HISTORY_MAX);
	log_begin(&scheduler.core, &history);
	MUST(requeuer_new(&scheduler, &scheduler.requeuer) == 0);
	MUST(policies_start(&scheduler, &policies) == 0);
	scheduler.policies = policies;
	for (size_t at = 0, turn = 0; at < size && turn < 64; at += strlen(text + at) + 1, turn++)
		if (text[at])
			take_piece(policies, text + at);
	/* Every call has one answer, when the API server has answered too. */
	for (int i = 0; i < 8 && n_pending; i++)
		api_server_answers("");
	for (size_t i = 0; i < n_calls; i++)
		MUST(calls[i].replied);
	scheduler.policies = NULL;
	policies_stop(policies);
	for (size_t i = 0; i < ARRAY_SIZE(watches); i++)
		MUST(!watches[i].kind);
	requeuer_free(scheduler.requeuer);
	log_end(&scheduler.core, &history);
	if (log_replay(&history, &err)) {
		fprintf(stderr, "%s\n%s\n", err.text, strbuf_cstr(&history));
		abort();
	}
	core_release(&scheduler.core);
	ours = false;
	free(text);
	return 0;
}
