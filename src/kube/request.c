/* request.c - one HTTP request to the API server, from its start to its answer. */
#include "kube/client-internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <json-c/json.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "kube/config.h"
#include "kube/json.h"
#include "net/loop.h"

#define ANSWER_MAX (16 * 1024 * 1024)
#define CONNECT_TIMEOUT_MS 10000L
/* After this time the kernel detects a peer that has disappeared, whatever HTTP version shares the
 * connection. */
#define DEAD_PEER_MS 20000

/* ---- what curl says about a transfer that failed ---- */

struct failure {
	CURLcode code;
	int errnum;
	const char *what;
	const char *next; /* what to do about it, or NULL */
};

static const struct failure failures[] = {
	{CURLE_COULDNT_RESOLVE_HOST, EHOSTUNREACH, "its name cannot be resolved",
		"check the server's name and this machine's DNS"},
	{CURLE_COULDNT_CONNECT, ECONNREFUSED, "no connection", "is it running, and reachable from here?"},
	{CURLE_OPERATION_TIMEDOUT, ETIMEDOUT, "no answer in time", NULL},
	{CURLE_PEER_FAILED_VERIFICATION, EPROTO, "its certificate is not trusted",
		"check the certificate authority and the server's name in the kubeconfig"},
	{CURLE_SSL_CACERT_BADFILE, EPROTO, "our certificate authority cannot be read",
		"check certificate-authority in the kubeconfig"},
	{CURLE_SSL_CERTPROBLEM, EPROTO, "our client certificate or its key cannot be used",
		"check client-certificate and client-key in the kubeconfig"},
	{CURLE_SSL_CONNECT_ERROR, EPROTO, "TLS failed", "does the server speak TLS on this port?"},
	{CURLE_SSL_CIPHER, EPROTO, "TLS failed: no common cipher", NULL},
	{CURLE_GOT_NOTHING, ECONNRESET, "it closed the connection without an answer", NULL},
	{CURLE_RECV_ERROR, ECONNRESET, "the connection was cut", NULL},
	{CURLE_SEND_ERROR, ECONNRESET, "the connection was cut", NULL},
	{CURLE_PARTIAL_FILE, ECONNRESET, "the connection was cut in the middle of the answer", NULL},
	{CURLE_HTTP2, ECONNRESET, "the HTTP/2 connection failed", NULL},
	{CURLE_HTTP2_STREAM, ECONNRESET, "the HTTP/2 stream was cut", NULL},
	{CURLE_WEIRD_SERVER_REPLY, EPROTO, "it does not speak HTTP", "check the server's port"},
	{CURLE_UNSUPPORTED_PROTOCOL, EPROTO, "it does not speak HTTP", "check the server's port"},
	{CURLE_BAD_CONTENT_ENCODING, EPROTO, "its answer is garbled", NULL},
	{CURLE_URL_MALFORMAT, EINVAL, "the address is malformed", NULL},
	{CURLE_OUT_OF_MEMORY, ENOMEM, "out of memory", NULL},
};

/* Writes an errno and a sentence that names the server and, if there is one, the next step. detail: curl's
 * own words (CURLOPT_ERRORBUFFER), may be "". */
static int failure_describe(
	CURLcode code, const char *detail, const struct kube_config *config, struct error *err)
{
	struct failure failure = {code, EIO, curl_easy_strerror(code), NULL};

	for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
		if (failures[i].code == code)
			failure = failures[i];
	if (!detail[0])
		detail = curl_easy_strerror(code);
	return error_set(err, failure.errnum, "API server %s: %s (%s)%s%s", config->server, failure.what,
		detail, failure.next ? "; " : "", failure.next ? failure.next : "");
}

/* ---- its end ---- */

void request_free(struct kube_request *request)
{
	if (request->started)
		curl_multi_remove_handle(request->client->multi, request->easy);
	curl_easy_cleanup(request->easy);
	curl_slist_free_all(request->headers);
	loop_timer_remove(request->idle_timer);
	strbuf_release(&request->answer);
	list_remove(&request->item);
	free(request);
}

/* The message of a Status object, for users; without one, only the status. */
static void describe_status(const struct kube_request *request, long status, struct error *err)
{
	_cleanup_json_ struct json_object *object = NULL;
	const char *message = NULL;

	if (json_parse(strbuf_cstr(&request->answer), request->answer.len, &object, NULL) == 0)
		message = json_member_string(object, "message");
	if (message && *message)
		error_set(err, 0, "%s", message);
	else if (status >= 300 && status < 400)
		error_set(err, 0, "HTTP %ld: API server %s redirects, which we do not follow", status,
			request->client->config.server);
	else
		error_set(err, 0, "HTTP %ld from API server %s", status, request->client->config.server);
}

