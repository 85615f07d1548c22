/* What recording costs ration-scheduler: the decisions and the log of events, within the verb filter and at
 * each event of nodes and pods, and while /why and /history are answered (on the scheduler's only thread).
 * The real functions, without HTTP and API server; the linker puts __wrap_ functions with a clock around
 * them.
 *
 *   bench-recorder NODES PODS     8 GPUs of 15 units each; all pods but 100 are bound
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "net/loop.h"
#include "scheduler/event-log.h"
#include "scheduler/pages.h"
#include "scheduler/record.h"
#include "scheduler/recorder.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"
#include "scheduler/verbs.h"

#define GPUS 8
#define UNITS 15
#define ROUNDS 200
#define WAITING 100

struct timer {
	int64_t ns, longest_ns;
	uint64_t n;
};

static struct timer filtered, logged;
static struct timer replied;
static size_t reply_bytes;
static int64_t reply_began_ns;
static struct core_log real_log;

/* Time on a processor: what else the machine does must not count. */
static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void timer_add(struct timer *timer, int64_t began_ns)
{
	int64_t spent = cpu_ns() - began_ns;

	timer->ns += spent;
	timer->n++;
	if (spent > timer->longest_ns)
		timer->longest_ns = spent;
}

static void on_event(void *userdata, const struct core *core, const struct core_event *event)
{
	int64_t began_ns = cpu_ns();

	real_log.event(userdata, core, event);
	timer_add(&logged, began_ns);
}

static void on_output(void *userdata, const struct core_output *output)
{
	int64_t began_ns = cpu_ns();

	real_log.output(userdata, output);
	timer_add(&logged, began_ns);
}

void __real_record_filter(struct scheduler *scheduler, const struct pod_facts *pod, size_t n_asked,
	const struct node_ledger *const *offered, size_t n_offered, size_t n_fitting,
	const uint32_t reject_reasons[REJECT_MAX], const char *text);
void __wrap_record_filter(struct scheduler *scheduler, const struct pod_facts *pod, size_t n_asked,
	const struct node_ledger *const *offered, size_t n_offered, size_t n_fitting,
	const uint32_t reject_reasons[REJECT_MAX], const char *text);
void __wrap_record_filter(struct scheduler *scheduler, const struct pod_facts *pod, size_t n_asked,
	const struct node_ledger *const *offered, size_t n_offered, size_t n_fitting,
	const uint32_t reject_reasons[REJECT_MAX], const char *text)
{
	int64_t began_ns = cpu_ns();

	__real_record_filter(scheduler, pod, n_asked, offered, n_offered, n_fitting, reject_reasons, text);
	timer_add(&filtered, began_ns);
}

/* /why?namespace=default&name=waits-0 without HTTP. */
const char *__wrap_http_call_query(const struct http_call *call, const char *key);
const char *__wrap_http_call_query(const struct http_call *call, const char *key)
{
	return strcmp(key, "namespace") == 0 ? "default" : strcmp(key, "name") == 0 ? "waits-0" : NULL;
}

void __wrap_http_call_reply(struct http_call *call, unsigned status, const char *content_type, char *body);
void __wrap_http_call_reply(struct http_call *call, unsigned status, const char *content_type, char *body)
{
	timer_add(&replied, reply_began_ns);
	reply_bytes = body ? strlen(body) : 0;
	free(body);
}

static void must(int r, const char *what)
{
	if (r == 0)
		return;
	fprintf(stderr, "bench-recorder: %s: %s\n", what, strerror(-r));
	exit(1);
}

static void gpu_uuid(size_t node, size_t gpu, char uuid[GPU_UUID_SIZE])
{
	snprintf(uuid, GPU_UUID_SIZE, "GPU-%08zx-0000-4000-8000-%012zx", node, gpu);
}

static void add_node(struct core *core, size_t number, bool serving)
{
	_cleanup_node_facts_ struct node_facts facts;

	node_facts_init(&facts);
	if (asprintf(&facts.name, "gpu-node-%05zu", number) < 0 ||
		asprintf(&facts.uid, "00000000-0000-4000-8000-%012zu", number) < 0)
		must(-ENOMEM, "node");
	facts.mode = GPU_MODE_SHARE;
	facts.unit_mib = 1024;
	facts.n_gpus = GPUS;
	facts.serving = serving;
	for (size_t i = 0; i < GPUS; i++) {
		gpu_uuid(number, i, facts.gpus[i].uuid);
		facts.gpus[i].index = (int)i;
		facts.gpus[i].mib = UNITS * 1024;
		facts.gpus[i].healthy = true;
	}
	must(core_see_node(core, &facts), "core_see_node");
}

