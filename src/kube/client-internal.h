/* client-internal.h - what client.c (curl on the loop), request.c (one transfer) and credentials.c share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <curl/curl.h>

#include "base/list.h"
#include "base/strbuf.h"
#include "kube/client.h"
#include "kube/config.h"

/* How to authenticate the server and this process, as options of one curl transfer (credentials.c). */
struct credentials {
	const struct kube_config *config; /* borrowed */
	char *bearer;			  /* "Authorization: Bearer ...", NULL without a token */
	dev_t token_dev;
	ino_t token_ino;
	struct timespec token_mtime; /* of the file that bearer was read from */
};

void credentials_init(struct credentials *credentials, const struct kube_config *config);
void credentials_release(struct credentials *credentials);

/* credentials_apply() - sets the TLS options of this transfer. 0, -ENOMEM, -ENOTSUP. */
int credentials_apply(struct credentials *credentials, CURL *easy);

/* credentials_bearer() - the header to send, or NULL. It reads the token file again if the file has changed
 * (the kubelet replaces a bound token after 80 % of its life, by a new symlink). If a file cannot be read,
 * the last token stays in use, with a warning. */
const char *credentials_bearer(struct credentials *credentials);

struct kube_client {
	struct loop *loop;
	struct kube_config config;
	struct credentials credentials;
	char *user_agent;
	char *url;		       /* the base URL of all paths */
	struct curl_slist *connect_to; /* the real address, if the URL has another name */
	CURLM *multi;
	struct loop_timer *curl_timer; /* the timer that curl set */
	struct loop_timer *work_timer; /* requests that must be started, cancelled ones that must be freed */
	struct list waiting, active, cancelled;
	int in_curl;	/* > 0 inside a callback of curl, which accepts no changes then */
	int in_answers; /* > 0 inside a kube_response_fn */
	uint64_t results[KUBE_RESULT_MAX];
	bool freed;	    /* ... that freed the client */
	bool fresh_connect; /* the last transfer got no data on a connection that others might be given next
			     */
};

struct kube_request {
	struct list item;
	struct kube_client *client;
	CURL *easy;
	bool started, cancelled, opened;
	struct curl_slist *headers;
	struct strbuf answer;
	char curl_text[CURL_ERROR_SIZE];
	int result; /* an error of this side: the answer limit, data_fn */
	kube_data_fn data_fn;
	kube_response_fn fn;
	void *userdata;
	struct loop_timer *idle_timer;
	int idle_timeout_ms;
};

/* client_leave_answers() - ends a section that began with in_answers++. The section may have called functions
 * of users, which may have freed the client, so the caller must not use the client afterwards. */
void client_leave_answers(struct kube_client *client);

/* request_start() - hands the request to curl. request_done() - curl has ended it: tells the user and frees
 * it. request_free() - frees it without telling the user. */
void request_start(struct kube_request *request);
void request_done(struct kube_request *request, CURLcode code);
void request_free(struct kube_request *request);
