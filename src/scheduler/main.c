#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/parse.h"
#include "core/gang/gang.h"
#include "core/placement/decide.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/names.h"
#include "net/http-server.h"
#include "net/loop.h"
#include "scheduler/actuator.h"
#include "scheduler/bind.h"
#include "scheduler/evict.h"
#include "scheduler/extender.h"
#include "scheduler/gangs.h"
#include "scheduler/inspect.h"
#include "scheduler/event-log.h"
#include "scheduler/lease.h"
#include "scheduler/metrics-page.h"
#include "scheduler/policies.h"
#include "scheduler/preempt.h"
#include "scheduler/recorder.h"
#include "scheduler/requeue.h"
#include "scheduler/resize.h"
#include "scheduler/scheduler.h"
#include "scheduler/simulate.h"
#include "scheduler/sync-budgets.h"
#include "scheduler/sync.h"
#include "scheduler/uninstall.h"
#include "scheduler/webhook.h"
#include "scheduler/why.h"

/* 5,000 node names of at most 253 bytes and a pod of at most 1.5 MiB (etcd's limit) fit well. */
#define BODY_MAX (8 << 20)
/* What ends by time ends this late at most, and whoever fits then waits for it. */
#define TICK_NS NS_PER_S
#define DRAIN_STEP_NS (20 * NS_PER_MS)
#define DRAIN_STEPS 200
/* API servers learn from the Service's EndpointSlice that this replica ends. Until then it answers their
 * reviews: a new pod whose review fails would have no scheduler of ours. */
#define DRAIN_STEPS_WEBHOOK 150

#define SECONDS_MAX 86400

#define LEASE_DEFAULT NAMESPACE_SYSTEM "/" SCHEDULER_NAME

static const char help[] =
	"Usage: ration-scheduler [OPTION]...\n"
	"The GPU extender beside kube-scheduler: keeps the ledger of all cards and picks one for each pod.\n"
	"\n"
	"  --kubeconfig FILE     how to reach the API server (default: $KUBECONFIG, the pod's service account,\n"
	"                        ~/.kube/config)\n"
	"  --context NAME        context of the kubeconfig (default: its current one)\n"
	"  --listen ADDR:PORT    verbs filter, prioritize, bind, preempt; /inspect, /metrics, /why, /history\n"
	"                        (default 127.0.0.1:39999)\n"
	"  --probes ADDR:PORT    /healthz and /readyz for the kubelet (default 0.0.0.0:39998)\n"
	"  --metrics ADDR:PORT   /metrics for Prometheus there too (default: only on the address of --listen)\n"
	"  --scheduler-lease NAMESPACE/NAME\n"
	"                        the Lease of the kube-scheduler beside us, which names the owner of the ledger\n"
	"                        (default " LEASE_DEFAULT ")\n"
	"  --best-nodes K        how many nodes filter offers at most, 0 for all that fit (default 16)\n"
	"  --max-pods-per-gpu N  how many containers may be on one GPU of an isolated node at once (default 0:\n"
	"                        20, and 16 where the memory unit is under 1 GiB)\n"
	"  --job-mixing forbid|allow\n"
	"                        whether pods with and without aliyun.com/gpu-core.percentage may be on one\n"
	"                        core_mem node at the same time (default forbid)\n"
	"  --gang-timeout SECONDS\n"
	"                        a gang of which a part is placed for this long is evicted, unless its PodGroup\n"
	"                        says another time (default 60)\n"
	"  --gang-keep-after SECONDS\n"
	"                        a gang that has waited this long has GPUs kept for it as they become free\n"
	"                        (default 300)\n"
	"  --webhook NAMESPACE/SERVICE\n"
	"                        answer the mutating webhook of this Service, and keep its certificate in the\n"
	"                        Secret of the same name (default: there is no webhook)\n"
	"  --webhook-listen ADDR:PORT\n"
	"                        where the webhook listens (default 0.0.0.0:39994)\n"
	"  --uninstall NS/DEPLOYMENT\n"
	"                        end all replicas for good, delete their Leases, and end: the chart's\n"
	"                        pre-delete hook\n"
	"  --log-level LEVEL     error, warning, info or debug (default info)\n"
	"  --help, --version\n";

struct options {
	const char *kubeconfig, *context, *listen, *probes, *metrics, *scheduler_lease, *uninstall;
	const char *webhook, *webhook_listen;
	uint32_t best_nodes, max_pods_per_gpu, gang_timeout, gang_keep_after;
	bool job_mixing;
	enum log_level log_level;
};

struct program {
	struct scheduler scheduler;
	struct http_server *verbs, *probes, *metrics;
	struct loop_timer *tick, *drain;
	unsigned drain_steps;
};

