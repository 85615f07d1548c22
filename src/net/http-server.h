/* http-server.h - a small HTTP/1.1 server on the loop (libmicrohttpd without its own threads).
 *
 * A handler gets complete requests and may answer at once or later. Connections are kept alive; bodies and
 * the number of connections are limited. Silent peers are dropped after 10 s, but on loopback after two
 * minutes between requests. A server that listens beyond loopback accepts 32 connections per address and
 * always drops silent peers after 10 s.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct http_call;
struct http_server;
struct loop;

/* One complete request. The handler or later code answers it exactly once with http_call_reply(). Strings are
 * valid until the reply. */
typedef void (*http_handler_fn)(void *userdata, struct http_call *call, const char *method, const char *path,
	const char *body, size_t body_len);

/* http_server_new() - listens on an IPv4 address ("127.0.0.1") and port (0: any free one, see
 * http_server_port()). A body over max_body is answered with 413 and does not reach the handler. */
int http_server_new(struct loop *loop, const char *address, uint16_t port, size_t max_body,
	http_handler_fn handler, void *userdata, struct http_server **ret_server, struct error *err);
/* http_server_new_tls() - the same with TLS, with the certificate of certificate_serve(). It is made for API
 * servers: one address may have 256 connections. That is more than the 200 changing requests that an API
 * server has under way at once (kube-apiserver --max-mutating-requests-inflight, Kubernetes 1.36). */
int http_server_new_tls(struct loop *loop, const char *address, uint16_t port, size_t max_body,
	http_handler_fn handler, void *userdata, struct http_server **ret_server, struct error *err);
/* http_server_free() - all calls must have been answered. Accepts NULL. */
void http_server_free(struct http_server *server);
uint16_t http_server_port(const struct http_server *server);

/* http_call_query() - the decoded value of ?key=value in the request's URL, or NULL. Valid until the
 * reply. */
const char *http_call_query(const struct http_call *call, const char *key);

/* http_call_reply() - takes the malloc'ed body. A NULL body (the caller ran out of memory) becomes status
 * 500. */
void http_call_reply(struct http_call *call, unsigned status, const char *content_type, char *body);

/* http_call_is_gone() - whether the peer has closed its connection, so the answer would be lost. */
bool http_call_is_gone(const struct http_call *call);

/* Callers are recognised by their connections. When a process ends, its connections are closed before others
 * can see that it has ended (do_exit() in Linux' kernel/exit.c: exit_files() comes before exit_notify()). On
 * loopback the other end learns it at once.
 *
 * http_call_mark() - from now on the call's connection has this mark (not 0), instead of an earlier one.
 * http_call_has_company() - whether an open connection, this one or another, has the mark. If so, the process
 * that made one of the calls with this mark lives. False in doubt. It checks each connection that has a mark.
 */
void http_call_mark(struct http_call *call, uint32_t mark);
bool http_call_has_company(const struct http_call *call, uint32_t mark);