static void request_count(const struct kube_request *request, int result, long status)
{
	static const enum kube_result by_class[] = {KUBE_RESULT_OTHER, KUBE_RESULT_OTHER, KUBE_RESULT_2XX,
		KUBE_RESULT_3XX, KUBE_RESULT_4XX, KUBE_RESULT_5XX};
	enum kube_result kind = KUBE_RESULT_OTHER;

	if (result < 0)
		kind = result == -ETIMEDOUT ? KUBE_RESULT_TIMEOUT : KUBE_RESULT_FAILED;
	else if (status >= 0 && status < 600)
		kind = by_class[status / 100];
	request->client->results[kind]++;
}

static void request_end(struct kube_request *request, int result, struct error *err)
{
	struct kube_response response = {.result = result, .text = err->text};
	kube_response_fn fn = request->fn;
	void *userdata = request->userdata;

	if (result == 0) {
		curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &response.status);
		if (response.status < 200 || response.status > 299)
			describe_status(request, response.status, err);
	}
	request_count(request, result, response.status);
	response.body = strbuf_cstr(&request->answer);
	response.body_len = request->answer.len;
	if (request->started)
		curl_multi_remove_handle(request->client->multi, request->easy);
	request->started = false;
	list_remove(&request->item);
	fn(userdata, &response);
	request_free(request);
}

static int describe_own_failure(struct kube_request *request, struct error *err)
{
	if (request->result == -EMSGSIZE)
		return error_set(err, EMSGSIZE, "API server %s: an answer over the limit",
			request->client->config.server);
	return error_set(err, -request->result, "%s", strerror(-request->result));
}

void request_done(struct kube_request *request, CURLcode code)
{
	struct kube_client *client = request->client;
	struct error err = {0};
	int result = 0;

	if (request->cancelled) {
		request_free(request);
		return;
	}
	if (request->result < 0)
		result = describe_own_failure(request, &err);
	else if (code != CURLE_OK)
		result = failure_describe(code, request->curl_text, &client->config, &err);
	if (result == -ETIMEDOUT)
		client->fresh_connect = true;
	request_end(request, result, &err);
}

static void request_on_idle(void *userdata)
{
	struct kube_request *request = userdata;
	struct kube_client *client = request->client;
	struct error err;

	client->fresh_connect = true;
	error_set(&err, ETIMEDOUT, "API server %s: silent for %d ms", client->config.server,
		request->idle_timeout_ms);
	client->in_answers++;
	request_end(request, -ETIMEDOUT, &err);
	client_leave_answers(client);
}

/* ---- what arrives ---- */

static void request_is_alive(struct kube_request *request)
{
	if (request->idle_timer)
		loop_timer_set(request->idle_timer, request->idle_timeout_ms * NS_PER_MS);
}

static bool request_streams(struct kube_request *request)
{
	long status = 0;

	if (request->data_fn)
		curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
	return status == 200;
}

/* Handles what arrived; len 0 means that the stream is open. A negative result ends the transfer. */
static int request_take(struct kube_request *request, const char *data, size_t len)
{
	int r;

	if (request->cancelled)
		return -ECANCELED;
	request_is_alive(request);
	if (request_streams(request)) {
		request->client->in_curl++;
		r = request->data_fn(request->userdata, data, len);
		request->client->in_curl--;
	} else {
		r = strbuf_add(&request->answer, data, len);
	}
	if (request->cancelled)
		return -ECANCELED;
	if (r < 0)
		request->result = r;
	return r;
}

static size_t curl_has_body(char *data, size_t size, size_t n, void *userdata)
{
	return request_take(userdata, data, size * n) < 0 ? 0 : size * n;
}

/* The blank line after the headers tells a stream that it is open before any data arrives. Trailers end with
 * a blank line too. */
static size_t curl_has_header(char *data, size_t size, size_t n, void *userdata)
{
	struct kube_request *request = userdata;
	size_t len = size * n;

	if (request->opened || len != 2 || memcmp(data, "\r\n", 2) != 0 || !request_streams(request))
		return len;
	request->opened = true;
	return request_take(request, "", 0) < 0 ? 0 : len;
}

/* ---- its start ---- */

static int curl_made_socket(void *userdata, curl_socket_t fd, curlsocktype purpose)
{
	unsigned int limit = DEAD_PEER_MS;

	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
	return CURL_SOCKOPT_OK;
}

void request_start(struct kube_request *request)
{
	struct kube_client *client = request->client;
	struct error err;

	list_append(&client->active, &request->item);
	if (client->fresh_connect) {
		curl_easy_setopt(request->easy, CURLOPT_FRESH_CONNECT, 1L);
		client->fresh_connect = false;
	}
	request_is_alive(request);
	request->started = true;
	if (curl_multi_add_handle(client->multi, request->easy) == CURLM_OK)
		return;
	request->started = false;
	request_end(request, error_set(&err, ENOMEM, "out of memory"), &err);
}

