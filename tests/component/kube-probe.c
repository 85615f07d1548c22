/* kube-probe - src/kube/ with a command line, for test_kube*.py:
 *   kube-probe [--kubeconfig F] [--context C] [--idle-ms N] [--timeout-ms N] [--times N] VERB ...
 *     config                                     what was loaded, one key=value a line
 *     watch COLLECTION [QUERY]                   object UID NAME VERSION | deleted UID NAME-or-- | synced
 *     request METHOD PATH [BODY [TYPE]]          result=R status=S len=N text=...   (--times: one after the
 * other) together METHOD PATH                       the same, --times requests at once stream PATH data=N
 * ..., then as request cancel PATH                                starts a stream and cancels it from within
 * its own data event KIND NAMESPACE NAME UID TYPE REASON MESSAGE Everything is printed at once. `watch` ends
 * when its stdin does. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/event.h"
#include "kube/json.h"
#include "kube/watch.h"
#include "net/loop.h"

struct probe {
	struct loop *loop;
	struct kube_client *client;
	struct kube_request *stream;
	struct kube_watch *watch;
	char **args;
	int idle_ms, timeout_ms, times, open;
};

static const char *meta(struct json_object *object, const char *key)
{
	const char *text = json_member_string(json_member(object, "metadata"), key);

	return text ? text : "-";
}

static void on_object(void *userdata, struct json_object *object)
{
	printf("object %s %s %s\n", meta(object, "uid"), meta(object, "name"),
		meta(object, "resourceVersion"));
}

static void on_deleted(void *userdata, const char *uid, struct json_object *last)
{
	printf("deleted %s %s\n", uid, last ? meta(last, "name") : "-");
}

static void on_synced(void *userdata)
{
	printf("synced\n");
}

static void on_stdin(void *userdata, int fd, uint32_t events)
{
	struct probe *probe = userdata;
	char buf[64];

	if (read(fd, buf, sizeof(buf)) > 0) {
		printf("connected=%d synced=%d\n", kube_watch_connected(probe->watch),
			kube_watch_synced(probe->watch));
		return;
	}
	loop_quit(probe->loop, 0);
}

static int verb_watch(struct probe *probe)
{
	static const struct kube_watch_ops ops = {on_object, on_deleted, on_synced};
	struct loop_io *io = NULL;
	int r;

	r = kube_watch_start(
		probe->client, probe->loop, probe->args[0], probe->args[1], &ops, NULL, &probe->watch);
	if (r == 0 && probe->idle_ms)
		kube_watch_set_idle_ms(probe->watch, probe->idle_ms);
	if (r == 0)
		r = loop_add_io(probe->loop, STDIN_FILENO, EPOLLIN, on_stdin, probe, &io);
	if (r == 0)
		r = loop_run(probe->loop);
	loop_io_remove(io);
	kube_watch_free(probe->watch);
	return r;
}

static void start_request(struct probe *probe);

static void on_response(void *userdata, const struct kube_response *response)
{
	struct probe *probe = userdata;

	printf("result=%d status=%ld len=%zu text=%s\n", response->result, response->status,
		response->body_len, response->text);
	if (--probe->open == 0 && --probe->times <= 0)
		loop_quit(probe->loop, 0);
	else if (probe->open == 0)
		start_request(probe);
}

static void start_request(struct probe *probe)
{
	char **args = probe->args;
	const char *type = args[2] && args[3] ? args[3] : args[2] ? KUBE_CONTENT_JSON : NULL;

	probe->open = 1;
	if (kube_request(probe->client, args[0], args[1], type, args[2], probe->timeout_ms, on_response,
		    probe, NULL) < 0)
		loop_quit(probe->loop, 1);
}

static int verb_request(struct probe *probe)
{
	start_request(probe);
	return loop_run(probe->loop);
}

static int verb_together(struct probe *probe)
{
	int n = probe->times;

	for (int i = 0; i < n; i++)
		start_request(probe);
	probe->open = n;
	probe->times = 1;
	return loop_run(probe->loop);
}

static int on_data(void *userdata, const char *data, size_t len)
{
	printf("data=%zu\n", len);
	return 0;
}

static int verb_stream(struct probe *probe)
{
	probe->open = probe->times = 1;
	if (kube_stream(probe->client, probe->args[0], probe->idle_ms ? probe->idle_ms : 5000, on_data,
		    on_response, probe, NULL) < 0)
		return 1;
	return loop_run(probe->loop);
}

/* Everything that is forbidden to curl from within its callbacks, from within one. */
static int on_data_cancel(void *userdata, const char *data, size_t len)
{
	struct probe *probe = userdata;

	if (len == 0)
		return 0;
	printf("data=%zu\n", len);
	kube_request_cancel(TAKE_PTR(probe->stream));
	probe->args = (char *[]){"GET", "/version", NULL};
	start_request(probe);
	return 0;
}

