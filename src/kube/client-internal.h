/* client-internal.h - what client.c (curl on the loop) and request.c (one transfer) share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <curl/curl.h>

#include "base/list.h"
#include "base/strbuf.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/credentials.h"

struct kube_client {
	struct loop *loop;
	struct kube_config config;
	struct credentials credentials;
	char *user_agent;
	char *url;		       /* what paths are added to */
	struct curl_slist *connect_to; /* where a url of another name really is */
	CURLM *multi;
	struct loop_timer *curl_timer; /* what curl waits for */
	struct loop_timer *work_timer; /* requests to be started, cancelled ones to be swept */
	struct list waiting, active, cancelled;
	int in_curl;	/* within a callback of curl, which then accepts no changes */
	int in_answers; /* within a kube_response_fn */
	uint64_t results[KUBE_RESULT_MAX];
	bool freed;	    /* ... that freed us */
	bool fresh_connect; /* the last transfer starved on a connection that others might be given next */
};

struct kube_request {
	struct list item;
	struct kube_client *client;
	CURL *easy;
	bool started, cancelled, opened;
	struct curl_slist *headers;
	struct strbuf answer;
	char curl_text[CURL_ERROR_SIZE];
	int result; /* of our own side: the answer limit, data_fn */
	kube_data_fn data_fn;
	kube_response_fn fn;
	void *userdata;
	struct loop_timer *idle_timer;
	int idle_timeout_ms;
};

/* client_leave_answers() - the end of a section that began with in_answers++ and may have called users'
 * functions, who may have freed the client: it must not be touched afterwards. */
void client_leave_answers(struct kube_client *client);

/* request_start() - hand it to curl. request_done() - curl has ended it: tell the user, free it.
 * request_free() - without telling. */
void request_start(struct kube_request *request);
void request_done(struct kube_request *request, CURLcode code);
void request_free(struct kube_request *request);