static void make_pod(struct pod_facts *pod, const char *kind, size_t number)
{
	char uuid[48];

	pod_facts_init(pod);
	snprintf(uuid, sizeof(uuid), "%s-uid-0000-4000-8000-%012zu", kind, number);
	pod->uid = strdup(uuid);
	pod->namespace_ = strdup("default");
	if (asprintf(&pod->name, "%s-%zu", kind, number) < 0)
		pod->name = NULL;
	pod->owner = strdup("00000000-0000-4000-8000-000000000001");
	pod->node = strdup("");
	pod->labels = strdup("app=bench\n");
	pod->pending = true;
	if (!pod->uid || !pod->name || !pod->owner || !pod->node || !pod->labels || !pod->namespace_)
		must(-ENOMEM, "pod");
	must(request_add(&pod->request, "main", CONTAINER_MAIN, 0, "3", NULL, NULL), "request_add");
}

static void bind_pod(struct pod_facts *pod, size_t node, size_t gpu)
{
	char uuid[GPU_UUID_SIZE];

	free(pod->node);
	if (asprintf(&pod->node, "gpu-node-%05zu", node) < 0)
		must(-ENOMEM, "node");
	gpu_uuid(node, gpu, uuid);
	placement_init(&pod->placement);
	pod->placement.unit_mib = 1024;
	pod->has_placement = true;
	pod->pending = false;
	pod->running = true;
	must(placement_add(&pod->placement, "main", uuid, 3, 0), "placement_add");
}

static void fill(struct core *core, size_t n_nodes, size_t n_pods)
{
	for (size_t i = 0; i < n_nodes; i++)
		add_node(core, i, true);
	for (size_t i = 0; i < n_pods; i++) {
		_cleanup_pod_facts_ struct pod_facts pod;

		make_pod(&pod, i < WAITING ? "waits" : "bound", i);
		if (i >= WAITING)
			bind_pod(&pod, i % n_nodes, i / n_nodes % GPUS);
		must(core_see_pod(core, &pod, 0, NS_PER_S), "core_see_pod");
	}
}

/* A pod as kube-scheduler sends it is longer; what is longer is not the recorder's. */
static char *question(size_t number, size_t n_nodes)
{
	_cleanup_strbuf_ struct strbuf text;

	strbuf_init(&text, 1 << 24);
	strbuf_addf(&text,
		"{\"Pod\":{\"metadata\":{\"name\":\"asks-%zu\",\"namespace\":\"default\",\"uid\":\"asks-uid-%"
		"zu\","
		"\"labels\":{\"app\":\"bench\"}},\"spec\":{\"containers\":[{\"name\":\"main\",\"resources\":"
		"{\"limits\":{\"aliyun.com/gpu-mem\":\"3\"}}}]}},\"Nodes\":null,\"NodeNames\":[",
		number, number);
	for (size_t i = 0; i < n_nodes; i++)
		strbuf_addf(&text, "%s\"gpu-node-%05zu\"", i ? "," : "", i);
	strbuf_adds(&text, "]}");
	return strbuf_take(&text);
}

static void print(const char *what, const struct timer *timer, uint64_t n)
{
	if (timer->n)
		printf("  %-28s %9.1f us, longest %9.1f us\n", what, (double)timer->ns / 1000 / (double)n,
			(double)timer->longest_ns / 1000);
}

static void measure_filter(struct scheduler *scheduler, size_t n_nodes)
{
	struct timer whole = {0};

	filtered = logged = (struct timer){0};
	for (size_t i = 0; i < ROUNDS; i++) {
		_cleanup_free_ char *body = question(i % 10, n_nodes);
		int64_t began_ns = cpu_ns();

		free(extender_filter(scheduler, NULL, body, strlen(body), &(bool){false}));
		timer_add(&whole, began_ns);
	}
	printf("filter, each of %d calls:\n", ROUNDS);
	print("whole call", &whole, ROUNDS);
	print("record_filter", &filtered, ROUNDS);
	print("log", &logged, ROUNDS);
	printf("  share of both %.1f %%\n", 100.0 * (double)(filtered.ns + logged.ns) / (double)whole.ns);
}

static void measure_pods(struct core *core, const char *what, size_t n_nodes, bool bound)
{
	struct timer whole = {0};

	logged = (struct timer){0};
	for (size_t i = 0; i < ROUNDS; i++) {
		_cleanup_pod_facts_ struct pod_facts pod;
		int64_t began_ns;

		make_pod(&pod, "comes", i);
		if (bound)
			bind_pod(&pod, i % n_nodes, GPUS - 1);
		began_ns = cpu_ns();
		must(core_see_pod(core, &pod, 0, NS_PER_S), "core_see_pod");
		timer_add(&whole, began_ns);
	}
	print(what, &whole, whole.n);
	print("  of which log", &logged, whole.n);
}

