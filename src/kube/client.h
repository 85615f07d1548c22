/* client.h - asynchronous HTTP requests to one API server, on the loop's thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;
struct json_object;
struct kube_client;
struct kube_config;
struct kube_request;
struct loop;

#define KUBE_CONTENT_JSON "application/json"
#define KUBE_CONTENT_MERGE_PATCH "application/merge-patch+json"
#define KUBE_CONTENT_JSON_PATCH "application/json-patch+json"
#define KUBE_CONTENT_STRATEGIC_PATCH "application/strategic-merge-patch+json"

/* The end of a request. result 0: the server answered with `status` (any HTTP status) and this body. A
 * negative errno: it did not (-ETIMEDOUT, -ECONNREFUSED, -EPROTO for TLS or an answer that is not HTTP,
 * -EMSGSIZE for an answer over the limit, ...), and `text` explains it for users. On a non-2xx status `text`
 * is the message of the Status object. Never called from within kube_request(). All pointers are valid only
 * during the call. */
struct kube_response {
	int result;
	long status;
	const char *body;
	size_t body_len;
	const char *text;
};
typedef void (*kube_response_fn)(void *userdata, const struct kube_response *response);

/* kube_client_new() - takes a copy of config. user_agent e.g. "ration-agent/0.1.0". */
int kube_client_new(struct loop *loop, const struct kube_config *config, const char *user_agent,
	struct kube_client **ret_client, struct error *err);
/* kube_client_free() - cancels all requests (their callbacks are not called). Accepts NULL. */
void kube_client_free(struct kube_client *client);

/* kube_request() - method "GET", "POST", "PATCH", "PUT", "DELETE"; path with query, beginning with '/'; body
 * and content_type NULL for none. It tries once, because only the caller knows what is safe to repeat.
 * timeout_ms covers everything. Answers over 16 MiB are an error. (curl itself sends a request again if a
 * kept connection turns out to have been closed before any answer: a Binding carries the pod's uid.)
 * *ret_request may be NULL if the caller never cancels. */
int kube_request(struct kube_client *client, const char *method, const char *path, const char *content_type,
	const char *body, int timeout_ms, kube_response_fn fn, void *userdata,
	struct kube_request **ret_request);

/* How requests ended, for the metrics. Cancelled requests are not counted. */
enum kube_result {
	KUBE_RESULT_2XX,
	KUBE_RESULT_3XX,
	KUBE_RESULT_4XX,
	KUBE_RESULT_5XX,
	KUBE_RESULT_OTHER, /* some other status */
	KUBE_RESULT_TIMEOUT,
	KUBE_RESULT_FAILED, /* not reached, cut off, TLS, not HTTP, over the limit */
	KUBE_RESULT_MAX,
};

/* kube_client_results() - KUBE_RESULT_MAX counters since the start. */
const uint64_t *kube_client_results(const struct kube_client *client);

/* kube_request_cancel() - fn will not be called. Do not call it after fn was called. Accepts NULL. */
void kube_request_cancel(struct kube_request *request);

/* kube_stream() - like kube_request() for a GET without end (watch). data_fn gets each piece of the body as
 * it arrives, but only if the status is 200; first it is called once with len 0 when that status has arrived.
 * If data_fn returns a negative value, the request ends with that result. idle_timeout_ms: the request ends
 * with -ETIMEDOUT if nothing arrives for this time. */
typedef int (*kube_data_fn)(void *userdata, const char *data, size_t len);
int kube_stream(struct kube_client *client, const char *path, int idle_timeout_ms, kube_data_fn data_fn,
	kube_response_fn fn, void *userdata, struct kube_request **ret_request);
