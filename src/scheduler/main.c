/* main.c - starts ration-scheduler: its HTTP servers, its timers, its signals, and its end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "core/gang/gang.h"
#include "kube/blocking-client.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/names.h"
#include "net/http-server.h"
#include "net/loop.h"
#include "scheduler/actuator.h"
#include "scheduler/event-log.h"
#include "scheduler/gangs.h"
#include "scheduler/lease.h"
#include "scheduler/options.h"
#include "scheduler/pages.h"
#include "scheduler/policies.h"
#include "scheduler/recorder.h"
#include "scheduler/requeue.h"
#include "scheduler/scheduler.h"
#include "scheduler/sync.h"
#include "scheduler/verbs.h"
#include "scheduler/webhook.h"

/* 5,000 node names of at most 253 bytes and a pod of at most 1.5 MiB (etcd's limit) fit well. */
#define BODY_MAX (8 << 20)
/* The maximum delay of what ends by time; a pod that fits then waits this long. */
#define TICK_NS NS_PER_S
#define DRAIN_STEP_NS (20 * NS_PER_MS)
#define DRAIN_STEPS 200
/* API servers learn from the Service's EndpointSlice that this replica ends. Until then it answers their
 * reviews, because a new pod whose review fails would not get ration's scheduler. */
#define DRAIN_STEPS_WEBHOOK 150

struct program {
	struct scheduler scheduler;
	struct http_server *verbs, *probes, *metrics;
	struct loop_timer *tick, *drain;
	unsigned drain_steps;
};

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
			"POST /filter, /prioritize, /bind, /preempt, /levels/filter, /levels/prioritize, /levels/preempt, /simulate/filter; GET /inspect, /inspect/NODE, /metrics, /why?namespace=NS&name=POD, /history\n");
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

static int listen_on(struct program *program, const struct option_address *where, http_handler_fn handler,
	size_t max_body, struct http_server **ret_server, struct error *err)
{
	return http_server_new(program->scheduler.loop, where->text, where->port, max_body, handler, program,
		ret_server, err);
}

static int start_webhook(
	struct scheduler *scheduler, const struct scheduler_options *options, struct error *err)
{
	int r = webhook_start(scheduler, options->webhook, options->webhook_listen.text,
		options->webhook_listen.port, &scheduler->webhook, err);

	if (r == 0)
		log_info("webhook on port %u", webhook_port(scheduler->webhook));
	return r;
}

/* Holds, nominations and orphans must end by time even if kube-scheduler does not call filter. A pod that
 * fits after that need not wait for the next event of the cluster. */
static void on_tick(void *userdata)
{
	struct program *program = userdata;

	core_tick(&program->scheduler.core, monotonic_ns());
	sync_tick(program->scheduler.sync);
	gang_controller_tick(program->scheduler.gangs);
	policies_tick(program->scheduler.policies);
	loop_timer_set(program->tick, TICK_NS);
}

/* Bindings in flight are answered before this process ends. Their deadline is shorter than the time that it
 * waits. */
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

static int program_connect(
	struct program *program, const struct scheduler_options *options, struct error *err)
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

static int start_watches(struct scheduler *scheduler, const struct scheduler_options *options)
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

static int program_start(struct program *program, const struct scheduler_options *options, struct error *err)
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
	scheduler->core.ledger.node_order = options->node_order;
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
		(r = listen_on(program, &options->listen, on_verb, BODY_MAX, &program->verbs, err)) < 0 ||
		(r = listen_on(program, &options->probes, on_probe, 1024, &program->probes, err)) < 0 ||
		(*options->metrics.text && (r = listen_on(program, &options->metrics, on_scrape, 1024,
						    &program->metrics, err)) < 0) ||
		(options->webhook && (r = start_webhook(scheduler, options, err)) < 0))
		return r;
	r = start_watches(scheduler, options);
	if (r < 0)
		return error_set(err, -r, "cannot watch the API server: %s", strerror(-r));
	loop_timer_set(
		program->tick, NS_PER_MS); /* at once: parts that must ask the API server first, do so */
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
		return; /* callers still wait: the kernel closes their connections */
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

#define REPLICAS_END_S 90 /* kube-scheduler has the pod's 30 s to end */

/* where: NAMESPACE/NAME. */
static int path_of(const char *group, const char *collection, const char *where, char *buf, size_t size)
{
	const char *slash = strchr(where, '/');

	return slash && (size_t)snprintf(buf, size, "/apis/%s/namespaces/%.*s/%s/%s", group,
				(int)(slash - where), where, collection, slash + 1) < size
		       ? 0
		       : -EINVAL;
}

static int delete_lease(struct blocking_client *client, const char *where, struct error *err)
{
	char path[600];

	if (path_of("coordination.k8s.io/v1", "leases", where, path, sizeof(path)) < 0)
		return error_set(err, EINVAL, "--scheduler-lease %s: must be NAMESPACE/NAME", where);
	return blocking_client_delete(client, path, err);
}

/* uninstall() - ends all replicas by deleting owner (NAMESPACE/DEPLOYMENT), then their two Leases: lease
 * (NAMESPACE/NAME, kube-scheduler's) and ration-ledger. Placements of pods stay: a later release takes them
 * over. Returns the exit status; may be run again. */
static int uninstall(const char *kubeconfig, const char *owner, const char *lease)
{
	struct blocking_client *client = NULL;
	struct error err = {""};
	char path[600];
	int r = blocking_client_new(kubeconfig, "ration-scheduler/" RATION_VERSION, &client, &err);

	if (r == 0 && path_of("apps/v1", "deployments", owner, path, sizeof(path)) < 0)
		r = error_set(&err, EINVAL, "--uninstall %s: must be NAMESPACE/DEPLOYMENT", owner);
	if (r == 0)
		r = blocking_client_end(client, path, REPLICAS_END_S, &err);
	if (r == 0)
		r = delete_lease(client, lease, &err);
	if (r == 0)
		r = delete_lease(client, NAMESPACE_SYSTEM "/" LEASE_LEDGER, &err);
	blocking_client_free(client);
	if (r < 0)
		log_error("%s", err.text);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct scheduler_options options;
	struct program program = {0};
	struct error err = {0};
	int status = scheduler_options_parse(argc, argv, &options);

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