static int usage_error(const char *what, const char *value)
{
	fprintf(stderr, "ration-scheduler: %s: %s\nTry 'ration-scheduler --help'.\n", what, value);
	return 2;
}

enum {
	KUBECONFIG = 256,
	CONTEXT,
	LISTEN,
	PROBES,
	METRICS,
	SCHEDULER_LEASE,
	BEST_NODES,
	MAX_PODS_PER_GPU,
	JOB_MIXING,
	GANG_TIMEOUT,
	GANG_KEEP_AFTER,
	WEBHOOK,
	WEBHOOK_LISTEN,
	UNINSTALL,
	LOG_LEVEL,
	HELP,
	VERSION
};

static const struct option known[] = {{"kubeconfig", required_argument, NULL, KUBECONFIG},
	{"context", required_argument, NULL, CONTEXT}, {"listen", required_argument, NULL, LISTEN},
	{"probes", required_argument, NULL, PROBES}, {"metrics", required_argument, NULL, METRICS},
	{"scheduler-lease", required_argument, NULL, SCHEDULER_LEASE},
	{"best-nodes", required_argument, NULL, BEST_NODES},
	{"max-pods-per-gpu", required_argument, NULL, MAX_PODS_PER_GPU},
	{"job-mixing", required_argument, NULL, JOB_MIXING},
	{"gang-timeout", required_argument, NULL, GANG_TIMEOUT},
	{"gang-keep-after", required_argument, NULL, GANG_KEEP_AFTER},
	{"webhook", required_argument, NULL, WEBHOOK},
	{"webhook-listen", required_argument, NULL, WEBHOOK_LISTEN},
	{"uninstall", required_argument, NULL, UNINSTALL}, {"log-level", required_argument, NULL, LOG_LEVEL},
	{"help", no_argument, NULL, HELP}, {"version", no_argument, NULL, VERSION}, {0}};

/* Where the value of an option is kept that may be any text; NULL for the others. */
static const char **text_of(struct options *options, int c)
{
	switch (c) {
	case KUBECONFIG:
		return &options->kubeconfig;
	case CONTEXT:
		return &options->context;
	case LISTEN:
		return &options->listen;
	case PROBES:
		return &options->probes;
	case METRICS:
		return &options->metrics;
	case WEBHOOK_LISTEN:
		return &options->webhook_listen;
	case UNINSTALL:
		return &options->uninstall;
	}
	return NULL;
}

static bool number_in(const char *text, uint32_t min, uint32_t max, uint32_t *ret_number)
{
	return parse_u32(text, max, ret_number) == 0 && *ret_number >= min;
}

/* What is wrong with the value of an option that is no mere text; NULL: it is taken. */
static const char *value_problem(int c, const char *value, struct options *options)
{
	switch (c) {
	case SCHEDULER_LEASE:
		options->scheduler_lease = value;
		return ledger_lease_is_valid_identity(value)
			       ? NULL
			       : "--scheduler-lease is not of the form NAMESPACE/NAME";
	case WEBHOOK:
		options->webhook = value;
		return webhook_is_valid_service(value) ? NULL
						       : "--webhook is not of the form NAMESPACE/SERVICE";
	case BEST_NODES:
		return number_in(value, 0, 100000, &options->best_nodes)
			       ? NULL
			       : "--best-nodes is not a number from 0 to 100000";
	case MAX_PODS_PER_GPU:
		return number_in(value, 0, 1000, &options->max_pods_per_gpu)
			       ? NULL
			       : "--max-pods-per-gpu is not a number from 0 to 1000";
	case JOB_MIXING:
		options->job_mixing = strcmp(value, "allow") == 0;
		return options->job_mixing || strcmp(value, "forbid") == 0
			       ? NULL
			       : "--job-mixing must be forbid or allow";
	case GANG_TIMEOUT:
		return number_in(value, 1, SECONDS_MAX, &options->gang_timeout)
			       ? NULL
			       : "--gang-timeout is not a number from 1 to 86400";
	case GANG_KEEP_AFTER:
		return number_in(value, 0, SECONDS_MAX, &options->gang_keep_after)
			       ? NULL
			       : "--gang-keep-after is not a number from 0 to 86400";
	default:
		return log_level_parse(value, &options->log_level) == 0
			       ? NULL
			       : "--log-level must be error, warning, info or debug";
	}
}

