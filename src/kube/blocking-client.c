#include "kube/blocking-client.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/json.h"
#include "net/loop.h"

#define TIMEOUT_MS 20000
#define LOOK_AGAIN_NS (300 * NS_PER_MS)

struct blocking_client {
	struct loop *loop;
	struct kube_client *client;
};

/* One request on its way. */
struct asked {
	struct blocking_client *client;
	const char *method, *path;
	struct json_object *answer;
	struct error *err;
	int result;
};

int blocking_client_new(const char *kubeconfig, const char *user_agent, struct blocking_client **ret_client,
	struct error *err)
{
	struct blocking_client *client = calloc(1, sizeof(*client));
	_cleanup_kube_config_ struct kube_config config;
	int r = client ? loop_new(&client->loop) : -ENOMEM;

	kube_config_init(&config);
	if (r < 0)
		error_set(err, -r, "cannot create the event loop");
	else
		r = kube_config_load(kubeconfig, NULL, &config, err);
	if (r == 0)
		r = kube_client_new(client->loop, &config, user_agent, &client->client, err);
	if (r < 0)
		blocking_client_free(client);
	else
		*ret_client = client;
	return r;
}

void blocking_client_free(struct blocking_client *client)
{
	if (!client)
		return;
	kube_client_free(client->client);
	loop_free(client->loop);
	free(client);
}

static void on_answer(void *userdata, const struct kube_response *response)
{
	struct asked *asked = userdata;

	if (response->result < 0)
		asked->result = error_set(asked->err, -response->result, "%s %s: %s", asked->method,
			asked->path, response->text);
	else if (response->status == 404)
		asked->result = error_set(asked->err, ENOENT, "%s is not there", asked->path);
	else if (response->status >= 300)
		asked->result = error_set(asked->err, EPROTO, "%s %s: the API server answered %ld: %s",
			asked->method, asked->path, response->status, response->text);
	else
		asked->result = json_parse(response->body, response->body_len, &asked->answer, asked->err);
	loop_quit(asked->client->loop, 0);
}

static int ask(struct blocking_client *client, const char *method, const char *path, const char *patch,
	struct json_object **ret_answer, struct error *err)
{
	struct asked asked = {.client = client, .method = method, .path = path, .err = err};
	int r = kube_request(client->client, method, path, patch ? KUBE_CONTENT_STRATEGIC_PATCH : NULL, patch,
		TIMEOUT_MS, on_answer, &asked, NULL);

	if (r < 0)
		return error_set(err, -r, "%s %s: %s", method, path, strerror(-r));
	r = loop_run(client->loop);
	if (r < 0)
		return error_set(err, -r, "cannot go on: %s", strerror(-r));
	if (asked.result == 0 && ret_answer)
		*ret_answer = asked.answer;
	else
		json_object_put(asked.answer);
	return asked.result;
}

int blocking_client_get(
	struct blocking_client *client, const char *path, struct json_object **ret_object, struct error *err)
{
	return ask(client, "GET", path, NULL, ret_object, err);
}

int blocking_client_patch(
	struct blocking_client *client, const char *path, const char *patch, struct error *err)
{
	int r = ask(client, "PATCH", path, patch, NULL, err);

	return r == -ENOENT ? 0 : r;
}

int blocking_client_delete(struct blocking_client *client, const char *path, struct error *err)
{
	int r = ask(client, "DELETE", path, NULL, NULL, err);

	return r == -ENOENT ? 0 : r;
}

int blocking_client_end(struct blocking_client *client, const char *path, unsigned seconds, struct error *err)
{
	const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
	int64_t until = monotonic_ns() + seconds * NS_PER_S;
	struct error ignored;
	char with[600];
	int r;

	if ((size_t)snprintf(with, sizeof(with), "%s?propagationPolicy=Foreground", path) >= sizeof(with))
		return error_set(err, ENAMETOOLONG, "%s: the name is too long", path);
	r = blocking_client_delete(client, with, err);
	if (r < 0)
		return r;
	while ((r = ask(client, "GET", path, NULL, NULL, &ignored)) != -ENOENT) {
		if (monotonic_ns() > until)
			return error_set(err, ETIMEDOUT, "%s: its pods have not ended within %u s%s%s", path,
				seconds, r < 0 ? ": " : "", r < 0 ? ignored.text : "");
		nanosleep(&pause, NULL);
	}
	return 0;
}
