#include "kube/farewell.h"

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

struct farewell {
	struct loop *loop;
	struct kube_client *client;
};

/* One request on its way. */
struct asked {
	struct farewell *farewell;
	const char *method, *path;
	struct json_object *answer;
	struct error *err;
	int result;
};

int farewell_new(
	const char *kubeconfig, const char *user_agent, struct farewell **ret_farewell, struct error *err)
{
	struct farewell *farewell = calloc(1, sizeof(*farewell));
	_cleanup_kube_config_ struct kube_config config;
	int r = farewell ? loop_new(&farewell->loop) : -ENOMEM;

	kube_config_init(&config);
	if (r < 0)
		error_set(err, -r, "cannot create the event loop");
	else
		r = kube_config_load(kubeconfig, NULL, &config, err);
	if (r == 0)
		r = kube_client_new(farewell->loop, &config, user_agent, &farewell->client, err);
	if (r < 0)
		farewell_free(farewell);
	else
		*ret_farewell = farewell;
	return r;
}

void farewell_free(struct farewell *farewell)
{
	if (!farewell)
		return;
	kube_client_free(farewell->client);
	loop_free(farewell->loop);
	free(farewell);
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
	loop_quit(asked->farewell->loop, 0);
}

static int ask(struct farewell *farewell, const char *method, const char *path, const char *patch,
	struct json_object **ret_answer, struct error *err)
{
	struct asked asked = {.farewell = farewell, .method = method, .path = path, .err = err};
	int r = kube_request(farewell->client, method, path, patch ? KUBE_CONTENT_STRATEGIC_PATCH : NULL,
		patch, TIMEOUT_MS, on_answer, &asked, NULL);

	if (r < 0)
		return error_set(err, -r, "%s %s: %s", method, path, strerror(-r));
	r = loop_run(farewell->loop);
	if (r < 0)
		return error_set(err, -r, "cannot go on: %s", strerror(-r));
	if (asked.result == 0 && ret_answer)
		*ret_answer = asked.answer;
	else
		json_object_put(asked.answer);
	return asked.result;
}

int farewell_get(
	struct farewell *farewell, const char *path, struct json_object **ret_object, struct error *err)
{
	return ask(farewell, "GET", path, NULL, ret_object, err);
}

int farewell_patch(struct farewell *farewell, const char *path, const char *patch, struct error *err)
{
	int r = ask(farewell, "PATCH", path, patch, NULL, err);

	return r == -ENOENT ? 0 : r;
}

int farewell_delete(struct farewell *farewell, const char *path, struct error *err)
{
	int r = ask(farewell, "DELETE", path, NULL, NULL, err);

	return r == -ENOENT ? 0 : r;
}

int farewell_end(struct farewell *farewell, const char *path, unsigned seconds, struct error *err)
{
	const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
	int64_t until = monotonic_ns() + seconds * NS_PER_S;
	struct error ignored;
	char with[600];
	int r;

	if ((size_t)snprintf(with, sizeof(with), "%s?propagationPolicy=Foreground", path) >= sizeof(with))
		return error_set(err, ENAMETOOLONG, "%s: the name is too long", path);
	r = farewell_delete(farewell, with, err);
	if (r < 0)
		return r;
	while ((r = ask(farewell, "GET", path, NULL, NULL, &ignored)) != -ENOENT) {
		if (monotonic_ns() > until)
			return error_set(err, ETIMEDOUT, "%s: its pods have not ended within %u s%s%s", path,
				seconds, r < 0 ? ": " : "", r < 0 ? ignored.text : "");
		nanosleep(&pause, NULL);
	}
	return 0;
}