/* Returns -1 to go on, or the status to end with. */
static int option_take(int c, struct options *options)
{
	const char **text = text_of(options, c), *problem;

	if (c == HELP) {
		fputs(help, stdout);
		return 0;
	}
	if (c == VERSION) {
		puts("ration-scheduler " RATION_VERSION);
		return 0;
	}
	if (c == '?' || c == ':') {
		fputs("Try 'ration-scheduler --help'.\n", stderr);
		return 2;
	}
	if (text) {
		*text = optarg;
		return -1;
	}
	problem = value_problem(c, optarg, options);
	return problem ? usage_error(problem, optarg) : -1;
}

/* Returns -1 to go on, or the exit status. */
static int options_parse(int argc, char **argv, struct options *options)
{
	int c, r;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		r = option_take(c, options);
		if (r >= 0)
			return r;
	}
	if (optind < argc)
		return usage_error("unexpected argument", argv[optind]);
	return -1;
}

static void reply_text(struct http_call *call, unsigned status, const char *text)
{
	http_call_reply(call, status, "text/plain; charset=utf-8", strdup(text));
}

static void reply_metrics(struct program *program, struct http_call *call)
{
	http_call_reply(call, 200, METRICS_CONTENT_TYPE, scheduler_metrics_page(&program->scheduler));
}

static void timed_reply(struct http_call *call, struct histogram *histogram, int64_t began_ns, char *answer)
{
	histogram_observe(histogram, monotonic_ns() - began_ns);
	http_call_reply(call, 200, "application/json", answer);
}

static void reply_filter(struct scheduler *scheduler, struct http_call *call, const char *body, size_t len)
{
	int64_t began_ns = monotonic_ns();
	bool later;
	char *answer = extender_filter(scheduler, call, body, len, &later);

	if (later)
		histogram_observe(&scheduler->metrics.filter, monotonic_ns() - began_ns);
	else
		timed_reply(call, &scheduler->metrics.filter, began_ns, answer);
}

static void reply_preempt(struct scheduler *scheduler, struct http_call *call, const char *body, size_t len)
{
	int64_t began_ns = monotonic_ns();
	struct error err = {0};
	unsigned status;
	char *answer = preempt_answer(scheduler, body, len, &status, &err);

	histogram_observe(&scheduler->metrics.preempt, monotonic_ns() - began_ns);

	if (status == 200) {
		http_call_reply(call, 200, "application/json", answer);
		return;
	}
	log_warning("preempt: %s", err.text);
	reply_text(call, status, err.text);
}

static void on_verb(void *userdata, struct http_call *call, const char *method, const char *path,
	const char *body, size_t len)
{
	struct program *program = userdata;
	struct scheduler *scheduler = &program->scheduler;
	int64_t began_ns = monotonic_ns();
	bool post = strcmp(method, "POST") == 0, get = strcmp(method, "GET") == 0;

	if (post && strcmp(path, "/filter") == 0)
		reply_filter(scheduler, call, body, len);
	else if (post && strcmp(path, "/simulate/filter") == 0)
		http_call_reply(call, 200, "application/json", simulate_filter(scheduler, body, len));
	else if (post && strncmp(path, "/levels/", 8) == 0)
		policies_answer(scheduler->policies, call, path + 8, body, len);
	else if (post && strcmp(path, "/prioritize") == 0)
		timed_reply(call, &scheduler->metrics.prioritize, began_ns,
			extender_prioritize(scheduler, body, len));
	else if (post && strcmp(path, "/bind") == 0)
		bind_submit(scheduler, call, body, len);
	else if (post && strcmp(path, "/preempt") == 0)
		reply_preempt(scheduler, call, body, len);
	else if (get && strcmp(path, "/inspect") == 0)
		http_call_reply(call, 200, "application/json", inspect_json(scheduler, NULL));
	else if (get && strncmp(path, "/inspect/", 9) == 0)
		http_call_reply(call, 200, "application/json", inspect_json(scheduler, path + 9));
	else if (get && strcmp(path, "/metrics") == 0)
		reply_metrics(program, call);
	else if (get && strcmp(path, "/why") == 0)
		why_answer(scheduler, call);
	else if (get && strcmp(path, "/history") == 0)
		event_log_answer(scheduler->event_log, call);
	else
		reply_text(call, 404,
			"POST /filter, /prioritize, /bind, /preempt, /levels/filter, /levels/preempt, /simulate/filter; GET /inspect, /inspect/NODE, /metrics, /why?namespace=NS&name=POD, /history\n");
}

