/* http-server.h - small HTTP/1.1 server on the loop (libmicrohttpd without threads of its own).
 *
 * A handler sees whole requests and may answer at once or later; connections are kept alive, bodies and the
 * number of connections are limited, silent peers are dropped after 10 s, after two minutes between requests
 * on loopback. A server that listens beyond loopback takes 32 connections of one address and drops silent
 * peers after 10 s.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct http_call;
struct http_server;
struct loop;

/* One complete request. The handler, or somebody later, answers it exactly once with http_call_reply().
 * Strings are valid until the reply. */
typedef void (*http_handler_fn)(void *userdata, struct http_call *call, const char *method, const char *path,
	const char *body, size_t body_len);

/* http_server_new() - listen on an IPv4 address ("127.0.0.1") and port (0: any free one, see
 * http_server_port()). Bodies over max_body are answered with 413 and never reach the handler. */
int http_server_new(struct loop *loop, const char *address, uint16_t port, size_t max_body,
	http_handler_fn handler, void *userdata, struct http_server **ret_server, struct error *err);
/* http_server_new_tls() - the same with TLS. It shows the certificate of certificate_serve(). It is made for
 * API servers: one address may have 256 connections, more than the 200 changing requests that an API server
 * has under way at once (kube-apiserver --max-mutating-requests-inflight, Kubernetes 1.36). */
int http_server_new_tls(struct loop *loop, const char *address, uint16_t port, size_t max_body,
	http_handler_fn handler, void *userdata, struct http_server **ret_server, struct error *err);
/* http_server_free() - all calls must have been answered. Accepts NULL. */
void http_server_free(struct http_server *server);
uint16_t http_server_port(const struct http_server *server);

/* http_call_query() - the value of ?key=value in the request's address, decoded; NULL if it is not there.
 * Valid until the reply. */
const char *http_call_query(const struct http_call *call, const char *key);

/* http_call_reply() - takes the malloc'ed body. NULL (out of memory upstream) is answered with status 500. */
void http_call_reply(struct http_call *call, unsigned status, const char *content_type, char *body);

/* http_call_is_gone() - the peer has closed its connection: nobody waits for the answer any more. */
bool http_call_is_gone(const struct http_call *call);

/* Who calls is known by its connections: a process that ends has them closed before anybody can see that it
 * has ended (do_exit() in Linux' kernel/exit.c: exit_files() comes before exit_notify()), and on loopback the
 * other end knows it at once.
 *
 * http_call_mark() - the call's connection has this mark (not 0) from now on, in place of the last one.
 * http_call_has_company() - an open connection, this one or another, has the mark: the process that made one
 * of the calls that were marked so lives. In doubt false. Costs a look at the connections that have a mark.
 */
void http_call_mark(struct http_call *call, uint32_t mark);
bool http_call_has_company(const struct http_call *call, uint32_t mark);