/* The life of a pod, and what nodes do. */
static void measure_events(struct scheduler *scheduler, size_t n_nodes)
{
	struct core *core = &scheduler->core;
	struct timer whole = {0};

	printf("each event:\n");
	measure_pods(core, "pod-seen, waiting", n_nodes, false);
	measure_pods(core, "pod-seen, bound", n_nodes, true);
	measure_pods(core, "pod-seen, nothing new", n_nodes, true);
	logged = (struct timer){0};
	for (size_t i = 0; i < ROUNDS; i++) {
		int64_t began_ns = cpu_ns();

		add_node(core, i % n_nodes, true);
		timer_add(&whole, began_ns);
	}
	print("node-seen, nothing new", &whole, whole.n);
	print("  of which log", &logged, whole.n);
}

/* Both rings full: what they hold at most is written. */
static void fill_rings(struct scheduler *scheduler, size_t n_nodes)
{
	for (size_t i = 0; i < DECISIONS_MAX; i++) {
		_cleanup_free_ char *body = question(i % WAITING, n_nodes < 40 ? n_nodes : 40);

		free(extender_filter(scheduler, NULL, body, strlen(body), &(bool){false}));
		event_log_follow(scheduler->event_log);
		loop_run_once(scheduler->loop, 0);
	}
}

bool __wrap_http_call_is_gone(const struct http_call *call);
bool __wrap_http_call_is_gone(const struct http_call *call)
{
	return false;
}

static void measure_answers(struct scheduler *scheduler, size_t n_nodes)
{
	struct timer forks = {0}, ends = {0};

	fill_rings(scheduler, n_nodes);
	for (int i = 0; i < 20; i++) {
		reply_began_ns = cpu_ns();
		why_answer(scheduler, NULL);
	}
	printf("answers:\n");
	print("/why", &replied, replied.n);
	printf("    %zu bytes\n", reply_bytes);
	replied = (struct timer){0};
	for (int i = 0; i < 5; i++) {
		int64_t began_ns = cpu_ns();

		event_log_answer(scheduler->event_log, (struct http_call *)&replied); /* never looked at */
		event_log_follow(scheduler->event_log);
		timer_add(&forks, began_ns);
		while (replied.n == (uint64_t)i) {
			reply_began_ns = began_ns = cpu_ns();
			loop_run_once(scheduler->loop, -1);
			timer_add(&ends, began_ns);
		}
	}
	print("/history, until the child runs", &forks, forks.n);
	print("/history, after it has ended", &ends, ends.n);
	printf("    %zu bytes\n", reply_bytes);
}

/* The state at the beginning of the log, which a child writes. */
static void begin_log(struct scheduler *scheduler)
{
	int64_t began_ns = cpu_ns();
	struct timer fork_timer = {0};
	size_t bytes = event_log_bytes(scheduler->event_log);

	event_log_follow(scheduler->event_log);
	timer_add(&fork_timer, began_ns);
	began_ns = monotonic_ns();
	while (event_log_bytes(scheduler->event_log) == bytes)
		loop_run_once(scheduler->loop, 100);
	printf("the state at the beginning:\n");
	print("until the child runs", &fork_timer, 1);
	printf("  the child took %.1f ms, %zu bytes\n", (double)(monotonic_ns() - began_ns) / 1e6,
		event_log_bytes(scheduler->event_log));
}

int main(int argc, char **argv)
{
	static struct scheduler scheduler = {.best_nodes = 16};
	struct core_log *log = &scheduler.core.log;
	size_t n_nodes = argc == 3 ? strtoul(argv[1], NULL, 10) : 0,
	       n_pods = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;

	if (!n_nodes) {
		fprintf(stderr, "Usage: bench-recorder NODES PODS\n");
		return 2;
	}
	core_init(&scheduler.core, NULL);
	must(loop_new(&scheduler.loop), "loop");
	must(recorder_new(&scheduler.recorder), "recorder");
	must(event_log_new(&scheduler, &scheduler.event_log), "event log");
	must(requeuer_new(&scheduler, &scheduler.requeuer), "requeuer");
	fill(&scheduler.core, n_nodes, n_pods);
	core_nodes_are_listed(&scheduler.core, NS_PER_S);
	core_pods_are_listed(&scheduler.core, NS_PER_S);
	printf("%zu nodes x %d GPUs, %zu pods\n", n_nodes, GPUS, n_pods);
	begin_log(&scheduler);
	real_log = *log;
	log->event = on_event;
	log->output = on_output;
	measure_filter(&scheduler, n_nodes);
	measure_events(&scheduler, n_nodes);
	measure_answers(&scheduler, n_nodes);
	return 0;
}