static int request_set_headers(struct kube_request *request, const char *content_type)
{
	const char *bearer = credentials_bearer(&request->client->credentials);
	_cleanup_free_ char *type = NULL;
	const char *lines[] = {"Accept: application/json", "Expect:", bearer, NULL};

	if (content_type && asprintf(&type, "Content-Type: %s", content_type) < 0) {
		type = NULL;
		return -ENOMEM;
	}
	lines[3] = type;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct curl_slist *longer = lines[i] ? curl_slist_append(request->headers, lines[i]) : NULL;

		if (lines[i] && !longer)
			return -ENOMEM;
		if (longer)
			request->headers = longer;
	}
	curl_easy_setopt(request->easy, CURLOPT_HTTPHEADER, request->headers);
	return 0;
}

static int request_set_target(struct kube_request *request, const char *method, const char *path)
{
	struct kube_client *client = request->client;
	_cleanup_free_ char *url = NULL;

	if (asprintf(&url, "%s%s", client->url, path) < 0) {
		url = NULL;
		return -ENOMEM;
	}
	if (curl_easy_setopt(request->easy, CURLOPT_URL, url) != CURLE_OK ||
		curl_easy_setopt(request->easy, CURLOPT_CUSTOMREQUEST, method) != CURLE_OK ||
		curl_easy_setopt(request->easy, CURLOPT_USERAGENT, client->user_agent) != CURLE_OK)
		return -ENOMEM;
	curl_easy_setopt(request->easy, CURLOPT_CONNECT_TO, client->connect_to);
	/* Proxy variables of the environment are meant for traffic out of a cluster, not for its API server.
	 */
	curl_easy_setopt(request->easy, CURLOPT_PROXY, "");
	return 0;
}

static int request_set_body(struct kube_request *request, const char *body)
{
	curl_easy_setopt(request->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
	return curl_easy_setopt(request->easy, CURLOPT_COPYPOSTFIELDS, body) == CURLE_OK ? 0 : -ENOMEM;
}

static int request_prepare(struct kube_request *request, const char *method, const char *path,
	const char *content_type, const char *body)
{
	int r;

	CURL *easy = request->easy;

	curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->curl_text);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, curl_has_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, curl_has_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, request);
	curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, curl_made_socket);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 15L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
	r = request_set_target(request, method, path);
	if (r == 0)
		r = request_set_headers(request, content_type);
	if (r == 0)
		r = credentials_apply(&request->client->credentials, request->easy);
	if (r == 0 && (body || strcmp(method, "POST") == 0))
		r = request_set_body(request, body ? body : "");
	return r;
}

static int request_new(
	struct kube_client *client, kube_response_fn fn, void *userdata, struct kube_request **ret_request)
{
	struct kube_request *request = calloc(1, sizeof(*request));

	if (!request)
		return -ENOMEM;
	*request = (struct kube_request){.client = client, .fn = fn, .userdata = userdata};
	strbuf_init(&request->answer, ANSWER_MAX);
	request->easy = curl_easy_init();
	if (!request->easy) {
		free(request);
		return -ENOMEM;
	}
	*ret_request = request;
	return 0;
}

static void request_queue(struct kube_request *request)
{
	list_append(&request->client->waiting, &request->item);
	loop_timer_set(request->client->work_timer, 0);
}

int kube_request(struct kube_client *client, const char *method, const char *path, const char *content_type,
	const char *body, int timeout_ms, kube_response_fn fn, void *userdata,
	struct kube_request **ret_request)
{
	struct kube_request *request;
	int r;

	if (path[0] != '/' || timeout_ms <= 0)
		return -EINVAL;
	r = request_new(client, fn, userdata, &request);
	if (r < 0)
		return r;
	curl_easy_setopt(request->easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
	r = request_prepare(request, method, path, content_type, body);
	if (r < 0) {
		request_free(request);
		return r;
	}
	request_queue(request);
	if (ret_request)
		*ret_request = request;
	return 0;
}

int kube_stream(struct kube_client *client, const char *path, int idle_timeout_ms, kube_data_fn data_fn,
	kube_response_fn fn, void *userdata, struct kube_request **ret_request)
{
	struct kube_request *request;
	int r;

	if (path[0] != '/' || idle_timeout_ms <= 0)
		return -EINVAL;
	r = request_new(client, fn, userdata, &request);
	if (r < 0)
		return r;
	request->data_fn = data_fn;
	request->idle_timeout_ms = idle_timeout_ms;
	curl_easy_setopt(request->easy, CURLOPT_BUFFERSIZE, 65536L);
	r = request_prepare(request, "GET", path, NULL, NULL);
	if (r == 0)
		r = loop_add_timer(client->loop, request_on_idle, request, &request->idle_timer);
	if (r < 0) {
		request_free(request);
		return r;
	}
	request_queue(request);
	if (ret_request)
		*ret_request = request;
	return 0;
}

void kube_request_cancel(struct kube_request *request)
{
	if (!request)
		return;
	if (!request->client->in_curl) {
		request_free(request);
		return;
	}
	request->cancelled = true;
	list_remove(&request->item);
	list_append(&request->client->cancelled, &request->item);
	loop_timer_set(request->client->work_timer, 0);
}