static void on_probe(void *userdata, struct http_call *call, const char *method, const char *path,
	const char *body, size_t len)
{
	struct program *program = userdata;

	if (strcmp(path, "/healthz") == 0)
		reply_text(call, 200, "ok\n");
	else if (strcmp(path, "/readyz") != 0)
		reply_text(call, 404, "GET /healthz, /readyz\n");
	else if (program->drain_steps)
		reply_text(call, 503, "stopping\n");
	else if (!core_is_ready(&program->scheduler.core))
		reply_text(call, 503, "the cluster's nodes and pods are not read yet\n");
	else if (!ledger_lease_is_known(program->scheduler.lease))
		reply_text(call, 503, "the Lease of the GPU ledger is not read yet\n");
	else if (!program->scheduler.core.policies.known)
		reply_text(call, 503, "the cluster's ResourcePolicies are not read yet\n");
	else if (!webhook_is_known(program->scheduler.webhook))
		reply_text(call, 503, "the certificate of the webhook is not read yet\n");
	else
		reply_text(call, 200, "ok\n");
}

static void on_scrape(void *userdata, struct http_call *call, const char *method, const char *path,
	const char *body, size_t len)
{
	if (strcmp(method, "GET") == 0 && strcmp(path, "/metrics") == 0)
		reply_metrics(userdata, call);
	else
		reply_text(call, 404, "GET /metrics\n");
}

/* *ret_address is freed by the caller. */
static int address_of(const char *where, char **ret_address, uint16_t *ret_port, struct error *err)
{
	_cleanup_free_ char *address = strdup(where);
	char *colon = address ? strrchr(address, ':') : NULL;
	uint32_t port;

	if (!colon || parse_u32(colon + 1, 65535, &port) < 0)
		return error_set(err, EINVAL, "%s: not of the form ADDRESS:PORT", where);
	*colon = '\0';
	*ret_address = TAKE_PTR(address);
	*ret_port = (uint16_t)port;
	return 0;
}

static int listen_on(struct program *program, const char *where, http_handler_fn handler, size_t max_body,
	struct http_server **ret_server, struct error *err)
{
	_cleanup_free_ char *address = NULL;
	uint16_t port;
	int r = address_of(where, &address, &port, err);

	return r < 0 ? r
		     : http_server_new(program->scheduler.loop, address, port, max_body, handler, program,
			       ret_server, err);
}

static int start_webhook(struct scheduler *scheduler, const struct options *options, struct error *err)
{
	_cleanup_free_ char *address = NULL;
	uint16_t port;
	int r = address_of(options->webhook_listen, &address, &port, err);

	if (r == 0)
		r = webhook_start(scheduler, options->webhook, address, port, &scheduler->webhook, err);
	if (r == 0)
		log_info("webhook on port %u", webhook_port(scheduler->webhook));
	return r;
}

/* Holds, nominations and orphans end by time also when nobody calls filter. Whatever freed something, nobody
 * who fits now waits for the next event of the cluster. */
static void on_tick(void *userdata)
{
	struct program *program = userdata;

	core_tick(&program->scheduler.core, monotonic_ns());
	sync_tick(program->scheduler.sync);
	gang_controller_tick(program->scheduler.gangs);
	policies_tick(program->scheduler.policies);
	loop_timer_set(program->tick, TICK_NS);
}

/* Bindings in flight are answered before we go; their deadline is shorter than our patience. */
static void on_drain(void *userdata)
{
	struct program *program = userdata;

	program->drain_steps++;
	if ((program->scheduler.core.binds.n_open == 0 &&
		    (!program->scheduler.webhook || program->drain_steps > DRAIN_STEPS_WEBHOOK)) ||
		program->drain_steps > DRAIN_STEPS)
		loop_quit(program->scheduler.loop, 0);
	else
		loop_timer_set(program->drain, DRAIN_STEP_NS);
}

static void on_signal(void *userdata, int signo)
{
	struct program *program = userdata;

	log_info("stopping on signal %d", signo);
	program->drain_steps = 1;
	on_drain(program);
}

static int program_connect(struct program *program, const struct options *options, struct error *err)
{
	_cleanup_kube_config_ struct kube_config config;
	int r;

	kube_config_init(&config);
	r = kube_config_load(options->kubeconfig, options->context, &config, err);
	if (r < 0)
		return r;
	return kube_client_new(program->scheduler.loop, &config, "ration-scheduler/" RATION_VERSION,
		&program->scheduler.client, err);
}

static int start_watches(struct scheduler *scheduler, const struct options *options)
{
	int r = sync_start(scheduler, &scheduler->sync);

	if (r == 0)
		r = budget_sync_start(scheduler, &scheduler->budget_sync);
	if (r == 0)
		r = policies_start(scheduler, &scheduler->policies);
	if (r == 0)
		r = ledger_lease_start(scheduler, options->scheduler_lease, &scheduler->lease);
	return r;
}