static int verb_cancel(struct probe *probe)
{
	probe->times = 1;
	if (kube_stream(probe->client, probe->args[0], 5000, on_data_cancel, on_response, probe,
		    &probe->stream) < 0)
		return 1;
	return loop_run(probe->loop);
}

static int verb_event(struct probe *probe)
{
	char **a = probe->args;
	struct kube_object_ref ref = {"v1", a[0], a[1], a[2], a[3]};

	for (int i = 0; i < probe->times; i++)
		kube_event_post(probe->client, &ref, a[4], a[5], a[6], "kube-probe", "here");
	/* No answer is given: as long as the caller lets stdin open. */
	struct loop_io *io = NULL;
	int r = loop_add_io(probe->loop, STDIN_FILENO, EPOLLIN, on_stdin, probe, &io);

	if (r == 0)
		r = loop_run(probe->loop);
	loop_io_remove(io);
	return r;
}

static int verb_config(const struct kube_config *config)
{
	const struct {
		const char *key, *value;
	} lines[] = {{"server", config->server}, {"ca_file", config->ca_file}, {"ca_data", config->ca_data},
		{"client_cert_file", config->client_cert_file},
		{"client_cert_data", config->client_cert_data}, {"client_key_file", config->client_key_file},
		{"client_key_data", config->client_key_data}, {"token_file", config->token_file},
		{"token", config->token}, {"tls_server_name", config->tls_server_name},
		{"namespace", config->namespace_}, {"insecure", config->insecure ? "true" : "false"}};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (lines[i].value)
			printf("%s=%s\n", lines[i].key, lines[i].value);
	return 0;
}

static int run_verb(struct probe *probe, const char *verb)
{
	static const struct {
		const char *name;
		int min_args;
		int (*run)(struct probe *);
	} verbs[] = {{"watch", 1, verb_watch}, {"request", 2, verb_request}, {"together", 2, verb_together},
		{"stream", 1, verb_stream}, {"cancel", 1, verb_cancel}, {"event", 7, verb_event}};
	int n = 0;

	while (probe->args[n])
		n++;
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(verbs[i].name, verb) == 0 && n >= verbs[i].min_args)
			return verbs[i].run(probe);
	fprintf(stderr, "kube-probe: no such verb, or too few arguments: %s\n", verb);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"kubeconfig", 1, NULL, 'k'}, {"context", 1, NULL, 'c'},
		{"idle-ms", 1, NULL, 'i'}, {"timeout-ms", 1, NULL, 't'}, {"times", 1, NULL, 'n'}, {0}};
	_cleanup_kube_config_ struct kube_config config;
	_cleanup_(loop_free_ptr) struct loop *loop = NULL;
	const char *kubeconfig = NULL, *context = NULL;
	struct probe probe = {.timeout_ms = 5000, .times = 1};
	struct error err;
	int option, r;

	kube_config_init(&config);
	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		switch (option) {
		case 'k':
			kubeconfig = optarg;
			break;
		case 'c':
			context = optarg;
			break;
		case 'i':
			probe.idle_ms = atoi(optarg);
			break;
		case 't':
			probe.timeout_ms = atoi(optarg);
			break;
		case 'n':
			probe.times = atoi(optarg);
			break;
		default:
			return 2;
		}
	}
	if (optind >= argc)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	log_open("kube-probe", LOG_LEVEL_DEBUG);
	r = kube_config_load(kubeconfig, context, &config, &err);
	if (r == 0 && strcmp(argv[optind], "config") == 0)
		return verb_config(&config);
	if (r == 0 && loop_new(&loop) < 0)
		return 1;
	if (r == 0)
		r = kube_client_new(loop, &config, "kube-probe/1", &probe.client, &err);
	if (r < 0) {
		fprintf(stderr, "kube-probe: %s (%s)\n", err.text, strerrorname_np(-r));
		return 1;
	}
	probe.loop = loop;
	probe.args = argv + optind + 1;
	r = run_verb(&probe, argv[optind]);
	kube_client_free(probe.client);
	return r < 0 ? 1 : r;
}
