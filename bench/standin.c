/* bench-standin - an extender that decides nothing: it passes K of the nodes it is asked about, or all of
 * them, scores them alike, and binds as ration-scheduler does, but without a ledger and without a GPU. What
 * an extender costs kube-scheduler when its own work costs nothing. */
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/parse.h"
#include "base/strbuf.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/json.h"
#include "net/http-server.h"
#include "net/loop.h"

#define BODY_MAX (8 << 20)
#define DEADLINE_MS 10000
static const char done[] = "{\"Error\":\"\"}";

struct standin {
	struct loop *loop;
	struct http_server *server;
	struct kube_client *client;
	uint32_t best; /* 0: all */
	size_t turn;   /* where the next answer begins, so that the pods are spread over the nodes */
};

static char *answer_filter(struct standin *standin, struct json_object *names)
{
	size_t n = json_object_array_length(names), k = n;
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out, BODY_MAX);
	if (standin->best && standin->best < n)
		k = standin->best;
	strbuf_adds(&out, "{\"NodeNames\":[");
	for (size_t i = 0; i < k; i++)
		strbuf_addf(&out, "%s\"%s\"", i ? "," : "",
			json_object_get_string(json_object_array_get_idx(names, (standin->turn + i) % n)));
	standin->turn++;
	strbuf_adds(&out, "],\"Error\":\"\"}");
	return strbuf_take(&out);
}

static char *answer_prioritize(struct json_object *names)
{
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out, BODY_MAX);
	strbuf_adds(&out, "[");
	for (size_t i = 0; i < json_object_array_length(names); i++)
		strbuf_addf(&out, "%s{\"Host\":\"%s\",\"Score\":0}", i ? "," : "",
			json_object_get_string(json_object_array_get_idx(names, i)));
	strbuf_adds(&out, "]");
	return strbuf_take(&out);
}

static void on_bound(void *userdata, const struct kube_response *response)
{
	struct http_call *call = userdata;
	_cleanup_strbuf_ struct strbuf out;

	strbuf_init(&out, BODY_MAX);
	if (response->result == 0 && response->status / 100 == 2)
		strbuf_adds(&out, done);
	else
		strbuf_addf(&out, "{\"Error\":\"status %ld\"}", response->status);
	http_call_reply(call, 200, "application/json", strbuf_take(&out));
}

static void standin_bind(struct standin *standin, struct http_call *call, struct json_object *root)
{
	const char *namespace_ = json_member_string(root, "PodNamespace"),
		   *name = json_member_string(root, "PodName"), *uid = json_member_string(root, "PodUID"),
		   *node = json_member_string(root, "Node");
	char path[700], body[1500];
	int r = -EINVAL;

	if (namespace_ && name && uid && node) {
		snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s/binding", namespace_, name);
		snprintf(body, sizeof(body),
			"{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"namespace\":\"%s\","
			"\"name\":"
			"\"%s\",\"uid\":\"%s\"},\"target\":{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":"
			"\"%s\"}}",
			namespace_, name, uid, node);
		r = kube_request(standin->client, "POST", path, KUBE_CONTENT_JSON, body, DEADLINE_MS,
			on_bound, call, NULL);
	}
	if (r < 0)
		http_call_reply(call, 200, "application/json", strdup("{\"Error\":\"cannot bind\"}"));
}

static void on_verb(void *userdata, struct http_call *call, const char *method, const char *path,
	const char *body, size_t len)
{
	_cleanup_json_ struct json_object *root = NULL;
	struct standin *standin = userdata;
	struct json_object *names = NULL;
	struct error err = {0};

	if (json_parse(body, len, &root, &err) == 0)
		names = json_member(root, "NodeNames");
	if (strcmp(path, "/bind") == 0)
		standin_bind(standin, call, root);
	else if (!json_object_is_type(names, json_type_array))
		http_call_reply(call, 200, "application/json", strdup("{\"Error\":\"no NodeNames\"}"));
	else if (strcmp(path, "/filter") == 0)
		http_call_reply(call, 200, "application/json", answer_filter(standin, names));
	else
		http_call_reply(call, 200, "application/json", answer_prioritize(names));
}

static int standin_start(struct standin *standin, const char *kubeconfig, struct error *err)
{
	_cleanup_kube_config_ struct kube_config config;
	int r;

	kube_config_init(&config);
	r = kube_config_load(kubeconfig, NULL, &config, err);
	if (r == 0)
		r = loop_new(&standin->loop);
	if (r == 0)
		r = kube_client_new(standin->loop, &config, "bench-standin", &standin->client, err);
	if (r == 0)
		r = http_server_new(
			standin->loop, "127.0.0.1", 0, BODY_MAX, on_verb, standin, &standin->server, err);
	return r;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {{"best-nodes", required_argument, NULL, 'k'},
		{"kubeconfig", required_argument, NULL, 'c'}, {0}};
	const char *kubeconfig = NULL;
	struct standin standin = {0};
	struct error err = {0};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (c == 'c')
			kubeconfig = optarg;
		else if (c != 'k' || parse_u32(optarg, 100000, &standin.best) < 0)
			return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	if (standin_start(&standin, kubeconfig, &err) < 0) {
		fprintf(stderr, "bench-standin: %s\n", err.text);
		return 1;
	}
	printf("%u\n", http_server_port(standin.server));
	fflush(stdout);
	return loop_run(standin.loop) < 0;
}
