#include "kube/client-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "net/loop.h"

/* More than the number of requests that are under way in any program. A request that waits inside curl for a
 * connection is not cut off at its time limit (curl 7.88). Over HTTP/2 one connection carries all. */
#define CONNECTIONS_MAX 128L

/* ---- curl's sockets and its timer on the loop ---- */

static void client_read_answers(struct kube_client *client);

static void client_on_socket(void *userdata, int fd, uint32_t events)
{
	struct kube_client *client = userdata;
	int running, bits = 0;

	bits |= events & EPOLLIN ? CURL_CSELECT_IN : 0;
	bits |= events & EPOLLOUT ? CURL_CSELECT_OUT : 0;
	bits |= events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0;
	curl_multi_socket_action(client->multi, fd, bits, &running);
	client_read_answers(client);
}

static void client_on_curl_timer(void *userdata)
{
	struct kube_client *client = userdata;
	int running;

	curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	client_read_answers(client);
}

static int curl_wants_timer(CURLM *multi, long timeout_ms, void *userdata)
{
	struct kube_client *client = userdata;

	if (timeout_ms < 0)
		loop_timer_stop(client->curl_timer);
	else
		loop_timer_set(client->curl_timer, timeout_ms * NS_PER_MS);
	return 0;
}

static int curl_wants_socket(CURL *easy, curl_socket_t fd, int what, void *userdata, void *socket_data)
{
	struct kube_client *client = userdata;
	struct loop_io *io = socket_data;
	uint32_t events = 0;

	if (what == CURL_POLL_REMOVE) {
		loop_io_remove(io);
		curl_multi_assign(client->multi, fd, NULL);
		return 0;
	}
	events |= what & CURL_POLL_IN ? EPOLLIN : 0;
	events |= what & CURL_POLL_OUT ? EPOLLOUT : 0;
	if (io)
		return loop_io_set_events(io, events) < 0 ? -1 : 0;
	if (loop_add_io(client->loop, fd, events, client_on_socket, client, &io) < 0)
		return -1;
	curl_multi_assign(client->multi, fd, io);
	return 0;
}

static struct kube_request *take_first(struct list *head)
{
	struct kube_request *request = list_entry(head->next, struct kube_request, item);

	list_remove(&request->item);
	return request;
}

void client_leave_answers(struct kube_client *client)
{
	client->in_answers--;
	if (client->freed && !client->in_answers)
		kube_client_free(client);
}

/* Does everything that curl does not accept from within its callbacks. */
static void client_work(void *userdata)
{
	struct kube_client *client = userdata;

	client->in_answers++;
	while (!list_empty(&client->cancelled))
		request_free(take_first(&client->cancelled));
	while (!client->freed && !list_empty(&client->waiting))
		request_start(take_first(&client->waiting));
	client_leave_answers(client);
}

static void client_read_answers(struct kube_client *client)
{
	struct kube_request *request;
	CURLMsg *message;
	int left;

	client->in_answers++;
	while (!client->freed && (message = curl_multi_info_read(client->multi, &left))) {
		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
		request_done(request, message->data.result);
	}
	client_leave_answers(client);
}

/* ---- the client ---- */

static int copy_or_null(const char *text, char **ret_copy)
{
	*ret_copy = text ? strdup(text) : NULL;
	return text && !*ret_copy ? -ENOMEM : 0;
}

static int copy_config(const struct kube_config *from, struct kube_config *to)
{
	kube_config_init(to);
	to->insecure = from->insecure;
	if (copy_or_null(from->server, &to->server) < 0 || copy_or_null(from->ca_file, &to->ca_file) < 0 ||
		copy_or_null(from->ca_data, &to->ca_data) < 0 ||
		copy_or_null(from->client_cert_file, &to->client_cert_file) < 0 ||
		copy_or_null(from->client_cert_data, &to->client_cert_data) < 0 ||
		copy_or_null(from->client_key_file, &to->client_key_file) < 0 ||
		copy_or_null(from->client_key_data, &to->client_key_data) < 0 ||
		copy_or_null(from->token_file, &to->token_file) < 0 ||
		copy_or_null(from->token, &to->token) < 0 ||
		copy_or_null(from->tls_server_name, &to->tls_server_name) < 0 ||
		copy_or_null(from->namespace_, &to->namespace_) < 0)
		return -ENOMEM;
	return 0;
}