static int program_start(struct program *program, const struct options *options, struct error *err)
{
	struct scheduler *scheduler = &program->scheduler;
	const struct gang_rules gang_rules = {.keep_after_ns = options->gang_keep_after * NS_PER_S,
		.timeout_ns = options->gang_timeout * NS_PER_S};
	int r;

	core_init(&scheduler->core, &gang_rules);
	bind_start(scheduler);
	resizes_start(scheduler);
	evictions_start(scheduler);
	scheduler->best_nodes = options->best_nodes;
	scheduler->max_pods_per_gpu = options->max_pods_per_gpu;
	scheduler->job_mixing = options->job_mixing;
	if ((r = loop_new(&scheduler->loop)) < 0 ||
		(r = loop_add_signal(scheduler->loop, SIGTERM, on_signal, program)) < 0 ||
		(r = loop_add_signal(scheduler->loop, SIGINT, on_signal, program)) < 0 ||
		(r = loop_add_timer(scheduler->loop, on_tick, program, &program->tick)) < 0 ||
		(r = loop_add_timer(scheduler->loop, on_drain, program, &program->drain)) < 0 ||
		(r = recorder_new(&scheduler->recorder)) < 0 ||
		(r = event_log_new(scheduler, &scheduler->event_log)) < 0 ||
		(r = requeuer_new(scheduler, &scheduler->requeuer)) < 0 ||
		(r = gang_controller_new(scheduler, &scheduler->gangs)) < 0 ||
		(r = actuator_new(scheduler, &scheduler->actuator)) < 0)
		return error_set(err, -r, "cannot start: %s", strerror(-r));
	if ((r = program_connect(program, options, err)) < 0 ||
		(r = listen_on(program, options->listen, on_verb, BODY_MAX, &program->verbs, err)) < 0 ||
		(r = listen_on(program, options->probes, on_probe, 1024, &program->probes, err)) < 0 ||
		(options->metrics && (r = listen_on(program, options->metrics, on_scrape, 1024,
					      &program->metrics, err)) < 0) ||
		(options->webhook && (r = start_webhook(scheduler, options, err)) < 0))
		return r;
	r = start_watches(scheduler, options);
	if (r < 0)
		return error_set(err, -r, "cannot watch the API server: %s", strerror(-r));
	loop_timer_set(program->tick, NS_PER_MS); /* at once: who must ask before it can begin, asks */
	return 0;
}

static void program_stop(struct program *program)
{
	struct scheduler *scheduler = &program->scheduler;

	ledger_lease_stop(scheduler->lease);
	webhook_stop(scheduler->webhook);
	sync_stop(scheduler->sync);
	budget_sync_stop(scheduler->budget_sync);
	gang_controller_stop(scheduler->gangs);
	policies_stop(scheduler->policies);
	if (scheduler->core.binds.n_open)
		return; /* peers still wait: the kernel closes their connections */
	event_log_stop(scheduler->event_log);
	http_server_free(program->verbs);
	http_server_free(program->probes);
	http_server_free(program->metrics);
	kube_client_free(scheduler->client);
	actuator_free(scheduler->actuator);
	gang_controller_free(scheduler->gangs);
	requeuer_free(scheduler->requeuer);
	event_log_free(scheduler->event_log);
	recorder_free(scheduler->recorder);
	loop_timer_remove(program->tick);
	loop_timer_remove(program->drain);
	core_release(&scheduler->core);
	loop_free(scheduler->loop);
}

int main(int argc, char **argv)
{
	struct options options = {.listen = "127.0.0.1:" SCHEDULER_PORT,
		.probes = "0.0.0.0:39998",
		.scheduler_lease = LEASE_DEFAULT,
		.webhook_listen = "0.0.0.0:39994",
		.best_nodes = 16,
		.gang_timeout = 60,
		.gang_keep_after = 300,
		.log_level = LOG_LEVEL_INFO};
	struct program program = {0};
	struct error err = {0};
	int status = options_parse(argc, argv, &options);

	if (status >= 0)
		return status;
	log_open("ration-scheduler", options.log_level);
	signal(SIGPIPE, SIG_IGN);
	if (options.uninstall)
		return uninstall(options.kubeconfig, options.uninstall, options.scheduler_lease);
	if (program_start(&program, &options, &err) < 0) {
		log_error("%s", err.text);
		program_stop(&program);
		return 1;
	}
	log_info("version " RATION_VERSION ", verbs on port %u, probes on port %u",
		http_server_port(program.verbs), http_server_port(program.probes));
	status = loop_run(program.scheduler.loop);
	program_stop(&program);
	return status < 0 ? 1 : status;
}