static void curl_free_ptr(char **text)
{
	curl_free(*text);
}

static void curl_url_cleanup_ptr(CURLU **url)
{
	curl_url_cleanup(*url);
}

static void client_free_ptr(struct kube_client **client)
{
	kube_client_free(*client);
}

/* For a server that must be verified under another name. The URL has that name (curl takes SNI and the name
 * to verify from it), and CONNECT_TO has the address. */
static int set_alias(struct kube_client *client, CURLU *url)
{
	_cleanup_(curl_free_ptr) char *host = NULL, *port = NULL, *whole = NULL;
	_cleanup_free_ char *target = NULL;

	if (curl_url_get(url, CURLUPART_HOST, &host, 0) != CURLUE_OK ||
		curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK ||
		curl_url_set(url, CURLUPART_HOST, client->config.tls_server_name, 0) != CURLUE_OK ||
		curl_url_get(url, CURLUPART_URL, &whole, CURLU_NO_DEFAULT_PORT) != CURLUE_OK)
		return -EINVAL;
	if (asprintf(&target, "::%s:%s", host, port) < 0) {
		target = NULL;
		return -ENOMEM;
	}
	client->connect_to = curl_slist_append(NULL, target);
	client->url = strndup(whole, strlen(whole) - (whole[strlen(whole) - 1] == '/'));
	return client->connect_to && client->url ? 0 : -ENOMEM;
}

static int set_url(struct kube_client *client, struct error *err)
{
	_cleanup_(curl_url_cleanup_ptr) CURLU *url = curl_url();
	int r = 0;

	if (!url)
		return error_set(err, ENOMEM, "out of memory");
	if (!client->config.server || curl_url_set(url, CURLUPART_URL, client->config.server, 0) != CURLUE_OK)
		return error_set(err, EINVAL, "API server \"%s\" is no address",
			client->config.server ? client->config.server : "");
	if (client->config.tls_server_name)
		r = set_alias(client, url);
	else
		r = copy_or_null(client->config.server, &client->url);
	if (r < 0)
		return error_set(err, -r, "API server %s: tls-server-name \"%s\" cannot be used",
			client->config.server, client->config.tls_server_name);
	return 0;
}

static int open_multi(struct kube_client *client)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
	client->multi = curl_multi_init();
	if (!client->multi)
		return -ENOMEM;
	curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, curl_wants_socket);
	curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
	curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, curl_wants_timer);
	curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
	curl_multi_setopt(client->multi, CURLMOPT_MAX_HOST_CONNECTIONS, CONNECTIONS_MAX);
	return 0;
}

int kube_client_new(struct loop *loop, const struct kube_config *config, const char *user_agent,
	struct kube_client **ret_client, struct error *err)
{
	_cleanup_(client_free_ptr) struct kube_client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return error_set(err, ENOMEM, "out of memory");
	client->loop = loop;
	list_init(&client->waiting);
	list_init(&client->active);
	list_init(&client->cancelled);
	credentials_init(&client->credentials, &client->config);
	if (copy_config(config, &client->config) < 0 || copy_or_null(user_agent, &client->user_agent) < 0 ||
		loop_add_timer(loop, client_on_curl_timer, client, &client->curl_timer) < 0 ||
		loop_add_timer(loop, client_work, client, &client->work_timer) < 0 || open_multi(client) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = set_url(client, err);
	if (r < 0)
		return r;
	*ret_client = TAKE_PTR(client);
	return 0;
}

void kube_client_free(struct kube_client *client)
{
	struct list *lists[3];

	if (!client)
		return;
	if (client->in_curl || client->in_answers) {
		client->freed = true;
		list_for_each (item, &client->active)
			list_entry(item, struct kube_request, item)->cancelled = true;
		return;
	}
	lists[0] = &client->waiting;
	lists[1] = &client->active;
	lists[2] = &client->cancelled;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		while (!list_empty(lists[i]))
			request_free(take_first(lists[i]));
	if (client->multi)
		curl_multi_cleanup(client->multi);
	loop_timer_remove(client->curl_timer);
	loop_timer_remove(client->work_timer);
	credentials_release(&client->credentials);
	curl_slist_free_all(client->connect_to);
	kube_config_release(&client->config);
	free(client->user_agent);
	free(client->url);
	free(client);
}

const uint64_t *kube_client_results(const struct kube_client *client)
{
	return client->results;
}
